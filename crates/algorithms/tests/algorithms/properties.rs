//! Each property of mutual exclusion can fail: told of a run that breaks it, the judge says so.

use conclave_algorithms::mutex::{Epoch, Event, Fence, Properties, Request, RicartAgrawala};
use conclave_algorithms::{Algorithm, Ending, Finding, Settings};
use conclave_core::{
    Boot, Chain, Incarnation, Input, Members, Moment, NodeId, Observer, Process, Protocol, Timing,
};

/// A run that is made up, call by call: no algorithm would take part in it.
struct Told {
    judge: Properties,
    state: RicartAgrawala,
    time: u64,
    step: u64,
}

impl Told {
    /// Among three processes whose messages take at most 10 µs.
    fn new() -> Self {
        let members = Members::numbered(3);
        let settings = Settings::defaults(const { &RicartAgrawala::ABOUT });
        let config = RicartAgrawala::configure(&settings, &members).unwrap();
        let judge = Properties::new::<RicartAgrawala>(&config, &members, 1, Some(10));
        let (id, timing, life) = (NodeId(1), Timing::default(), Incarnation::FIRST);
        let boot = Boot { id, members: &members, config: &config, timing, life, saved: None };
        Self { judge, state: RicartAgrawala::boot(boot), time: 0, step: 0 }
    }

    fn ask(&mut self, id: u32, request: Request) -> u64 {
        let at = Moment { time: self.time, step: self.step, chain: Chain { root: self.step, hops: 0 } };
        let process = Process::new(NodeId(id), id as usize - 1);
        Observer::<RicartAgrawala>::input(&mut self.judge, &at, process, &Input::Request(request));
        // Nothing is announced, so the request is known at once; whose state it is does not matter to the judge.
        self.judge.handled(&at, process, &self.state);
        self.step += 1;
        at.step
    }

    fn grant(&mut self, id: u32, counter: u64, root: u64, hops: u32) {
        let at = Moment { time: self.time, step: self.step, chain: Chain { root, hops } };
        let fence = Fence { epoch: Epoch::FIRST, counter, process: NodeId(id) };
        let process = Process::new(NodeId(id), id as usize - 1);
        Observer::<RicartAgrawala>::emit(&mut self.judge, &at, process, &Event::Granted { fence });
        self.step += 1;
    }

    fn lose(&mut self, id: u32, counter: u64) {
        let at = Moment { time: self.time, step: self.step, chain: Chain { root: self.step, hops: 0 } };
        let fence = Fence { epoch: Epoch::FIRST, counter, process: NodeId(id) };
        let process = Process::new(NodeId(id), id as usize - 1);
        Observer::<RicartAgrawala>::emit(&mut self.judge, &at, process, &Event::Lost { fence });
        self.step += 1;
    }

    fn finding(&self, property: &str) -> Finding {
        let judgements = self.judge.judgements();
        judgements.into_iter().find(|judgement| judgement.property == property).unwrap().finding
    }

    fn broken(&self) -> Option<&'static str> {
        let property = self.judge.violation()?.property;
        let judgements = self.judge.judgements();
        let judgement = judgements.iter().find(|judgement| judgement.property == property).unwrap();
        assert!(matches!(judgement.finding, Finding::Broken(_)), "{judgement:?}");
        Some(property)
    }
}

/// One entry as it should be; the same run with one thing wrong breaks one property.
#[test]
fn a_good_entry_breaks_nothing() {
    let mut told = Told::new();
    let root = told.ask(1, Request::Acquire);
    told.time = 20;
    told.grant(1, 1, root, 2);
    told.ask(1, Request::Release);
    told.judge.end(told.step, Ending::Quiet);
    assert_eq!(told.broken(), None);
    let judgements = told.judge.judgements();
    assert!(judgements.iter().all(|judgement| !matches!(judgement.finding, Finding::Broken(_))));
}

#[test]
fn two_inside_break_me1() {
    let mut told = Told::new();
    let (one, two) = (told.ask(1, Request::Acquire), told.ask(2, Request::Acquire));
    told.grant(1, 1, one, 2);
    told.grant(2, 2, two, 2);
    assert_eq!(told.broken(), Some("ME1"));
}

#[test]
fn a_fence_that_does_not_grow_breaks_fence() {
    let mut told = Told::new();
    let root = told.ask(2, Request::Acquire);
    told.grant(2, 1, root, 2);
    told.ask(2, Request::Release);
    let root = told.ask(1, Request::Acquire);
    told.grant(1, 1, root, 2);
    assert_eq!(told.broken(), Some("FENCE"));
}

#[test]
fn who_waits_when_nothing_moves_breaks_me2_and_when_time_is_up_me3() {
    for (ending, property) in [(Ending::Quiet, "ME2"), (Ending::OutOfTime, "ME3")] {
        let mut told = Told::new();
        told.ask(1, Request::Acquire);
        told.judge.end(told.step, ending);
        assert_eq!(told.broken(), Some(property));
    }
}

#[test]
fn more_overtaking_than_promised_breaks_me4() {
    let mut told = Told::new();
    let late = told.ask(3, Request::Acquire);
    for counter in 1..=3 {
        let root = told.ask(1, Request::Acquire);
        told.grant(1, counter, root, 2);
        told.ask(1, Request::Release);
    }
    told.grant(3, 4, late, 2);
    assert_eq!(told.broken(), Some("ME4"));
}

#[test]
fn a_slow_entry_alone_breaks_me6() {
    let mut told = Told::new();
    let root = told.ask(1, Request::Acquire);
    told.time = 21;
    told.grant(1, 1, root, 2);
    assert_eq!(told.broken(), Some("ME6"));
}

#[test]
fn an_entry_alone_after_more_messages_than_its_own_breaks_me7() {
    let mut told = Told::new();
    let root = told.ask(1, Request::Acquire);
    told.grant(1, 1, root, 3);
    assert_eq!(told.broken(), Some("ME7"));
}

#[test]
fn a_grant_that_nobody_asked_for_breaks_grant() {
    let mut told = Told::new();
    told.grant(1, 1, 0, 0);
    assert_eq!(told.broken(), Some("GRANT"));
}

#[test]
fn a_lock_that_is_taken_away_for_no_reason_breaks_lost() {
    let mut told = Told::new();
    let root = told.ask(1, Request::Acquire);
    told.grant(1, 1, root, 2);
    assert!(matches!(told.finding("LOST"), Finding::Held(_)));
    told.lose(1, 1);
    assert_eq!(told.broken(), Some("LOST"));
}

/// Whoever asks last is served by those who have stopped asking.
#[test]
fn a_run_that_ends_does_not_show_that_nobody_starves() {
    let mut told = Told::new();
    let root = told.ask(1, Request::Acquire);
    told.grant(1, 1, root, 2);
    told.ask(1, Request::Release);
    told.judge.end(told.step, Ending::Quiet);
    assert!(matches!(told.finding("ME2"), Finding::Held(_)));
    assert!(matches!(told.finding("ME3"), Finding::Open(why) if why.contains("cannot show")));
}
