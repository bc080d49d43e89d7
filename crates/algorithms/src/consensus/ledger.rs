//! What must hold of consensus.
//!
//! | property | claim |
//! |---|---|
//! | AGREEMENT | no two processes decide differently, of a log: for the same slot |
//! | VALIDITY | what is decided was proposed; of a log: no proposal is decided twice |
//! | INTEGRITY | a process decides once in a life; of a log: the slots in order, without gaps, and a total is the sum of them |
//! | TERMINATION | when nothing moves any more, everyone who takes part has decided what anybody has, or somebody who takes part has proposed |
//! | END | the run comes to rest |
//!
//! Processes that decide and crash later count for AGREEMENT. Where an algorithm relies on a bound for the number of crashes and
//! on reliable channels, AGREEMENT is promised only within it; where it relies on what was saved, only if that is still there when a
//! process comes back. TERMINATION is not promised once a message was lost, a proposer gave up, or no majority is up where one
//! is needed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId, Protocol};

use super::{Event, Needs, Propose};
use crate::referee::{COMES_TO_REST, Claim};
use crate::{Breach, Ledger, PropertyKind};

/// What must hold.
pub(super) const CLAIMS: &[Claim] = &[
    Claim { property: "AGREEMENT", kind: PropertyKind::Safety, claim: "no two decide differently" },
    Claim { property: "VALIDITY", kind: PropertyKind::Safety, claim: "what is decided was proposed" },
    Claim { property: "INTEGRITY", kind: PropertyKind::Safety, claim: "each decides once, in order" },
    Claim { property: "TERMINATION", kind: PropertyKind::Safety, claim: "all who take part decide" },
    COMES_TO_REST,
];

/// What was proposed, and who has decided what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decisions {
    members: Members,
    needs: Needs,
    /// How often each value was proposed.
    proposed: BTreeMap<u64, u32>,
    /// What was decided first, by slot; the only slot is 1 if there is no log.
    decided: BTreeMap<u64, u64>,
    /// By place.
    processes: Vec<Standing>,
    /// How many crashes there were, as far as it matters.
    crashes: u32,
    disturbed: bool,
    /// Somebody has come back without what it had saved.
    forgot: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Standing {
    is_down: bool,
    has_crashed: bool,
    /// What it was asked to propose in this life.
    asked: Vec<u64>,
    /// How many slots it has told in this life.
    told: u64,
    gave_up: bool,
}

impl Decisions {
    /// Nothing was proposed yet.
    #[must_use]
    pub fn new(members: &Members, needs: Needs) -> Self {
        Self {
            members: members.clone(),
            needs,
            proposed: BTreeMap::new(),
            decided: BTreeMap::new(),
            processes: vec![Standing::default(); members.len()],
            crashes: 0,
            disturbed: false,
            forgot: false,
        }
    }

    fn decide(&mut self, place: usize, slot: u64, value: u64, breaches: &mut Vec<Breach>) {
        let who = self.members.at(place);
        let told = &mut self.processes[place].told;
        if slot != *told + 1 {
            let detail =
                format!("{who} decided {} after {told} decisions", in_words(slot, value, self.needs));
            breaches.push(Breach { property: "INTEGRITY", detail, promised: true });
        }
        *told = slot;
        let first = *self.decided.entry(slot).or_insert(value);
        if first != value {
            let (first, value) = (in_words(slot, first, self.needs), in_words(slot, value, self.needs));
            let detail = format!("{who} decided {value}, and {first} was decided before");
            breaches.push(Breach { property: "AGREEMENT", detail, promised: self.agrees() });
        }
        let times = self.decided.values().filter(|other| **other == value).count();
        let proposed = self.proposed.get(&value).copied().unwrap_or(0);
        if proposed == 0 || times > proposed as usize {
            let detail = format!("{who} decided {value}, which was proposed {proposed} times");
            breaches.push(Breach { property: "VALIDITY", detail, promised: true });
        }
    }

    /// Whether agreement is promised.
    fn agrees(&self) -> bool {
        match self.needs.most_crashes {
            Some(most) => self.crashes <= most && !self.disturbed,
            None => !self.forgot,
        }
    }

    /// Whether everything is there that it takes to decide.
    fn terminates(&self) -> bool {
        let up = self.processes.iter().filter(|process| self.takes_part(process)).count();
        let is_enough = !self.needs.majority || 2 * up > self.processes.len();
        is_enough && !self.disturbed && !self.forgot && !self.processes.iter().any(|process| process.gave_up)
    }

    /// Whether a process is up and takes part.
    fn takes_part(&self, process: &Standing) -> bool {
        !process.is_down && (self.needs.returns || !process.has_crashed)
    }

    /// Whether what this process was asked to propose is decided, or something else where one value is all.
    fn is_served(&self, process: &Standing) -> bool {
        let log = || self.decided.range(..=process.told).map(|(_, value)| *value);
        let times =
            |value: u64, all: &mut dyn Iterator<Item = u64>| all.filter(|other| *other == value).count();
        let is_there =
            |value: &u64| times(*value, &mut log()) >= times(*value, &mut process.asked.iter().copied());
        if self.needs.is_log {
            process.asked.iter().all(is_there)
        } else {
            process.asked.is_empty() || process.told > 0
        }
    }
}

/// A decision in words.
fn in_words(slot: u64, value: u64, needs: Needs) -> String {
    if needs.is_log { format!("{value} for slot {slot}") } else { format!("{value}") }
}

impl<P: Protocol<Request = Propose, Event = Event>> Ledger<P> for Decisions {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, place: usize, input: &Input<P>) {
        if let Input::Request(propose) = input {
            let value = propose.value(self.members.at(place));
            *self.proposed.entry(value).or_default() += 1;
            self.processes[place].asked.push(value);
        }
    }

    fn emit(&mut self, place: usize, event: &Event, breaches: &mut Vec<Breach>) {
        match *event {
            Event::Decided(value) => self.decide(place, 1, value, breaches),
            Event::Logged { slot, value, total } => {
                self.decide(place, slot, value, breaches);
                let sum =
                    self.decided.range(..=slot).fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
                if let Some(total) = total.filter(|total| *total != sum) {
                    let detail =
                        format!("{} told {total} at slot {slot}, and it is {sum}", self.members.at(place));
                    breaches.push(Breach { property: "INTEGRITY", detail, promised: true });
                }
            }
            Event::GaveUp => self.processes[place].gave_up = true,
        }
    }

    /// Proposals are not saved.
    fn crash(&mut self, place: usize) {
        self.processes[place] = Standing { is_down: true, has_crashed: true, ..Standing::default() };
        if self.needs.most_crashes.is_some() {
            self.crashes += 1;
        }
    }

    fn restart(&mut self, place: usize, _life: Incarnation) {
        self.processes[place].is_down = false;
    }

    /// An acceptor that has forgotten what it promised may help to decide a second time.
    fn forget(&mut self, _place: usize) {
        self.forgot = true;
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        let present = || self.processes.iter().enumerate().filter(|(_, process)| self.takes_part(process));
        let most = present().map(|(_, process)| process.told).max().unwrap_or(0);
        let is_behind = |process: &Standing| process.told < most || !self.is_served(process);
        if let Some((place, process)) = present().find(|(_, process)| is_behind(process)) {
            let (who, told) = (self.members.at(place), process.told);
            let detail = format!("nothing moves any more, and {who} has made {told} decisions");
            breaches.push(Breach { property: "TERMINATION", detail, promised: self.terminates() });
        }
    }
}
