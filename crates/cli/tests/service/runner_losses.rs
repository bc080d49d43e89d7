//! Locks that are lost while the command runs: it has ended before anybody else begins.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::nodes::Service;
use crate::runs::{Ran, is_alive};
use crate::until;
use crate::wires::Wire;

/// A command that says on every beat that it is there, as does what it started; neither minds being told to end.
const STUBBORN: &str = "trap '' TERM; (while :; do date +%s%N >> beats; sleep 0.01; done) & \
                        while :; do date +%s%N >> beats; sleep 0.01; done";

/// Notes when it was let in, and stays for a while in which anything that still runs would show.
const NEXT: &str = "date +%s%N > next; sleep 0.5";

impl Service {
    fn beats(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path("beats")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn is_beating(&self) {
        until("the command runs", || self.beats().len() > 2);
    }

    /// The last beat was before the next one was let in.
    #[track_caller]
    fn nobody_overlapped(&self) {
        let last = self.beats().into_iter().max().expect("it ran");
        let next: u64 = self.written("next").trim().parse().expect("it notes a time");
        assert!(last < next, "the lock was granted {} us before the command was dead", (last - next) / 1_000);
    }
}

/// It was lost, and a line says so; the shell may add a word of its own.
#[track_caller]
fn is_lost(ran: Ran, why: &str) {
    let ran = ran.ends(122);
    assert!(ran.err.lines().any(|line| line.starts_with("error: ") && line.contains(why)), "{}", ran.err);
}

#[test]
fn a_lock_taken_by_force_ends_the_command() {
    let service = Service::one();
    let polite = service
        .begin("lock a", "trap 'echo told > told; exit 0' TERM; echo in > in; while :; do sleep 0.02; done");
    service.written("in");
    service.conclave("release a --force --reason maintenance").ends(0);
    is_lost(polite.end(), "maintenance");
    assert_eq!(service.written("told"), "told\n");

    let stubborn = service.begin(
        "lock a --grace 200ms",
        "trap '' TERM; sleep 60 & echo $! > grandchild; echo $$ > child; while :; do sleep 0.02; done",
    );
    let pid = |name| service.written(name).trim().parse::<u32>().expect("a number");
    let pids = [pid("grandchild"), pid("child")];
    service.conclave("release a --force --reason maintenance").ends(0);
    is_lost(stubborn.end(), "maintenance");
    until("both have ended", || !pids.into_iter().any(is_alive));
}

#[test]
fn a_command_is_dead_before_its_lock_can_be_granted_again() {
    let service = Service::one();
    let wire = Wire::to(service.address(1).parse().expect("it is an address"));
    let line = format!("lock a --ttl 5s --grace 300ms --endpoints {}", wire.address);
    let holder = service.begin(&line, STUBBORN);
    service.is_beating();
    let next = service.begin("lock a", NEXT);
    service.has_waiters("a", 1);
    wire.cut(true);
    is_lost(holder.end(), "it could not be renewed in time");
    next.end().ends(0);
    service.nobody_overlapped();
}

/// Held on the way there, nothing is renewed. Held on the way back, everything is, and only the client does not know it: what
/// it hears too late does not give it back what it has given up.
#[test]
fn a_command_is_dead_in_time_if_only_one_direction_is_held() {
    let service = Service::one();
    let wires = [(); 2].map(|()| Wire::to(service.address(1).parse().expect("it is an address")));
    let beat = "trap '' TERM; while :; do date +%s%N >> beats-$1; sleep 0.01; done";
    std::fs::write(service.path("beat.sh"), beat).expect("there is room");
    let held = |way: &str, wire: &Wire| {
        let line = format!("lock {way} --ttl 4s --grace 300ms --endpoints {}", wire.address);
        service.begin(&line, &format!("exec sh beat.sh {way}"))
    };
    let next =
        |way: &str| service.begin(&format!("lock {way}"), &format!("date +%s%N > next-{way}; sleep 0.5"));
    let numbers = |name: String| -> Vec<u64> {
        let text = std::fs::read_to_string(service.path(&name)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let holders = [held("there", &wires[0]), held("back", &wires[1])];
    let ways = ["there", "back"];
    until("both run", || ways.iter().all(|way| numbers(format!("beats-{way}")).len() > 2));
    let nexts = ways.map(next);
    ways.iter().for_each(|way| service.has_waiters(way, 1));
    wires[0].hold_there(true);
    wires[1].hold_back(true);
    for (holder, wire) in holders.into_iter().zip(&wires) {
        is_lost(holder.end(), "it could not be renewed in time");
        wire.cut(false);
    }
    for (way, next) in ways.into_iter().zip(nexts) {
        next.end().ends(0);
        let last = numbers(format!("beats-{way}")).into_iter().max().expect("it ran");
        let begun: u64 = service.written(&format!("next-{way}")).trim().parse().expect("it notes a time");
        assert!(last < begun, "held on the way {way}, it was granted before the command was dead");
    }
}

#[test]
fn a_command_is_dead_before_a_stopped_node_goes_on() {
    let service = Service::one();
    let holder = service.begin("elect a --ttl 4s --grace 200ms", STUBBORN);
    service.is_beating();
    let next = service.begin("elect a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    service.signal(1, Signal::STOP);
    is_lost(holder.end(), "it could not be renewed in time");
    service.signal(1, Signal::CONT);
    next.end().ends(0);
    service.nobody_overlapped();
}

#[test]
fn a_command_ends_with_a_node_that_is_gone_and_the_next_is_served_when_it_is_back() {
    let mut service = Service::one();
    let holder = service.begin("lock a --ttl 4s", STUBBORN);
    service.is_beating();
    let next = service.begin("lock a --ttl 1min --connect-wait 1min", NEXT);
    service.has_waiters("a", 1);
    service.kill(1);
    is_lost(holder.end(), "it could not be renewed in time");
    service.run(1);
    next.end().ends(0);
    service.nobody_overlapped();
}

#[test]
fn without_a_node_nothing_is_run() {
    let mut service = Service::absent(1);
    let begun = Instant::now();
    service.shell("lock a --connect-wait 200ms", "touch never").fails(
        123,
        &format!("no node answers at {} (connection refused)", service.address(1)),
        "'conclave serve'",
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    service.run(1);
    service.is_served();
    let holder = service.hold("lock a --ttl 4s", "in");
    // One whose session ends first, and one that loses its patience first: neither has run anything.
    let waiters = ["lock a --ttl 2s", "lock a --ttl 1min --connect-wait 300ms"];
    let waiters = waiters.map(|line| service.begin(line, "touch never"));
    service.has_waiters("a", 2);
    service.kill(1);
    for waiter in waiters {
        let ran = waiter.end().ends(123);
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
    is_lost(holder.end(), "it could not be renewed in time");
    assert!(!service.path("never").exists());
}

/// The runner stands still past the time to live: the keeper ends the command before the next one begins.
#[test]
fn a_command_is_dead_in_time_while_its_runner_is_stopped() {
    let service = Service::one();
    let holder = service.begin("lock a --ttl 5s --grace 300ms", STUBBORN);
    service.is_beating();
    let next = service.begin("lock a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    holder.signal(Signal::STOP);
    next.end().ends(0);
    service.nobody_overlapped();
    holder.signal(Signal::CONT);
    is_lost(holder.end(), "'a' is lost");
}
