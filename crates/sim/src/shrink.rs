//! Makes a failing run short enough to read.
//!
//! First a smaller run that breaks the same property is looked for: fewer processes, fewer entries, no faults. Then
//! its commands are taken out, many at a time and then one by one, as long as the property still breaks (Zeller and
//! Hildebrandt's delta debugging, 2002). What remains is a script.

use conclave_algorithms::mutex::{Locks, Mutex};
use conclave_algorithms::{Named, NamedConfig, Settings};
use conclave_core::Members;
use conclave_trace::{Block, Command, Script, Setup};

use crate::faults::Faults;
use crate::mutual::{Outcome, Plan, simulate};
use crate::script::{Cast, commands_of, play};
use crate::stage::Stage;

/// Seeds tried for each smaller size.
const SEEDS: u64 = 300;
/// Commands carried out in all before shrinking makes do with what it has.
const EFFORT: usize = 4_000_000;

/// Finds a short script that breaks the same property as a failed run.
///
/// Nothing comes back if the failure cannot be told from a script: a run that moves for ever without anyone getting
/// in.
#[must_use]
pub fn shrink<A: Mutex>(settings: &Settings, plan: &Plan, setup: &Setup, property: &str) -> Option<Script> {
    let (setup, outcome) = smaller::<A>(settings, plan, setup, property)?;
    let commands = commands_of(outcome.trace.as_ref()?);
    let shortened = match setup.locks {
        1 => Shrinker { setup: &setup, property, effort: EFFORT }.run(&commands, || stage::<A>(&setup)),
        _ => Shrinker { setup: &setup, property, effort: EFFORT }.run(&commands, || named_stage::<A>(&setup)),
    }?;
    Some(write(&setup, shortened, property))
}

fn stage<A: Mutex>(setup: &Setup) -> Stage<A, ()> {
    let Cast { members, config, fifo, properties, .. } =
        Cast::<A>::new(setup).expect("the run had these settings");
    Stage::new(members, config, fifo, properties, ())
}

fn named_stage<A: Mutex>(setup: &Setup) -> Stage<Named<A>, ()> {
    let Cast { members, config, fifo, properties, .. } =
        Cast::<A>::new(setup).expect("the run had these settings");
    Stage::new(members, NamedConfig::new(config), fifo, properties, ())
}

/// The smallest run, in processes and entries, that breaks the same property; at worst the run itself.
fn smaller<A: Mutex>(
    settings: &Settings,
    plan: &Plan,
    setup: &Setup,
    property: &str,
) -> Option<(Setup, Outcome)> {
    let attempt = |plan: &Plan, record: bool| {
        let mut setup = setup.clone();
        setup.nodes = plan.members.iter().collect();
        setup.locks = plan.locks;
        let config = A::configure(settings, &plan.members).ok()?;
        let header = setup.to_header(A::ABOUT.channels.name());
        let outcome = simulate::<A>(&config, plan, header, record);
        let same = outcome.violation.as_ref().is_some_and(|violation| violation.property == property);
        same.then_some((setup, outcome))
    };
    let numbered = (1..).zip(plan.members.iter()).all(|(number, id)| id.0 == number);
    let named = plan.faults.named().next().is_some() || !plan.links.is_empty();
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
    effort: usize,
}

impl Shrinker<'_> {
    /// The shortest list of commands that was found to break the property.
    fn run<L: Locks>(
        mut self,
        commands: &[Command],
        stage: impl Fn() -> Stage<L, ()>,
    ) -> Option<Vec<Command>> {
        let mut best = self.breaks(commands, &stage)?;
        let mut chunk = best.len().div_ceil(2);
        loop {
            let (before, mut start) = (best.len(), 0);
            while start < best.len() && self.effort > 0 {
                let end = (start + chunk).min(best.len());
                let without: Vec<_> = best[..start].iter().chain(&best[end..]).cloned().collect();
                match self.breaks(&without, &stage) {
                    Some(shorter) => best = shorter,
                    None => start = end,
                }
            }
            if self.effort == 0 || (chunk == 1 && best.len() == before) {
                return Some(self.plain(&best, &stage));
            }
            chunk = chunk.div_ceil(2).max(1);
        }
    }

    /// The commands up to the breaking of the property, without those that were not possible.
    fn breaks<L: Locks>(
        &mut self,
        commands: &[Command],
        stage: &impl Fn() -> Stage<L, ()>,
    ) -> Option<Vec<Command>> {
        let mut stage = stage();
        let mut done = Vec::new();
        for command in commands {
            self.effort = self.effort.saturating_sub(1);
            if stage.apply(command).is_ok() {
                done.push(command.clone());
            }
            if let Some(violation) = stage.properties().violation() {
                return (violation.property == self.property).then_some(done);
            }
        }
        // A dead end shows only when all that was on its way has arrived.
        stage.apply(&Command::Settle).ok()?;
        let stuck =
            stage.properties().violation().is_some_and(|violation| violation.property == self.property);
        stuck.then_some(done)
    }

    /// Messages named in the plainest way; a dead end settled at the end.
    fn plain<L: Locks>(&self, commands: &[Command], stage: &impl Fn() -> Stage<L, ()>) -> Vec<Command> {
        let mut stage = stage();
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
        if stage.properties().violation().is_none() {
            plain.push(Command::Settle);
        }
        plain
    }
}

/// The script, a block per command, with what comes of each.
fn write(setup: &Setup, commands: Vec<Command>, property: &str) -> Script {
    let mut about = vec![format!("{} breaks {property}.", setup.algorithm)];
    let blocks = commands.into_iter().map(|command| Block {
        comments: core::mem::take(&mut about),
        commands: vec![(command, 0)],
        recorded: Vec::new(),
    });
    let script = Script { blocks: blocks.collect() };
    play(&script).map_or(script, |played| played.script)
}
