//! The same scenario in the simulator and on sockets: every process does the same.
//!
//! One client after the other asks, and the next only when everything has come to rest. What a process is asked, what it
//! sends and what it tells its application is then fixed, and so is what arrives on each channel. Only how arrivals from
//! different peers mix is not: on sockets, two answers to the same question come in any order.

use std::collections::BTreeMap;

use conclave_algorithms::{election, mutex};
use conclave_core::NodeId;
use conclave_live::control::Ask;
use conclave_live::desk::Wish;
use conclave_sim::play;
use conclave_trace::{Block, Command, Script, Setup, Trace, What};

use crate::cluster::{Home, Live};
use crate::electing::elect;
use crate::locking::{lock, restful, unlock};

/// What one process did, and what arrived on each channel to it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Course {
    deeds: Vec<String>,
    arrivals: BTreeMap<NodeId, Vec<String>>,
}

fn courses(trace: &Trace) -> BTreeMap<NodeId, Course> {
    let mut courses = BTreeMap::<NodeId, Course>::new();
    for record in &trace.records {
        let Some(process) = record.process else { continue };
        let course = courses.entry(process).or_default();
        match &record.what {
            What::Send(message) => course.deeds.push(format!("{} to {}", message.label(), message.to)),
            What::Deliver(message) => {
                course.arrivals.entry(message.from).or_default().push(message.label().into_owned());
            }
            What::Event { event, fence, lock } => course.deeds.push(format!("{event} {fence} of {lock}")),
            What::Request { request, lock } => course.deeds.push(format!("asked to {request} {lock}")),
            // When links come up is for the network to say.
            What::Start | What::Trust { .. } => {}
            other => panic!("{process}: nothing of this kind is to happen: {other:?}"),
        }
    }
    courses
}

/// Plays the same requests, each after everything before has come to rest.
fn simulated(live: &Trace) -> Trace {
    let mut commands = vec![Command::Run(Setup::from_header(&live.header))];
    for record in &live.records {
        if let (Some(process), What::Request { request, lock }) = (record.process, &record.what) {
            commands.push(Command::Ask { process, request: request.clone(), lock: *lock });
            commands.push(Command::Settle);
        }
    }
    let commands = commands.into_iter().zip(1..).collect();
    let script = Script { blocks: vec![Block { commands, ..Block::default() }] };
    play(&script).expect("what was done live can be played").trace
}

#[track_caller]
fn compare(algorithm: &str, live: &Trace) {
    let (live, simulated) = (courses(live), courses(&simulated(live)));
    assert_eq!(live.len(), simulated.len(), "{algorithm}");
    for (process, course) in &live {
        assert_eq!(
            course, &simulated[process],
            "{algorithm}: {process}, on sockets (left) and simulated (right)"
        );
    }
    assert!(live.values().any(|course| !course.arrivals.is_empty()), "{algorithm}: something was said");
}

/// Who asks, one after the other, on which name: near and far, again and for the first time.
const TURNS: [(u32, &str); 8] =
    [(3, "a"), (1, "a"), (1, "a"), (5, "b"), (2, "a"), (4, "b"), (4, "a"), (3, "b")];

fn take_turns(live: &Live<'_>) -> Trace {
    for (turn, (process, name)) in (1..).zip(TURNS) {
        let mut control = live.connect(NodeId(process));
        lock(&mut control, name);
        live.settled(2 * turn - 1);
        unlock(&mut control, name);
        live.settled(2 * turn);
    }
    live.settled(2 * TURNS.len())
}

#[test]
fn parity_of_every_lock() {
    for about in mutex::all() {
        let home = Home::new();
        let options = format!("-n 5 --transmission 2s --suspect-after 20s {}", restful(about.name));
        let live = home.start(&format!("{} {options}", about.name));
        compare(about.name, &take_turns(&live));
        live.stop();
    }
}

/// The last but one asks the last only, where an election asks all who are higher: nothing happens at the same time.
#[test]
fn parity_of_every_election() {
    for about in election::all() {
        let home = Home::new();
        let live = home.start(&format!("{} -n 5 --transmission 4s --suspect-after 20s", about.name));
        elect(&live, NodeId(4));
        compare(about.name, &live.settled(1));
        // Again, with a leader whom everybody knows: who is confirmed need not be told of again.
        let mut control = live.connect(NodeId(4));
        control.ask(&Ask::Wish(Wish::Elect)).expect("it listens");
        compare(about.name, &live.settled(2));
        live.stop();
    }
}
