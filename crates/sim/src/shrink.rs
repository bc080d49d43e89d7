//! Makes a failing run short enough to read.
//!
//! First a smaller run that breaks the same property is looked for: fewer processes, fewer entries, no faults. Then
//! its commands are taken out, many at a time and then one by one, as long as the property still breaks (Zeller and
//! Hildebrandt's delta debugging, 2002). What remains is a script.

use conclave_algorithms::erased::Prepared;
use conclave_algorithms::family::Registered;
use conclave_algorithms::{About, Synchrony, registry};
use conclave_core::{Members, NodeId};
use conclave_trace::{Block, Carry, Command, Script, Setup, commands_of, newcomers};

use crate::faults::Faults;
use crate::plan::Plan;
use crate::run::{Outcome, prepare, prepare_algorithm, simulate, simulate_setup};
use crate::script::{PlayError, Played, RecordedRun, play, play_algorithm};

/// Seeds tried for each smaller size.
const SEEDS: u64 = 300;
/// Commands carried out in all before shrinking makes do with what it has.
const EFFORT: usize = 4_000_000;

/// Finds a short script that breaks the same property as a failed run.
///
/// Nothing comes back if the failure cannot be told as a script: a run that moves forever without anyone getting
/// anything.
///
/// A synchronous algorithm relies on timers that run out after the answers have arrived. A script knows no time, so
/// taking commands out could break an algorithm that is not at fault: there only a smaller run is looked for.
#[must_use]
pub fn shrink(setup: &Setup, plan: &Plan, property: &str) -> Option<Script> {
    let about = registry::find(&setup.algorithm)?;
    Driven {
        about,
        simulate: simulate_setup,
        prepare: |setup, newcomers| prepare(setup, newcomers).ok(),
        play,
    }
    .shrink(setup, plan, property)
}

/// The same for an algorithm that no registry has to know.
#[must_use]
pub fn shrink_algorithm<R: Registered>(setup: &Setup, plan: &Plan, property: &str) -> Option<Script> {
    let simulate =
        |setup: &Setup, plan: &Plan, record| simulate::<R>(setup, plan, record).map_err(PlayError::Setting);
    let prepare = |setup: &Setup, newcomers: &[NodeId]| prepare_algorithm::<R>(setup, newcomers).ok();
    Driven { about: R::ABOUT, simulate, prepare, play: play_algorithm::<R> }.shrink(setup, plan, property)
}

type Simulate = fn(&Setup, &Plan, bool) -> Result<Outcome, PlayError>;

/// An algorithm, and what shrinking does with it.
struct Driven {
    about: &'static About,
    simulate: Simulate,
    prepare: fn(&Setup, &[NodeId]) -> Option<Prepared>,
    play: fn(&Script) -> Result<Played, PlayError>,
}

impl Driven {
    fn shrink(&self, setup: &Setup, plan: &Plan, property: &str) -> Option<Script> {
        let (mut setup, outcome) = smaller(self.simulate, plan, setup, property)?;
        let commands = commands_of(outcome.trace.as_ref()?);
        // Timers expire by command: what may be relied on matters to those alone who read a clock.
        if commands.iter().any(|command| matches!(command, Command::Clock { .. })) {
            setup.timing = plan.timing();
        }
        let shrinker = Shrinker {
            setup: &setup,
            property,
            thorough: self.about.synchrony == Synchrony::Asynchronous,
            is_lossy: plan.faults.loses_messages(),
            effort: EFFORT,
            commands: &commands,
        };
        let shortened = shrinker.run(&(self.prepare)(&setup, &newcomers(&commands))?)?;
        let script = write(&setup, shortened, property);
        Some((self.play)(&script).map_or(script, |played| played.script))
    }
}

/// The smallest run, in processes and requests, that breaks the same property; at worst the run itself.
fn smaller(simulate: Simulate, plan: &Plan, setup: &Setup, property: &str) -> Option<(Setup, Outcome)> {
    let attempt = |plan: &Plan, record: bool| {
        let mut setup = setup.clone();
        setup.nodes = plan.members.iter().collect();
        setup.locks = plan.locks;
        setup.channels = setup.channels.or_else(|| plan.channels.map(|channels| channels.name().to_string()));
        let outcome = simulate(&setup, plan, record).ok()?;
        let same = outcome.violation.as_ref().is_some_and(|violation| violation.property == property);
        // The run may have put the members in an order of its own.
        if let Some(trace) = &outcome.trace {
            setup.nodes = Setup::from_header(&trace.header).nodes;
        }
        same.then_some((setup, outcome))
    };
    let numbered = (1..).zip(plan.members.iter()).all(|(number, id)| id.0 == number);
    let named = plan.names_processes();
    let mut sizes = if numbered && !named { 2..=plan.members.len() as u32 } else { 0..=0 };
    let smaller = sizes.find_map(|n| {
        let members = if n == 0 { plan.members.clone() } else { Members::numbered(n) };
        (1..=plan.entries.min(2)).find_map(|entries| {
            let quiet = Plan { faults: Faults::default(), ..plan.clone() };
            [quiet, plan.clone()].into_iter().find_map(|base| {
                (1..=SEEDS).find_map(|seed| {
                    let plan = Plan { members: members.clone(), entries, locks: 1, seed, ..base.clone() };
                    attempt(&plan, false)?;
                    attempt(&plan, true)
                })
            })
        })
    });
    smaller.or_else(|| attempt(plan, true))
}

struct Shrinker<'a> {
    setup: &'a Setup,
    property: &'a str,
    /// Whether commands may be taken out.
    thorough: bool,
    /// Whether the network may lose a message although sender and receiver are up.
    is_lossy: bool,
    effort: usize,
    commands: &'a [Command],
}

impl Shrinker<'_> {
    /// The shortest list of commands that was found to break the property.
    fn run(mut self, prepared: &Prepared) -> Option<Vec<Command>> {
        let mut best = self.breaks(self.commands, prepared)?;
        let mut chunk = best.len().div_ceil(2);
        while self.thorough {
            let (before, mut start) = (best.len(), 0);
            while start < best.len() && self.effort > 0 {
                let end = (start + chunk).min(best.len());
                let without: Vec<_> = best[..start].iter().chain(&best[end..]).cloned().collect();
                match self.breaks(&without, prepared) {
                    Some(shorter) => best = shorter,
                    None => start = end,
                }
            }
            if self.effort == 0 || (chunk == 1 && best.len() == before) {
                break;
            }
            chunk = chunk.div_ceil(2).max(1);
        }
        Some(self.plain(&best, prepared))
    }

    /// The commands up to the breaking of the property, without those that were not possible.
    fn breaks(&mut self, commands: &[Command], prepared: &Prepared) -> Option<Vec<Command>> {
        let mut stage = RecordedRun::new(prepared, self.setup.timing, None);
        let mut done = Vec::new();
        for command in commands {
            self.effort = self.effort.saturating_sub(1);
            if self.is_possible(command, &stage) && stage.apply(command).is_ok() {
                done.push(command.clone());
            }
            if let Some(violation) = stage.judge().violation() {
                return (violation.property == self.property).then_some(done);
            }
        }
        // A dead end shows only when all that was in flight has arrived.
        let before = stage.world().steps();
        if stage.apply(&Command::Settle).is_err() {
            // What never settles is not tried forever.
            self.effort = self.effort.saturating_sub((stage.world().steps() - before) as usize);
            return None;
        }
        let stuck = stage.judge().violation().is_some_and(|violation| violation.property == self.property);
        stuck.then_some(done)
    }

    /// Whether a command fits the faults of the run: a loss that came with a crash is none without it.
    fn is_possible(&self, command: &Command, stage: &RecordedRun) -> bool {
        let Command::Carry { what: Carry::Drop, from, to, .. } = command else { return true };
        let world = stage.world();
        let is_up = |id| world.find(id).is_some_and(|process| world.is_up(process.index()));
        self.is_lossy || !is_up(*from) || !is_up(*to)
    }

    /// Messages named in the plainest way; a dead end settled at the end.
    fn plain(&self, commands: &[Command], prepared: &Prepared) -> Vec<Command> {
        let mut stage = RecordedRun::new(prepared, self.setup.timing, None);
        let mut plain = vec![Command::Run(self.setup.clone())];
        for command in commands {
            let command = match command {
                Command::Carry { what, from, to, which: conclave_trace::Which::Nth(nth) } => Command::Carry {
                    what: *what,
                    from: *from,
                    to: *to,
                    which: stage.plainest(*from, *to, *nth),
                },
                other => other.clone(),
            };
            stage.apply(&command).expect("it was possible a moment ago");
            plain.push(command);
        }
        if stage.judge().violation().is_none() {
            plain.push(Command::Settle);
        }
        plain
    }
}

/// The script, a block per command.
fn write(setup: &Setup, commands: Vec<Command>, property: &str) -> Script {
    let mut about = vec![format!("{} breaks {property}.", setup.algorithm)];
    let blocks = commands.into_iter().map(|command| Block {
        comments: core::mem::take(&mut about),
        commands: vec![(command, 0)],
        recorded: Vec::new(),
    });
    Script { blocks: blocks.collect() }
}
