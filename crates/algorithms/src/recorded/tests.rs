//! Snapshots of a bank: what is in the accounts and on the way must be what there was.

use alloc::vec;
use core::time::Duration;

use conclave_core::Reading;

use super::*;
use crate::judge::{Finding, Judge as _, PropertyKind};
use crate::referee::{Claim, Referee};
use crate::testing::{Dice, World};

/// An account; the application sends money to others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    balance: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Money(u64);

impl Message for Money {
    fn kind(&self) -> &'static str {
        "Money"
    }
}

impl Protocol for Account {
    /// What is in the accounts at first, by process.
    type Config = BTreeMap<NodeId, u64>;
    type Message = Money;
    type Request = (NodeId, u64);
    type Event = ();
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self { balance: boot.config[&boot.id] }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request((to, amount)) => {
                self.balance -= amount;
                out.send(to, Money(amount));
            }
            Input::Receive { message: Money(amount), .. } => self.balance += amount,
            _ => {}
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool {
        visit("account", LEASE);
        true
    }
}

const LEASE: Lease = Lease { until: Reading::ZERO, notice: Duration::ZERO };

impl Recordable for Account {}

type Bank = World<Recorded<Account>, Referee<Recorded<Account>, Cuts<Account>>>;

const CLAIMS: &[Claim] =
    &[Claim { property: "CUT", kind: PropertyKind::Safety, claim: "snapshots are consistent" }];

fn bank(balances: &[u64], mode: Mode) -> Bank {
    let members = Members::numbered(balances.len() as u32);
    let inner = members.iter().zip(balances.iter().copied()).collect();
    let config = RecordedConfig { inner, mode, moves_token: false, beginners: Vec::new() };
    let judge = Referee::new(Cuts::new(&members), CLAIMS, members.len());
    World::new(members, &config, judge)
}

fn pay(bank: &mut Bank, from: u32, to: u32, amount: u64) {
    bank.request(from, Wanting::Algorithm((NodeId(to), amount)));
}

fn is_broken(bank: &Bank) -> bool {
    bank.observer.violation().is_some_and(|violation| violation.property == "CUT")
}

/// What each snapshot has found: in the accounts, and on the way.
fn sums(bank: &Bank) -> BTreeMap<Snapshot, u64> {
    let mut sums = BTreeMap::new();
    for (_, event) in &bank.events {
        match event {
            Telling::Saved { snapshot, state } => *sums.entry(*snapshot).or_default() += state.balance,
            Telling::Closed { snapshot, channels } => {
                let money = channels.values().flatten().map(|Money(amount)| amount);
                *sums.entry(*snapshot).or_default() += money.sum::<u64>();
            }
            Telling::Algorithm(()) | Telling::Complete(_) => {}
        }
    }
    sums
}

fn cuts(bank: &Bank) -> Vec<&Cut> {
    let complete = bank.events.iter().filter_map(|(_, event)| match event {
        Telling::Complete(cut) => Some(cut),
        Telling::Algorithm(()) | Telling::Saved { .. } | Telling::Closed { .. } => None,
    });
    complete.collect()
}

fn sent(bank: &Bank, kind: &str) -> usize {
    bank.sent.iter().filter(|(_, _, message)| message.kind() == kind).count()
}

/// p1 has 100 and p2 50. p1 sends 10, and records 90. p2 has received the 10 and sent 5 when the marker comes, and records
/// 55; the 5 are on the way. That makes 150.
#[test]
fn book_tv_c6_two_accounts_and_what_is_on_the_way() {
    let mut bank = bank(&[100, 50], Mode::Markers);
    pay(&mut bank, 1, 2, 10);
    bank.request(1, Wanting::Snapshot);
    bank.deliver(1, 2);
    pay(&mut bank, 2, 1, 5);
    bank.deliver(1, 2);
    bank.drain();
    let snapshot = Snapshot { process: NodeId(1), life: Incarnation::FIRST, number: 1 };
    let saved = |balance| Telling::Saved { snapshot, state: Account { balance } };
    let closed = |from, money: &[u64]| {
        let money = money.iter().copied().map(Money).collect();
        Telling::Closed { snapshot, channels: [(NodeId(from), money)].into() }
    };
    let told: Vec<_> =
        bank.events.iter().filter(|(_, event)| !matches!(event, Telling::Complete(_))).cloned().collect();
    let (p1, p2) = (NodeId(1), NodeId(2));
    assert_eq!(told, [(p1, saved(90)), (p2, saved(55)), (p2, closed(1, &[])), (p1, closed(2, &[5]))]);
    assert_eq!(sums(&bank), [(snapshot, 150)].into());
    assert_eq!(cuts(&bank)[0].verdict(), "1 message in flight");
    assert!(!is_broken(&bank));
}

/// The same run on a channel that lets the marker overtake the 10: they are nowhere.
#[test]
fn book_tv_c6_a_marker_that_overtakes_a_message_misses_it() {
    let mut bank = bank(&[100, 50], Mode::Markers);
    pay(&mut bank, 1, 2, 10);
    bank.request(1, Wanting::Snapshot);
    bank.deliver_nth(NodeId(1), NodeId(2), 1);
    bank.drain();
    assert_eq!(sums(&bank).values().copied().collect::<Vec<_>>(), [140]);
    let violation = bank.observer.violation().expect("it is noticed");
    assert_eq!(violation.detail, "snapshot p1.1 has nothing in flight from p1 to p2, and there was Money");
}

/// A program that runs inside ends with the lease, whether the process can be recorded or not.
#[test]
fn what_a_process_is_inside_of_runs_out_as_before() {
    let mut leases = Vec::new();
    let runs_out = bank(&[100, 50], Mode::Markers)
        .process(1)
        .visit_leases(&mut |name, lease| leases.push((String::from(name), lease)));
    assert!(runs_out);
    assert_eq!(leases, [("account".into(), LEASE)]);
}

/// p3 tells both to record themselves. p1 does so with 100, and sends 10; p2 receives them first, and records 60.
#[test]
fn book_v_g2_naive_recording_counts_ten_twice() {
    let mut bank = bank(&[100, 50, 0], Mode::Naive);
    bank.request(3, Wanting::Snapshot);
    bank.deliver(3, 1);
    pay(&mut bank, 1, 2, 10);
    bank.deliver(1, 2);
    bank.drain();
    assert_eq!(sums(&bank).values().copied().collect::<Vec<_>>(), [160]);
    let violation = bank.observer.violation().expect("it is noticed");
    assert_eq!(violation.detail, "in snapshot p3.1 p2 has received what p1 has not sent");
}

/// Nor does it see what is on the way.
#[test]
fn naive_recording_misses_what_is_on_the_way() {
    let mut bank = bank(&[100, 50], Mode::Naive);
    pay(&mut bank, 2, 1, 5);
    bank.request(1, Wanting::Snapshot);
    bank.deliver(1, 2);
    assert_eq!(sums(&bank).values().copied().collect::<Vec<_>>(), [145]);
    assert!(is_broken(&bank));
}

/// Whatever the order of messages, however many are at it at the same time: nothing is lost and nothing counted twice,
/// and each costs n(n − 1) markers and n − 1 reports.
#[test]
fn snapshots_at_the_same_time_find_what_there_is() {
    for (seed, n) in (0..300).zip((1..=6).cycle()) {
        let mut dice = Dice(seed);
        let balances = vec![1_000; n as usize];
        let mut bank = bank(&balances, Mode::Markers);
        let mut begun = 0;
        for _ in 0..120 {
            let process = 1 + dice.below(n as usize) as u32;
            let peer = 1 + dice.below(n as usize) as u32;
            match dice.below(8) {
                0 if begun < 5 => {
                    bank.request(process, Wanting::Snapshot);
                    begun += 1;
                }
                1..=3 if peer != process => pay(&mut bank, process, peer, 1 + dice.below(9) as u64),
                _ => {
                    let travelling = bank.travelling();
                    if !travelling.is_empty() {
                        let (from, to, _) = *dice.pick(&travelling);
                        bank.deliver_nth(from, to, 0);
                    }
                }
            }
        }
        bank.drain();
        let n = n as usize;
        assert_eq!(cuts(&bank).len(), begun, "seed {seed}");
        assert_eq!(sent(&bank, "Marker"), begun * n * (n - 1), "seed {seed}");
        assert_eq!(sent(&bank, "Report"), begun * (n - 1), "seed {seed}");
        let sums = sums(&bank);
        assert!(
            sums.len() == begun && sums.values().all(|sum| *sum == 1_000 * n as u64),
            "seed {seed}: {sums:?}"
        );
        assert!(!is_broken(&bank), "seed {seed}: {:?}", bank.observer.violation());
    }
}

/// The judge catches naive recording and channels without order in most runs, and nothing else makes a sum wrong.
#[test]
fn a_wrong_sum_is_always_noticed() {
    for mode in [Mode::Markers, Mode::Naive] {
        let mut caught = 0;
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut bank = bank(&[1_000; 3], mode);
            for step in 0..60 {
                let process = 1 + dice.below(3) as u32;
                if step == 20 {
                    bank.request(process, Wanting::Snapshot);
                } else if dice.below(2) == 0 {
                    pay(&mut bank, process, 1 + process % 3, 1 + dice.below(9) as u64);
                } else if let travelling @ [_, ..] = &bank.travelling()[..] {
                    let (from, to, count) = *dice.pick(travelling);
                    let nth = if mode == Mode::Markers { dice.below(count) } else { 0 };
                    bank.deliver_nth(from, to, nth);
                }
            }
            bank.drain();
            let is_wrong = sums(&bank).values().any(|sum| *sum != 3_000);
            assert!(!is_wrong || is_broken(&bank), "{mode:?}, seed {seed}");
            caught += u32::from(is_broken(&bank));
        }
        assert!(caught > 100, "{mode:?}: {caught}");
    }
}

/// Who is dead has no part; the snapshot ends without it, and is not judged.
#[test]
fn a_snapshot_ends_without_who_is_dead() {
    let mut bank = bank(&[1, 2, 3], Mode::Markers);
    bank.request(1, Wanting::Snapshot);
    bank.deliver(1, 2);
    bank.crash(3);
    bank.report(3);
    bank.drain();
    assert_eq!(cuts(&bank)[0].missing(), [NodeId(3)]);
    assert_eq!(cuts(&bank)[0].verdict(), "nothing in flight; p3 missing");
    // One that begins later does not wait for it either.
    bank.request(2, Wanting::Snapshot);
    bank.drain();
    assert_eq!(cuts(&bank)[1].missing(), [NodeId(3)]);
    let cut = &bank.observer.judgements()[0];
    assert!(!cut.promised && !matches!(cut.finding, Finding::Broken(_)));
}

/// A marker that comes when its sender had been given up begins no second recording.
#[test]
fn a_late_marker_begins_nothing() {
    let mut bank = bank(&[1, 2, 3], Mode::Markers);
    bank.request(1, Wanting::Snapshot);
    bank.deliver(1, 2);
    bank.deliver(1, 3);
    // p2 takes p3 for dead although its marker is on the way.
    bank.input(NodeId(2), Input::PeerDown { peer: NodeId(3), life: Incarnation::FIRST });
    let markers = sent(&bank, "Marker");
    bank.drain();
    assert_eq!((sent(&bank, "Marker"), cuts(&bank).len()), (markers, 1));
    assert!(bank.rejects.is_empty(), "{:?}", bank.rejects);
}

/// What no correct peer sends is rejected, and changes nothing.
#[test]
fn what_nobody_began_is_rejected() {
    let mut bank = bank(&[1, 2], Mode::Markers);
    let process = bank.process(1).clone();
    let life = Incarnation::FIRST;
    let part = Part { standing: Standing::of(&Account { balance: 0 }, 0, false), channels: BTreeMap::new() };
    for process in [1, 9] {
        let snapshot = Snapshot { process: NodeId(process), life, number: 7 };
        let (from, part) = (NodeId(2), part.clone());
        bank.input(NodeId(1), Input::Receive { from, message: Msg::Marker { snapshot } });
        bank.input(NodeId(1), Input::Receive { from, message: Msg::Report { snapshot, part } });
    }
    let snapshot = Snapshot { process: NodeId(2), life, number: 1 };
    bank.input(NodeId(1), Input::Receive { from: NodeId(9), message: Msg::Marker { snapshot } });
    assert_eq!(bank.rejects.len(), 5);
    assert_eq!(*bank.process(1), process);
    // Nor does a peer that never sends its own markers make us remember any number of them.
    let mut three = self::bank(&[1, 2, 3], Mode::Markers);
    for number in 1..=MOST_RECORDINGS as u64 + 1 {
        let snapshot = Snapshot { process: NodeId(2), life, number };
        three.input(NodeId(1), Input::Receive { from: NodeId(2), message: Msg::Marker { snapshot } });
    }
    assert_eq!(three.rejects, [(NodeId(1), NodeId(2), "there are too many snapshots at a time")]);
}

fn part(standing: &str, waits: bool, has: bool, has_token: bool, timers: u32) -> Part {
    let tokens = vec![Token::only(has_token.then_some(Epoch::FIRST))];
    let standing = Standing { phase: standing.into(), waits, has, tokens, timers };
    Part { standing, channels: BTreeMap::new() }
}

fn cut(parts: &[Part]) -> Cut {
    let snapshot = Snapshot { process: NodeId(1), life: Incarnation::FIRST, number: 1 };
    let parts = (1..).map(NodeId).zip(parts.iter().cloned().map(Some)).collect();
    Cut { snapshot, moves_token: true, parts }
}

#[test]
fn tokens_are_counted_where_they_are() {
    let idle = part("idle", false, false, false, 0);
    let mut on_its_way = idle.clone();
    let token = Flight { kind: "Token".into(), token: Some(Token::only(Some(Epoch::FIRST))) };
    on_its_way.channels.insert(NodeId(1), vec![token.clone()]);
    let flying = cut(&[idle.clone(), on_its_way.clone(), idle.clone()]);
    assert_eq!(flying.verdict(), "1 token; 1 message in flight");
    assert_eq!(flying.lines(), ["p1 idle", "p2 idle", "p3 idle", "p1 → p2 Token"]);
    let lost = cut(&[idle.clone(), idle.clone(), idle.clone()]);
    assert!(lost.has_lost_token() && !flying.has_lost_token());
    assert_eq!(lost.verdict(), "the token is lost; nothing in flight");
    let two = cut(&[part("idle", false, false, true, 0), on_its_way]);
    assert_eq!(two.verdict(), "2 tokens; 1 message in flight");
    // One of an earlier epoch does not count.
    let mut later = cut(&[part("idle", false, false, true, 0), idle]);
    let renewed = Token::only(Some(Epoch::FIRST.next(NodeId(2))));
    let standing =
        &mut later.parts.get_mut(&NodeId(2)).and_then(Option::as_mut).expect("it is there").standing;
    standing.tokens.push(renewed);
    assert_eq!(later.tokens(), [("", 1)].into());
}

/// Of several locks, each has its own; and one of which somebody has not heard may be there.
#[test]
fn tokens_are_counted_for_each_lock() {
    let token =
        |lock: &str, is_here: bool| Token { lock: lock.into(), epoch: is_here.then_some(Epoch::FIRST) };
    let mut parts = [part("idle", false, false, false, 0), part("idle", false, false, false, 0)];
    parts[0].standing.tokens = vec![token("a", true), token("b", false), token("c", false)];
    parts[1].standing.tokens = vec![token("a", false), token("b", false)];
    let cut = cut(&parts);
    assert_eq!(cut.tokens(), [("a", 1), ("b", 0), ("c", 0)].into());
    assert_eq!(cut.lost_tokens(), ["b"]);
    assert_eq!(cut.verdict(), "1 token of 3 locks; the token is lost; nothing in flight");
    assert_eq!(cut.lines()[0], "p1 idle, has the token of a");
}

/// A token is an epoch where people read it, and has the name of its lock on the wire.
#[test]
fn names_of_locks_travel_and_are_not_recorded() {
    for token in [Token { lock: "backup".into(), epoch: Some(Epoch::FIRST) }, Token::only(None)] {
        let bytes = postcard::to_allocvec(&token).expect("plain data");
        assert_eq!(postcard::from_bytes(&bytes), Ok(token));
    }
    let token = Token { lock: "backup".into(), epoch: Some(Epoch::FIRST) };
    assert_eq!(serde_json::to_string(&token).expect("plain data"), "\"0\"");
}

#[test]
fn who_waits_for_nothing_is_deadlocked() {
    let (waiting, idle) = (part("waiting", true, false, false, 0), part("idle", false, false, false, 0));
    assert_eq!(cut(&[waiting.clone(), idle.clone(), waiting.clone()]).deadlocked(), [NodeId(1), NodeId(3)]);
    let mut reached = waiting.clone();
    reached.channels.insert(NodeId(1), vec![Flight { kind: "Reply".into(), token: None }]);
    for moving in [part("holding", false, true, false, 0), part("waiting", true, false, false, 1), reached] {
        assert_eq!(cut(&[waiting.clone(), moving]).deadlocked(), []);
    }
    assert_eq!(cut(&[idle.clone(), idle]).deadlocked(), []);
}
