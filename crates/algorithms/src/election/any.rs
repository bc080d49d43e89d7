//! An election that is chosen by name when a process starts, to be embedded in a protocol that needs a leader.
//!
//! [`Led`](crate::Led) takes any election as a type. Compiling every application once per election would cost far more than
//! it is worth, so this is one type for all of them: the bully as a value, which is what is embedded unless something else
//! is said, and the others in boxes. Values hash and print like the value inside.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{
    Boot, Counter, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Through, erased,
};
use serde::{Deserialize, Serialize};

use super::{
    Bully, ChangRoberts, Election, Event, Request, RingActiveList, RingBallot, RingKLeaders, RingList, Tally,
};
use crate::{Algorithm, Arena, Formula, Setting, SettingError, Settings, Values};

/// Defines a value of any election: it hashes and prints like the value inside.
macro_rules! either {
    ($(#[$doc:meta])* $name:ident: $($election:ident => $type:ty),+ $(,)?) => {
        $(#[$doc])*
        #[allow(clippy::large_enum_variant, reason = "the usual election is not boxed")]
        pub enum $name {
            $(#[doc = concat!("Of [`", stringify!($election), "`].")] $election($type),)+
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                match self { $(Self::$election(value) => value.hash(state),)+ }
            }
        }

        impl Debug for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
                match self { $(Self::$election(value) => value.fmt(f),)+ }
            }
        }
    };
}

/// Defines everything that belongs to any election from the list of all of them.
macro_rules! any {
    ($($election:ident => $state:ty),+ $(,)?) => {
        either! {
            /// A process of any election.
            #[derive(Clone, PartialEq, Eq)]
            AnyElection: $($election => $state),+
        }

        either! {
            /// The settings of any election.
            #[derive(Clone, PartialEq, Eq)]
            AnyConfig: $($election => <$election as Protocol>::Config),+
        }

        either! {
            /// A message of any election.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            AnyMessage: $($election => <$election as Protocol>::Message),+
        }

        either! {
            /// A timer of any election.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
            AnyTimer: $($election => <$election as Protocol>::Timer),+
        }

        either! {
            /// What a process of any election saves.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            AnyDurable: $($election => <$election as Protocol>::Durable),+
        }

        impl Message for AnyMessage {
            fn kind(&self) -> &'static str {
                match self { $(Self::$election(message) => message.kind(),)+ }
            }

            fn is_overhead(&self) -> bool {
                match self { $(Self::$election(message) => message.is_overhead(),)+ }
            }

            fn envelopes(&self) -> u32 {
                1 + match self { $(Self::$election(message) => message.envelopes(),)+ }
            }

            fn postmark(&self) -> String {
                match self { $(Self::$election(message) => message.postmark(),)+ }
            }

            fn visit_counters(
                &mut self,
                from: NodeId,
                members: &Members,
                visit: &mut dyn FnMut(Counter<'_>),
            ) {
                match self { $(Self::$election(message) => message.visit_counters(from, members, visit),)+ }
            }
        }

        impl Protocol for AnyElection {
            type Config = AnyConfig;
            type Message = AnyMessage;
            type Request = Request;
            type Event = Event;
            type Timer = AnyTimer;
            type Durable = AnyDurable;

            fn boot(boot: Boot<'_, Self>) -> Self {
                let Boot { id, members, config, timing, life, saved } = boot;
                match config {
                    $(AnyConfig::$election(config) => {
                        // What another election has saved means nothing to this one.
                        let saved = match saved {
                            Some(AnyDurable::$election(saved)) => Some(saved),
                            _ => None,
                        };
                        let boot = Boot { id, members, config, timing, life, saved };
                        Self::$election($election::boot(boot).into())
                    })+
                }
            }

            fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
                let out = erased(out);
                let now = out.now();
                match self {
                    $(Self::$election(election) => {
                        let input = match input {
                            Input::Start => Input::Start,
                            Input::Receive { from, message: AnyMessage::$election(message) } => {
                                Input::Receive { from, message }
                            }
                            Input::Receive { from, .. } => {
                                return out.push(Effect::Reject { from, why: "a message of another election" });
                            }
                            Input::Expire(AnyTimer::$election(timer)) => Input::Expire(timer),
                            // No driver gives back a timer that was not armed.
                            Input::Expire(_) => return,
                            Input::Request(request) => Input::Request(request),
                            Input::PeerDown { peer, life } => Input::PeerDown { peer, life },
                            Input::PeerUp { peer, life } => Input::PeerUp { peer, life },
                        };
                        let lift = |effect: Effect<$election>| out.push(match effect {
                            Effect::Save(saved) => Effect::Save(AnyDurable::$election(saved)),
                            Effect::Send { to, message } => {
                                Effect::Send { to, message: AnyMessage::$election(message) }
                            }
                            Effect::Arm { timer, after } => {
                                Effect::Arm { timer: AnyTimer::$election(timer), after }
                            }
                            Effect::Disarm(timer) => Effect::Disarm(AnyTimer::$election(timer)),
                            Effect::Emit(event) => Effect::Emit(event),
                            Effect::Reject { from, why } => Effect::Reject { from, why },
                        });
                        election.handle(input, &mut erased(&mut Through::new(now, lift)));
                    })+
                }
            }

            fn phase(&self) -> Phase {
                match self { $(Self::$election(election) => election.phase(),)+ }
            }

            fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
                match self { $(Self::$election(election) => election.visit_counters(visit),)+ }
            }

            fn assert_invariants(&self) {
                match self { $(Self::$election(election) => election.assert_invariants(),)+ }
            }
        }

        impl AnyConfig {
            /// The settings of the election of this name, if there is one, with these of its own.
            ///
            /// # Errors
            /// If they do not fit.
            fn named(
                name: &str,
                given: &[(&str, &str)],
                members: &Members,
            ) -> Result<Option<Self>, SettingError> {
                $(if name == $election::ABOUT.name {
                    let settings = Settings::new(&$election::ABOUT, Arena::Live, given.iter().copied(), None)?;
                    return Ok(Some(Self::$election($election::configure(&settings, members)?)));
                })+
                Ok(None)
            }

            /// How many messages an election must cost.
            #[must_use]
            pub fn formula(&self, members: &Members, tally: &Tally<'_>) -> Formula {
                match self { $(Self::$election(config) => $election::formula(config, members, tally),)+ }
            }
        }

        /// The names of all elections.
        const NAMES: &[&str] = &[$($election::ABOUT.name),+];
    };
}

any! {
    Bully => Bully,
    ChangRoberts => Box<ChangRoberts>,
    RingActiveList => Box<RingActiveList>,
    RingList => Box<RingList>,
    RingKLeaders => Box<RingKLeaders>,
    RingBallot => Box<RingBallot>,
}

impl AnyConfig {
    /// The setting of whatever embeds an election.
    pub const SETTING: Setting = Setting {
        key: "election",
        values: Values::OneOf(NAMES),
        default: "bully",
        unsafe_values: &[],
        help: "how the leader is elected; the rings need a failure detector",
    };

    /// Reads the setting. The bully leaves out who is known to be dead, so that a successor is found at once.
    ///
    /// # Errors
    /// If the election cannot be set up among these members.
    pub fn read(settings: &Settings, members: &Members) -> Result<Self, SettingError> {
        let name = settings.get(Self::SETTING.key);
        let given: &[_] = if name == Bully::ABOUT.name { &[("skip-known-dead", "yes")] } else { &[] };
        let config = Self::named(name, given, members)?;
        config.ok_or_else(|| SettingError::Unfit(alloc::format!("there is no election '{name}'")))
    }
}
