//! The recovery by itself: under an election that names anybody at any time, and around a lock that can do whatever a
//! lock may do in one epoch.

use core::time::Duration;

use conclave_algorithms::family::{Registered, Use, Wanted};
use conclave_algorithms::mutex::{self, Epoch, Event, FenceCounter, Mutex, Request, Roll};
use conclave_algorithms::{
    About, Algorithm, Assembly, AssemblyMessage, AssemblyTimer, Led, LedConfig, LedMessage, LedTimer,
    Recovering, Setting, SettingError, Settings, Values, election,
};
use conclave_core::{
    After, Boot, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Through,
};
use serde::{Deserialize, Serialize};

/// An election that tells its process that anybody leads, at any time, a number of times. It sends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Anybody {
    id: NodeId,
    members: Members,
    left: u8,
}

/// Nothing is ever said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Nothing {}

impl Message for Nothing {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

impl Protocol for Anybody {
    type Config = u8;
    type Message = Nothing;
    type Request = election::Request;
    type Event = election::Event;
    /// Who is named when it expires.
    type Timer = NodeId;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self { id: boot.id, members: boot.members.clone(), left: *boot.config }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start => self.set_timers(out),
            // What such an election comes to in the end is not judged: to a search, more may always come.
            Input::Expire(leader) if self.left == 0 => out.arm(leader, AT_ANY_TIME),
            Input::Expire(leader) => {
                self.left -= 1;
                self.set_timers(out);
                out.emit(election::Event::Elected { leaders: vec![leader], term: 0 });
            }
            Input::Receive { message, .. } => match message {},
            Input::Request(_) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }
}

/// Where time is not counted.
const AT_ANY_TIME: After = After::exactly(Duration::ZERO);

impl Anybody {
    fn set_timers(&self, out: &mut impl Effects<Self>) {
        for candidate in self.members.iter() {
            match self.left > 0 || candidate == self.id {
                true => out.arm(candidate, AT_ANY_TIME),
                false => out.disarm(candidate),
            }
        }
    }
}

/// A lock by a token that goes from anybody to anybody at any time. Whatever a lock grants in one epoch, and when: there
/// is a way of this token that grants the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wandering {
    id: NodeId,
    others: Vec<NodeId>,
    epoch: Epoch,
    phase: Phase,
    token: Option<FenceCounter>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    epoch: Epoch,
    fences: FenceCounter,
}

impl Message for Token {
    fn kind(&self) -> &'static str {
        "Token"
    }
}

impl Wandering {
    fn at(id: NodeId, members: &Members, epoch: Epoch, keeper: NodeId) -> Self {
        let token = (keeper == id).then(FenceCounter::default);
        Self { id, others: members.others(id).collect(), epoch, phase: Phase::IDLE, token }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let Some(fences) = self.token.as_mut().filter(|_| self.phase == Phase::WAITING) {
            self.phase = Phase::HOLDING;
            out.emit(Event::Granted { fence: fences.enter(self.epoch, self.id) });
        }
    }

    /// Whoever has the token and does not need it may pass it on to anybody, at any time.
    fn set_timers(&self, out: &mut impl Effects<Self>) {
        let may_pass = self.token.is_some() && self.phase == Phase::IDLE;
        for other in self.others.iter().copied() {
            match may_pass {
                true => out.arm(other, AT_ANY_TIME),
                false => out.disarm(other),
            }
        }
    }
}

impl Protocol for Wandering {
    type Config = ();
    type Message = Token;
    type Request = Request;
    type Event = Event;
    /// Whom the token goes to when it expires.
    type Timer = NodeId;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self::at(boot.id, boot.members, Epoch::FIRST, boot.members.at(0))
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(Request::Acquire) => self.phase = Phase::WAITING,
            Input::Request(Request::Release | Request::Cancel) => self.phase = Phase::IDLE,
            Input::Request(request) => out.emit(Event::Refused(request)),
            Input::Receive { message, .. } => self.token = Some(message.fences),
            Input::Expire(to) => {
                if let Some(fences) = self.token.take() {
                    out.send(to, Token { epoch: self.epoch, fences });
                }
            }
            Input::Start | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
        self.maybe_enter(out);
        self.set_timers(out);
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Mutex for Wandering {
    const MOVES_TOKEN: bool = true;

    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut part = Self::at(boot.id, boot.members, roll.epoch, roll.keeper());
        match roll.standing(boot.id) {
            Some(mutex::Standing::Inside { .. }) => part.phase = Phase::HOLDING,
            Some(mutex::Standing::Waiting { .. }) => part.phase = Phase::WAITING,
            Some(mutex::Standing::Idle) | None => {}
        }
        part.maybe_enter(out);
        part.set_timers(out);
        part
    }

    fn token(&self) -> Option<Epoch> {
        self.token.map(|_| self.epoch)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        Some(message.epoch)
    }
}

impl Algorithm for Wandering {
    const ABOUT: About = About::of("wandering", mutex::FAMILY);

    fn configure(_settings: &Settings, _members: &Members) -> Result<(), SettingError> {
        Ok(())
    }
}

type Group = Led<Anybody, Assembly<Wandering>>;

/// A process of the group. Time is not counted, so that nothing but a limit keeps it from asking again and again, and two
/// who are both told that they lead from calling one roll after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assembled {
    group: Group,
    /// How often it may still lose its patience.
    left: u8,
    /// The number of the last call of a roll that is sent.
    calls: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AssembledConfig {
    group: <Group as Protocol>::Config,
    patience: u8,
    calls: u64,
}

/// Whether a timer only says that something takes long, and is armed again whenever it has expired.
fn is_patience(timer: &<Group as Protocol>::Timer) -> bool {
    let LedTimer::Application(timer) = timer else { return false };
    matches!(timer, AssemblyTimer::CheckIn | AssemblyTimer::Patience(()))
}

impl Protocol for Assembled {
    type Config = AssembledConfig;
    type Message = <Group as Protocol>::Message;
    type Request = Request;
    type Event = Event;
    type Timer = <Group as Protocol>::Timer;
    type Durable = <Group as Protocol>::Durable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, saved } = boot;
        let group = Group::boot(Boot { id, members, config: &config.group, timing, life, saved });
        Self { group, left: config.patience, calls: config.calls }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let input = match input {
            Input::Start => Input::Start,
            Input::Receive { from, message } => Input::Receive { from, message },
            Input::Expire(timer) => {
                self.left -= u8::from(is_patience(&timer));
                Input::Expire(timer)
            }
            Input::Request(request) => Input::Request(request),
            Input::PeerDown { peer, life } => Input::PeerDown { peer, life },
            Input::PeerUp { peer, life } => Input::PeerUp { peer, life },
        };
        let (is_patient, calls) = (self.left == 0, self.calls);
        let is_beyond = |message: &<Group as Protocol>::Message| match message {
            LedMessage::Application(AssemblyMessage::Gather { ballot, .. }) => ballot.number > calls,
            _ => false,
        };
        let now = out.now();
        let lifted = &mut Through::new(now, |effect: Effect<Group>| match effect {
            Effect::Save(durable) => out.save(durable),
            Effect::Send { message, .. } if is_beyond(&message) => {}
            Effect::Send { to, message } => out.send(to, message),
            Effect::Arm { timer, .. } if is_patient && is_patience(&timer) => out.disarm(timer),
            Effect::Arm { timer, after } => out.arm(timer, after),
            Effect::Disarm(timer) => out.disarm(timer),
            Effect::Emit(event) => out.emit(event),
            Effect::Reject { from, why } => out.reject(from, why),
        });
        self.group.handle(input, lifted);
    }

    fn phase(&self) -> Phase {
        self.group.phase()
    }

    fn assert_invariants(&self) {
        self.group.assert_invariants();
    }
}

impl Mutex for Assembled {
    const MOVES_TOKEN: bool = true;
    const CHANGES_GROUP: bool = true;

    fn rebuild(boot: Boot<'_, Self>, _roll: &Roll, _out: &mut impl Effects<Self>) -> Self {
        Self::boot(boot)
    }

    fn token(&self) -> Option<Epoch> {
        self.group.application().part(&()).and_then(Wandering::token)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            LedMessage::Application(AssemblyMessage::Part { message, .. }) => Wandering::token_in(message),
            _ => None,
        }
    }
}

impl Algorithm for Assembled {
    /// How often each process is told that anybody leads, how often it may lose its patience, and how many calls of a roll
    /// follow each other at most.
    const ABOUT: About = About {
        settings: &[number("names"), number("patience"), number("calls")],
        ..About::of("assembled", mutex::FAMILY)
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let few = |key| u8::try_from(settings.number(key)).unwrap_or(u8::MAX);
        let application = Recovering::<Wandering>::around((), settings, members)?.application;
        let group = LedConfig { election: few("names"), application };
        Ok(AssembledConfig { group, patience: few("patience"), calls: settings.number("calls") })
    }
}

const fn number(key: &'static str) -> Setting {
    Setting { key, values: Values::Number(0, 9), default: "1", unsafe_values: &[], help: "" }
}

impl Registered for Assembled {
    const ABOUT: &'static About = &<Self as Algorithm>::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        Ok(user.with(mutex::prepared::<Self>(wanted)?))
    }
}
