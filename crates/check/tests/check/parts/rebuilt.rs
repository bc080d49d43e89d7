//! A lock whose group begins with an epoch that is made from a roll: whoever stood in it stands so from the beginning.

use conclave_algorithms::family::{Registered, Use, Wanted};
use conclave_algorithms::mutex::{
    self, Boxed, BoxedConfig, Epoch, Event, Fence, Mutex, Promises, Request, Roll, Standing,
};
use conclave_algorithms::{About, Algorithm, Arena, Setting, SettingError, Settings, Values};
use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, LamportClock, Members, NodeId, Phase, Protocol,
    Stamp, Through, Timing,
};

/// A process of it.
///
/// The application of a search begins by asking, wherever it stands: who is inside or waits asks once more for what it
/// has or has asked for, before anything else happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rebuilt {
    /// What the process is made from when it starts.
    origin: Option<Box<Origin>>,
    part: Option<Boxed>,
    /// How it stands, until its application has said so itself.
    stood: Standing,
    /// What it was granted before that.
    granted: Option<Fence>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Origin {
    id: NodeId,
    members: Members,
    config: RebuiltConfig,
    timing: Timing,
    life: Incarnation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RebuiltConfig {
    lock: BoxedConfig,
    roll: Roll,
}

impl Protocol for Rebuilt {
    type Config = RebuiltConfig;
    type Message = <Boxed as Protocol>::Message;
    type Request = Request;
    type Event = Event;
    type Timer = <Boxed as Protocol>::Timer;
    type Durable = <Boxed as Protocol>::Durable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, .. } = boot;
        let origin = Origin { id, members: members.clone(), config: config.clone(), timing, life };
        let stood = config.roll.standing(id).expect("everyone is in the roll");
        Self { origin: Some(Box::new(origin)), part: None, stood, granted: None }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start => self.start(out),
            Input::Request(Request::Acquire) if self.stood != Standing::Idle => {
                let fence = match core::mem::replace(&mut self.stood, Standing::Idle) {
                    Standing::Inside { fence } => Some(fence),
                    Standing::Idle | Standing::Waiting { .. } => self.granted.take(),
                };
                if let Some(fence) = fence {
                    out.emit(Event::Granted { fence });
                }
            }
            Input::Receive { from, message } => self.play(Input::Receive { from, message }, out),
            Input::Expire(timer) => self.play(Input::Expire(timer), out),
            Input::Request(request) => self.play(Input::Request(request), out),
            Input::PeerDown { peer, life } => self.play(Input::PeerDown { peer, life }, out),
            Input::PeerUp { peer, life } => self.play(Input::PeerUp { peer, life }, out),
        }
    }

    fn phase(&self) -> Phase {
        self.part.as_ref().filter(|_| self.stood == Standing::Idle).map_or(Phase::IDLE, Boxed::phase)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        if let Some(part) = &mut self.part {
            part.visit_counters(visit);
        }
    }

    fn assert_invariants(&self) {
        if let Some(part) = &self.part {
            part.assert_invariants();
        }
    }
}

impl Rebuilt {
    fn start(&mut self, out: &mut impl Effects<Self>) {
        let Some(origin) = self.origin.take() else { return };
        let Origin { id, members, config, timing, life } = *origin;
        let boot = Boot { id, members: &members, config: &config.lock, timing, life, saved: None };
        let granted = &mut self.granted;
        let now = out.now();
        let lifted = &mut Through::new(now, |effect| match effect {
            Effect::Emit(Event::Granted { fence }) => *granted = Some(fence),
            effect => lift(effect, out),
        });
        self.part = Some(Boxed::rebuild(boot, &config.roll, lifted));
    }

    fn play(&mut self, input: Input<Boxed>, out: &mut impl Effects<Self>) {
        let now = out.now();
        if let Some(part) = &mut self.part {
            part.handle(input, &mut Through::new(now, |effect| lift(effect, out)));
        }
    }
}

fn lift(effect: Effect<Boxed>, out: &mut impl Effects<Rebuilt>) {
    match effect {
        Effect::Save(durable) => out.save(durable),
        Effect::Send { to, message } => out.send(to, message),
        Effect::Arm { timer, after } => out.arm(timer, after),
        Effect::Disarm(timer) => out.disarm(timer),
        Effect::Emit(event) => out.emit(event),
        Effect::Reject { from, why } => out.reject(from, why),
    }
}

impl Mutex for Rebuilt {
    const MOVES_TOKEN: bool = true;

    fn promises(config: &Self::Config, members: &Members) -> Promises {
        Boxed::promises(&config.lock, members)
    }

    fn rebuild(boot: Boot<'_, Self>, _roll: &Roll, _out: &mut impl Effects<Self>) -> Self {
        Self::boot(boot)
    }

    fn moves_token(config: &Self::Config) -> bool {
        Boxed::moves_token(&config.lock)
    }

    fn counts_epochs(config: &Self::Config) -> bool {
        Boxed::counts_epochs(&config.lock)
    }

    fn token(&self) -> Option<Epoch> {
        self.part.as_ref().and_then(Boxed::token)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        Boxed::token_in(message)
    }

    fn asks_again(config: &Self::Config) -> bool {
        Boxed::asks_again(&config.lock)
    }

    fn is_restless(config: &Self::Config) -> bool {
        Boxed::is_restless(&config.lock)
    }
}

impl Algorithm for Rebuilt {
    /// Which lock it is, as it stands in the list of all, and which of the rolls it begins with.
    const ABOUT: About =
        About { settings: &[number("lock"), number("roll")], ..About::of("rebuilt", mutex::FAMILY) };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        struct Configured<'a>(&'a Members);
        impl mutex::Visitor for Configured<'_> {
            type Output = Result<BoxedConfig, SettingError>;

            fn visit<A: Mutex + Algorithm>(self) -> Self::Output {
                let settings = Settings::new(&A::ABOUT, Arena::Laboratory, [], None)?;
                Ok(BoxedConfig::new::<A>(A::configure(&settings, self.0)?))
            }
        }
        let about = mutex::all()[settings.number("lock") as usize];
        let lock = mutex::visit(about.name, Configured(members)).expect("it is in the list")?;
        let roll = rolls(members).swap_remove(settings.number("roll") as usize);
        Ok(RebuiltConfig { lock, roll })
    }
}

const fn number(key: &'static str) -> Setting {
    Setting { key, values: Values::Number(0, 9_999), default: "0", unsafe_values: &[], help: "" }
}

impl Registered for Rebuilt {
    const ABOUT: &'static About = &<Self as Algorithm>::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        Ok(user.with(mutex::prepared::<Self>(wanted)?))
    }
}

/// Every roll of these members: who is inside, who waits and in which order, and who called it.
pub fn rolls(members: &Members) -> Vec<Roll> {
    let mut rolls = Vec::new();
    for inside in [None].into_iter().chain(members.iter().map(Some)) {
        let others: Vec<_> = members.iter().filter(|id| Some(*id) != inside).collect();
        for queue in queues(&others) {
            rolls.extend(members.iter().map(|convener| roll(members, inside, &queue, convener)));
        }
    }
    rolls
}

/// Some of these, in every order.
fn queues(of: &[NodeId]) -> Vec<Vec<NodeId>> {
    let longer = |first: &NodeId| {
        let rest: Vec<_> = of.iter().copied().filter(|id| id != first).collect();
        queues(&rest).into_iter().map(|queue| [vec![*first], queue].concat()).collect::<Vec<_>>()
    };
    [vec![Vec::new()], of.iter().flat_map(longer).collect()].concat()
}

fn roll(members: &Members, inside: Option<NodeId>, queue: &[NodeId], convener: NodeId) -> Roll {
    let old = Epoch::FIRST.next(members.at(0));
    let standing = |process: NodeId| {
        let place = queue.iter().position(|id| *id == process);
        match place {
            _ if inside == Some(process) => {
                Standing::Inside { fence: Fence { epoch: old, counter: 4, process } }
            }
            Some(place) => {
                let since = Stamp { time: 1 + place as u64, process };
                Standing::Waiting { since, queued: false }
            }
            None => Standing::Idle,
        }
    };
    let mut clock = LamportClock::default();
    clock.witness(1 + members.len() as u64);
    let standings = members.iter().map(|id| (id, standing(id))).collect();
    Roll { epoch: old.next(convener), convener, standings, clock }
}
