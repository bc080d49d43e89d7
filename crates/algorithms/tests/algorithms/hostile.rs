//! Whatever a peer sends, nobody panics, nobody sends to itself, nobody breaks its invariants, and nobody's memory grows
//! without bound.
//!
//! A group runs as usual, while forged messages arrive from members, strangers and the receiver itself: messages that
//! were really sent in some run, with their numbers replaced by others. Timers run out at any moment, and the failure
//! detector says whatever it likes.

use crate::common::world::World;
use crate::common::{Plan, configure, every_setting, run, world};
use crate::visit::visit;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Epoch, Load, Locks, Mutex, Properties, Request};
use conclave_algorithms::{Algorithm, Named, NamedConfig, Recovering};
use conclave_core::{Boot, Effect, Incarnation, Input, Members, NodeId, Protocol, Timing};
use proptest::prelude::*;
use serde_json::Value;

/// The most that a process of five writes of itself, however large its numbers.
const MOST_TEXT: usize = 6_000;

/// One thing that happens; numbers are taken modulo what there is to choose from.
#[derive(Clone, Debug)]
enum Move {
    Ask { who: usize, lock: usize, what: usize },
    Deliver { which: usize, nth: usize },
    Forge { from: u32, to: usize, sample: usize, numbers: Vec<u64> },
    Expire { which: usize },
    Down { at: usize, peer: u32, life: u32 },
    Up { at: usize, peer: u32, life: u32 },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let number = prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), 0..8u64, any::<u64>()];
    let numbers = prop::collection::vec(number, 1..6);
    let one = prop_oneof![
        3 => (0..5usize, 0..3usize, 0..3usize).prop_map(|(who, lock, what)| Move::Ask { who, lock, what }),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(which, nth)| Move::Deliver { which, nth }),
        6 => (0..8u32, 0..5usize, any::<usize>(), numbers)
            .prop_map(|(from, to, sample, numbers)| Move::Forge { from, to, sample, numbers }),
        1 => any::<usize>().prop_map(|which| Move::Expire { which }),
        1 => (0..5usize, 0..8u32, 0..3u32).prop_map(|(at, peer, life)| Move::Down { at, peer, life }),
        1 => (0..5usize, 0..8u32, 0..3u32).prop_map(|(at, peer, life)| Move::Up { at, peer, life }),
    ];
    prop::collection::vec(one, 1..150)
}

/// Replaces the first numbers and texts of a message by those given; the rest stays as it is.
fn forge(value: &mut Value, numbers: &mut impl Iterator<Item = u64>) {
    match value {
        Value::Number(number) => {
            if let Some(other) = numbers.next() {
                *number = other.into();
            }
        }
        Value::String(text) => {
            if let Some(other) = numbers.next() {
                let creator = NodeId(other as u32 % 8);
                *text = match text.parse::<Epoch>() {
                    Ok(_) => Epoch { number: other, creator }.to_string(),
                    Err(_) => format!("lock-{other}"),
                };
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| forge(value, numbers)),
        Value::Object(fields) => fields.values_mut().for_each(|value| forge(value, numbers)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// What processes of this kind say to each other in a run in which all compete and some give up.
fn samples<L: Locks>(world: World<L, Properties>, plan: Plan) -> Vec<Value> {
    let world = run(world, plan);
    let json = |message: &L::Message| serde_json::to_value(message).expect("a message can be written");
    world.sent.iter().map(|(_, _, message)| json(message)).collect()
}

/// What processes of this kind say to each other when all start an election at once and then one after the other.
fn election_samples<A: Election>(n: u32, config: &A::Config) -> Vec<Value> {
    let mut world = World::<A>::numbered(n, config);
    let calm = |world: &mut World<A>| {
        for _ in 0..1_000 {
            if let Some((from, to, _)) = world.travelling().first().copied() {
                world.deliver_nth(from, to, 0);
            } else if let Some((id, timer)) = world.armed().into_iter().next() {
                world.expire(id, timer);
            } else {
                break;
            }
        }
    };
    (1..=n).for_each(|id| world.request(id, election::Request::Start));
    calm(&mut world);
    world.request(n, election::Request::Retire);
    calm(&mut world);
    let json = |message: &A::Message| serde_json::to_value(message).expect("a message can be written");
    world.sent.iter().map(|(_, _, message)| json(message)).collect()
}

fn besiege<P: Protocol<Message: serde::de::DeserializeOwned>>(
    mut world: World<P>,
    ask: impl Fn(usize, usize) -> P::Request,
    samples: &[Value],
    moves: &[Move],
) -> World<P> {
    let n = world.members.len();
    let ids: Vec<NodeId> = world.members.iter().collect();
    for step in moves {
        match step {
            Move::Ask { who, lock, what } => {
                world.request(ids[who % n].0, ask(*lock, *what));
            }
            Move::Deliver { which, nth } => {
                let travelling = world.travelling();
                if let Some((from, to, count)) = travelling.get(which % travelling.len().max(1)) {
                    world.deliver_nth(*from, *to, nth % count);
                }
            }
            Move::Forge { from, to, sample, numbers } => {
                let mut value = samples[sample % samples.len()].clone();
                forge(&mut value, &mut numbers.iter().copied());
                // Not every number fits an id of a process; what does not is no message.
                if let Ok(message) = serde_json::from_value(value) {
                    world.input(ids[to % n], Input::Receive { from: NodeId(*from), message });
                }
            }
            Move::Expire { which } => {
                let mut armed = world.armed();
                if !armed.is_empty() {
                    let (id, timer) = armed.swap_remove(which % armed.len());
                    world.expire(id, timer);
                }
            }
            Move::Down { at, peer, life } => {
                let (peer, life) = (NodeId(*peer), Incarnation(*life));
                world.input(ids[at % n], Input::PeerDown { peer, life });
            }
            Move::Up { at, peer, life } => {
                let (peer, life) = (NodeId(*peer), Incarnation(*life));
                world.input(ids[at % n], Input::PeerUp { peer, life });
            }
        }
    }
    world
}

/// The requests of these locks.
fn lock_request<L: Locks>(locks: usize) -> impl Fn(usize, usize) -> L::Request {
    move |lock, what| L::ask(lock % locks, [Request::Acquire, Request::Release, Request::Cancel][what % 3])
}

/// Its text stands for the size of a process.
fn assert_small(process: &impl core::fmt::Debug) {
    let size = format!("{process:?}").len();
    assert!(size < MOST_TEXT, "a process has grown to {size} characters: {process:?}");
}

#[derive(Clone, Copy)]
struct Siege<'a> {
    n: u32,
    moves: &'a [Move],
}

impl mutex::Visitor for Siege<'_> {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        let (members, three) = (Members::numbered(self.n), Members::numbered(3));
        let mutants = A::ABOUT.mutants.iter().map(|mutant| Some(mutant.name)).chain([None]);
        for mutant in mutants {
            for given in every_setting(&A::ABOUT) {
                let Some(config) = configure::<A>(&given, mutant, &members) else { continue };
                let honest = configure::<A>(&given, None, &three).expect("three fit everything");
                let plan = Plan { cancel_one_in: 4, ..Plan::of::<A>(&honest, 1, Load::Saturated) };
                let samples = samples(world::<A>(&three, &honest), plan);
                let world = besiege(
                    World::<A>::numbered(self.n, &config),
                    lock_request::<A>(1),
                    &samples,
                    self.moves,
                );
                world.processes.iter().for_each(assert_small);
            }
        }
    }
}

impl election::Visitor for Siege<'_> {
    type Output = ();

    fn visit<A: Election>(self) {
        let (members, three) = (Members::numbered(self.n), Members::numbered(3));
        let ask = |_, what| [election::Request::Start, election::Request::Retire][usize::from(what == 2)];
        let mutants = A::ABOUT.mutants.iter().map(|mutant| Some(mutant.name)).chain([None]);
        for mutant in mutants {
            for given in every_setting(&A::ABOUT) {
                let Some(config) = configure::<A>(&given, mutant, &members) else { continue };
                let honest = configure::<A>(&given, None, &three).expect("three fit everything");
                let samples = election_samples::<A>(3, &honest);
                let world = besiege(World::<A>::numbered(self.n, &config), ask, &samples, self.moves);
                world.processes.iter().for_each(assert_small);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct NamedSiege<'a> {
    n: u32,
    moves: &'a [Move],
}

impl mutex::Visitor for NamedSiege<'_> {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        let (members, three) = (Members::numbered(self.n), Members::numbered(3));
        let honest = configure::<A>(&[], None, &three).expect("the defaults fit");
        let plan = Plan { locks: 2, ..Plan::of::<A>(&honest, 1, Load::Saturated) };
        let judge = Properties::new::<A>(&honest, &three, 2, None);
        let samples = samples(World::<Named<A>, _>::new(three, &NamedConfig::new(honest), judge), plan);
        let config = configure::<A>(&[], None, &members).expect("the defaults fit");
        let config = NamedConfig::<A>::new(config).with_limit(4);
        let world = besiege(
            World::<Named<A>>::numbered(self.n, &config),
            lock_request::<Named<A>>(3),
            &samples,
            self.moves,
        );
        for process in &world.processes {
            let names: Vec<_> = process.names().collect();
            assert!(names.len() <= 4 + 3, "four by the peers, three by the application: {names:?}");
            names.iter().filter_map(|name| process.lock(name)).for_each(assert_small);
        }
    }
}

impl election::Visitor for NamedSiege<'_> {
    type Output = ();

    /// Elections are not run by name.
    fn visit<A: Election>(self) {}
}

/// One process of a group that recovers. Peers may name members of whom it has never heard, and it then sends to them:
/// there is no world around it, and what it sends is lost.
#[derive(Clone, Copy)]
struct GroupSiege<'a> {
    n: u32,
    moves: &'a [Move],
}

/// What processes of a group say to each other while they enter, and when one of them crashes.
fn group_samples<A: Mutex + Algorithm>() -> Vec<Value> {
    let three = Members::numbered(3);
    let config = configure::<Recovering<A>>(&[], None, &three).expect("the defaults fit");
    let mut world = World::<Recovering<A>>::numbered(3, &config);
    let deliver = |world: &mut World<Recovering<A>>| {
        for _ in 0..200 {
            let Some((from, to, _)) = world.travelling().first().copied() else { break };
            world.deliver_nth(from, to, 0);
        }
    };
    (1..=3).for_each(|id| world.request(id, Request::Acquire));
    deliver(&mut world);
    for at in [1, 2] {
        world.input(NodeId(at), Input::PeerDown { peer: NodeId(3), life: Incarnation::FIRST });
    }
    for _ in 0..10 {
        deliver(&mut world);
        let Some((id, timer)) = world.armed().into_iter().find(|(id, _)| *id < NodeId(3)) else { break };
        world.expire(id, timer);
    }
    let json = |message| serde_json::to_value(message).expect("a message can be written");
    world.sent.iter().map(|(_, _, message)| json(message)).collect()
}

impl mutex::Visitor for GroupSiege<'_> {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        let (members, samples) = (Members::numbered(self.n), group_samples::<A>());
        for given in every_setting(&A::ABOUT) {
            let Some(config) = configure::<Recovering<A>>(&given, None, &members) else { continue };
            let mut process = Recovering::<A>::boot(Boot {
                id: NodeId(1),
                members: &members,
                config: &config,
                timing: Timing::default(),
                life: Incarnation::FIRST,
                saved: None,
            });
            let mut timers = Vec::new();
            let mut handle = |input| {
                let mut effects = Vec::new();
                process.handle(input, &mut effects);
                process.assert_invariants();
                effects.into_iter().filter_map(|effect| match effect {
                    Effect::Arm { timer, .. } => Some(timer),
                    _ => None,
                })
            };
            timers.extend(handle(Input::Start));
            for step in self.moves {
                let receive = |from: u32, value| {
                    let message = serde_json::from_value(value).ok()?;
                    Some(Input::Receive { from: NodeId(from), message })
                };
                let input = match step {
                    Move::Ask { what, .. } => {
                        Some(Input::Request(lock_request::<Recovering<A>>(1)(0, *what)))
                    }
                    Move::Deliver { which, nth } => {
                        receive(*nth as u32 % 4, samples[which % samples.len()].clone())
                    }
                    Move::Forge { from, sample, numbers, .. } => {
                        let mut value = samples[sample % samples.len()].clone();
                        forge(&mut value, &mut numbers.iter().copied());
                        receive(*from, value)
                    }
                    Move::Expire { .. } if timers.is_empty() => None,
                    Move::Expire { which } => Some(Input::Expire(timers.swap_remove(which % timers.len()))),
                    Move::Down { peer, life, .. } => {
                        Some(Input::PeerDown { peer: NodeId(*peer), life: Incarnation(*life) })
                    }
                    Move::Up { peer, life, .. } => {
                        Some(Input::PeerUp { peer: NodeId(*peer), life: Incarnation(*life) })
                    }
                };
                timers.extend(input.into_iter().flat_map(&mut handle));
            }
        }
    }
}

impl election::Visitor for GroupSiege<'_> {
    type Output = ();

    /// Elections recover by themselves.
    fn visit<A: Election>(self) {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_inputs_are_survived(n in 1..=5u32, moves in moves()) {
        for about in crate::visit::all() {
            visit(about.name, Siege { n, moves: &moves });
        }
    }

    #[test]
    fn arbitrary_inputs_are_survived_by_named_locks(n in 1..=5u32, moves in moves()) {
        for about in crate::visit::all() {
            visit(about.name, NamedSiege { n, moves: &moves });
        }
    }

    #[test]
    fn arbitrary_inputs_are_survived_by_groups_that_recover(n in 1..=5u32, moves in moves()) {
        for about in crate::visit::all() {
            visit(about.name, GroupSiege { n, moves: &moves });
        }
    }
}
