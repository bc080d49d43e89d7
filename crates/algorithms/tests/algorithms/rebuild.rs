//! A new epoch goes on where the old one broke off: whoever was inside stays inside, whoever waited gets in once, and
//! then everything is as in a group that has just begun.
//!
//! All members are made from one roll, for every way in which a small group can stand and every convener. Then messages
//! arrive at random until everybody who waited has been served; then everybody asks once more.

use std::collections::BTreeSet;

use crate::common::world::{Dice, World};
use crate::common::{configure, every_setting, is_unsafe};
use crate::visit::visit;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Epoch, Event, Fence, Mutex, Request, Roll, Standing};
use conclave_algorithms::{Algorithm, Channels};
use conclave_core::{Boot, Incarnation, LamportClock, Members, NodeId, Stamp, Timing};

/// Longer than any run of so few processes.
const MOST_STEPS: u32 = 5_000;

/// How often each case is run, each time with messages in another order.
const SEEDS: u64 = 4;

/// How a member stood, as far as there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stood {
    Idle,
    Waiting,
    Inside,
}

/// Every way in which `n` members can stand: at most one of them is inside.
fn standings(n: usize) -> Vec<Vec<Stood>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        all = all
            .iter()
            .flat_map(|before| {
                let stands = [Stood::Idle, Stood::Waiting, Stood::Inside].into_iter();
                let free = !before.contains(&Stood::Inside);
                stands
                    .filter(move |stood| free || *stood != Stood::Inside)
                    .map(move |stood| before.iter().copied().chain([stood]).collect())
            })
            .collect();
    }
    all
}

/// The roll of these members; who waits has asked at some time before, some at the same time.
fn roll(members: &Members, stood: &[Stood], convener: NodeId, dice: &mut Dice) -> Roll {
    let old = Epoch::FIRST.next(NodeId(9));
    let standing = |(process, stood): (NodeId, &Stood)| {
        let standing = match stood {
            Stood::Idle => Standing::Idle,
            Stood::Waiting => {
                let since = Stamp { time: 10 + dice.below(5) as u64, process };
                Standing::Waiting { since, queued: false }
            }
            Stood::Inside => Standing::Inside { fence: Fence { epoch: old, counter: 40, process } },
        };
        (process, standing)
    };
    let standings = members.iter().zip(stood).map(standing).collect();
    let mut clock = LamportClock::default();
    clock.witness(15);
    Roll { epoch: old.next(convener), convener, standings, clock }
}

/// A group in its new epoch, and what can be seen of it from outside.
struct Group<A: Mutex + Algorithm> {
    world: World<A>,
    epoch: Epoch,
    dice: Dice,
    inside: Option<NodeId>,
    waiting: BTreeSet<NodeId>,
    fence: Option<Fence>,
    /// How many events have been looked at.
    told: usize,
    restless: bool,
}

impl<A: Mutex + Algorithm> Group<A> {
    fn new(members: &Members, config: &A::Config, roll: &Roll, mut dice: Dice) -> Self {
        let make = |id, out: &mut Vec<_>| {
            // Who was down has been let in again in a later life; that life may not show.
            let life = Incarnation(1 + dice.below(3) as u32);
            let boot = Boot { id, members, config, timing: Timing::default(), life, saved: None };
            A::rebuild(boot, roll, out)
        };
        let world = World::made(members.clone(), make, ());
        let mut group = Self {
            world,
            epoch: roll.epoch,
            dice,
            inside: roll.inside().map(|(id, _)| id),
            waiting: roll.waiting().iter().map(|stamp| stamp.process).collect(),
            fence: roll.inside().map(|(_, fence)| fence),
            told: 0,
            restless: A::is_restless(config),
        };
        group.look();
        group
    }

    /// Goes on until everybody has been served who waits now or is still to ask.
    fn serve(&mut self, mut to_ask: Vec<NodeId>) {
        for _ in 0..MOST_STEPS {
            if !self.step(&mut to_ask) {
                break;
            }
            self.look();
            if self.restless && to_ask.is_empty() && self.waiting.is_empty() && self.inside.is_none() {
                break;
            }
        }
        assert!(self.waiting.is_empty(), "{:?} never got in", self.waiting);
        assert_eq!(self.inside, None, "whoever is inside leaves");
        assert!(to_ask.is_empty(), "everybody has asked");
        assert!(self.restless || self.world.travelling().is_empty(), "the group comes to rest");
    }

    /// Somebody who waits gives up.
    fn cancel(&mut self) {
        if let Some(id) = self.waiting.pop_first() {
            self.world.request(id.0, Request::Cancel);
        }
    }

    /// One thing that can happen next; says whether there was any.
    fn step(&mut self, to_ask: &mut Vec<NodeId>) -> bool {
        let travelling = self.world.travelling();
        // A process has one request at a time.
        let busy = |id: &NodeId| self.waiting.contains(id) || self.inside == Some(*id);
        let asking: Vec<_> = to_ask.iter().copied().filter(|id| !busy(id)).collect();
        let choices = travelling.len() + asking.len() + usize::from(self.inside.is_some());
        if choices == 0 {
            return self.expire();
        }
        let choice = self.dice.below(choices);
        if let Some((from, to, count)) = travelling.get(choice) {
            let nth = if A::ABOUT.channels == Channels::Any { self.dice.below(*count) } else { 0 };
            self.world.deliver_nth(*from, *to, nth);
        } else if let Some(id) = asking.get(choice - travelling.len()) {
            to_ask.retain(|other| other != id);
            self.waiting.insert(*id);
            self.world.request(id.0, Request::Acquire);
        } else if let Some(id) = self.inside.take() {
            self.world.request(id.0, Request::Release);
        }
        true
    }

    /// Timers are slower than messages, and run out only if somebody still waits for something.
    fn expire(&mut self) -> bool {
        let mut armed = self.world.armed();
        if armed.is_empty() || (self.waiting.is_empty() && !self.restless) {
            return false;
        }
        let (id, timer) = armed.swap_remove(self.dice.below(armed.len()));
        self.world.expire(id, timer);
        true
    }

    /// Judges what has happened since the last look.
    fn look(&mut self) {
        assert_eq!(self.world.rejects, [], "nobody breaks the protocol");
        for (id, event) in self.world.events[self.told..].iter().copied() {
            let Event::Granted { fence } = event else { panic!("{id} is told {event:?}") };
            assert_eq!(self.inside, None, "{id} got in");
            assert!(self.waiting.remove(&id), "{id} got in without having asked");
            assert_eq!((fence.epoch, fence.process), (self.epoch, id));
            assert!(self.fence < Some(fence), "{fence} after {:?}", self.fence);
            (self.inside, self.fence) = (Some(id), Some(fence));
        }
        self.told = self.world.events.len();
        if A::MOVES_TOKEN {
            let held = self.world.processes.iter().filter_map(Mutex::token);
            let flying = self.world.in_flight().filter_map(|(_, _, message)| A::token_in(message));
            let tokens: Vec<_> = held.chain(flying).collect();
            assert_eq!(tokens, [self.epoch], "there is one token");
        }
    }
}

/// Says which case it was, should it fail.
struct Case(String);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the case {}", self.0);
        }
    }
}

#[derive(Clone, Copy)]
struct Rebuilds;

impl mutex::Visitor for Rebuilds {
    type Output = u32;

    fn visit<A: Mutex + Algorithm>(self) -> u32 {
        let mut cases = 0;
        for given in every_setting(&A::ABOUT) {
            if is_unsafe(&A::ABOUT, &given) {
                continue;
            }
            for n in 1..=4 {
                // A group as it was, and what is left of a larger one, in any order.
                let left = [7, 2, 5, 3].map(NodeId);
                for (members, before) in [
                    (Members::numbered(n), Members::numbered(n)),
                    (Members::listed(&left[..n as usize]), Members::numbered(7)),
                ] {
                    let Some(config) = configure::<A>(&given, None, &before) else { continue };
                    cases += rebuild_all::<A>(&members, &config, &format!("{} {given:?}", A::ABOUT.name));
                }
            }
        }
        cases
    }
}

impl election::Visitor for Rebuilds {
    type Output = u32;

    /// An election begins again by itself.
    fn visit<A: Election>(self) -> u32 {
        0
    }
}

fn rebuild_all<A: Mutex + Algorithm>(members: &Members, config: &A::Config, context: &str) -> u32 {
    let mut cases = 0;
    for stood in standings(members.len()) {
        for convener in members.iter() {
            for seed in 0..SEEDS {
                let ids: Vec<_> = members.iter().collect();
                let _case =
                    Case(format!("{context}: {ids:?} stood {stood:?}, {convener} convenes, seed {seed}"));
                let mut dice = Dice(seed);
                let roll = roll(members, &stood, convener, &mut dice);
                let mut group = Group::<A>::new(members, config, &roll, dice);
                match seed % 4 {
                    0 => {}
                    // Not everybody has the patience.
                    1 => group.cancel(),
                    // Nobody asks again before all who waited are served.
                    _ => group.serve(Vec::new()),
                }
                group.serve(ids);
                cases += 1;
            }
        }
    }
    cases
}

#[test]
fn a_new_epoch_serves_all_who_waited_and_then_everybody() {
    for about in crate::visit::all() {
        let cases = visit(about.name, Rebuilds).expect("what the registry lists can be visited");
        assert!(cases == 0 || cases >= 2_000, "{}: {cases} cases", about.name);
    }
}
