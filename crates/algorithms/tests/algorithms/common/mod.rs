//! Random runs of locks in a world without time, judged by the properties of the family.

#![allow(dead_code, reason = "every test uses a part of it")]

#[path = "../../../src/testing.rs"]
pub mod world;

use conclave_algorithms::mutex::{Event, Load, Locks, Mutex, Properties, Request};
use conclave_algorithms::{About, Algorithm, Arena, Channels, Ending, Settings, Values};
use conclave_core::{Members, NodeId};
use world::{Dice, World};

/// What a run is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub load: Load,
    pub channels: Channels,
    /// Entries that each process makes of each lock.
    pub entries: u32,
    pub locks: usize,
    /// One request in so many is given up; 0 for none.
    pub cancel_one_in: usize,
    /// One message in so many is delivered twice; 0 for none.
    pub duplicate_one_in: usize,
    /// Messages travel forever: the run is over when nobody wants anything any more.
    pub restless: bool,
    /// Timers run out although messages are still in flight.
    pub hasty: bool,
}

impl Plan {
    pub fn new(seed: u64, load: Load, channels: Channels) -> Self {
        Self {
            seed,
            load,
            channels,
            entries: 3,
            locks: 1,
            cancel_one_in: 0,
            duplicate_one_in: 0,
            restless: false,
            hasty: false,
        }
    }

    /// The same for an algorithm with these settings.
    pub fn of<A: Mutex + Algorithm>(config: &A::Config, seed: u64, load: Load) -> Self {
        Self { restless: A::is_restless(config), ..Self::new(seed, load, A::ABOUT.channels) }
    }
}

/// The application of one process, as far as one lock is concerned.
#[derive(Clone, Copy, Debug)]
struct Agent {
    id: NodeId,
    lock: usize,
    doing: Doing,
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Waiting,
    Inside,
}

/// Something that can happen next.
enum Step {
    Deliver(NodeId, NodeId, usize),
    Expire(usize),
    Acquire(usize),
    Release(usize),
    Cancel(usize),
}

/// Longer than any run that comes to an end.
const MOST_STEPS: u64 = 200_000;

/// A run that can be stopped, looked at and continued.
#[derive(Clone)]
pub struct Run<L: Locks> {
    pub world: World<L, Properties>,
    plan: Plan,
    dice: Dice,
    agents: Vec<Agent>,
}

impl<L: Locks> Run<L> {
    pub fn new(world: World<L, Properties>, plan: Plan) -> Self {
        let agent = |id, lock| Agent { id, lock, doing: Doing::Nothing, left: plan.entries };
        let agents = world.members.iter().flat_map(|id| (0..plan.locks).map(move |lock| agent(id, lock)));
        Self { agents: agents.collect(), dice: Dice(plan.seed), plan, world }
    }

    /// Does one thing that can happen next; says whether there was any.
    pub fn step(&mut self) -> bool {
        let Self { world, plan, dice, agents } = self;
        let Some(step) = choose(world, agents, *plan, dice) else { return false };
        let told = world.events.len();
        match step {
            Step::Deliver(from, to, nth) => {
                if plan.duplicate_one_in > 0 && dice.below(plan.duplicate_one_in) == 0 {
                    world.duplicate(from, to, nth);
                }
                world.deliver_nth(from, to, nth);
            }
            Step::Expire(which) => {
                let (id, timer) = world.armed().swap_remove(which);
                world.expire(id, timer);
            }
            Step::Acquire(agent) => ask(world, &mut agents[agent], Request::Acquire, Doing::Waiting),
            Step::Release(agent) => ask(world, &mut agents[agent], Request::Release, Doing::Nothing),
            Step::Cancel(agent) => ask(world, &mut agents[agent], Request::Cancel, Doing::Nothing),
        }
        for (id, event) in &world.events[told..] {
            let (lock, Event::Granted { .. }) = L::told(event) else { panic!("{id} was refused: {event:?}") };
            let agent = agents.iter_mut().find(|agent| agent.id == *id && agent.lock == lock);
            agent.expect("only who asks is told").doing = Doing::Inside;
        }
        true
    }
}

/// Runs until nothing is left to do, a promise is broken, or it takes too long.
pub fn run<L: Locks>(world: World<L, Properties>, plan: Plan) -> World<L, Properties> {
    let mut run = Run::new(world, plan);
    let ending = loop {
        if run.world.observer.violation().is_some() {
            break Ending::Stopped;
        }
        if run.world.step() > MOST_STEPS {
            break Ending::OutOfTime;
        }
        if !run.step() {
            break Ending::Quiet;
        }
    };
    let mut world = run.world;
    world.observer.end(world.step(), ending);
    world
}

fn ask<L: Locks>(world: &mut World<L, Properties>, agent: &mut Agent, request: Request, then: Doing) {
    agent.doing = then;
    agent.left -= u32::from(request == Request::Acquire);
    world.request(agent.id.0, L::ask(agent.lock, request));
}

fn choose<L: Locks>(
    world: &World<L, Properties>,
    agents: &[Agent],
    plan: Plan,
    dice: &mut Dice,
) -> Option<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (from, to, count) in world.travelling() {
        let nth = if plan.channels == Channels::Any { dice.below(count) } else { 0 };
        steps.push(Step::Deliver(from, to, nth));
    }
    let travelling = !steps.is_empty();
    let alone = agents.iter().all(|agent| agent.doing == Doing::Nothing);
    if plan.restless && alone && agents.iter().all(|agent| agent.left == 0) {
        return None;
    }
    let quiet = !travelling || plan.restless;
    for (place, agent) in agents.iter().enumerate() {
        match agent.doing {
            Doing::Inside if plan.load != Load::Light || quiet => steps.push(Step::Release(place)),
            Doing::Waiting if plan.cancel_one_in > 0 && dice.below(plan.cancel_one_in) == 0 => {
                steps.push(Step::Cancel(place));
            }
            Doing::Nothing if agent.left > 0 => match plan.load {
                // Who is out asks again before anything else happens.
                Load::Saturated => return Some(Step::Acquire(place)),
                Load::Open => steps.push(Step::Acquire(place)),
                Load::Light if quiet && alone => steps.push(Step::Acquire(place)),
                Load::Light => {}
            },
            Doing::Inside | Doing::Waiting | Doing::Nothing => {}
        }
    }
    // Timers are slower than messages.
    let timers = world.armed().len();
    if timers > 0 && (!travelling || plan.hasty) {
        steps.push(Step::Expire(dice.below(timers)));
    }
    let count = steps.len();
    (count > 0).then(|| steps.swap_remove(dice.below(count)))
}

/// A judged world of one algorithm.
pub fn world<A: Mutex + Algorithm>(members: &Members, config: &A::Config) -> World<A, Properties> {
    let judge = Properties::new::<A>(config, members, 1, None);
    World::new(members.clone(), config, judge)
}

/// Every way to set an algorithm, safe or not, without mutants.
pub fn every_setting(about: &'static About) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut all = vec![Vec::new()];
    for setting in about.settings {
        let values = match setting.values {
            Values::OneOf(words) | Values::Timed { words, .. } => words,
            Values::ProcessOr(words) => words,
            Values::Number(..) | Values::Process | Values::Numbers => &[setting.default],
        };
        let with = |given: &Vec<_>, value| {
            let mut given = given.clone();
            given.push((setting.key, value));
            given
        };
        all = all.iter().flat_map(|given| values.iter().map(move |value| with(given, *value))).collect();
    }
    all
}

/// A configuration, unless the settings do not fit the members.
pub fn configure<A: Algorithm>(
    given: &[(&str, &str)],
    mutant: Option<&str>,
    members: &Members,
) -> Option<A::Config> {
    let settings = Settings::new(&A::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
    A::configure(&settings.expect("declared settings are accepted"), members).ok()
}

/// Whether these settings contain a value that is known to be unsafe.
pub fn is_unsafe(about: &About, given: &[(&str, &str)]) -> bool {
    given.iter().any(|(key, value)| {
        about.settings.iter().any(|setting| setting.key == *key && setting.unsafe_values.contains(value))
    })
}
