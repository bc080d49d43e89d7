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

/// Defines any election, and what else has to know all of them.
macro_rules! elections {
    ($($election:ident => $state:ty),+ $(,)?) => {
        any! {
            AnyElection, AnyConfig, AnyMessage, AnyTimer, AnyDurable,
            asked: Request, told: Event, foreign: "a message of another election",
            $($election => $state),+
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

elections! {
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
