//! From a trace back to the commands that made it.

use std::collections::BTreeMap;

use conclave_core::{Deviation, Incarnation, NodeId};

use super::{Carry, Command, Which};
use crate::{Carried, Trace, What};

/// The commands that repeat a recorded run.
#[must_use]
pub fn commands_of(trace: &Trace) -> Vec<Command> {
    commands_by_record(trace).into_iter().map(|(command, _)| command).collect()
}

/// The same, each with the place of the record that it repeats.
#[must_use]
pub fn commands_by_record(trace: &Trace) -> Vec<(Command, usize)> {
    let mut commands = Vec::new();
    // Where the command stands that made each process take its last step.
    let mut steps = BTreeMap::new();
    for (record, place) in trace.records.iter().zip(0..) {
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
                insert(
                    &mut commands,
                    &mut steps,
                    step,
                    (Command::CrashInside { process, after: *after }, place),
                );
                continue;
            }
            _ => {}
        }
        // What a process reads is what its clock shows: it is set before each of its steps. The command that starts it again
        // lets it take its first step.
        if let Some(shown) = record.clock.filter(|shown| (shown.truth, shown.ahead) != (0, 0)) {
            let deviation = Deviation { offset: shown.ahead, drift: 0 };
            let clock = Command::Clock { process, deviation, at: Some(shown.truth) };
            let last = steps.get(&process).copied().filter(|_| record.what == What::Start);
            let step = last.unwrap_or(commands.len());
            insert(&mut commands, &mut steps, step, (clock, place));
        }
        let command = match &record.what {
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
                Command::Clock { process, deviation, at: None }
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
        };
        commands.push((command, place));
    }
    commands
}

/// Puts a command before another one.
fn insert(
    commands: &mut Vec<(Command, usize)>,
    steps: &mut BTreeMap<NodeId, usize>,
    step: usize,
    command: (Command, usize),
) {
    steps.values_mut().filter(|later| **later >= step).for_each(|later| *later += 1);
    commands.insert(step, command);
}
