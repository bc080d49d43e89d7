//! The law of shifts: an algorithm only ever compares its growing numbers with each other and counts on from them.
//! So a run in which all numbers of one space are moved by the same amount goes on exactly as before, moved. A
//! number that no visitor reaches would be left behind and betray itself.

use crate::common::{Plan, Run, configure, every_setting, world};
use crate::visit::visit;
use conclave_algorithms::Algorithm;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Event, Load, Mutex};
use conclave_core::{Members, NodeId, Space};

const BY: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Shifts;

impl mutex::Visitor for Shifts {
    type Output = usize;

    fn visit<A: Mutex + Algorithm>(self) -> usize {
        let mut shifted = 0;
        for given in every_setting(&A::ABOUT) {
            let members = Members::numbered(4);
            let Some(config) = configure::<A>(&given, None, &members) else { continue };
            for seed in 0..40 {
                let load = if seed % 2 == 0 { Load::Open } else { Load::Saturated };
                let plan = Plan { cancel_one_in: 6, ..Plan::of::<A>(&config, seed, load) };
                let mut run = Run::new(world::<A>(&members, &config), plan);
                for _ in 0..seed {
                    run.step();
                }
                for space in run.world.spaces() {
                    goes_on_alike(run.clone(), space, &format!("{} {given:?} {plan:?}", A::ABOUT.name));
                    shifted += 1;
                }
            }
        }
        shifted
    }
}

impl election::Visitor for Shifts {
    type Output = usize;

    /// Elections have tests of their own.
    fn visit<A: Election>(self) -> usize {
        0
    }
}

fn goes_on_alike<A: Mutex + Algorithm>(mut plain: Run<A>, space: Space, context: &str) {
    let mut moved = plain.clone();
    moved.world.shift(space, |value| value + BY);
    for _ in 0..60 {
        assert_eq!(plain.step(), moved.step(), "{context}");
        let mut back = moved.world.clone();
        back.shift(space, |value| value.checked_sub(BY).expect("a number that was reset"));
        assert_eq!(plain.world.processes, back.processes, "{context}: {space:?}");
        assert!(plain.world.in_flight().eq(back.in_flight()), "{context}: {space:?}");
    }
    let told = plain.world.events.len();
    assert_eq!(moved.world.events.len(), told, "{context}: {space:?}");
    for (plain, moved) in plain.world.events.iter().zip(&moved.world.events) {
        assert_eq!(bare(plain), bare(moved), "{context}: {space:?}");
    }
}

/// An event without the number in it, which the state that it came from has been compared for.
fn bare((id, event): &(NodeId, Event)) -> (NodeId, Option<NodeId>) {
    match event {
        Event::Granted { fence } | Event::Lost { fence } => (*id, Some(fence.process)),
        Event::Refused(_) | Event::Left => (*id, None),
    }
}

#[test]
fn every_counter_is_reached() {
    for about in mutex::all() {
        let shifted = visit(about.name, Shifts).expect("what the registry lists can be visited");
        assert!(shifted > 40, "{} has clocks and fences to be moved", about.name);
    }
}
