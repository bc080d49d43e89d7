//! What has to be remembered of a run in order to judge it.
//!
//! | property | claim |
//! |---|---|
//! | ME1 | no more inside than there are places |
//! | PROGRESS | if nobody is inside and somebody waits, somebody gets in |
//! | ME3 | whoever waits gets in |
//! | BOUNDED | after at most n − 1 entries by others, once its wish is known |
//!
//! A wish is known when the memory has carried out the access that tells of it: see
//! [`Lock::is_announced_by`](super::locks::Lock::is_announced_by).
//!
//! Textbooks assume that a process halts only in its remainder. Of one that crashes elsewhere, and of messages that are lost
//! or doubled, nothing is promised.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId};

use crate::{Breach, Ledger};

use super::locks::{Lock, Promises};
use super::machine::{Event, MEMORY, Machine, MachineConfig, Request};

/// Where everyone is, and how often each was overtaken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    members: Members,
    lock: Lock,
    promises: Promises,
    /// Entries by others that are one too many. Further ones are not counted, so that there are finitely many states.
    too_many: u8,
    /// By place.
    seats: Vec<Seat>,
    /// Something happened that no lock of a shared memory survives.
    disturbed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seat {
    Remainder,
    Waiting {
        /// Entries by others since its wish is known; nothing if it is not.
        overtaken: Option<u8>,
    },
    Inside,
    Leaving,
    Down,
}

impl Occupancy {
    /// Nobody has asked yet.
    pub fn new(config: &MachineConfig, members: &Members) -> Self {
        let n = config.all.len();
        Self {
            members: members.clone(),
            lock: config.lock,
            promises: config.lock.promises(n),
            too_many: u8::try_from(n).unwrap_or(u8::MAX),
            seats: vec![Seat::Remainder; members.len()],
            disturbed: false,
        }
    }

    /// What the lock promises.
    pub(super) fn promises(&self) -> Promises {
        self.promises
    }

    /// Whether nothing is promised any more.
    pub(super) fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Whether somebody is inside.
    pub(super) fn is_occupied(&self) -> bool {
        self.seats.contains(&Seat::Inside)
    }

    /// Whether the process at this place waits.
    pub(super) fn is_waiting(&self, place: usize) -> bool {
        matches!(self.seats[place], Seat::Waiting { .. })
    }

    /// Who waits, or does not get out, in words.
    pub(super) fn stuck(&self) -> Option<String> {
        let who =
            |found: fn(&Seat) -> bool| self.seats.iter().position(found).map(|place| self.members.at(place));
        let waits = who(|seat| matches!(seat, Seat::Waiting { .. })).map(|who| format!("{who} still waits"));
        waits.or_else(|| who(|seat| *seat == Seat::Leaving).map(|who| format!("{who} does not get out")))
    }

    /// The memory has carried out the access by which a process makes its wish known.
    fn become_known(&mut self, from: NodeId) {
        let seat = self.members.position(from).map(|place| &mut self.seats[place]);
        if let Some(Seat::Waiting { overtaken: overtaken @ None }) = seat {
            *overtaken = Some(0);
        }
    }

    fn enter(&mut self, place: usize, breaches: &mut Vec<Breach>) {
        self.seats[place] = Seat::Inside;
        let inside = self.inside();
        if inside.len() > self.lock.places() as usize {
            let detail = format!("{} are inside at the same time", listed(&inside));
            breaches.push(Breach { property: "ME1", detail, promised: !self.disturbed });
        }
        for other in 0..self.seats.len() {
            self.overtake(other, breaches);
        }
    }

    fn inside(&self) -> Vec<NodeId> {
        let inside = self.members.iter().zip(&self.seats).filter(|(_, seat)| **seat == Seat::Inside);
        inside.map(|(id, _)| id).collect()
    }

    /// Somebody else has got in before the process at this place.
    fn overtake(&mut self, place: usize, breaches: &mut Vec<Breach>) {
        let Seat::Waiting { overtaken: Some(times) } = &mut self.seats[place] else { return };
        if *times < self.too_many {
            *times += 1;
            if *times == self.too_many {
                let detail = format!("{} was overtaken {times} times", self.members.at(place));
                let promised = self.promises.bounded && !self.disturbed;
                breaches.push(Breach { property: "BOUNDED", detail, promised });
            }
        }
    }
}

/// `p1 and p2`.
fn listed(ids: &[NodeId]) -> String {
    let names: Vec<String> = ids.iter().map(|id| format!("{id}")).collect();
    names.join(" and ")
}

impl Ledger<Machine> for Occupancy {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, place: usize, input: &Input<Machine>) {
        match input {
            Input::Request(Request::Acquire) if self.seats[place] == Seat::Remainder => {
                if self.members.at(place) != MEMORY {
                    self.seats[place] = Seat::Waiting { overtaken: None };
                }
            }
            Input::Request(Request::Release) if self.seats[place] == Seat::Inside => {
                self.seats[place] = Seat::Leaving;
            }
            Input::Receive { from, message }
                if self.members.at(place) == MEMORY && self.lock.is_announced_by(message) =>
            {
                self.become_known(*from);
            }
            Input::Request(_)
            | Input::Receive { .. }
            | Input::Start
            | Input::Expire(())
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn emit(&mut self, place: usize, event: &Event, breaches: &mut Vec<Breach>) {
        match event {
            Event::Entered => self.enter(place, breaches),
            Event::Exited => self.seats[place] = Seat::Remainder,
            Event::Refused(_) => {}
        }
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        let detail = format!("{} rejected a message of {from}: {why}", self.members.at(place));
        breaches.push(Breach { property: "PROTOCOL", detail, promised: !self.disturbed });
    }

    fn crash(&mut self, place: usize) {
        let is_harmless = self.seats[place] == Seat::Remainder && self.members.at(place) != MEMORY;
        self.disturbed |= !is_harmless;
        self.seats[place] = Seat::Down;
    }

    fn restart(&mut self, place: usize, _life: Incarnation) {
        self.seats[place] = Seat::Remainder;
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    fn unheard(&mut self) {
        self.disturbed = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        if self.is_occupied() {
            return;
        }
        if let Some(who) = self.stuck() {
            let detail = format!("nothing moves any more, and {who}");
            breaches.push(Breach { property: "PROGRESS", detail, promised: !self.disturbed });
        }
    }

    fn excuses(&self) -> bool {
        self.disturbed
    }

    fn overtaking(&self) -> u64 {
        let overtaken = |seat: &Seat| match seat {
            Seat::Waiting { overtaken: Some(times) } => u64::from(*times),
            _ => 0,
        };
        self.seats.iter().map(overtaken).max().unwrap_or(0)
    }
}
