//! From a trace back to the commands that made it.

use std::collections::BTreeMap;

use conclave_core::Incarnation;

use super::{Carry, Command, Which};
use crate::{Carried, Trace, What};

/// The commands that repeat a recorded run.
#[must_use]
pub fn commands_of(trace: &Trace) -> Vec<Command> {
    let mut commands = Vec::new();
    // Where the command stands that made each process take its last step.
    let mut steps = BTreeMap::new();
    for record in &trace.records {
        let carried = |what, carried: &Carried| Command::Carry {
            what,
            from: carried.from,
            to: carried.to,
            which: Which::Nth(carried.nth),
        };
        let Some(process) = record.process else { continue };
        match &record.what {
            What::Request { .. }
            | What::Deliver(_)
            | What::Timer { .. }
            | What::Restart { .. }
            | What::Join
            | What::Suspect { .. }
            | What::Trust { .. } => drop(steps.insert(process, commands.len())),
            // It is told before the step that it will crash in it.
            What::Crash { after: Some(after) } => {
                let step = steps.get(&process).copied().unwrap_or(commands.len());
                commands.insert(step, Command::CrashInside { process, after: *after });
                steps.values_mut().filter(|later| **later >= step).for_each(|later| *later += 1);
                continue;
            }
            _ => {}
        }
        commands.push(match &record.what {
            What::Request { request, lock } => {
                Command::Ask { process, request: request.clone(), lock: *lock }
            }
            What::Deliver(message) => carried(Carry::Deliver, message),
            What::Drop(message) => carried(Carry::Drop, message),
            What::Duplicate(message) => carried(Carry::Duplicate, message),
            What::Timer { timer } => Command::Timer { process, timer: timer.clone() },
            What::Crash { .. } => Command::Crash(process),
            What::Restart { durable, .. } => Command::Restart { process, amnesia: !durable },
            What::Join => Command::Join(process),
            What::Suspect { peer, life } => {
                Command::Suspect { process, peer: *peer, life: life.map(Incarnation) }
            }
            What::Trust { peer, life } => {
                Command::Trust { process, peer: *peer, life: life.map(Incarnation) }
            }
            What::Clock { deviation } => {
                let Ok(deviation) = deviation.parse() else { continue };
                Command::Clock { process, deviation }
            }
            What::Start
            | What::Event { .. }
            | What::Send(_)
            | What::Pause
            | What::Resume
            | What::Partition { .. }
            | What::Heal { .. }
            | What::Reject { .. }
            | What::Violation { .. } => continue,
        });
    }
    commands
}
