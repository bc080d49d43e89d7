//! From a trace back to the commands that made it.

use conclave_core::Incarnation;

use super::{Carry, Command, Which};
use crate::{Carried, Trace, What};

/// The commands that repeat a recorded run.
#[must_use]
pub fn commands_of(trace: &Trace) -> Vec<Command> {
    let mut commands = Vec::new();
    for record in &trace.records {
        let carried = |what, carried: &Carried| Command::Carry {
            what,
            from: carried.from,
            to: carried.to,
            which: Which::Nth(carried.nth),
        };
        let Some(process) = record.process else { continue };
        commands.push(match &record.what {
            What::Request { request, lock } => {
                Command::Ask { process, request: request.clone(), lock: *lock }
            }
            What::Deliver(message) => carried(Carry::Deliver, message),
            What::Drop(message) => carried(Carry::Drop, message),
            What::Duplicate(message) => carried(Carry::Duplicate, message),
            What::Timer { timer } => Command::Timer { process, timer: timer.clone() },
            What::Crash => Command::Crash(process),
            What::Restart { durable, .. } => Command::Restart { process, amnesia: !durable },
            What::Join => Command::Join(process),
            What::Suspect { peer, life } => {
                Command::Suspect { process, peer: *peer, life: life.map(Incarnation) }
            }
            What::Trust { peer, life } => {
                Command::Trust { process, peer: *peer, life: life.map(Incarnation) }
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
