//! The locks under random schedules, single accesses, and hostile messages.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Boot, Effect, Effects, Incarnation, Input, Members, NodeId, Protocol, Reading, Timing};

use super::access::{Access, Word};
use super::listed::LOCKS;
use super::locks::Lock;
use super::machine::{Event, MEMORY, Machine, MachineConfig, Request};
use super::store::{Reply, Store};
use crate::{Arena, Settings};

/// A machine whose bus delivers in any order.
struct Bench {
    ids: Vec<NodeId>,
    machines: BTreeMap<NodeId, Machine>,
    bus: Vec<(NodeId, NodeId, Access)>,
    events: Vec<(NodeId, Event)>,
    rejected: u32,
}

#[derive(Default)]
struct Pushed(Vec<Effect<Machine>>);

impl Effects<Machine> for Pushed {
    fn push(&mut self, effect: Effect<Machine>) {
        self.0.push(effect);
    }

    fn now(&self) -> Reading {
        Reading::ZERO
    }
}

/// A small generator of random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

impl Bench {
    fn new(lock: Lock, n: u32) -> Self {
        let all: Vec<NodeId> = (1..=n).map(NodeId).collect();
        let config = MachineConfig { lock, all: all.clone().into() };
        let ids: Vec<NodeId> = [&[MEMORY], &all[..]].concat();
        let members = Members::listed(ids.clone());
        let boot = |id: NodeId| {
            let (timing, life) = (Timing::default(), Incarnation::FIRST);
            Machine::boot(Boot { id, members: &members, config: &config, timing, life, saved: None })
        };
        let machines = ids.iter().map(|id| (*id, boot(*id))).collect();
        Self { ids, machines, bus: Vec::new(), events: Vec::new(), rejected: 0 }
    }

    fn input(&mut self, at: NodeId, input: Input<Machine>) {
        let machine = self.machines.get_mut(&at).expect("it is a member");
        let mut pushed = Pushed::default();
        machine.handle(input, &mut pushed);
        machine.assert_invariants();
        for effect in pushed.0 {
            match effect {
                Effect::Send { to, message } => self.bus.push((at, to, message)),
                Effect::Emit(event) => self.events.push((at, event)),
                Effect::Reject { .. } => self.rejected += 1,
                Effect::Save(()) | Effect::Arm { .. } | Effect::Disarm(()) => {
                    unreachable!("a machine needs no timers and saves nothing")
                }
            }
        }
    }

    /// Delivers any message.
    fn deliver(&mut self, dice: &mut Dice) {
        let place = dice.below(self.bus.len());
        let (from, to, message) = self.bus.swap_remove(place);
        self.input(to, Input::Receive { from, message });
    }
}

fn lock(name: &str, given: &[(&str, &str)]) -> Lock {
    let listed = LOCKS.iter().find(|listed| listed.about.name == name).expect("it is listed");
    let settings = Settings::new(&listed.about, Arena::Laboratory, given.iter().copied(), None);
    (listed.lock)(&settings.expect("these settings exist"))
}

/// Everyone adds 1 to a counter k times, by reading it on the way in and writing it on the way out. Returns the counter, and the
/// most who were inside at a time.
fn count(lock: Lock, n: u32, k: u32, seed: u64) -> (u32, usize) {
    let (mut bench, mut dice) = (Bench::new(lock, n), Dice(seed));
    let (mut counter, mut read, mut left) = (0, BTreeMap::new(), vec![k; n as usize + 1]);
    let mut most = 0;
    for process in 1..=n {
        bench.input(NodeId(process), Input::Request(Request::Acquire));
    }
    loop {
        for (process, event) in core::mem::take(&mut bench.events) {
            match event {
                Event::Entered => {
                    read.insert(process, counter);
                }
                Event::Exited => {
                    left[process.0 as usize] -= 1;
                    if left[process.0 as usize] > 0 {
                        bench.input(process, Input::Request(Request::Acquire));
                    }
                }
                Event::Refused(_) => panic!("{process} asked at a wrong moment"),
            }
        }
        most = most.max(read.len());
        let inside = read.keys().copied().collect::<Vec<_>>();
        match inside.get(dice.below(inside.len() + 4)) {
            Some(process) => {
                counter = read[process] + 1;
                read.remove(process);
                bench.input(*process, Input::Request(Request::Release));
            }
            None if !bench.bus.is_empty() => bench.deliver(&mut dice),
            None if inside.is_empty() && bench.events.is_empty() => return (counter, most),
            None => {}
        }
    }
}

#[test]
fn book_tv_h3_a_counter_under_each_lock_counts_everything() {
    for listed in &LOCKS {
        for (n, seed) in [(1, 1), (2, 2), (3, 3), (5, 4), (5, 5)] {
            let lock = lock(listed.about.name, &[]);
            assert_eq!(count(lock, n, 20, seed), (n * 20, 1), "{} n={n}", listed.about.name);
        }
    }
}

#[test]
fn book_tv_h3_a_semaphore_of_two_lets_two_of_five_in() {
    let places = lock("semaphore", &[("places", "2")]);
    assert!((1..=20).all(|seed| count(places, 5, 10, seed).1 == 2), "two are inside, and never three");
}

fn values(replies: &[Reply]) -> Vec<(u32, Option<u32>)> {
    replies.iter().map(|reply| (reply.to.0, reply.value.ok())).collect()
}

/// The calls of three processes that find the lock free return 0, 1, 1.
#[test]
fn book_v_h6_one_of_several_instructions_reads_zero() {
    let word = Word::Lock;
    for access in [
        Access::TestAndSet { word },
        Access::Swap { word, value: 1 },
        Access::CompareAndSwap { word, expected: 0, value: 1 },
    ] {
        let mut store = Store::new(lock("test-and-set", &[]), [1, 2, 3].map(NodeId).into());
        let calls = [1, 2, 3].map(|process| values(&store.arrive(NodeId(process), access)));
        assert_eq!(calls, [vec![(1, Some(0))], vec![(2, Some(1))], vec![(3, Some(1))]], "{access:?}");
    }
}

#[test]
fn a_semaphore_wakes_who_has_waited_longest() {
    let mut store = Store::new(lock("semaphore", &[]), [1, 2, 3].map(NodeId).into());
    let mut does = |process, access| values(&store.arrive(NodeId(process), access));
    assert_eq!(does(1, Access::P), [(1, Some(0))]);
    assert_eq!(does(3, Access::P), []);
    assert_eq!(does(2, Access::P), []);
    assert_eq!(does(1, Access::V), [(1, Some(0)), (3, Some(0))]);
    assert_eq!(does(3, Access::V), [(3, Some(0)), (2, Some(0))]);
}

/// On one processor nobody runs while interrupts are off; on two, only those of the same one wait.
#[test]
fn interrupts_hold_up_their_own_processor() {
    for (cpus, runs) in [("1", false), ("2", true)] {
        let mut store = Store::new(lock("interrupts", &[("cpus", cpus)]), [1, 2, 3].map(NodeId).into());
        assert_eq!(values(&store.arrive(NodeId(1), Access::DisableInterrupts)), [(1, Some(0))]);
        let other = values(&store.arrive(NodeId(2), Access::DisableInterrupts));
        assert_eq!(!other.is_empty(), runs, "{cpus} processors");
        assert_eq!(values(&store.arrive(NodeId(3), Access::Read { word: Word::Held })), []);
    }
}

/// Who signals goes on; who is woken comes in behind those who were at the door.
#[test]
fn a_monitor_lets_the_woken_in_through_the_entry_queue() {
    let mut store = Store::new(lock("monitor", &[]), [1, 2, 3].map(NodeId).into());
    let mut does = |process, access| values(&store.arrive(NodeId(process), access));
    assert_eq!(does(1, Access::EnterMonitor), [(1, Some(0))]);
    assert_eq!(does(1, Access::Wait), []);
    assert_eq!(does(2, Access::EnterMonitor), [(2, Some(0))]);
    assert_eq!(does(3, Access::EnterMonitor), []);
    assert_eq!(does(2, Access::Broadcast), [(2, Some(0))]);
    assert_eq!(does(2, Access::LeaveMonitor), [(2, Some(0)), (3, Some(0))]);
    assert_eq!(does(3, Access::LeaveMonitor), [(3, Some(0)), (1, Some(0))]);
    assert_eq!(does(2, Access::LeaveMonitor), [(2, None)], "who is not inside cannot leave");
}

fn any_access(dice: &mut Dice) -> Access {
    let word = [Word::Lock, Word::Held, Word::Tail, Word::Next, Word::Blocked(NodeId(1)), Word::Turn(9)]
        [dice.below(6)];
    let value = [0, 1, 2, u32::MAX][dice.below(4)];
    match dice.below(18) {
        0 => Access::Read { word },
        1 => Access::Write { word, value },
        2 => Access::TestAndSet { word },
        3 => Access::Swap { word, value },
        4 => Access::CompareAndSwap { word, expected: value, value: 7 },
        5 => Access::FetchAndAdd { word, modulo: value },
        6 => Access::DisableInterrupts,
        7 => Access::EnableInterrupts,
        8 => Access::P,
        9 => Access::V,
        10 => Access::EnterRegion { when: Some((word, value)) },
        11 => Access::LeaveRegion,
        12 => Access::EnterMonitor,
        13 => Access::LeaveMonitor,
        14 => Access::Wait,
        15 => Access::Signal,
        16 => Access::Broadcast,
        _ => Access::Value { value },
    }
}

/// Whatever comes over the bus, from whomever: nobody panics, and every invariant holds.
#[test]
fn nothing_from_outside_brings_a_machine_down() {
    for (place, listed) in LOCKS.iter().enumerate() {
        let (mut bench, mut dice) = (Bench::new(lock(listed.about.name, &[]), 3), Dice(place as u64 + 1));
        for _ in 0..3_000 {
            let at = bench.ids[dice.below(4)];
            match dice.below(8) {
                0 => bench.input(at, Input::Request(Request::Acquire)),
                1 => bench.input(at, Input::Request(Request::Release)),
                2 if !bench.bus.is_empty() => bench.deliver(&mut dice),
                _ => {
                    let (from, message) = (NodeId(dice.below(6) as u32), any_access(&mut dice));
                    bench.input(at, Input::Receive { from, message });
                }
            }
        }
        assert!(bench.rejected > 0, "{}", listed.about.name);
    }
}
