//! A token that circulates forever: the smallest algorithm whose messages never come to rest.

use conclave_algorithms::mutex::{Epoch, Event, FenceCounter, Mutex, Promises, Request, Roll, Tally};
use conclave_algorithms::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values, mutex,
};
use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// One process of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Relay {
    id: NodeId,
    members: Members,
    /// Who lets the token pass although it waits for it.
    blind: Option<NodeId>,
    phase: Phase,
    token: Option<FenceCounter>,
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RelayMessage {
    Token(FenceCounter),
}

impl Message for RelayMessage {
    fn kind(&self) -> &'static str {
        "Token"
    }
}

impl Protocol for Relay {
    type Config = Option<NodeId>;
    type Message = RelayMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let token = (boot.members.at(0) == boot.id).then(FenceCounter::default);
        Self { id: boot.id, members: boot.members.clone(), blind: *boot.config, phase: Phase::IDLE, token }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start => self.use_or_pass(out),
            Input::Receive { message: RelayMessage::Token(token), .. } => {
                self.token = Some(token);
                self.use_or_pass(out);
            }
            Input::Request(Request::Acquire) if self.phase == Phase::IDLE => self.phase = Phase::WAITING,
            Input::Request(Request::Release) if self.phase == Phase::HOLDING => {
                self.phase = Phase::IDLE;
                self.use_or_pass(out);
            }
            Input::Request(request) => out.emit(Event::Refused(request)),
            Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Relay {
    fn use_or_pass(&mut self, out: &mut impl Effects<Self>) {
        let Some(mut token) = self.token else { return };
        if self.phase == Phase::WAITING && self.blind != Some(self.id) {
            self.phase = Phase::HOLDING;
            out.emit(Event::Granted { fence: token.enter(Epoch::FIRST, self.id) });
            self.token = Some(token);
        } else if let Some(next) = self.members.after(self.id).next() {
            self.token = None;
            out.send(next, RelayMessage::Token(token));
        }
    }
}

impl Algorithm for Relay {
    const ABOUT: About = About {
        name: "relay",
        title: "Relay",
        paper: "none",
        idea: "a token goes round",
        family: mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "any number",
        faults: "none",
        settings: &[Setting {
            key: "starves",
            values: Values::Process,
            default: "nobody",
            unsafe_values: &[],
            help: "who is never let in",
        }],
        mutants: &[],
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(settings.process("starves"))
    }
}

impl Mutex for Relay {
    const MOVES_TOKEN: bool = true;

    fn promises(_config: &Self::Config, members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            overtaking: Some(members.len() as u64 - 1),
            arrival_order: false,
            stamp_order: false,
            causal_order: false,
            survives_suspicion: false,
        }
    }

    fn formula(_config: &Self::Config, _members: &Members, _tally: &Tally<'_>) -> Formula {
        Formula { text: "any number", low: 0, high: None }
    }

    fn client_hops(
        _config: &Self::Config,
        members: &Members,
        _requester: NodeId,
    ) -> core::ops::RangeInclusive<u32> {
        0..=members.len() as u32
    }

    fn rebuild(boot: Boot<'_, Self>, _roll: &Roll, _out: &mut impl Effects<Self>) -> Self {
        Self::boot(boot)
    }

    fn token(&self) -> Option<Epoch> {
        self.token.map(|_| Epoch::FIRST)
    }

    fn token_in(_message: &RelayMessage) -> Option<Epoch> {
        Some(Epoch::FIRST)
    }

    fn is_restless(_config: &Self::Config) -> bool {
        true
    }
}
