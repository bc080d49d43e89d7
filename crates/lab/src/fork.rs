//! A fork: a run left at a moment, and what is done there instead.

use conclave_core::{Band, NodeId};
use conclave_sim::step::Stage;
use conclave_trace::{Block, Carry, Command, Script, Which, newcomers};

use crate::recipe::{Fork, Then};
use crate::run::Run;
use crate::{Bench, Problem};

/// A settled fork takes at most so many steps.
const ENOUGH: usize = 2_000;

/// What comes of a fork.
pub struct Forked {
    /// The whole of it, to be played.
    pub script: Script,
    /// How many commands of the old run were not possible any more.
    pub skipped: usize,
}

impl Fork {
    /// Leaves a run and goes on.
    pub(crate) fn of(&self, run: &Run, bench: &dyn Bench) -> Result<Forked, Problem> {
        if self.at > run.steps() {
            let last = run.steps();
            return Err(Problem::refused(format!(
                "there is no moment {}; they go from 0 to {last}",
                self.at
            )));
        }
        let commands = self.commands.iter().map(|line| read(line)).collect::<Result<Vec<_>, _>>()?;
        let mut teller = Teller {
            stage: self.stage(run, &commands, bench)?,
            done: run.commands[..self.at].to_vec(),
            held: Vec::new(),
            verb: run
                .about
                .family
                .requests
                .iter()
                .find(|usage| usage.verb == "release")
                .map(|usage| usage.verb),
        };
        for delay in &self.delay {
            teller.held.push(Held { delivery: delay.delivery()?, steps: delay.steps });
        }
        for command in commands {
            let line = command.to_string();
            teller
                .take(command)
                .map_err(|why| Problem::refused(format!("'{line}' is not possible here: {why}")))?;
        }
        let skipped = match self.then {
            Then::Stop => 0,
            Then::Follow => {
                let skipped = teller.follow(&run.commands[self.at..]);
                teller.arrive();
                skipped
            }
            Then::Settle => {
                teller.settle();
                0
            }
        };
        let run = Command::Run(run.setup.clone());
        let commands = std::iter::once(run).chain(teller.done).map(|command| (command, 0)).collect();
        Ok(Forked { script: Script { blocks: vec![Block { commands, ..Block::default() }] }, skipped })
    }

    /// The run at the moment where it is left; from its beginning again if somebody is going to join who was not expected.
    fn stage(&self, run: &Run, commands: &[Command], bench: &dyn Bench) -> Result<Stage, Problem> {
        let known = &run.trace().header.nodes;
        let strangers: Vec<NodeId> =
            newcomers(commands).into_iter().filter(|id| !known.contains(id)).collect();
        if strangers.is_empty() {
            return Ok(run.stage_at(self.at)?.0);
        }
        let all = [&run.trace().header.newcomers[..], &strangers].concat();
        let mut stage = bench.stage(&run.setup, &all)?;
        for command in &run.commands[..self.at] {
            stage.apply(command).map_err(Problem::refused)?;
        }
        Ok(stage)
    }
}

/// A script that breaks the same property with fewer commands: each is left out, from the last to the first, if that is so
/// without it as well.
pub(crate) fn shorter(run: &Run, property: &str, bench: &dyn Bench) -> Result<Option<Script>, Problem> {
    /// So many commands are tried out one by one.
    const MOST: usize = 1_000;
    if run.commands.len() > MOST {
        return Err(Problem::new(
            crate::Code::TooLarge,
            format!("a run of more than {MOST} steps takes long to be made shorter"),
        ));
    }
    let start = bench.stage(&run.setup, &run.trace().header.newcomers)?;
    // What cannot be done without what was left out is left out, too.
    let possible = |commands: &[Command]| -> Option<Vec<Command>> {
        let mut stage = start.clone();
        let mut done = Vec::new();
        for command in commands {
            if stage.apply(command).is_ok() {
                done.push(command.clone());
            }
            if stage.violation().is_some_and(|violation| violation.property == property) {
                return Some(done);
            }
        }
        None
    };
    let Some(mut commands) = possible(&run.commands) else { return Ok(None) };
    let mut at = commands.len();
    while at > 0 {
        at -= 1;
        let mut fewer = commands.clone();
        fewer.remove(at);
        if let Some(fewer) = possible(&fewer) {
            commands = fewer;
            at = at.min(commands.len());
        }
    }
    let run = Command::Run(run.setup.clone());
    let block = |command| Block { commands: vec![(command, 0)], ..Block::default() };
    Ok(Some(Script { blocks: std::iter::once(run).chain(commands).map(block).collect() }))
}

fn read(line: &str) -> Result<Command, Problem> {
    let command = line.parse().map_err(|mistake| Problem::refused(format!("'{line}': {mistake}")))?;
    match command {
        Command::Run(_) | Command::Loop | Command::Again | Command::Show(_) => {
            Err(Problem::refused(format!("'{line}' is for scripts, and does nothing to a run")))
        }
        command => Ok(command),
    }
}

/// A delivery that is held back.
struct Held {
    delivery: Command,
    steps: Option<u32>,
}

/// Goes on with a run.
struct Teller {
    stage: Stage,
    done: Vec<Command>,
    held: Vec<Held>,
    /// How who is inside leaves, in a family where somebody does.
    verb: Option<&'static str>,
}

impl Teller {
    fn take(&mut self, command: Command) -> Result<(), String> {
        self.stage.apply(&command)?;
        self.done.push(command);
        Ok(())
    }

    /// Goes on with commands that may not be possible any more; says how many were not.
    fn follow(&mut self, commands: &[Command]) -> usize {
        let mut skipped = 0;
        for command in commands {
            if self.held.iter().any(|held| held.delivery == *command) {
                continue;
            }
            match self.take(command.clone()) {
                Ok(()) => self.pass(),
                Err(_) => skipped += 1,
            }
        }
        skipped
    }

    /// A step has passed for those that are held back.
    fn pass(&mut self) {
        for held in &mut self.held {
            held.steps = held.steps.map(|steps| steps.saturating_sub(1));
        }
        while let Some(at) = self.held.iter().position(|held| held.steps == Some(0)) {
            let held = self.held.remove(at);
            // It may have been lost in the meantime, or wait behind another one.
            let _ = self.take(held.delivery);
        }
    }

    /// Delivers the oldest message that is not held back; says whether there was one.
    fn deliver(&mut self) -> bool {
        let is_held = |from: NodeId, to: NodeId, nth: u64| {
            let which = Which::Nth(nth);
            self.held.iter().any(|held| {
                held.delivery == Command::Carry { what: Carry::Deliver, from, to, which: which.clone() }
            })
        };
        let free = |most: usize| {
            let letters = self.stage.in_flight(most).into_iter().filter(|letter| letter.deliverable);
            letters
                .map(|letter| letter.message)
                .find(|message| !is_held(message.from, message.to, message.nth))
        };
        // The oldest of all can be delivered on any channel; only what is held back may stand before others.
        let Some(message) = free(1 + self.held.len()).or_else(|| free(usize::MAX)) else { return false };
        let (from, to, which) = (message.from, message.to, Which::Nth(message.nth));
        let delivered = self.take(Command::Carry { what: Carry::Deliver, from, to, which }).is_ok();
        self.pass();
        delivered
    }

    /// What is held back arrives where nothing else does.
    fn let_go(&mut self) -> bool {
        let held = !self.held.is_empty();
        self.held.clear();
        held
    }

    /// Delivers what is in flight, and what comes of it.
    fn arrive(&mut self) {
        let mut steps = 0;
        while steps < ENOUGH && (self.deliver() || self.let_go()) {
            steps += 1;
        }
    }

    fn settle(&mut self) {
        for _ in 0..ENOUGH {
            if !(self.deliver() || self.leave() || self.expire() || self.let_go()) {
                return;
            }
        }
    }

    /// Who is inside leaves.
    fn leave(&mut self) -> bool {
        let Some(verb) = self.verb else { return false };
        let inside = self.stage.phases().into_iter().find(|(_, phase)| phase.band == Band::Holding);
        let Some((process, _)) = inside else { return false };
        format!("{verb} {}", process.0).parse().is_ok_and(|command| self.take(command).is_ok())
    }

    /// A timer expires, if somebody waits.
    fn expire(&mut self) -> bool {
        let waits = self.stage.phases().iter().any(|(_, phase)| phase.band == Band::Waiting);
        let armed = self.stage.armed().into_iter().next().filter(|_| waits);
        armed.is_some_and(|(process, timer)| self.take(Command::Timer { process, timer }).is_ok())
    }
}
