use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::Effect;

use super::*;
use crate::testing::{Dice, World};
use crate::{Arena, Mutant};

/// The longest time of a message, in microseconds; T is twice, T′ four times as long.
const UNIT: u64 = 1_000;

/// How long a message travels.
#[derive(Clone)]
enum Delay {
    /// One unit, always.
    Unit,
    /// Up to one unit.
    Random(Dice),
    /// As listed by sender and receiver, else one unit.
    Listed(Vec<((u32, u32), u64)>),
}

/// A group with clocks: messages and timers come when they are due, messages before timers.
struct Timed {
    members: Members,
    config: BullyConfig,
    delay: Delay,
    now: u64,
    seats: Vec<Seat>,
    /// By time, messages first, then by age.
    due: BTreeMap<(u64, bool, u64), Due>,
    serial: u64,
    sent: Vec<(u64, NodeId, NodeId, BullyMessage)>,
    events: Vec<(NodeId, Event)>,
    rejects: usize,
}

struct Seat {
    /// Nobody while it is down.
    process: Option<Bully>,
    life: Incarnation,
    saved: Option<Claim>,
    timers: BTreeMap<BullyTimer, u64>,
}

enum Due {
    Message { from: NodeId, to: NodeId, life: Incarnation, message: BullyMessage },
    Timer { at: NodeId, timer: BullyTimer },
    Input { at: NodeId, input: Input<Bully> },
}

fn config(given: &[(&str, &str)], mutant: Option<&str>) -> BullyConfig {
    let settings = Settings::new(&Bully::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
    Bully::configure(&settings.expect("declared settings"), &Members::numbered(1)).expect("they fit")
}

const HARDENED: &[(&str, &str)] = &[("mode", "hardened")];

impl Timed {
    fn new(ids: impl IntoIterator<Item = u32>, config: BullyConfig, delay: Delay) -> Self {
        let members = Members::listed(ids.into_iter().map(NodeId).collect::<Vec<_>>());
        let seat = |_| Seat { process: None, life: Incarnation(0), saved: None, timers: BTreeMap::new() };
        let seats = members.iter().map(seat).collect();
        let mut timed = Self {
            members: members.clone(),
            config,
            delay,
            now: 0,
            seats,
            due: BTreeMap::new(),
            serial: 0,
            sent: Vec::new(),
            events: Vec::new(),
            rejects: 0,
        };
        members.iter().for_each(|id| timed.boot(id));
        timed
    }

    fn plain(ids: impl IntoIterator<Item = u32>) -> Self {
        Self::new(ids, config(&[], None), Delay::Unit)
    }

    fn place(&self, id: NodeId) -> usize {
        self.members.position(id).expect("a member")
    }

    fn boot(&mut self, id: NodeId) {
        let place = self.place(id);
        let life = self.seats[place].life.next();
        let timing = Timing { transmission: Duration::from_micros(UNIT), processing: Duration::ZERO };
        let saved = self.seats[place].saved;
        let boot = Boot { id, members: &self.members, config: &self.config, timing, life, saved };
        self.seats[place].process = Some(Bully::boot(boot));
        self.seats[place].life = life;
        self.input(id, Input::Start);
    }

    fn input(&mut self, id: NodeId, input: Input<Bully>) {
        let place = self.place(id);
        let Some(process) = &mut self.seats[place].process else { return };
        let mut effects: Vec<Effect<Bully>> = Vec::new();
        process.handle(input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Save(claim) => self.seats[place].saved = Some(claim),
                Effect::Send { to, message } => self.post(id, to, message),
                Effect::Arm { timer, after } => {
                    let serial = self.put(after.min.as_micros() as u64, true, Due::Timer { at: id, timer });
                    self.seats[place].timers.insert(timer, serial);
                }
                Effect::Disarm(timer) => {
                    self.seats[place].timers.remove(&timer);
                }
                Effect::Emit(event) => self.events.push((id, event)),
                Effect::Reject { .. } => self.rejects += 1,
            }
        }
    }

    fn post(&mut self, from: NodeId, to: NodeId, message: BullyMessage) {
        assert!(from != to, "{from} sends to itself");
        self.sent.push((self.now, from, to, message.clone()));
        let delay = match &mut self.delay {
            Delay::Unit => UNIT,
            Delay::Random(dice) => 1 + dice.below(UNIT as usize) as u64,
            Delay::Listed(list) => {
                list.iter().find(|(pair, _)| *pair == (from.0, to.0)).map_or(UNIT, |(_, delay)| *delay)
            }
        };
        let life = self.seats[self.place(to)].life;
        self.put(delay, false, Due::Message { from, to, life, message });
    }

    fn put(&mut self, after: u64, late: bool, due: Due) -> u64 {
        self.serial += 1;
        self.due.insert((self.now + after, late, self.serial), due);
        self.serial
    }

    /// Lets all happen that is due until then.
    fn run_until(&mut self, time: u64) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= time
        {
            let ((now, _, serial), due) = entry.remove_entry();
            self.now = now;
            match due {
                Due::Message { from, to, life, message } => {
                    if self.seats[self.place(to)].life == life {
                        self.input(to, Input::Receive { from, message });
                    }
                }
                Due::Timer { at, timer } => {
                    let place = self.place(at);
                    if self.seats[place].timers.get(&timer) == Some(&serial) {
                        self.seats[place].timers.remove(&timer);
                        self.input(at, Input::Expire(timer));
                    }
                }
                Due::Input { at, input } => self.input(at, input),
            }
        }
        self.now = self.now.max(time);
    }

    /// Lets everything happen; says whether it comes to rest.
    fn run(&mut self) -> bool {
        let limit = self.now + 1_000 * UNIT;
        while let Some(((time, ..), _)) = self.due.first_key_value()
            && *time <= limit
        {
            let time = *time;
            self.run_until(time);
        }
        self.due.is_empty()
    }

    /// Starts an election at these processes, and lets it come to its end.
    fn elect(&mut self, starters: &[u32]) {
        for id in starters {
            self.input(NodeId(*id), Input::Request(Request::Start));
        }
        assert!(self.run(), "the election ends");
        assert_eq!(self.rejects, 0, "nobody breaks the protocol");
    }

    fn crash(&mut self, id: u32) {
        let place = self.place(NodeId(id));
        self.seats[place].process = None;
        self.seats[place].timers.clear();
    }

    /// After this time, and if it is not back by then, everyone learns that a process is down.
    fn suspect(&mut self, id: u32, mut after: impl FnMut() -> u64) {
        let (peer, life) = (NodeId(id), self.seats[self.place(NodeId(id))].life);
        for at in self.members.clone().others(peer) {
            self.put(after(), true, Due::Input { at, input: Input::PeerDown { peer, life } });
        }
    }

    /// A process comes back, with what it saved or without. Everyone learns of the end of its old life before, of its
    /// new one after this time.
    fn restart(&mut self, id: u32, durable: bool, mut after: impl FnMut() -> u64) {
        let (peer, old) = (NodeId(id), self.seats[self.place(NodeId(id))].life);
        let of_old_life = |due: &Due| matches!(due, Due::Input { input: Input::PeerDown { peer: p, life }, .. } if (*p, *life) == (peer, old));
        self.due.retain(|_, due| !of_old_life(due));
        let others = self.members.clone();
        for at in others.others(peer) {
            self.input(at, Input::PeerDown { peer, life: old });
        }
        if !durable {
            let place = self.place(peer);
            self.seats[place].saved = None;
        }
        self.boot(peer);
        for at in others.others(peer) {
            self.put(after(), true, Due::Input { at, input: Input::PeerUp { peer, life: old.next() } });
        }
    }

    /// Whom each process follows; 0 for nobody and for the dead.
    fn leaders(&self) -> Vec<u32> {
        let leader =
            |seat: &Seat| seat.process.as_ref().and_then(|p| p.leaders().first()).map_or(0, |id| id.0);
        self.seats.iter().map(leader).collect()
    }

    /// How many were sent: Election, Answer, Coordinator.
    fn counts(&self) -> [usize; 3] {
        ["Election", "Answer", "Coordinator"]
            .map(|kind| self.sent.iter().filter(|(.., message)| message.kind() == kind).count())
    }

    fn total(&self) -> u64 {
        self.sent.iter().filter(|(.., message)| !message.is_overhead()).count() as u64
    }

    /// What was sent, a line per sender, kind and moment: `p3 Election p4 p5`.
    fn log(&self) -> Vec<String> {
        let mut lines: Vec<(u64, NodeId, &str, String)> = Vec::new();
        for (time, from, to, message) in &self.sent {
            match lines.last_mut() {
                Some((t, f, kind, line)) if (*t, *f, *kind) == (*time, *from, message.kind()) => {
                    line.push_str(&format!(" {to}"));
                }
                _ => {
                    let line = format!("{from} {} {to}", message.kind());
                    lines.push((*time, *from, message.kind(), line));
                }
            }
        }
        lines.into_iter().map(|(.., line)| line).collect()
    }

    fn formula(&self, starters: &[u32], absent: &[u32], recovered: Option<u32>) -> Formula {
        let ids = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        let (starters, absent) = (ids(starters), ids(absent));
        let tally = Tally {
            starters: &starters,
            absent: &absent,
            recovered: recovered.map(NodeId),
            disturbed: false,
        };
        Bully::formula(&self.config, &self.members, &tally)
    }
}

/// The worked example TV-B1: of 0 to 7 the leader 7 is dead, 4 notices.
#[test]
fn book_tv_b1_eight_processes() {
    let mut group = Timed::plain(0..8);
    group.crash(7);
    group.elect(&[4]);
    assert_eq!(
        group.log(),
        [
            "p4 Election p5 p6 p7",
            "p5 Answer p4",
            "p5 Election p6 p7",
            "p6 Answer p4",
            "p6 Election p7",
            "p6 Answer p5",
            "p6 Coordinator p0 p1 p2 p3 p4 p5"
        ]
    );
    assert_eq!(group.counts(), [6, 3, 6]);
    assert_eq!(group.leaders(), [6, 6, 6, 6, 6, 6, 6, 0]);
}

/// The worked example TV-B2: six processes, the leader 6 is dead, 3 notices; then with 2 among them; then 4 notices.
#[test]
fn book_tv_b2_six_processes() {
    let mut group = Timed::plain([0, 1, 3, 4, 5, 6]);
    group.crash(6);
    group.elect(&[3]);
    assert_eq!(
        group.log(),
        [
            "p3 Election p4 p5 p6",
            "p4 Answer p3",
            "p4 Election p5 p6",
            "p5 Answer p3",
            "p5 Election p6",
            "p5 Answer p4",
            "p5 Coordinator p0 p1 p3 p4"
        ]
    );
    assert_eq!(group.counts(), [6, 3, 4]);
    assert_eq!(group.leaders(), [5, 5, 5, 5, 5, 0]);
    for (starter, expected) in [(3, [6, 3, 5]), (4, [3, 1, 5])] {
        let mut group = Timed::plain(0..7);
        group.crash(6);
        group.elect(&[starter]);
        assert_eq!(group.counts(), expected);
        assert_eq!(group.leaders(), [5, 5, 5, 5, 5, 5, 0]);
    }
}

/// The worked example TV-B3: 4 is dead, and 3, who would win, crashes before it says so; 1 loses patience first.
#[test]
fn book_tv_b3_the_winner_crashes_before_it_announces_itself() {
    let mut group = Timed::plain(1..=4);
    group.crash(4);
    group.input(NodeId(1), Input::Request(Request::Start));
    group.run_until(3 * UNIT);
    group.crash(3);
    assert!(group.run());
    assert_eq!(
        group.log(),
        [
            "p1 Election p2 p3 p4",
            "p2 Answer p1",
            "p2 Election p3 p4",
            "p3 Answer p1",
            "p3 Election p4",
            "p3 Answer p2",
            "p1 Election p2 p3 p4",
            "p2 Answer p1",
            "p2 Election p3 p4",
            "p2 Coordinator p1"
        ]
    );
    assert_eq!(group.counts(), [11, 4, 1]);
    assert_eq!(group.leaders(), [2, 2, 0, 0]);
    let times: BTreeSet<_> = group.sent.iter().map(|(time, ..)| time / UNIT).collect();
    assert_eq!(times, BTreeSet::from([0, 1, 2, 6, 7, 9]));
}

/// TV-B3 if 2 loses patience first, and 1 waits long enough: no clock, all by hand.
#[test]
fn book_tv_b3_the_other_one_loses_patience_first() {
    let mut world = World::<Bully>::numbered(4, &config(&[], None));
    world.request(1, Request::Start);
    for (from, to) in [(1, 2), (1, 3), (2, 1), (3, 1), (2, 3), (3, 2)] {
        world.deliver(from, to);
    }
    world.expire(NodeId(2), BullyTimer::Coordinator);
    world.expire(NodeId(2), BullyTimer::Answer);
    world.deliver(2, 1);
    assert_eq!(world.sent.len(), 12, "{:?}", world.log());
    assert_eq!(world.process(1).leaders(), [NodeId(2)]);
    assert_eq!(world.process(2).leaders(), [NodeId(2)]);
}

/// The worked example TV-B4: after TV-B2, 6 comes back and takes the office; or 4 does, and 5 keeps it.
#[test]
fn book_tv_b4_a_process_comes_back() {
    for (back, log, leader) in [
        (6, &["p6 Coordinator p0 p1 p3 p4 p5"] as &[&str], 6),
        (4, &["p4 Election p5 p6", "p5 Answer p4", "p5 Coordinator p4"], 5),
    ] {
        let mut group = Timed::plain([0, 1, 3, 4, 5, 6]);
        group.crash(6);
        group.elect(&[3]);
        if back == 4 {
            group.crash(4);
        }
        group.sent.clear();
        group.restart(back, true, || UNIT);
        assert!(group.run());
        assert_eq!(group.log(), log);
        let alive: Vec<_> = group.leaders().into_iter().filter(|leader| *leader != 0).collect();
        assert_eq!(alive, vec![leader; if back == 6 { 6 } else { 5 }]);
    }
}

/// The worked example TV-B5: 3 and 4 notice at once; it costs what it costs if only 3 does.
#[test]
fn book_tv_b5_two_notice_at_once() {
    let mut group = Timed::plain([0, 1, 3, 4, 5, 6]);
    group.crash(6);
    group.elect(&[3, 4]);
    assert_eq!(group.counts(), [6, 3, 4]);
    assert_eq!(group.leaders(), [5, 5, 5, 5, 5, 0]);
}

/// The group of TV-B6: 4 has led and crashed, 3 is about to announce itself when a replacement of 4 comes up. The
/// announcements of the two reach 1 and 2 in different orders.
fn replaced_id(given: &[(&str, &str)], back_at: u64, durable: bool) -> Timed {
    let crossing = vec![((3, 1), 900), ((4, 1), 100), ((3, 2), 100), ((4, 2), 900)];
    let mut group = Timed::new(1..=4, config(given, None), Delay::Unit);
    group.elect(&[1]);
    assert_eq!(group.leaders(), [4; 4]);
    group.delay = Delay::Listed(crossing);
    group.crash(4);
    let begin = group.now;
    group.input(NodeId(3), Input::Request(Request::Start));
    group.run_until(begin + back_at);
    group.restart(4, durable, || UNIT);
    assert!(group.run(), "the election ends");
    assert_eq!(group.rejects, 0);
    group
}

/// The worked example TV-B6: plain announcements that overtake each other leave the group divided.
#[test]
fn book_tv_b6_a_replaced_id_divides_a_plain_group() {
    // A round trip after 3 has called 4, in the moment in which it announces itself.
    let group = replaced_id(&[], 2 * UNIT + 1, false);
    assert_eq!(group.leaders(), [3, 4, 4, 4]);
}

/// TV-B6 again: numbered announcements end with 4, whenever it comes back, and whether or not it knows its past.
#[test]
fn book_tv_b6_a_replaced_id_does_not_divide_a_hardened_group() {
    for back_at in (0..12 * UNIT).step_by(50) {
        for durable in [false, true] {
            let group = replaced_id(HARDENED, back_at, durable);
            assert_eq!(group.leaders(), [4; 4], "back at {back_at}, with storage: {durable}");
            assert_one_leader_per_number(&group);
        }
    }
}

fn assert_one_leader_per_number(group: &Timed) {
    let mut leaders = BTreeMap::new();
    for (_, Event::Elected { leaders: told, term }) in &group.events {
        assert!(*term > 0);
        assert_eq!(leaders.entry(*term).or_insert(told), &told, "election {term}");
    }
}

/// m² + n − 2 for every n up to 12 and every starter, at any speed; and the same if those above start as well.
#[test]
fn book_the_cost_of_an_election_is_m_squared_plus_n_minus_two() {
    for n in 2..=12u32 {
        for k in 1..n {
            for seed in 0..6u64 {
                let mut dice = Dice(seed);
                let delay = if seed == 0 { Delay::Unit } else { Delay::Random(Dice(seed)) };
                let mut group = Timed::new(1..=n, config(&[], None), delay);
                group.crash(n);
                let starters: Vec<_> =
                    (k..n).filter(|id| *id == k || (seed > 2 && dice.below(2) == 0)).collect();
                group.elect(&starters);
                let (m, n) = (u64::from(n - k), u64::from(n));
                assert_eq!(group.total(), m * m + n - 2, "n = {n}, k = {k}, seed {seed}");
                assert_eq!(group.formula(&starters, &[n as u32], None).exact(), Some(m * m + n - 2));
                assert!(group.leaders()[..n as usize - 1].iter().all(|leader| *leader == n as u32 - 1));
            }
        }
    }
}

/// Whoever else is dead, as long as the highest is: the formula is exact, with weights too.
#[test]
fn the_formula_holds_whoever_is_dead() {
    for seed in 0..3_000u64 {
        let mut dice = Dice(seed);
        let n = 2 + dice.below(7) as u32;
        let given = format!("{}:5,{}:3", 1 + dice.below(n as usize / 2), n / 2 + 1);
        let weights: &[(&str, &str)] = if seed % 2 == 0 { &[] } else { &[("weights", &given)] };
        let skips = seed % 3 == 0;
        let skip = [("skip-known-dead", if skips { "yes" } else { "no" })];
        let given: Vec<_> = weights.iter().chain(&skip).copied().collect();
        let mut group = Timed::new(1..=n, config(&given, None), Delay::Random(Dice(seed)));
        let absent: Vec<_> = (1..=n).filter(|_| dice.below(3) == 0).collect();
        let alive: Vec<_> = (1..=n).filter(|id| !absent.contains(id)).collect();
        if alive.is_empty() {
            continue;
        }
        for id in &absent {
            group.crash(*id);
            if dice.below(2) == 0 {
                group.suspect(*id, || 0);
            }
        }
        assert!(group.run());
        let starters: Vec<_> =
            alive.iter().copied().filter(|id| *id == alive[0] || dice.below(2) == 0).collect();
        let starters = if seed % 5 == 0 { vec![*dice.pick(&alive)] } else { starters };
        group.elect(&starters);
        let highest = group.config.weights.highest(group.members.iter()).expect("members").0;
        let formula = group.formula(&starters, &absent, None);
        assert!(
            formula.admits(group.total()),
            "seed {seed}: {} {formula:?} {:?}",
            group.total(),
            group.log()
        );
        if absent.contains(&highest) && !skips {
            assert!(formula.exact().is_some());
        }
        let eligible: Vec<_> = alive.iter().copied().map(NodeId).collect();
        let winner = Bully::winners(&group.config, &group.members, &eligible)[0].0;
        let known: BTreeSet<_> = alive.iter().map(|id| group.leaders()[*id as usize - 1]).collect();
        assert_eq!(known, BTreeSet::from([winner]), "seed {seed}");
    }
}

/// Where the leader waits for nobody, constant delays cost the least: everyone up, or the dead known to be dead.
#[test]
fn the_least_cost_where_the_leader_waits_for_nobody() {
    for n in 2..=10u32 {
        for k in 1..=n {
            let mut group = Timed::plain(1..=n);
            group.elect(&[k]);
            assert_eq!(group.total(), group.formula(&[k], &[], None).low, "n = {n}, k = {k}");
        }
        for k in 1..n {
            let mut group = Timed::new(1..=n, config(&[("skip-known-dead", "yes")], None), Delay::Unit);
            group.crash(n);
            group.suspect(n, || 0);
            assert!(group.run());
            group.elect(&[k]);
            assert_eq!(group.total(), group.formula(&[k], &[n], None).low, "n = {n}, k = {k}");
            assert!(k != n - 1 || group.total() == u64::from(n) - 2, "the best case");
        }
    }
}

/// m² − 1 for one that comes back while the highest is in office, n − 1 for the highest.
#[test]
fn book_the_cost_of_a_recovery() {
    for n in 2..=10u32 {
        for back in 1..=n {
            let mut group = Timed::plain(1..=n);
            group.elect(&[n]);
            group.crash(back);
            group.suspect(back, || 0);
            assert!(group.run());
            group.sent.clear();
            group.restart(back, true, || UNIT);
            assert!(group.run());
            assert_eq!(group.total(), group.formula(&[], &[], Some(back)).low, "n = {n}, back = {back}");
            assert_eq!(group.leaders(), vec![n; n as usize]);
        }
    }
}

/// TV-W1: weight goes before id.
#[test]
fn book_tv_w1_the_heaviest_leads() {
    for mode in ["plain", "hardened"] {
        let given = [("weights", "1:5"), ("mode", mode)];
        let mut group = Timed::new(1..=5, config(&given, None), Delay::Unit);
        group.elect(&[2, 4]);
        assert_eq!(group.leaders(), [1; 5]);
    }
}

/// Each mutant is caught within a thousand runs; the sound one breaks nothing in the same runs.
#[test]
fn mutants_are_caught() {
    let run = |mutant: Option<&str>, seed: u64| {
        let mut dice = Dice(seed);
        let n = 4;
        let mut group = Timed::new(1..=n, config(&[], mutant), Delay::Random(Dice(seed)));
        if seed.is_multiple_of(2) {
            group.crash(n);
        }
        let lowest = 1 + dice.below(2) as u32;
        for id in (lowest..=n).filter(|id| *id == lowest || dice.below(2) == 0) {
            group.input(NodeId(id), Input::Request(Request::Start));
        }
        let highest = if seed.is_multiple_of(2) { n - 1 } else { n };
        let wrongly_told =
            |(_, Event::Elected { leaders, .. }): &(NodeId, Event)| leaders[0] != NodeId(highest);
        if !group.run() {
            return Some("END");
        }
        if group.events.iter().any(wrongly_told) {
            return Some("E1");
        }
        assert!(group.leaders()[..highest as usize].iter().all(|leader| *leader == highest));
        None
    };
    for seed in 0..1_000 {
        assert_eq!(run(None, seed), None, "seed {seed}");
    }
    for Mutant { name, breaks, .. } in Bully::ABOUT.mutants {
        let caught = (0..1_000).filter(|seed| run(Some(name), *seed) == Some(breaks)).count();
        assert!(caught >= 50, "{name} is caught in {caught} of 1,000 runs");
    }
}

/// Crashes, restarts with and without storage, slow detectors, concurrent starts: in the end all who live follow the
/// highest of them. Plain if whoever comes back holds its election alone, hardened as long as a majority lives.
#[test]
fn crashes_and_restarts_end_with_the_highest() {
    for seed in 0..4_000u64 {
        let hardened = seed.is_multiple_of(2);
        let mut dice = Dice(seed);
        let n = 3 + dice.below(4) as u32;
        let settings: &[(&str, &str)] = if hardened { HARDENED } else { &[] };
        let mut group = Timed::new(1..=n, config(settings, None), Delay::Random(Dice(seed ^ 0xb0)));
        group.elect(&[1]);
        for _ in 0..6 {
            let id = 1 + dice.below(n as usize) as u32;
            let up = group.seats.iter().filter(|seat| seat.process.is_some()).count();
            let is_up = group.seats[id as usize - 1].process.is_some();
            let mut patience = Dice(dice.roll());
            // The detector may be so fast that the dead are still heard.
            let mut latency = || patience.below(3 * UNIT as usize) as u64;
            match dice.below(3) {
                0 => group.input(NodeId(id), Input::Request(Request::Start)),
                1 if is_up && up > n as usize / 2 + 1 => {
                    group.crash(id);
                    group.suspect(id, latency);
                }
                2 if !is_up => {
                    let alone = |group: &mut Timed| hardened || group.run();
                    assert!(alone(&mut group), "seed {seed}");
                    group.restart(id, dice.below(2) == 0, &mut latency);
                    assert!(alone(&mut group), "seed {seed}");
                }
                _ => {}
            }
            let pause = dice.below(6 * UNIT as usize) as u64;
            group.run_until(group.now + pause);
        }
        assert!(group.run(), "seed {seed}");
        let alive: Vec<_> = (1..=n).filter(|id| group.seats[*id as usize - 1].process.is_some()).collect();
        let known: BTreeSet<_> = alive.iter().map(|id| group.leaders()[*id as usize - 1]).collect();
        assert_eq!(known, alive.last().copied().into_iter().collect(), "seed {seed}");
        if hardened {
            assert_one_leader_per_number(&group);
        }
    }
}

/// Two who believe that they lead never do so in the same term: each has a majority behind it.
#[test]
fn no_term_has_two_leaders_even_if_messages_are_lost() {
    let mut elections = 0;
    for seed in 0..1_000u64 {
        let mut dice = Dice(seed);
        let mut group = Timed::new(1..=5, config(HARDENED, None), Delay::Random(Dice(seed ^ 0x5a)));
        for round in 0..60 {
            let keep = |_: &(u64, bool, u64), due: &mut Due| {
                !matches!(due, Due::Message { .. }) || dice.below(20) != 0
            };
            group.due.retain(keep);
            if round % 10 == 0 {
                let id = NodeId(1 + (round / 10) % 5);
                group.input(id, Input::Request(Request::Start));
            }
            group.run_until(group.now + UNIT / 2);
        }
        let mut leaders: BTreeMap<u64, NodeId> = BTreeMap::new();
        for (id, Event::Elected { leaders: told, term }) in &group.events {
            if told[0] == *id {
                let round = (term - 1) / 5;
                assert_eq!(leaders.entry(round).or_insert(*id), id, "seed {seed}");
            }
        }
        elections += leaders.len();
        // Nothing is lost any more: the group agrees, once somebody asks.
        assert!(group.run(), "seed {seed}");
        group.elect(&[1]);
        assert_eq!(group.leaders(), [5; 5], "seed {seed}");
    }
    assert!(elections > 1_000, "{elections}");
}

/// A leader needs a majority of all members, not only of the living.
#[test]
fn without_a_majority_nobody_leads() {
    let mut group = Timed::new(1..=4, config(HARDENED, None), Delay::Unit);
    group.crash(3);
    group.crash(4);
    group.input(NodeId(1), Input::Request(Request::Start));
    group.run_until(50 * UNIT);
    assert_eq!(group.leaders()[1], 0, "p2 has announced itself, and waits for a third");
    assert!(group.seats[1].process.as_ref().is_some_and(Bully::is_participant));
    group.restart(3, true, || UNIT);
    assert!(group.run());
    assert_eq!(group.leaders(), [3, 3, 3, 0]);
}

/// A leader retires: the next one takes over, and tells it too. The retired leads again only in its next life.
#[test]
fn a_leader_retires() {
    for given in [&[], HARDENED] {
        let mut group = Timed::new(1..=4, config(given, None), Delay::Unit);
        group.elect(&[2]);
        group.sent.clear();
        group.input(NodeId(4), Input::Request(Request::Retire));
        assert!(group.run());
        if given.is_empty() {
            assert_eq!(group.log(), ["p4 Retire p1 p2 p3", "p3 Coordinator p1 p2 p4"]);
        }
        assert_eq!(group.leaders(), [3; 4]);
        // One who has retired may call an election.
        group.crash(3);
        group.elect(&[4]);
        assert_eq!(group.leaders(), [2, 2, 0, 2]);
        // One who comes back has not heard of the retirement.
        group.restart(3, true, || UNIT);
        assert!(group.run());
        assert_eq!(group.leaders(), [3; 4]);
        group.crash(4);
        group.restart(4, true, || UNIT);
        assert!(group.run());
        assert_eq!(group.leaders(), [4; 4]);
        assert_eq!(group.rejects, 0);
    }
}

/// Retirements at any time, of anyone, in any order of messages.
#[test]
fn retirements_end_with_the_highest_of_the_rest() {
    for seed in 0..2_000u64 {
        let mut dice = Dice(seed);
        let settings: &[(&str, &str)] = if seed.is_multiple_of(2) { HARDENED } else { &[] };
        let mut group = Timed::new(1..=5, config(settings, None), Delay::Random(Dice(seed ^ 0x77)));
        let mut eligible: Vec<u32> = (1..=5).collect();
        group.elect(&[1]);
        for _ in 0..5 {
            let id = 1 + dice.below(5) as u32;
            if dice.below(2) == 0 && eligible.len() > 1 {
                group.input(NodeId(id), Input::Request(Request::Retire));
                eligible.retain(|other| *other != id);
            } else {
                group.input(NodeId(id), Input::Request(Request::Start));
            }
            let pause = dice.below(5 * UNIT as usize) as u64;
            group.run_until(group.now + pause);
        }
        assert!(group.run(), "seed {seed}");
        assert_eq!(group.leaders(), [*eligible.last().expect("somebody"); 5], "seed {seed}");
    }
}

/// If all have retired nobody leads, and the group comes to rest.
#[test]
fn nobody_is_left() {
    let mut group = Timed::plain(1..=3);
    group.elect(&[1]);
    for id in [3, 1, 2] {
        group.input(NodeId(id), Input::Request(Request::Retire));
    }
    assert!(group.run());
    group.elect(&[2]);
    assert_eq!(group.leaders(), [0; 3]);
}

/// An announcement that outlives its sender is believed for a while only.
#[test]
fn an_announcement_of_the_dead_is_looked_into() {
    let mut group = Timed::plain(1..=3);
    group.input(NodeId(3), Input::Request(Request::Start));
    group.crash(3);
    group.suspect(3, || 0);
    assert!(group.run());
    assert_eq!(group.leaders(), [2, 2, 0]);
}

/// The application hears of a leader once, however often it is confirmed.
#[test]
fn a_leader_is_told_once() {
    let mut group = Timed::plain(1..=3);
    group.elect(&[1]);
    group.elect(&[1]);
    group.elect(&[2]);
    let told: Vec<_> = group.events.iter().map(|(id, _)| id.0).collect();
    assert_eq!(told.len(), 3, "{:?}", group.events);
}

#[test]
fn strangers_and_terms_in_plain_mode_are_rejected() {
    let mut group = Timed::plain(1..=3);
    let claim = Claim { term: 7, leader: NodeId(3) };
    for (from, message) in [
        (9, Msg::Coordinator { term: 0 }),
        (1, Msg::Election),
        (2, Msg::Sync),
        (2, Msg::Nack(claim)),
        (2, Msg::Coordinator { term: u64::MAX }),
    ] {
        group.input(NodeId(1), Input::Receive { from: NodeId(from), message });
    }
    assert_eq!((group.rejects, group.sent.len(), group.leaders()), (5, 0, vec![0; 3]));
}

/// Terms are only compared and counted on: moved by the same amount everywhere, all goes on alike.
#[test]
fn terms_can_be_moved() {
    let mut moved_steps = 0;
    for (seed, given) in (0..200).zip([&[], HARDENED].into_iter().cycle()) {
        let mut dice = Dice(seed);
        let mut world = World::<Bully>::numbered(4, &config(given, None));
        let step = |world: &mut World<Bully>, dice: &mut Dice| {
            let (travelling, armed) = (world.travelling(), world.armed());
            match dice.below(8) {
                0 => world.request(1 + dice.below(4) as u32, Request::Start),
                1 if !armed.is_empty() => {
                    let (id, timer) = *dice.pick(&armed);
                    world.expire(id, timer);
                }
                _ if !travelling.is_empty() => {
                    let (from, to, count) = *dice.pick(&travelling);
                    world.deliver_nth(from, to, dice.below(count));
                }
                _ => {}
            }
        };
        for _ in 0..dice.below(200) {
            step(&mut world, &mut dice);
        }
        let mut moved = world.clone();
        moved.shift(TERM, |term| term + 1_000);
        for _ in 0..100 {
            step(&mut moved, &mut dice.clone());
            step(&mut world, &mut dice);
            let mut back = moved.clone();
            back.shift(TERM, |term| term - 1_000);
            assert_eq!(world.processes, back.processes, "seed {seed}");
            assert!(world.in_flight().eq(back.in_flight()), "seed {seed}");
            moved_steps += 1;
        }
    }
    assert_eq!(moved_steps, 20_000);
}
