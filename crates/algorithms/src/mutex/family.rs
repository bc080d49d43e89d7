//! Mutual exclusion as a family: its words, and how one of its algorithms is prepared.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Input, Members};

use super::users::Entries;
use super::{
    Boxed, BoxedConfig, Entering, Epoch, Event, Ledger, LockMeter, Locks, LocksDesk, Mutex, Properties,
    Request, Scope, Tally,
};
use crate::demand::{Demand, Load};
use crate::family::{Endless, EventText, Family, Kind, Prepared, Registered, Searches, Usage, Use, Wanted};
use crate::measure::grouped;
use crate::recorded::Token;
use crate::span::Span;
use crate::{
    About, Algorithm, Arena, Breach, Name, Named, NamedConfig, Recovering, SettingError,
    is_mutant_of_recovery, recovers, recovery,
};

/// At most one process at a time.
pub const FAMILY: Kind = Kind {
    name: "mutex",
    title: "mutual exclusion",
    settings: recovery::SETTINGS,
    requests: &[
        Usage { verb: "request", traced: "acquire", values: "[lock K]" },
        Usage::new("release", "[lock K]"),
        Usage::new("cancel", "[lock K]"),
        Usage::new("leave", "[lock K]"),
    ],
    options: &[
        "--locks",
        "--entries",
        "--load",
        "--think",
        "--hold",
        "--give-up",
        "--join",
        "--leave",
        "--lose-token",
    ],
    always_detects: false,
    provokes_mutants: true,
    chance_ends: false,
    describe,
    counted: ("entry", "entries"),
    searches: Searches { cancels: true, order: true, forever: true, first: false, recovers: true },
};

/// How hard the processes press, in words.
fn describe(demand: &Demand, members: &Members, locks: usize) -> Vec<String> {
    let mut facts = Vec::new();
    if locks > 1 {
        facts.push(format!("{locks} locks"));
    }
    let entries =
        if demand.rounds == 1 { "1 entry".into() } else { format!("{} entries", grouped(demand.rounds)) };
    facts.push(if members.len() == 1 { entries } else { entries + " each" });
    facts.push(format!("{} load", demand.load.name()));
    facts
}

/// Mutual exclusion, on one lock or several.
pub struct Locking<L>(PhantomData<L>);

impl<L: Locks> Family for Locking<L> {
    type Protocol = L;
    type Judge = Properties;
    type Ledger = Ledger;
    type App = Entering;
    type Users = Entries;
    type Meter = LockMeter;
    type Desk = LocksDesk;

    const ENDLESS: Endless = Endless::NobodyStarves("ME3");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, lock: usize) -> Option<L::Request> {
        let request = match words {
            "acquire" | "request" => Request::Acquire,
            "release" => Request::Release,
            "cancel" => Request::Cancel,
            "leave" => Request::Leave,
            _ => return None,
        };
        Some(L::ask(lock, request))
    }

    fn show(request: &L::Request) -> (String, usize) {
        let (lock, request) = L::asked(request);
        (word(request).into(), lock)
    }

    fn told(event: &L::Event) -> EventText {
        match L::told(event) {
            (lock, Event::Granted { fence }) => {
                EventText { event: "granted".into(), fence: fence.to_string(), lock }
            }
            (lock, Event::Lost { fence }) => {
                EventText { event: "lost".into(), fence: fence.to_string(), lock }
            }
            (lock, Event::Left) => EventText { event: "left".into(), fence: String::new(), lock },
            (lock, Event::Refused(request)) => {
                EventText { event: format!("refused {}", word(*request)), fence: String::new(), lock }
            }
        }
    }

    fn lock_asked(request: &L::Request) -> Option<String> {
        L::name_asked(request).map(ToString::to_string)
    }

    fn lock_told(event: &L::Event) -> Option<String> {
        L::name_told(event).map(ToString::to_string)
    }

    fn has_left(event: &L::Event) -> bool {
        matches!(L::told(event), (_, Event::Left))
    }

    fn begins_waiting(input: &Input<L>) -> bool {
        matches!(input, Input::Request(request) if L::asked(request).1 == Request::Acquire)
    }

    fn gives_up(input: &Input<L>) -> bool {
        matches!(input, Input::Request(request) if L::asked(request).1 == Request::Cancel)
    }

    fn ends_waiting(event: &L::Event) -> bool {
        matches!(L::told(event).1, Event::Granted { .. } | Event::Left)
    }

    fn read_message(config: &L::Config, bytes: &[u8]) -> Option<L::Message> {
        L::read(config, bytes)
    }

    fn is_token_based(config: &L::Config) -> bool {
        L::moves_token(config)
    }

    fn token(state: &L) -> Option<Epoch> {
        state.token(0)
    }

    fn too_many(tokens: &[Epoch]) -> Option<Breach> {
        let latest = tokens.iter().max()?;
        let count = tokens.iter().filter(|token| *token == latest).count();
        let detail = || format!("there are {count} tokens of epoch {latest}");
        (count > 1).then(|| Breach { property: "TOK", detail: detail(), promised: true })
    }

    fn token_in(message: &L::Message) -> Option<Epoch> {
        L::token_in(message).map(|(_, epoch)| epoch)
    }

    fn tokens(state: &L) -> Vec<Token> {
        state.tokens()
    }

    fn named_token_in(message: &L::Message) -> Option<Token> {
        L::named_token_in(message)
    }
}

fn word(request: Request) -> &'static str {
    match request {
        Request::Acquire => "acquire",
        Request::Release => "release",
        Request::Cancel => "cancel",
        Request::Leave => "leave",
    }
}

/// An algorithm for mutual exclusion, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Mutex + Algorithm> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    /// A live lock recovers unless that is turned off, since real processes do fail; a live process serves any number of locks. In the
    /// laboratory `recovery=auto` is on if there is a failure to recover from; a mutant is seen as it is, unless it is
    /// the recovery that is mutated.
    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        if wanted.locks == 0 {
            return Err(SettingError::Unfit("there must be at least one lock".into()));
        }
        let members = Members::listed(wanted.nodes.to_vec());
        let live = wanted.arena == Arena::Live;
        let heals = live && wanted.recovery() != "off";
        let whole = wanted.mutant.is_none_or(is_mutant_of_recovery);
        let decided = heals || (wanted.recovery() == "auto" && whole && wanted.failures);
        let recovers = heals || recovers::<A>(&wanted.settings::<A>(decided)?, &members);
        let several = wanted.locks > 1 || live;
        let settings = &wanted.settings::<A>(decided)?;
        let algorithm = A::configure(settings, &members)?;
        let (about, recovering) = const { (&A::ABOUT, &<Recovering<A> as Algorithm>::ABOUT) };
        if U::TYPED && !recovers && !several {
            return Ok(user.with(single::<A>(about, algorithm, wanted, decided)?));
        }
        let algorithm = BoxedConfig::new::<A>(algorithm);
        if recovers {
            let config = Recovering::<Boxed>::around(algorithm, settings, &members)?;
            let one = single::<Recovering<Boxed>>(recovering, config, wanted, decided)?;
            give(one, several, user, |one| {
                recast::<_, Recovering<Boxed, Name>>(one, <Recovering<Boxed> as Mutex>::on_demand)
            })
        } else {
            let one = single::<Boxed>(about, algorithm, wanted, decided)?;
            give(one, several, user, |one| recast::<_, Named<Boxed>>(one, NamedConfig::new))
        }
    }
}

/// A single lock exactly as it is, whatever is wanted of recovery and of other locks.
///
/// # Errors
/// If it cannot be set up so.
pub fn prepared<A: Mutex + Algorithm>(wanted: &Wanted<'_>) -> Result<Prepared<Locking<A>>, SettingError> {
    let members = Members::listed(wanted.nodes.to_vec());
    let config = A::configure(&wanted.settings::<A>(false)?, &members)?;
    single(const { &A::ABOUT }, config, wanted, false)
}

/// Hands one lock over, or several by the same algorithm.
fn give<A: Mutex, L: Locks, U: Use>(
    one: Prepared<Locking<A>>,
    several: bool,
    user: U,
    several_of: fn(Prepared<Locking<A>>) -> Prepared<Locking<L>>,
) -> Result<U::Output, SettingError> {
    if !several {
        Ok(user.with(one))
    } else if U::SEVERAL {
        Ok(user.with(several_of(one)))
    } else {
        Err(SettingError::Unfit("only one lock is possible here".into()))
    }
}

/// One lock.
fn single<A: Mutex>(
    about: &'static About,
    config: A::Config,
    wanted: &Wanted<'_>,
    recovery: bool,
) -> Result<Prepared<Locking<A>>, SettingError> {
    let changes_group = A::CHANGES_GROUP && wanted.locks == 1;
    let newcomers = wanted.checked_newcomers(about.name, changes_group)?;
    let members = Members::listed(wanted.nodes.to_vec());
    let mut settings = wanted.settings.clone();
    if recovery {
        settings.insert("recovery".into(), "on".into());
    }
    let restless = A::is_restless(&config);
    let demand = &wanted.demand;
    let (founders, n, locks) = (members.len(), members.len() + newcomers.len(), wanted.locks);
    let judge = Properties::new::<A>(&config, &members, locks, wanted.max_delay).with_newcomers(&newcomers);
    let scope = Scope { order: wanted.order, resource: wanted.suspicions, forever: wanted.forever };
    let (think, hold) = (think(demand, restless, founders), hold(demand));
    let users = Entries::new(n, locks, demand.rounds, demand.load, think, hold)
        .giving_up_after(demand.give_up)
        .joined_by(founders);
    let formula = {
        let (config, members) = (config.clone(), members.clone());
        Box::new(move |tally: &Tally<'_>| {
            (A::formula(&config, &members, tally), A::mean(&config, &members, tally))
        })
    };
    Ok(Prepared {
        about,
        settings,
        locks,
        fifo: wanted.is_fifo(about.channels),
        restless,
        normalises: restless || A::asks_again(&config),
        // A group that recovers counts epochs and lives, which nobody moves down.
        can_normalise: !A::CHANGES_GROUP,
        changes_group,
        overtaking: A::promises(&config, &members).overtaking,
        expected_messages: expected::<A>(&config, &members, demand, locks),
        judge,
        ledger: Ledger::new::<A>(&config, &members, scope),
        users,
        meter: LockMeter::new(n, locks, demand.load, wanted.faulty, formula),
        desk: LocksDesk::default(),
        members,
        newcomers,
        config,
    })
}

/// Several locks by the same algorithm.
fn recast<A: Mutex, L: Locks>(
    one: Prepared<Locking<A>>,
    config: fn(A::Config) -> L::Config,
) -> Prepared<Locking<L>> {
    Prepared {
        about: one.about,
        members: one.members,
        newcomers: one.newcomers,
        settings: one.settings,
        locks: one.locks,
        config: config(one.config),
        fifo: one.fifo,
        restless: one.restless,
        normalises: one.normalises,
        can_normalise: one.can_normalise,
        changes_group: one.changes_group,
        overtaking: one.overtaking,
        expected_messages: one.expected_messages,
        judge: one.judge,
        ledger: one.ledger,
        users: one.users,
        meter: one.meter,
        desk: one.desk,
    }
}

/// A saturated load holds at least as long as the slowest message travels: everyone's request is known by then.
fn hold(demand: &Demand) -> Span {
    demand.hold.unwrap_or(Span::Constant(demand.longest_delay))
}

/// Where messages travel forever, a request alone comes at any moment of their round: else it would always find them
/// where the last exit left them.
fn think(demand: &Demand, restless: bool, n: usize) -> Span {
    let round = demand.longest_delay.saturating_mul(n as u64);
    demand.think.unwrap_or(match demand.load {
        Load::Open => Span::Exponential(round.saturating_mul(4)),
        Load::Light if restless => Span::Uniform(0, round),
        Load::Light | Load::Saturated => Span::Constant(0),
    })
}

fn expected<A: Mutex>(config: &A::Config, members: &Members, demand: &Demand, locks: usize) -> u64 {
    let n = members.len();
    let entries = vec![demand.rounds.saturating_mul(locks as u64); n];
    let nobody = vec![0; n];
    let tally = Tally {
        load: demand.load,
        locks: locks as u64,
        entries: &entries,
        waited: &nobody,
        at_hand: &nobody,
    };
    let mean = A::mean(config, members, &tally);
    mean.map_or_else(|| A::formula(config, members, &tally).low, |mean| mean as u64)
}
