use super::*;
use crate::mutex::{Central, Epoch, RicartAgrawala, TokenRing};
use crate::{Algorithm, Settings};
use alloc::string::ToString;
use conclave_core::Role;

const EVERYTHING: Scope = Scope { order: true, resource: true, forever: false };

/// The ledger of a made-up run: no algorithm would take part in it.
struct Told<A> {
    ledger: Ledger,
    breaches: Vec<Breach>,
    algorithm: core::marker::PhantomData<A>,
}

impl<A: Mutex + Algorithm> Told<A> {
    fn new(scope: Scope) -> Self {
        let members = Members::numbered(3);
        let config = A::configure(&Settings::defaults(const { &A::ABOUT }), &members).unwrap();
        let ledger = Ledger::new::<A>(&config, &members, scope);
        Self { ledger, breaches: Vec::new(), algorithm: core::marker::PhantomData }
    }

    fn input(&mut self, id: u32, input: &Input<A>) {
        judge::Ledger::<A>::input(&mut self.ledger, id as usize - 1, input);
    }

    fn ask(&mut self, id: u32, request: Request) {
        self.input(id, &Input::Request(request));
    }

    /// Asks, and all hear of it at once.
    fn acquire(&mut self, id: u32) {
        self.ask(id, Request::Acquire);
        judge::Ledger::<A>::known(&mut self.ledger, id as usize - 1);
    }

    fn tell(&mut self, id: u32, event: &Event) {
        judge::Ledger::<A>::emit(&mut self.ledger, id as usize - 1, event, &mut self.breaches);
    }

    fn grant(&mut self, id: u32, counter: u64) {
        self.tell(id, &Event::Granted { fence: fence(counter, id) });
    }

    fn enter(&mut self, id: u32, counter: u64) {
        self.acquire(id);
        self.grant(id, counter);
    }

    fn enter_and_leave(&mut self, id: u32, counter: u64) {
        self.enter(id, counter);
        self.ask(id, Request::Release);
    }

    fn lose(&mut self, id: u32, counter: u64) {
        self.tell(id, &Event::Lost { fence: fence(counter, id) });
    }

    fn suspect(&mut self, id: u32, peer: u32) {
        self.input(id, &Input::PeerDown { peer: NodeId(peer), life: Incarnation::FIRST });
    }

    fn crash(&mut self, id: u32) {
        judge::Ledger::<A>::crash(&mut self.ledger, id as usize - 1);
    }

    fn overtaking(&self) -> u64 {
        judge::Ledger::<A>::overtaking(&self.ledger)
    }

    /// What was broken, and whether it was promised.
    fn broken(&self) -> Vec<(&'static str, bool)> {
        self.breaches.iter().map(|breach| (breach.property, breach.promised)).collect()
    }

    fn quiet(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        judge::Ledger::<A>::quiet(&self.ledger, &mut breaches);
        assert!(breaches.iter().all(|breach| breach.property == "ME2" && breach.promised));
        breaches.into_iter().map(|breach| breach.detail).collect()
    }
}

impl Told<RicartAgrawala> {
    fn acquire_at(&mut self, id: u32, time: u64) {
        self.ask(id, Request::Acquire);
        self.ledger.stamp(id as usize - 1, Stamp { time, process: NodeId(id) });
    }
}

fn fence(counter: u64, id: u32) -> Fence {
    Fence { epoch: Epoch::FIRST, counter, process: NodeId(id) }
}

#[test]
fn a_good_run_breaks_nothing() {
    let mut told = Told::<RicartAgrawala>::new(EVERYTHING);
    told.acquire_at(2, 1);
    told.acquire_at(1, 2);
    judge::Ledger::<RicartAgrawala>::follows(&mut told.ledger, 0, 0b10);
    told.grant(2, 1);
    told.ask(2, Request::Release);
    told.grant(1, 2);
    told.ask(1, Request::Release);
    assert_eq!((told.broken(), told.quiet()), (Vec::new(), Vec::new()));
}

#[test]
fn two_inside_break_me1_unless_the_algorithm_was_misled() {
    for misled in [false, true] {
        let mut told = Told::<RicartAgrawala>::new(Scope::default());
        if misled {
            told.suspect(2, 1);
        }
        told.enter(1, 1);
        told.enter(2, 2);
        assert_eq!(told.broken(), [("ME1", !misled)]);
        assert_eq!(told.breaches[0].detail, "p1 and p2 are both inside");
    }
}

#[test]
fn the_dead_do_not_mislead() {
    let mut told = Told::<RicartAgrawala>::new(Scope::default());
    told.enter(1, 1);
    told.crash(1);
    told.suspect(2, 1);
    assert!(!told.ledger.is_misled());
    told.enter(2, 2);
    assert_eq!(told.broken(), []);
    judge::Ledger::<RicartAgrawala>::restart(&mut told.ledger, 0, Incarnation(2));
    told.suspect(3, 1);
    assert!(!told.ledger.is_misled(), "it is about the life before");
}

#[test]
fn a_fence_must_grow_and_be_ones_own() {
    let mut told = Told::<RicartAgrawala>::new(Scope::default());
    told.enter_and_leave(2, 2);
    told.enter_and_leave(3, 2);
    assert_eq!(told.broken(), [], "the process makes the difference");
    told.enter_and_leave(1, 2);
    assert_eq!(told.broken(), [("FENCE", true)]);
    told.breaches.clear();
    told.acquire(1);
    told.tell(1, &Event::Granted { fence: fence(3, 2) });
    assert_eq!(told.broken(), [("FENCE", true)]);
    assert_eq!(told.breaches[0].detail, "p1 got the fence 0.3.2 of another");
}

/// Once a failure detector erred, fences may fall; but never those of one process.
#[test]
fn the_fences_of_one_process_grow_even_if_it_was_misled() {
    for (scope, expected) in [
        (EVERYTHING, [("FENCE", true), ("FENCE", false)].as_slice()),
        (Scope::default(), [("FENCE", false)].as_slice()),
    ] {
        let mut told = Told::<RicartAgrawala>::new(scope);
        told.suspect(2, 1);
        told.enter_and_leave(2, 5);
        told.enter_and_leave(2, 5);
        assert_eq!(told.broken(), expected);
    }
}

#[test]
fn entries_mix_only_if_the_resource_takes_an_old_fence() {
    for (guard, broken) in [(Guard::Fence, false), (Guard::FenceWithoutProcess, true), (Guard::None, true)] {
        let mut told = Told::<RicartAgrawala>::new(EVERYTHING);
        told.ledger = told.ledger.guarded_by(guard);
        told.suspect(2, 1);
        told.enter(1, 4);
        told.enter(2, 4);
        assert_eq!(told.broken().contains(&("RES", true)), broken, "{guard:?}");
    }
}

#[test]
fn who_waits_when_nobody_is_inside_breaks_me2() {
    let mut told = Told::<RicartAgrawala>::new(Scope::default());
    told.acquire(2);
    told.acquire(3);
    assert_eq!(told.quiet(), ["nothing moves any more, and p2 and 1 more still wait"]);
    told.grant(3, 1);
    assert_eq!(told.quiet(), [""; 0], "it waits for p3");
    told.crash(3);
    assert_eq!(told.quiet(), ["nothing moves any more, and p2 still waits"]);
    told.ask(2, Request::Cancel);
    assert_eq!(told.quiet(), [""; 0]);
}

#[test]
fn who_may_not_leave_breaks_me2() {
    for (answer, stuck) in
        [(None, true), (Some(Event::Left), false), (Some(Event::Refused(Request::Leave)), false)]
    {
        let mut told = Told::<TokenRing>::new(Scope::default());
        told.ask(2, Request::Leave);
        if let Some(answer) = &answer {
            told.tell(2, answer);
        }
        let expected = stuck.then(|| "nothing moves any more, and p2 still waits to leave".to_string());
        assert_eq!(told.quiet(), Vec::from_iter(expected), "{answer:?}");
    }
}

#[test]
fn more_overtaking_than_promised_breaks_me4() {
    for (entries, expected) in [(2, [].as_slice()), (3, [("ME4", true)].as_slice())] {
        let mut told = Told::<RicartAgrawala>::new(EVERYTHING);
        told.acquire(3);
        for counter in 1..=entries {
            told.enter_and_leave(1, counter);
            assert_eq!(told.overtaking(), counter);
        }
        told.breaches.clear();
        told.grant(3, entries + 1);
        assert_eq!(told.broken(), expected);
        assert_eq!(told.overtaking(), 0);
    }
}

#[test]
fn what_is_not_known_is_not_overtaken() {
    let mut told = Told::<Central>::new(EVERYTHING);
    told.ask(3, Request::Acquire);
    told.enter_and_leave(1, 1);
    assert_eq!((told.overtaking(), told.broken()), (0, Vec::new()));
}

#[test]
fn the_order_of_arrival_breaks_me5_fcfs_where_it_is_promised() {
    fn overtake<A: Mutex + Algorithm>() -> Vec<(&'static str, bool)> {
        let mut told = Told::<A>::new(EVERYTHING);
        told.acquire(3);
        told.acquire(1);
        told.grant(1, 1);
        told.broken()
    }
    assert_eq!(overtake::<Central>(), [("ME5-FCFS", true)]);
    assert_eq!(overtake::<RicartAgrawala>(), [("ME5-FCFS", false)]);
}

#[test]
fn a_later_stamp_before_an_earlier_one_breaks_me5_ts() {
    let mut told = Told::<RicartAgrawala>::new(EVERYTHING);
    told.acquire_at(1, 4);
    told.acquire_at(2, 3);
    told.grant(1, 1);
    told.ask(1, Request::Release);
    told.grant(2, 2);
    assert_eq!(told.broken(), [("ME5-TS", true)]);
    assert_eq!(told.breaches[0].detail, "p2 entered with stamp 3.2 after 4.1");
}

#[test]
fn who_knew_of_a_request_and_gets_in_before_it_breaks_me5_hb() {
    let mut told = Told::<RicartAgrawala>::new(EVERYTHING);
    told.ask(3, Request::Acquire);
    told.ask(1, Request::Acquire);
    judge::Ledger::<RicartAgrawala>::follows(&mut told.ledger, 0, 0b110);
    told.grant(1, 1);
    assert_eq!(told.broken(), [("ME5-HB", true)]);
    told.breaches.clear();
    told.ask(1, Request::Release);
    told.ask(1, Request::Acquire);
    judge::Ledger::<RicartAgrawala>::follows(&mut told.ledger, 0, 0b100);
    // Another request of the same process is not the one that was known.
    told.ask(3, Request::Cancel);
    told.ask(3, Request::Acquire);
    told.grant(1, 2);
    assert_eq!(told.broken(), []);
}

#[test]
fn after_a_fault_no_order_is_judged_nor_remembered() {
    let (mut calm, mut busy) =
        (Told::<RicartAgrawala>::new(EVERYTHING), Told::<RicartAgrawala>::new(EVERYTHING));
    for id in [1, 2] {
        calm.ask(id, Request::Acquire);
    }
    busy.acquire_at(2, 7);
    busy.acquire_at(1, 3);
    busy.ledger.become_known(1);
    assert_ne!(calm.ledger, busy.ledger);
    for told in [&mut calm, &mut busy] {
        judge::Ledger::<RicartAgrawala>::disturb(&mut told.ledger);
        told.grant(1, 1);
        assert_eq!(told.broken(), []);
    }
    assert_eq!(calm.ledger, busy.ledger);
}

#[test]
fn what_is_out_of_scope_is_not_remembered() {
    let (mut one, mut other) =
        (Told::<RicartAgrawala>::new(Scope::default()), Told::<RicartAgrawala>::new(Scope::default()));
    one.acquire_at(1, 1);
    one.acquire_at(2, 2);
    other.acquire(2);
    other.acquire(1);
    other.ledger.follow(0, 0b10);
    assert_eq!(one.ledger, other.ledger);
    for told in [&mut one, &mut other] {
        told.grant(2, 1);
        assert_eq!((told.broken(), told.overtaking()), (Vec::new(), 0));
    }
}

/// Moves fences down so that the smallest is 1, as a checker does.
fn settle(ledger: &mut Ledger) {
    let mut least = u64::MAX;
    judge::Ledger::<Central>::visit_counters(ledger, &mut |counter| {
        assert_eq!((counter.space, counter.role), (FENCE, Role::Exact));
        least = least.min(*counter.value);
    });
    judge::Ledger::<Central>::visit_counters(ledger, &mut |counter| *counter.value -= least);
}

/// The same situation, reached after one entry and after three, differs by the fence only.
#[test]
fn nothing_counts_from_the_beginning() {
    let situation = |entries: u64| {
        let mut told = Told::<Central>::new(Scope { order: true, ..Scope::default() });
        for counter in 1..=entries {
            told.acquire(3);
            told.enter_and_leave(1, counter);
            told.ask(3, Request::Cancel);
        }
        // p2 waits since before the last entry, p1 since after it; p3 is inside.
        told.acquire(2);
        told.acquire(3);
        told.grant(3, entries + 1);
        told.acquire(1);
        told.ledger
    };
    let (mut once, mut thrice) = (situation(1), situation(3));
    assert_ne!(once, thrice);
    settle(&mut once);
    settle(&mut thrice);
    assert_eq!(once, thrice);
    assert_eq!(once.fence, Some(fence(1, 3)));
}

/// However far fences are moved down, one that does not grow is still told from one that does.
#[test]
fn a_moved_fence_still_judges() {
    let mut told = Told::<Central>::new(EVERYTHING);
    told.enter_and_leave(2, 7);
    settle(&mut told.ledger);
    told.enter_and_leave(1, 1);
    assert_eq!(told.broken(), [("FENCE", true)]);
    told.breaches.clear();
    told.enter_and_leave(1, 2);
    assert_eq!(told.broken(), []);
}

#[test]
fn stamps_and_epochs_are_reached_by_the_visitor() {
    fn spaces<A: Mutex + Algorithm>(told: &mut Told<A>) -> Vec<&'static str> {
        let mut spaces = Vec::new();
        judge::Ledger::<A>::visit_counters(&mut told.ledger, &mut |counter| spaces.push(counter.space.name));
        spaces
    }
    let mut stamped = Told::<RicartAgrawala>::new(Scope { order: true, ..Scope::default() });
    stamped.acquire_at(1, 1);
    stamped.grant(1, 1);
    stamped.acquire_at(2, 2);
    assert_eq!(spaces(&mut stamped), ["fence", "clock", "clock"]);
    let mut ring = Told::<TokenRing>::new(EVERYTHING);
    ring.grant(1, 1);
    assert_eq!(spaces(&mut ring), ["epoch", "fence", "epoch", "fence"]);
}

#[test]
fn an_accusation_breaks_the_protocol() {
    let mut told = Told::<RicartAgrawala>::new(Scope::default());
    let Told { ledger, breaches, .. } = &mut told;
    judge::Ledger::<RicartAgrawala>::reject(ledger, 1, NodeId(3), "it lies", breaches);
    assert_eq!(told.broken(), [("PROTOCOL", true)]);
    assert_eq!(told.breaches[0].detail, "p2 rejected a message of p3: it lies");
}

#[test]
fn who_joins_is_down_before() {
    let told = Told::<TokenRing>::new(EVERYTHING);
    let mut ledger = told.ledger.with_newcomers(&[NodeId(9)]);
    assert_eq!(judge::Ledger::<TokenRing>::process(&ledger, 3), NodeId(9));
    ledger.suspect(NodeId(9), Incarnation::FIRST);
    assert!(!ledger.is_misled());
    ledger.rise(3, Incarnation::FIRST);
    ledger.suspect(NodeId(9), Incarnation::FIRST);
    assert!(ledger.is_misled());
}

/// Whoever never asked is not let in, nor is who has given up, nor who is out again.
#[test]
fn a_grant_to_somebody_who_does_not_wait_breaks_grant() {
    let mut told = Told::<RicartAgrawala>::new(Scope::default());
    told.grant(1, 1);
    assert_eq!(told.broken(), [("GRANT", true)]);
    assert_eq!(told.breaches[0].detail, "p1 was let in and did not wait for it");
    told.breaches.clear();
    told.ask(1, Request::Release);
    told.acquire(2);
    told.ask(2, Request::Cancel);
    told.grant(2, 2);
    told.ask(2, Request::Release);
    told.enter_and_leave(3, 3);
    told.grant(3, 4);
    assert_eq!(told.broken(), [("GRANT", true), ("GRANT", true)]);
}

/// Nobody loses what it has for no reason; once it may have been taken for dead, it may.
#[test]
fn an_entry_is_lost_only_where_somebody_may_have_been_taken_for_dead() {
    type Cause = fn(&mut Told<RicartAgrawala>);
    let causes: [(Cause, bool); 4] = [
        (|_| {}, true),
        (|told| told.crash(3), true),
        (|told| told.suspect(2, 1), false),
        (|told| judge::Ledger::<RicartAgrawala>::disturb(&mut told.ledger), false),
    ];
    for (nth, (cause, promised)) in causes.into_iter().enumerate() {
        let mut told = Told::<RicartAgrawala>::new(Scope::default());
        told.enter(1, 1);
        cause(&mut told);
        told.lose(1, 1);
        assert_eq!(told.broken(), [("LOST", promised)], "cause {nth}");
        told.breaches.clear();
        told.enter(2, 2);
        assert_eq!(told.broken(), [], "p1 is out");
    }
}

/// A lease may run out whatever fails, but not if nothing does.
#[test]
fn a_lease_is_lost_only_after_a_failure() {
    for fails in [false, true] {
        let mut told = Told::<RicartAgrawala>::new(Scope::default());
        told.ledger.promises.survives_suspicion = true;
        told.enter(1, 1);
        if fails {
            told.crash(3);
        }
        told.lose(1, 1);
        assert_eq!(told.broken(), [("LOST", !fails)]);
    }
}

/// Where entries have no end, overtaking is counted as far as it matters: the same situation is the same value, however often
/// somebody was overtaken.
#[test]
fn where_entries_have_no_end_overtaking_is_not_counted_forever() {
    let overtaken = |times: u64| {
        let mut told = Told::<Central>::new(Scope { order: true, forever: true, ..Scope::default() });
        told.ledger.promises.overtaking = None;
        told.acquire(3);
        (1..=times).for_each(|counter| told.enter_and_leave(1, counter));
        told
    };
    // Central promises at most two of three.
    assert_eq!([1, 2, 3, 4].map(|times| overtaken(times).overtaking()), [1, 2, 3, 3]);
    let (mut few, mut many) = (overtaken(3), overtaken(9));
    settle(&mut few.ledger);
    settle(&mut many.ledger);
    assert_eq!(few.ledger, many.ledger);
    many.breaches.clear();
    many.ledger.promises.overtaking = Some(2);
    many.grant(3, 10);
    assert!(many.broken().contains(&("ME4", true)), "{:?}", many.broken());
}
