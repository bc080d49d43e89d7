//! A lock with a porter: the smallest algorithm that lets processes in and out of the group, and takes the lock away
//! from whom it believes dead.

use std::collections::VecDeque;

use conclave_algorithms::mutex::{Epoch, Event, Fence, FenceCounter, Mutex, Promises, Request, Roll, Tally};
use conclave_algorithms::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values, mutex,
};
use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, NodeSet, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// A process; the first of the members is the porter, who must neither leave nor crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doors {
    id: NodeId,
    porter: NodeId,
    newcomer: bool,
    /// Whether the porter lets nobody go.
    stubborn: bool,
    phase: Phase,
    fence: Option<Fence>,
    /// Who belongs to the group; the porter knows.
    group: NodeSet,
    down: NodeSet,
    holder: Option<Fence>,
    queue: VecDeque<NodeId>,
    counter: FenceCounter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DoorsMessage {
    Join,
    Leave,
    Bye,
    Request,
    Granted(Fence),
    Release(Fence),
    Revoked(Fence),
}

use DoorsMessage as Msg;

impl Message for DoorsMessage {
    fn kind(&self) -> &'static str {
        match self {
            Msg::Join => "Join",
            Msg::Leave => "Leave",
            Msg::Bye => "Bye",
            Msg::Request => "Request",
            Msg::Granted(_) => "Granted",
            Msg::Release(_) => "Release",
            Msg::Revoked(_) => "Revoked",
        }
    }
}

impl Protocol for Doors {
    /// Whether the porter never lets anybody go.
    type Config = bool;
    type Message = DoorsMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            porter: boot.members.at(0),
            newcomer: !boot.members.contains(boot.id),
            stubborn: *boot.config,
            phase: Phase::IDLE,
            fence: None,
            group: boot.members.iter().collect(),
            down: NodeSet::new(),
            holder: None,
            queue: VecDeque::new(),
            counter: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start if self.newcomer => out.send(self.porter, Msg::Join),
            Input::Start | Input::Expire(()) => {}
            Input::Request(Request::Acquire) if self.phase == Phase::IDLE => {
                self.phase = Phase::WAITING;
                self.tell(Msg::Request, out);
            }
            Input::Request(Request::Release) if self.phase == Phase::HOLDING => {
                self.phase = Phase::IDLE;
                let fence = self.fence.take().expect("it is inside");
                self.tell(Msg::Release(fence), out);
            }
            Input::Request(Request::Leave) if self.id != self.porter && self.phase == Phase::IDLE => {
                out.send(self.porter, Msg::Leave);
            }
            Input::Request(request) => out.emit(Event::Refused(request)),
            Input::Receive { from, message } => self.receive(from, message, out),
            // Who is dead holds nothing; if it is not dead, it is told.
            Input::PeerDown { peer, .. } if self.id == self.porter => {
                self.down.insert(peer);
                if let Some(fence) = self.holder.filter(|fence| fence.process == peer) {
                    out.send(peer, Msg::Revoked(fence));
                    self.holder = None;
                    self.grant_next(out);
                }
            }
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
                self.grant_next(out);
            }
            Input::PeerDown { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Doors {
    /// Tells the porter, who may be ourselves.
    fn tell(&mut self, message: DoorsMessage, out: &mut impl Effects<Self>) {
        if self.id == self.porter {
            self.receive(self.id, message, out);
        } else {
            out.send(self.porter, message);
        }
    }

    fn receive(&mut self, from: NodeId, message: DoorsMessage, out: &mut impl Effects<Self>) {
        match message {
            Msg::Join => {
                self.group.insert(from);
            }
            Msg::Request if !self.group.contains(from) => out.reject(from, "only members may ask"),
            Msg::Request => {
                self.queue.push_back(from);
                self.grant_next(out);
            }
            Msg::Release(fence) if self.holder == Some(fence) => {
                self.holder = None;
                self.grant_next(out);
            }
            Msg::Release(_) => {}
            Msg::Leave => {
                if !self.stubborn {
                    self.group.remove(from);
                    out.send(from, Msg::Bye);
                }
            }
            Msg::Bye => out.emit(Event::Left),
            // The request was made in another life.
            Msg::Granted(fence) if self.phase != Phase::WAITING => self.tell(Msg::Release(fence), out),
            Msg::Granted(fence) => {
                self.phase = Phase::HOLDING;
                self.fence = Some(fence);
                out.emit(Event::Granted { fence });
            }
            Msg::Revoked(fence) if self.fence == Some(fence) => {
                self.phase = Phase::IDLE;
                self.fence = None;
                out.emit(Event::Lost { fence });
            }
            Msg::Revoked(_) => {}
        }
    }

    fn grant_next(&mut self, out: &mut impl Effects<Self>) {
        let ready = self.queue.iter().position(|waiting| !self.down.contains(*waiting));
        if self.holder.is_none()
            && let Some(next) = ready.and_then(|place| self.queue.remove(place))
        {
            let fence = self.counter.enter(Epoch::FIRST, next);
            self.holder = Some(fence);
            match next == self.id {
                true => self.receive(self.id, Msg::Granted(fence), out),
                false => out.send(next, Msg::Granted(fence)),
            }
        }
    }
}

impl Algorithm for Doors {
    const ABOUT: About = About {
        name: "doors",
        title: "Doors",
        paper: "none",
        idea: "a porter knows who is there",
        family: mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Star,
        cost: "3 per entry",
        faults: "crashes of all but the porter",
        settings: &[Setting {
            key: "stubborn",
            values: Values::OneOf(&["no", "yes"]),
            default: "no",
            unsafe_values: &[],
            help: "whether the porter lets nobody go",
        }],
        mutants: &[],
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(settings.get("stubborn") == "yes")
    }
}

impl Mutex for Doors {
    const CHANGES_GROUP: bool = true;

    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            overtaking: None,
            arrival_order: false,
            stamp_order: false,
            causal_order: false,
            survives_suspicion: false,
        }
    }

    fn formula(_config: &Self::Config, _members: &Members, tally: &Tally<'_>) -> Formula {
        Formula { text: "3", low: 3 * tally.total(), high: Some(3 * tally.total()) }
    }

    fn client_hops(
        _config: &Self::Config,
        _members: &Members,
        _requester: NodeId,
    ) -> core::ops::RangeInclusive<u32> {
        0..=2
    }

    fn rebuild(boot: Boot<'_, Self>, _roll: &Roll, _out: &mut impl Effects<Self>) -> Self {
        Self::boot(boot)
    }
}
