//! Carvalho and Roucairol: a permission, once given, lasts until it is asked back.
//!
//! Carvalho, Roucairol: *On mutual exclusion in computer networks* (a note on Ricart and Agrawala's algorithm),
//! CACM 26(2), 1983.
//!
//! Between any two processes there is one permission. Who has those of all pairs it belongs to may enter, and keeps
//! them afterwards: entering again costs nothing until somebody asks. A request goes only to those whose permission
//! is missing; it is answered as in Ricart and Agrawala's algorithm: at once, unless the one asked is inside or has
//! asked earlier. Who gives a permission away while it wants to enter itself asks for it again in the same breath.
//!
//! ```text
//!   p1 ──●────────────▶ inside ────────●──▶ inside ──        p2 has the permission of the pair at first:
//!         ╲ Request    ╱ Reply    asks nobody                the larger id does
//!   p2 ────●──────────●─────────────────────────────
//! ```
//!
//! At every moment a permission is in exactly one place: with one of the two, or on the way in a reply. So a
//! reply *is* the permission, whatever request it answers, and a process gives only what it has:
//!
//! - A request may arrive before the permission that it asks for. It is kept, one per process, and looked at again
//!   when the permission arrives.
//! - A reply may arrive after the request was given up. The permission is kept; whoever has asked for it meanwhile
//!   gets it at once.
//! - A request may arrive, a second time even, long after it was answered or given up. Requests and replies carry the
//!   clock of their sender: what was asked before the last reply of the same process is void, since who gives a
//!   permission away and still needs it asks again.
//! - A second copy of a reply would double the permission. Replies of one process have growing clocks, and never are
//!   two of them on the way at once: one that is no later than the last is a copy.
//!
//! **Cost**: between 0 (the same process again) and 2(n − 1) messages per entry; 2(n − 1) when all compete. At most
//! two message delays when nobody competes, one from exit to the next entry.
//!
//! **Assumes** reliable channels of any order, and that nobody crashes.
//!
//! **Caveats**: one crashed process blocks everyone who needs its permission. Grants no longer follow the stamps: who
//! still has all permissions enters before an older request that is in flight. Every request is granted all the
//! same, since an asking process makes all whom it asks stamp later.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
    Stamp,
};
use serde::{Deserialize, Serialize};

use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Mutex, Promises, Request, Roll, Tally};
use crate::{About, Algorithm, Channels, Formula, STRANGER, SettingError, Settings, Synchrony, Topology};

/// A process of Carvalho and Roucairol's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CarvalhoRoucairol {
    id: NodeId,
    members: Members,
    config: CarvalhoRoucairolConfig,
    clock: LamportClock,
    state: State,
    /// With whom we share a permission that is with us.
    permitted: NodeSet,
    /// Who has asked for a permission and not got it yet, in order of arrival.
    asked: Vec<Asked>,
    /// The clock of the last reply of each member, by place.
    replied: Vec<u64>,
    epoch: Epoch,
    fence: FenceCounter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    /// Asked with this stamp.
    Wanted {
        mine: Stamp,
    },
    Held,
}

/// A request of another process; of two with the same stamp, the one sent later is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Asked {
    stamp: Stamp,
    /// The clock of the process when it sent this.
    clock: u64,
}

/// Settings of [`CarvalhoRoucairol`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CarvalhoRoucairolConfig {
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CarvalhoRoucairolMessage {
    /// I want to enter, and our permission is with you.
    Request {
        /// The time of the request.
        time: u64,
        /// My clock; later than `time` when I had our permission and gave it away since.
        clock: u64,
    },
    /// Our permission, now yours.
    Reply {
        /// My clock, larger in each reply: a second copy counts for nothing, nor does what I asked for before.
        clock: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
}

use CarvalhoRoucairolMessage as Msg;

impl Message for CarvalhoRoucairolMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Reply)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time, clock } => {
                visit(Counter::exact(CLOCK, time));
                visit(Counter::exact(CLOCK, clock));
            }
            Msg::Reply { clock, fence } => {
                visit(Counter::exact(CLOCK, clock));
                visit(fence.counter());
            }
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for CarvalhoRoucairol {
    type Config = CarvalhoRoucairolConfig;
    type Message = CarvalhoRoucairolMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            clock: boot.config.stamps.clock(boot.id),
            state: State::Released,
            permitted: boot.members.iter().filter(|other| *other < boot.id).collect(),
            asked: Vec::new(),
            replied: vec![0; boot.members.len()],
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Request { time, clock } } => {
                self.on_request(Asked { stamp: Stamp { time, process: from }, clock }, out);
            }
            Input::Receive { from, message: Msg::Reply { clock, fence } } => {
                self.fence.witness(fence);
                self.on_reply(from, clock, out);
            }
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_released(out),
            // What we have asked for will still come, and stays with us until somebody else wants it.
            Input::Request(Request::Cancel) => self.become_released(out),
            // Nobody leaves the group. No timer is ever armed, and the algorithm of the paper knows of no failures.
            Input::Request(Request::Leave)
            | Input::Start
            | Input::Expire(())
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Released => Phase::IDLE,
            State::Wanted { .. } => Phase::WAITING,
            State::Held => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        if let State::Wanted { mine } = &mut self.state {
            visit(Counter::exact(CLOCK, &mut mine.time));
        }
        for asked in &mut self.asked {
            visit(Counter::exact(CLOCK, &mut asked.stamp.time));
            visit(Counter::exact(CLOCK, &mut asked.clock));
        }
        for clock in &mut self.replied {
            visit(Counter::bound(CLOCK, clock));
        }
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        assert!(
            self.permitted.iter().all(|other| other != self.id && self.members.contains(other)),
            "permissions are shared with other members"
        );
        let askers = || self.asked.iter().map(|theirs| theirs.stamp.process);
        assert!(self.members.has_each_once(askers()), "members ask for a permission, each once");
        assert!(self.replied.len() == self.members.len(), "there is a last reply of each member");
        let has_asked_in_vain = |theirs: &&Asked| self.permitted.contains(theirs.stamp.process);
        match self.state {
            State::Released => assert!(
                self.asked.iter().filter(has_asked_in_vain).count() == 0,
                "who wants nothing gives away what it is asked for"
            ),
            State::Wanted { mine } => {
                assert!(!self.has_all(), "who has all permissions does not wait");
                assert!(
                    self.asked.iter().filter(has_asked_in_vain).all(|theirs| mine < theirs.stamp),
                    "who waits keeps a permission only from requests that come after its own"
                );
            }
            State::Held => assert!(self.has_all(), "who is inside has all permissions"),
        }
    }
}

impl CarvalhoRoucairol {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        // Nobody is asked, so nobody needs a stamp.
        if self.has_all() {
            return self.become_held(out);
        }
        let mine = Stamp { time: self.clock.tick(), process: self.id };
        self.state = State::Wanted { mine };
        let missing = self.members.others(self.id).filter(|other| !self.permitted.contains(*other));
        out.send_all(missing, &Msg::Request { time: mine.time, clock: mine.time });
    }

    fn on_request(&mut self, theirs: Asked, out: &mut impl Effects<Self>) {
        let process = theirs.stamp.process;
        // The maximum is enough: our next request ticks before it is stamped.
        self.clock.witness(theirs.stamp.time);
        if self.members.position(process).is_none_or(|place| theirs.clock < self.replied[place]) {
            return;
        }
        // One place per process: of a request and the one made after giving it up, only the later counts.
        match self.asked.iter_mut().find(|kept| kept.stamp.process == process) {
            Some(kept) => *kept = theirs.max(*kept),
            None => self.asked.push(theirs),
        }
        self.serve(process, out);
    }

    fn on_reply(&mut self, from: NodeId, clock: u64, out: &mut impl Effects<Self>) {
        let Some(place) = self.members.position(from) else { return };
        if clock <= self.replied[place] {
            return;
        }
        self.replied[place] = clock;
        self.permitted.insert(from);
        // What the other asked before it replied is void; what it asked afterwards, and got here first, counts now.
        self.asked.retain(|kept| kept.stamp.process != from || kept.clock >= clock);
        self.serve(from, out);
        self.maybe_enter(out);
    }

    fn has_all(&self) -> bool {
        self.permitted.len() == self.members.len() - 1
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let State::Wanted { .. } = self.state
            && self.has_all()
        {
            self.become_held(out);
        }
    }

    fn become_held(&mut self, out: &mut impl Effects<Self>) {
        debug_assert!(self.state != State::Held, "nobody enters twice");
        self.state = State::Held;
        out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
    }

    /// Looks again at what `other` has asked for, if it has.
    fn serve(&mut self, other: NodeId, out: &mut impl Effects<Self>) {
        if let Some(place) = self.asked.iter().position(|kept| kept.stamp.process == other)
            && self.maybe_give(self.asked[place].stamp, out)
        {
            self.asked.remove(place);
        }
    }

    /// Gives away the permission that this request is for, if it is here and we do not go first; says whether.
    fn maybe_give(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) -> bool {
        let we_go_first = match self.state {
            State::Released => false,
            State::Wanted { mine } => mine < theirs && !self.gives_way(theirs.process),
            State::Held => self.config.mutation != Some(Mutation::GiveWhileHolding),
        };
        if we_go_first || !self.permitted.contains(theirs.process) {
            return false;
        }
        if self.config.mutation != Some(Mutation::KeepPermission) {
            self.permitted.remove(theirs.process);
        }
        out.send(theirs.process, Msg::Reply { clock: self.clock.tick(), fence: self.fence });
        let gives_way = self.gives_way(theirs.process);
        if let State::Wanted { mine } = &mut self.state
            && self.config.mutation != Some(Mutation::NoAskAgain)
        {
            if gives_way {
                mine.time = self.clock.time();
            }
            out.send(theirs.process, Msg::Request { time: mine.time, clock: self.clock.time() });
        }
        true
    }

    /// What a mutant does: whoever waits lets the other go first, and asks again behind it.
    fn gives_way(&self, to: NodeId) -> bool {
        self.config.mutation == Some(Mutation::GiveWay) && to < self.id
    }

    fn become_released(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Released;
        // Who has asked for a permission that is still in flight to us stays in the list.
        let mut asked = core::mem::take(&mut self.asked);
        asked.retain(|theirs| !self.maybe_give(theirs.stamp, out));
        self.asked = asked;
    }
}

mutants! {
    enum Mutation {
        KeepPermission {
            name: "keep-permission", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a process that gives a permission away goes on as if it still had it",
        }
        GiveWhileHolding {
            name: "give-while-holding", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a process inside gives permissions away instead of when it leaves",
        }
        NoAskAgain {
            name: "no-ask-again", breaks: "ME2", nodes: 3, trigger: Schedule,
            change: "a process that gives a permission away while it waits does not ask for it again",
        }
        GiveWay {
            name: "give-way", breaks: "ME3", nodes: 2, trigger: Forever,
            change: "who waits gives a permission that a lower id asks for, and asks again with a later stamp",
        }
    }
}

impl Algorithm for CarvalhoRoucairol {
    const ABOUT: About = About {
        name: "carvalho-roucairol",
        title: "Carvalho–Roucairol",
        paper: "Carvalho, Roucairol: On mutual exclusion in computer networks, CACM 26(2), 1983",
        idea: "ask everyone once; a permission lasts until asked back",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "0 to 2(n-1) per entry",
        faults: "none: one crashed process or lost message blocks all who need its permission",
        settings: &[STAMPS],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(CarvalhoRoucairolConfig {
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for CarvalhoRoucairol {
    /// Everyone has everyone's request; a permission is with whoever of the two is served first.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        let requests = roll.requests();
        let place = |id| requests.iter().position(|request| request.process == id);
        let Some(ours) = place(process.id) else {
            for request in &requests {
                process.permitted.remove(request.process);
            }
            return process;
        };
        let first = |other: &NodeId| place(*other).is_none_or(|theirs| ours < theirs);
        process.permitted = process.members.others(process.id).filter(first).collect();
        let clock = roll.clock.time();
        process.asked = requests[ours + 1..].iter().map(|stamp| Asked { stamp: *stamp, clock }).collect();
        process.state = match roll.inside() {
            Some((inside, _)) if inside == process.id => State::Held,
            _ => State::Wanted { mine: requests[ours] },
        };
        process.maybe_enter(out);
        process
    }

    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises { no_starvation: true, ..Promises::NOTHING }
    }

    fn formula(_config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let others = members.len() as u64 - 1;
        Formula::between("0 to 2(n-1)", 0, 2 * others * tally.total())
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        // Nothing if all permissions are here, a question and its answer otherwise.
        0..=if members.len() > 1 { 2 } else { 0 }
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time, .. } => Some(Stamp { time: *time, process: from }),
            Msg::Reply { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::testing::Dice;
    use crate::testing::World;

    fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> CarvalhoRoucairolConfig {
        let settings =
            Settings::new(&CarvalhoRoucairol::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
        CarvalhoRoucairol::configure(&settings.expect("declared settings"), members).expect("they fit")
    }

    fn entered(world: &World<CarvalhoRoucairol>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    /// How often the permission of a pair exists: with the one, with the other, or on the way between them.
    fn permissions(world: &World<CarvalhoRoucairol>, a: NodeId, b: NodeId) -> usize {
        let holds = |x: NodeId, y| usize::from(world.process(x.0).permitted.contains(y));
        let travels = |(from, to, message): &(NodeId, NodeId, &CarvalhoRoucairolMessage)| {
            ((*from, *to) == (a, b) || (*from, *to) == (b, a)) && matches!(message, Msg::Reply { .. })
        };
        holds(a, b) + holds(b, a) + world.in_flight().filter(travels).count()
    }

    /// In any order of messages, with requests given up at any moment, a permission is in exactly one place.
    #[test]
    fn a_permission_is_in_one_place() {
        let config = config(&[], None, &Members::numbered(4));
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut world = World::<CarvalhoRoucairol>::numbered(4, &config);
            for _ in 0..200 {
                let travelling = world.travelling();
                if !travelling.is_empty() && dice.below(3) > 0 {
                    let (from, to, count) = *dice.pick(&travelling);
                    world.deliver_nth(from, to, dice.below(count));
                } else {
                    let request = *dice.pick(&[Request::Acquire, Request::Release, Request::Cancel]);
                    world.request(dice.below(4) as u32 + 1, request);
                }
                for (a, b) in [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)] {
                    assert_eq!(permissions(&world, NodeId(a), NodeId(b)), 1, "seed {seed}, p{a} and p{b}");
                }
            }
        }
    }

    #[test]
    fn entering_again_costs_nothing() {
        let mut world = World::<CarvalhoRoucairol>::numbered(3, &config(&[], None, &Members::numbered(3)));
        for _ in 0..3 {
            world.request(1, Request::Acquire);
            world.drain();
            world.request(1, Request::Release);
        }
        assert_eq!(entered(&world), [1, 1, 1]);
        assert_eq!(world.sent.len(), 4);
    }
}
