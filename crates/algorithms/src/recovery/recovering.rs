//! An algorithm for mutual exclusion together with its recovery, as an algorithm of its own.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use conclave_core::{Boot, Effects, Input, Members, NodeId, Protocol, Stamp};

use super::{Assembly, AssemblyConfig, AssemblyMessage, Consent, Key, Limits, Monitor, Msg, Mutation};
use crate::dynamic::read;
use crate::election::{AnyConfig, AnyElection, AnyMessage};
use crate::led::{Led, LedConfig, LedMessage};
use crate::mutex::{Epoch, Event, Locks, Mutex, Promises, Request, Roll, Tally};
use crate::named::{Name, NamedRequest};
use crate::recorded::Token;
use crate::{About, Algorithm, Formula, Mutant, Setting, SettingError, Settings, Synchrony, Values};

/// The algorithm `A` in a group that recovers, led by whoever an election makes its leader: the bully, unless another is
/// asked for. With [`Name`]s as keys it is any number of locks, each by this algorithm.
pub type Recovering<A, K = ()> = Led<AnyElection, Assembly<A, K>>;

/// What can be set about the recovery of any algorithm for mutual exclusion.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "recovery",
        values: Values::OneOf(&["auto", "on", "off"]),
        default: "auto",
        unsafe_values: &[],
        help: "whether the group recovers after failures; auto: if there is a failure to recover from",
    },
    Setting {
        key: "monitor",
        values: Values::ProcessOr(&["elected", "all"]),
        default: "elected",
        unsafe_values: &[],
        help: "who looks for a lost token: the leader, or whoever waits for it; a process that is named also leads, until it dies",
    },
    Setting {
        key: "silence",
        values: Values::OneOf(&["wait", "dead"]),
        default: "wait",
        unsafe_values: &[],
        help: "whether who does not answer in time is dead, or only who the failure detector names",
    },
    Setting {
        key: "poll",
        values: Values::Number(0, 3_600_000),
        default: "0",
        unsafe_values: &[],
        help: "every so many milliseconds the leader asks who is down whether it is up again; 0: who comes back says so",
    },
    AnyConfig::SETTING,
    Setting {
        key: "elect",
        values: Values::OneOf(&["needed", "always"]),
        default: "needed",
        unsafe_values: &[],
        help: "whether an election is held after a failure only if the leader is gone, or always",
    },
];

/// Whether this mutant shows only in a group that recovers.
#[must_use]
pub fn is_mutant_of_recovery(name: &str) -> bool {
    Mutation::named(name).is_some()
}

/// The mutants of the recovery itself: every algorithm that can recover has them, too.
pub const MUTANTS: &[Mutant] = Mutation::TABLE;

/// Whether an algorithm with these settings runs as [`Recovering`].
#[must_use]
pub fn recovers<A: Mutex + Algorithm>(settings: &Settings, members: &Members) -> bool {
    let view = || {
        A::configure(settings, members)
            .is_ok_and(|config| A::needs_majority(&config) || A::begins_unled(&config))
    };
    settings.get("recovery") == "on" || settings.mutant().is_some_and(is_mutant_of_recovery) || view()
}

impl<A: Mutex + Algorithm> Algorithm for Recovering<A> {
    /// The election inside relies on time, whatever the algorithm does.
    const ABOUT: About = About { synchrony: Synchrony::Synchronous, ..A::ABOUT };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Self::around(A::configure(settings, members)?, settings, members)
    }
}

impl<A: Mutex> Recovering<A> {
    /// The configuration of a group that recovers, around that of its algorithm.
    ///
    /// # Errors
    /// If it cannot be set up so.
    pub fn around(
        algorithm: A::Config,
        settings: &Settings,
        members: &Members,
    ) -> Result<<Self as Protocol>::Config, SettingError> {
        Ok(LedConfig {
            election: AnyConfig::read(settings, members)?,
            application: AssemblyConfig {
                consent: if A::needs_majority(&algorithm) { Consent::Majority } else { Consent::Living },
                algorithm,
                monitor: monitor(settings, members)?,
                silence_is_death: settings.get("silence") == "dead",
                poll: Some(Duration::from_millis(settings.number("poll"))).filter(|every| !every.is_zero()),
                limits: Limits::default(),
                elects_always: settings.get("elect") == "always",
                mutation: Mutation::of(settings),
            },
        })
    }
}

fn monitor(settings: &Settings, members: &Members) -> Result<Monitor, SettingError> {
    match settings.process("monitor") {
        Some(node) if members.contains(node) => Ok(Monitor::Node(node)),
        Some(node) => {
            Err(SettingError::Unfit(format!("monitor={node} is not possible: {node} is no member")))
        }
        None if settings.get("monitor") == "all" => Ok(Monitor::All),
        None => Ok(Monitor::Elected),
    }
}

impl<A: Mutex> Mutex for Recovering<A> {
    fn promises(config: &Self::Config, members: &Members) -> Promises {
        let survives_suspicion = config.application.consent == Consent::Majority;
        Promises { survives_suspicion, ..A::promises(&config.application.algorithm, members) }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        A::formula(&config.application.algorithm, members, tally)
    }

    fn mean(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Option<f64> {
        A::mean(&config.application.algorithm, members, tally)
    }

    fn client_hops(config: &Self::Config, members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        let alone = A::client_hops(&config.application.algorithm, members, requester);
        match config.application.consent {
            Consent::Living => alone,
            // A grant is confirmed by a majority first, if there is anybody else.
            Consent::Majority if members.len() > 1 => *alone.start()..=*alone.end() + 2,
            Consent::Majority => alone,
        }
    }

    fn read(config: &Self::Config, bytes: &[u8]) -> Option<Self::Message> {
        read_message::<A, ()>(config, bytes)
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        A::announced(from, part_of::<A, ()>(message)?.1)
    }

    /// A group that recovers needs nobody to repair it: the roll is as good as one of its own.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = <Self as Protocol>::boot(boot);
        let install = Msg::Install { ballot: roll.epoch, roll: roll.into(), left: BTreeSet::new() };
        let message = LedMessage::Application(install);
        process.handle(Input::Receive { from: roll.epoch.creator, message }, out);
        process
    }

    const MOVES_TOKEN: bool = A::MOVES_TOKEN;
    const CHANGES_GROUP: bool = true;

    fn moves_token(config: &Self::Config) -> bool {
        A::moves_token(&config.application.algorithm)
    }

    fn counts_epochs(config: &Self::Config) -> bool {
        A::counts_epochs(&config.application.algorithm)
    }

    fn token(&self) -> Option<Epoch> {
        self.application().part(&()).and_then(A::token)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        A::token_in(part_of::<A, ()>(message)?.1)
    }

    fn asks_again(config: &Self::Config) -> bool {
        A::asks_again(&config.application.algorithm)
    }

    fn on_demand(mut config: Self::Config) -> Self::Config {
        config.application.algorithm = A::on_demand(config.application.algorithm);
        config
    }

    fn is_restless(config: &Self::Config) -> bool {
        config.application.poll.is_some() || A::is_restless(&config.application.algorithm)
    }

    fn epoch_seen(&self) -> Epoch {
        self.application().epoch()
    }
}

type Message<A, K> = <Recovering<A, K> as Protocol>::Message;

fn part_of<A: Mutex, K: Key>(message: &Message<A, K>) -> Option<(&K, &A::Message)> {
    match message {
        LedMessage::Application(Msg::Part { lock, message, .. }) => Some((lock, message)),
        _ => None,
    }
}

fn read_message<A: Mutex, K: Key>(
    config: &<Recovering<A, K> as Protocol>::Config,
    bytes: &[u8],
) -> Option<Message<A, K>> {
    type Outer<K> = LedMessage<AnyMessage, AssemblyMessage<(), K>>;
    // What a part says comes last: all that the rest of the message leaves.
    let (outer, rest) = postcard::take_from_bytes::<Outer<K>>(bytes).ok()?;
    match outer {
        LedMessage::Application(Msg::Part { epoch, time, lock, .. }) => {
            let message = A::read(&config.application.algorithm, rest)?;
            Some(LedMessage::Application(Msg::Part { epoch, time, lock, message }))
        }
        _ => read(bytes),
    }
}

/// Many locks by name, in one group that recovers: one failure detector, one election and one roll for all of them. Lock `k`
/// is the one that [`Name::numbered`] names.
impl<A: Mutex> Locks for Recovering<A, Name> {
    fn ask(lock: usize, request: Request) -> Self::Request {
        NamedRequest { name: Name::numbered(lock), request }
    }

    fn ask_named(name: &Name, request: Request) -> Self::Request {
        NamedRequest { name: name.clone(), request }
    }

    fn asked(request: &Self::Request) -> (usize, Request) {
        (request.name.judged(), request.request)
    }

    fn told(event: &Self::Event) -> (usize, &Event) {
        (event.name.judged(), &event.event)
    }

    fn name_asked(request: &Self::Request) -> Option<&Name> {
        Some(&request.name)
    }

    fn name_told(event: &Self::Event) -> Option<&Name> {
        Some(&event.name)
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<(usize, Stamp)> {
        let (name, message) = part_of::<A, Name>(message)?;
        Some((name.number()?, A::announced(from, message)?))
    }

    fn read(config: &Self::Config, bytes: &[u8]) -> Option<Self::Message> {
        read_message::<A, Name>(config, bytes)
    }

    const MOVES_TOKEN: bool = <A as Mutex>::MOVES_TOKEN;

    fn moves_token(config: &Self::Config) -> bool {
        <A as Mutex>::moves_token(&config.application.algorithm)
    }

    fn token(&self, lock: usize) -> Option<Epoch> {
        self.application().part(&Name::numbered(lock)).and_then(<A as Mutex>::token)
    }

    fn token_in(message: &Self::Message) -> Option<(usize, Epoch)> {
        let (name, message) = part_of::<A, Name>(message)?;
        Some((name.number()?, <A as Mutex>::token_in(message)?))
    }

    fn tokens(&self) -> Vec<Token> {
        let group = self.application();
        let epoch = |name| group.part(name).and_then(<A as Mutex>::token);
        group.lock_keys().map(|name| Token { lock: name.to_string(), epoch: epoch(name) }).collect()
    }

    fn named_token_in(message: &Self::Message) -> Option<Token> {
        let (name, message) = part_of::<A, Name>(message)?;
        Some(Token { lock: name.to_string(), epoch: Some(<A as Mutex>::token_in(message)?) })
    }
}
