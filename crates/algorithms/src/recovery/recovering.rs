//! An algorithm for mutual exclusion together with its recovery, as an algorithm of its own.

use alloc::collections::BTreeSet;
use core::ops::RangeInclusive;

use conclave_core::{Boot, Effects, Input, Members, NodeId, Protocol, Stamp};

use super::{Assembly, AssemblyConfig, Consent, Monitor, Msg, Mutation};
use crate::election::Bully;
use crate::led::{Led, LedConfig, LedMessage};
use crate::mutex::{Epoch, Mutex, Promises, Roll, Tally};
use crate::{About, Algorithm, Arena, Formula, Setting, SettingError, Settings, Synchrony, Values};

/// The algorithm `A` in a group that recovers, led by whoever the bully makes its leader.
pub type Recovering<A> = Led<Bully, Assembly<A>>;

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
        values: Values::OneOf(&["elected", "all"]),
        default: "elected",
        unsafe_values: &[],
        help: "who looks for a lost token: the leader, or whoever waits for it",
    },
    Setting {
        key: "silence",
        values: Values::OneOf(&["wait", "dead"]),
        default: "wait",
        unsafe_values: &[],
        help: "whether who does not answer in time is dead, or only who the failure detector names",
    },
];

/// Whether this mutant shows only in a group that recovers.
#[must_use]
pub fn is_mutant_of_recovery(name: &str) -> bool {
    Mutation::named(name).is_some()
}

/// Whether an algorithm with these settings runs as [`Recovering`].
#[must_use]
pub fn recovers<A: Mutex>(settings: &Settings, members: &Members) -> bool {
    let view = || A::configure(settings, members).is_ok_and(|config| A::needs_majority(&config));
    settings.get("recovery") == "on" || settings.mutant().is_some_and(is_mutant_of_recovery) || view()
}

impl<A: Mutex> Algorithm for Recovering<A> {
    /// The election inside relies on time, whatever the algorithm does.
    const ABOUT: About = About { synchrony: Synchrony::Synchronous, ..A::ABOUT };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let bully = Settings::new(&Bully::ABOUT, Arena::Live, [("skip-known-dead", "yes")], None)?;
        let algorithm = A::configure(settings, members)?;
        Ok(LedConfig {
            election: Bully::configure(&bully, members)?,
            application: AssemblyConfig {
                consent: if A::needs_majority(&algorithm) { Consent::Majority } else { Consent::Living },
                algorithm,
                monitor: if settings.get("monitor") == "all" { Monitor::All } else { Monitor::Elected },
                silence_is_death: settings.get("silence") == "dead",
                mutation: Mutation::of(settings),
            },
        })
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

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        A::announced(from, part_of::<A>(message)?)
    }

    /// A group that recovers needs nobody to repair it: the roll is as good as one of its own.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = <Self as Protocol>::boot(boot);
        let install = Msg::Install { ballot: roll.epoch, roll: roll.clone(), left: BTreeSet::new() };
        let message = LedMessage::Application(install);
        process.handle(Input::Receive { from: roll.epoch.creator, message }, out);
        process
    }

    const MOVES_TOKEN: bool = A::MOVES_TOKEN;
    const COUNTS_EPOCHS: bool = A::COUNTS_EPOCHS;
    const CHANGES_GROUP: bool = true;

    fn token(&self) -> Option<Epoch> {
        self.application().part().and_then(A::token)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        A::token_in(part_of::<A>(message)?)
    }

    fn asks_again(config: &Self::Config) -> bool {
        A::asks_again(&config.application.algorithm)
    }

    fn is_restless(config: &Self::Config) -> bool {
        A::is_restless(&config.application.algorithm)
    }

    fn epoch_seen(&self) -> Epoch {
        self.application().epoch()
    }
}

fn part_of<A: Mutex>(message: &<Recovering<A> as Protocol>::Message) -> Option<&A::Message> {
    match message {
        LedMessage::Application(Msg::Part { message, .. }) => Some(message),
        _ => None,
    }
}
