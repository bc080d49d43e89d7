//! What has to be remembered of one lock in order to judge it: the properties that an entry can break, and progress.
//!
//! For a checker everything is told by how it stands to the present: who waits, in which order, how often each was
//! overtaken.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Counter, Incarnation, Input, Members, NodeId, Stamp};

use super::order::{Order, Turn};
use super::resource::{Guard, Resource};
use super::wrong::Wrong;
use super::{EPOCH, Epoch, Event, FENCE, Fence, Locks, Mutex, Promises, Request};
use crate::judge::{self, Breach, Sight};

/// What is judged beyond safety and progress; the rest is not remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The order of entries: ME4 and ME5.
    pub order: bool,
    /// The guarded resource and the fences of each process: RES, and FENCE for each process on its own. Needed only
    /// where a failure detector may err.
    pub resource: bool,
    /// Entries have no end: overtaking is counted up to one more than is promised, or where nothing is up to the number of
    /// processes. Else there would be no end of states in which somebody was overtaken once more.
    pub forever: bool,
}

/// What has to be remembered of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    members: Members,
    promises: Promises,
    counts_epochs: bool,
    /// By place.
    seats: Vec<Seat>,
    waiting: u32,
    /// Who got in last, if it is still inside.
    inside: Option<u32>,
    /// The largest so far.
    fence: Option<Fence>,
    /// A fault has happened: what holds without faults is no longer promised.
    disturbed: bool,
    /// A failure detector has called a living process dead.
    misled: bool,
    /// A message to the living was lost or doubled, or somebody stood still: who should have been heard of was perhaps not.
    hindered: bool,
    order: Option<Order>,
    resource: Option<Resource>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat {
    up: bool,
    life: Incarnation,
    waiting: bool,
    /// It has asked to leave and has not been answered.
    leaving: bool,
}

impl Seat {
    fn new(up: bool) -> Self {
        Self { up, life: Incarnation::FIRST, waiting: false, leaving: false }
    }
}

/// What a single run wants to know of an entry beyond what it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Entries by others since its request was known.
    pub overtaken: u64,
    pub stamped: bool,
    /// The resource refused its first write.
    pub refused: bool,
}

impl Ledger {
    /// For a lock of `A` among these members.
    #[must_use]
    pub fn new<A: Mutex>(config: &A::Config, members: &Members, scope: Scope) -> Self {
        let n = members.len();
        let promises = A::promises(config, members);
        let ceiling = scope.forever.then(|| promises.overtaking.map_or(n as u64, |bound| bound + 1));
        Self {
            members: members.clone(),
            promises,
            counts_epochs: A::counts_epochs(config),
            seats: vec![Seat::new(true); n],
            waiting: 0,
            inside: None,
            fence: None,
            disturbed: false,
            misled: false,
            hindered: false,
            order: scope.order.then(|| Order::new(n).counting_to(ceiling)),
            resource: scope.resource.then(|| Resource::new(n, Guard::Fence)),
        }
    }

    /// These may join later; their places come after those of the members, in this order.
    ///
    /// # Panics
    /// If one of them is a member.
    #[must_use]
    pub fn with_newcomers(mut self, newcomers: &[NodeId]) -> Self {
        let everyone: Vec<_> = self.members.iter().chain(newcomers.iter().copied()).collect();
        let n = everyone.len();
        self.members = Members::listed(everyone);
        self.seats.resize(n, Seat::new(false));
        self.order = self.order.map(|_| Order::new(n));
        self.resource = self.resource.map(|_| Resource::new(n, Guard::Fence));
        self
    }

    /// The resource tells old fences from new ones in this way; by [`Guard::Fence`] unless told otherwise.
    #[must_use]
    pub fn guarded_by(mut self, guard: Guard) -> Self {
        self.resource = self.resource.map(|_| Resource::new(self.seats.len(), guard));
        self
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    pub(super) fn promises(&self) -> &Promises {
        &self.promises
    }

    pub(super) fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    pub(super) fn is_misled(&self) -> bool {
        self.misled
    }

    pub(super) fn is_up(&self, place: usize) -> bool {
        self.seats[place].up
    }

    pub(super) fn is_waiting(&self, place: usize) -> bool {
        self.seats[place].waiting
    }

    /// Whether nobody is inside, and nobody wants to get in.
    pub(super) fn is_free(&self) -> bool {
        self.waiting == 0 && self.inside.is_none()
    }

    /// Whether ME1 can be asked of the algorithm: it can hold only what its failure detector allows.
    pub(super) fn keeps_safety(&self) -> bool {
        !self.misled || self.promises.survives_suspicion
    }

    /// Whether LOST can be asked of the algorithm: nobody was taken for dead who is alive, and nothing happened that may look
    /// like a death. A lease may run out after any failure.
    pub(super) fn keeps_entries(&self) -> bool {
        let may_run_out = self.promises.survives_suspicion && self.disturbed;
        !(self.misled || self.hindered || may_run_out)
    }

    /// A process wants to get in; says whether that is a new request.
    pub(super) fn acquire(&mut self, place: usize) -> bool {
        let seat = &mut self.seats[place];
        if seat.waiting || self.inside == Some(place as u32) {
            return false;
        }
        seat.waiting = true;
        self.waiting += 1;
        true
    }

    pub(super) fn stamp(&mut self, place: usize, stamp: Stamp) {
        if let (Some(order), true) = (&mut self.order, self.seats[place].waiting) {
            order.stamp(place, stamp);
        }
    }

    pub(super) fn become_known(&mut self, place: usize) {
        if let (Some(order), true) = (&mut self.order, self.seats[place].waiting) {
            order.become_known(place);
        }
    }

    /// Only requests that wait can be overtaken: of the others nothing is remembered.
    pub(super) fn follow(&mut self, place: usize, others: u64) {
        let Some(order) = self.order.as_mut().filter(|_| self.seats[place].waiting) else { return };
        let seats = self.seats.iter().take(Order::MOST_CAUSES).enumerate();
        let waiting = seats.filter(|(_, seat)| seat.waiting).fold(0, |set, (other, _)| set | 1 << other);
        order.follow(place, others & waiting & !(1 << place));
    }

    /// A process no longer wants to get in.
    pub(super) fn withdraw(&mut self, place: usize) {
        if core::mem::take(&mut self.seats[place].waiting) {
            self.waiting -= 1;
            if let Some(order) = &mut self.order {
                order.withdraw(place);
            }
        }
    }

    /// A process gets in. Whatever is wrong with that is handed over, with whether it breaks a promise.
    #[inline]
    pub(super) fn enter(&mut self, place: usize, fence: Fence, mut wrong: impl FnMut(Wrong, bool)) -> Entry {
        let previous = self.inside.replace(place as u32);
        let was_waiting = core::mem::take(&mut self.seats[place].waiting);
        self.waiting -= u32::from(was_waiting);
        let largest = self.fence;
        self.fence = largest.max(Some(fence));
        let turn = self.order.as_mut().map_or_else(Turn::default, |order| order.enter(place));
        let written = self.resource.as_mut().map(|resource| resource.enter(place, fence, largest));

        let mut found = |what: Wrong| wrong(what, self.is_promised(&what));
        if let Some(first) = previous {
            found(Wrong::BothInside { first: first as usize, second: place });
        }
        if let Some(last) = written.and_then(|written| written.last).filter(|last| *last >= fence) {
            found(Wrong::OwnFenceFell { place, fence, last });
        }
        if fence.process != self.members.at(place) {
            found(Wrong::ForeignFence { place, fence });
        }
        if let Some(last) = largest.filter(|last| *last >= fence) {
            found(Wrong::FenceFell { place, fence, last });
        }
        if let Some(place) = written.and_then(|written| written.mixed) {
            found(Wrong::MixedWrites { place });
        }
        if !was_waiting {
            found(Wrong::Unasked { place });
        }
        self.judge_turn(place, &turn, found);
        Entry {
            overtaken: turn.overtaken,
            stamped: turn.stamp.is_some(),
            refused: written.is_some_and(|written| written.refused),
        }
    }

    fn judge_turn(&self, place: usize, turn: &Turn, mut found: impl FnMut(Wrong)) {
        if self.promises.overtaking.is_some_and(|bound| turn.overtaken > bound) {
            found(Wrong::Overtaken { place, times: turn.overtaken });
        }
        if let Some(first) = turn.known_before {
            found(Wrong::KnownLater { place, first });
        }
        if let (Some(stamp), Some(last)) = (turn.stamp, turn.last_stamp)
            && last >= stamp
        {
            found(Wrong::StampFell { place, stamp, last });
        }
        if let Some(first) = turn.cause {
            found(Wrong::CausedLater { place, first });
        }
    }

    fn is_promised(&self, wrong: &Wrong) -> bool {
        match wrong {
            Wrong::BothInside { .. } | Wrong::FenceFell { .. } => self.keeps_safety(),
            Wrong::OwnFenceFell { .. }
            | Wrong::ForeignFence { .. }
            | Wrong::MixedWrites { .. }
            | Wrong::Unasked { .. } => true,
            Wrong::Taken { .. } => self.keeps_entries(),
            Wrong::Overtaken { .. } => !self.disturbed,
            Wrong::KnownLater { .. } => self.promises.arrival_order && !self.disturbed,
            Wrong::StampFell { .. } => self.promises.stamp_order && !self.disturbed,
            Wrong::CausedLater { .. } => self.promises.causal_order && !self.disturbed,
        }
    }

    /// A process gets out; says whether the resource refused its last write.
    pub(super) fn release(&mut self, place: usize) -> bool {
        let largest = self.fence;
        let refused = self.resource.as_mut().is_some_and(|resource| resource.leave(place, largest));
        self.vacate(place);
        refused
    }

    /// A process is told that it is no longer inside. Whatever is wrong with that is handed over, as for an entry.
    pub(super) fn lose(&mut self, place: usize, mut wrong: impl FnMut(Wrong, bool)) {
        let taken = Wrong::Taken { place };
        wrong(taken, self.is_promised(&taken));
        self.vacate(place);
    }

    /// A process is no longer inside.
    pub(super) fn vacate(&mut self, place: usize) {
        if let Some(resource) = &mut self.resource {
            resource.vacate(place);
        }
        self.inside = self.inside.filter(|inside| *inside as usize != place);
    }

    /// A process wants to leave the group.
    pub(super) fn ask_to_leave(&mut self, place: usize) {
        self.disturbed = true;
        self.seats[place].leaving = true;
    }

    /// A process got an answer to that.
    pub(super) fn answer_leave(&mut self, place: usize, left: bool) {
        self.seats[place].leaving = false;
        if left {
            self.withdraw(place);
        }
    }

    pub(super) fn fault(&mut self) {
        self.disturbed = true;
    }

    /// A fault that keeps the living from hearing of each other.
    pub(super) fn hinder(&mut self) {
        self.disturbed = true;
        self.hindered = true;
    }

    /// A failure detector calls a life of a peer dead.
    pub(super) fn suspect(&mut self, peer: NodeId, life: Incarnation) {
        self.disturbed = true;
        let seat = self.members.position(peer).map(|place| &self.seats[place]);
        self.misled |= seat.is_some_and(|seat| seat.up && seat.life == life);
    }

    pub(super) fn fall(&mut self, place: usize) {
        self.disturbed = true;
        self.seats[place].up = false;
        self.seats[place].leaving = false;
        self.withdraw(place);
        self.vacate(place);
    }

    pub(super) fn rise(&mut self, place: usize, life: Incarnation) {
        self.seats[place].up = true;
        self.seats[place].life = life;
    }

    /// Who does not get what nobody keeps it from, in words.
    pub(super) fn unserved(&self) -> impl Iterator<Item = String> {
        let name = |place: usize| self.members.at(place);
        let waiting = self.seats.iter().position(|seat| seat.waiting).filter(|_| self.inside.is_none());
        let waiting = waiting.map(|first| match self.waiting {
            1 => format!("{} still waits", name(first)),
            all => format!("{} and {} more still wait", name(first), all - 1),
        });
        let leaving = self.seats.iter().position(|seat| seat.leaving);
        let leaving = leaving.map(|place| format!("{} still waits to leave", name(place)));
        waiting.into_iter().chain(leaving)
    }

    /// Makes equal situations equal values: numbers begin again, and after a fault no order is promised, so that none
    /// is remembered. A single run does without, and goes on to count.
    fn settle(&mut self) {
        if self.disturbed {
            self.order = None;
        }
        if let Some(order) = &mut self.order {
            order.settle();
        }
    }
}

/// For lock 0, the only one of most protocols.
impl<P: Locks> judge::Ledger<P> for Ledger {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, place: usize, input: &Input<P>) {
        match input {
            Input::Request(request) => match P::asked(request) {
                (0, Request::Acquire) => {
                    self.acquire(place);
                }
                (0, Request::Release) => {
                    self.release(place);
                }
                (0, Request::Cancel) => self.withdraw(place),
                (0, Request::Leave) => self.ask_to_leave(place),
                _ => {}
            },
            Input::PeerDown { peer, life } => self.suspect(*peer, *life),
            Input::Start | Input::Receive { .. } | Input::Expire(_) | Input::PeerUp { .. } => {}
        }
        self.settle();
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &P::Message) {
        if let Some((0, stamp)) = P::announced(from, message) {
            self.stamp(place, stamp);
        }
    }

    fn known(&mut self, place: usize) {
        self.become_known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.follow(place, others);
    }

    fn emit(&mut self, place: usize, event: &P::Event, breaches: &mut Vec<Breach>) {
        let members = self.members.clone();
        let found = |wrong: Wrong, promised| {
            let (property, detail) = (wrong.property(), wrong.text(&members));
            breaches.push(Breach { property, detail, promised });
        };
        match P::told(event) {
            (0, Event::Granted { fence }) => {
                self.enter(place, *fence, found);
            }
            (0, Event::Lost { .. }) => self.lose(place, found),
            (0, Event::Left) => self.answer_leave(place, true),
            (0, Event::Refused(Request::Leave)) => self.answer_leave(place, false),
            _ => {}
        }
        self.settle();
    }

    fn crash(&mut self, place: usize) {
        self.fall(place);
        self.settle();
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.rise(place, life);
    }

    fn disturb(&mut self) {
        self.hinder();
        self.settle();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        breaches.extend(self.unserved().map(|who| {
            let detail = format!("nothing moves any more, and {who}");
            Breach { property: "ME2", detail, promised: true }
        }));
    }

    fn sights(&self) -> &'static [Sight] {
        const SIGHTS: &[Sight] = &[
            Sight::always("somebody waits"),
            Sight::always("somebody is inside"),
            Sight::always("somebody waits while another is inside"),
            Sight::always("two wait at once"),
            Sight::after_failures("somebody is inside in a later epoch"),
        ];
        SIGHTS
    }

    fn sees(&self) -> u16 {
        let later_epoch = self.inside.is_some() && self.fence.is_some_and(|fence| fence.epoch > Epoch::FIRST);
        let sights = [
            self.waiting > 0,
            self.inside.is_some(),
            self.waiting > 0 && self.inside.is_some(),
            self.waiting > 1,
            later_epoch,
        ];
        (0..).zip(sights).fold(0, |all, (bit, is_so)| all | u16::from(is_so) << bit)
    }

    fn overtaking(&self) -> u64 {
        self.order.as_ref().map_or(0, Order::overtaking)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        let fences = self.resource.iter_mut().flat_map(Resource::fences);
        for fence in self.fence.iter_mut().chain(fences) {
            if self.counts_epochs {
                visit(Counter::exact(EPOCH, &mut fence.epoch.number));
            }
            // An entry is wrong if its counter is not larger than this one, so that the one below must be told apart
            // from all that are still smaller.
            if let Some(mut below) = fence.counter.checked_sub(1) {
                visit(Counter::exact(FENCE, &mut below));
                fence.counter = below + 1;
            }
        }
        if let Some(order) = &mut self.order {
            order.visit_counters(visit);
        }
    }
}

#[cfg(test)]
mod tests;
