//! Physical clocks as a family: words, what must hold, and how an algorithm is prepared.
//!
//! | property | claim |
//! |---|---|
//! | C1 | a clock that was corrected is as near to the one that it was corrected by as its application was told |
//! | C2 | no corrected clock ever goes back |
//! | C3 | when nothing moves any more, everyone alive who asked for a correction was told of one, if there was anybody to ask |
//! | END | the run comes to rest |
//!
//! C1 and C2 assume that clocks drift by no more than `drift`, and are not promised for one that was set meanwhile. C3
//! assumes reliable channels and a failure detector that reports the dead and only them.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Members, NodeId};

use super::{
    Accuracy, Cristian, Drift, Event, LedBerkeley, Ntp, Request, Terms, Timekeeper, nanos, show_span,
};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk};
use crate::desk::PlainDesk;
use crate::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use crate::judge::PropertyKind;
use crate::measure::PlainMeter;
use crate::referee::{COMES_TO_REST, Claim, Referee};
use crate::workload::Calls;
use crate::{About, Setting, SettingError, Settings, Values};

/// Physical clocks.
pub const FAMILY: Kind = Kind {
    name: "clock",
    title: "physical clocks",
    settings: &[
        Setting {
            key: "min",
            values: Values::Number(0, 3_600_000_000),
            default: "0",
            unsafe_values: &[],
            help: "no message travels in less time, in microseconds",
        },
        Setting {
            key: "drift",
            values: Values::Number(0, 500_000),
            default: "100",
            unsafe_values: &[],
            help: "no clock drifts from true time by more, in millionths",
        },
        Setting {
            key: "slew",
            values: Values::Number(1, 999_999),
            default: "100000",
            unsafe_values: &[],
            help: "by how much a clock that is ahead is slowed down, in millionths",
        },
    ],
    requests: &[Usage::new("sync", ""), Usage::new("read", "")],
    options: &[],
    always_detects: true,
    provokes_mutants: true,
    chance_ends: true,
    describe,
    counted: ("request", "requests"),
    searches: Searches { cancels: false, order: false, forever: false, first: true, recovers: false },
};

/// What the settings of the family say of the network and of clocks.
pub(super) fn terms(settings: &Settings) -> Terms {
    let drift = Drift { ppm: settings.number("drift") as u32 };
    Terms { least: nanos(settings.number("min")), handling: 0, drift }
}

/// How fast a clock that is ahead is slowed down.
pub(super) fn slew(settings: &Settings) -> u32 {
    settings.number("slew") as u32
}

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let syncs = demand.asks.iter().filter(|ask| ask.words == "sync");
    let words: Vec<String> = syncs.map(|ask| ask.in_words(members)).collect();
    match words.is_empty() {
        true => Vec::new(),
        false => vec![format!("corrected at the request of {}", words.join(", "))],
    }
}

crate::registry::family! {
    /// A clock algorithm, given to whoever learnt its name at run time.
    Timekeeper {
        Cristian,
        LedBerkeley,
        Ntp,
    }
}

/// Physical clocks, seen from a driver.
pub struct Timekeeping<A>(PhantomData<A>);

impl<A: Timekeeper> Family for Timekeeping<A> {
    type Protocol = A;
    type Judge = Referee<A, Accuracy<A::Config>>;
    type Ledger = Accuracy<A::Config>;
    type App = Caller<Request>;
    type Users = Calls<Request>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = true;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        [Request::Sync, Request::Read].into_iter().find(|request| Self::show(request).0 == words)
    }

    fn show(request: &Request) -> (String, usize) {
        let words = match request {
            Request::Sync => "sync",
            Request::Read => "read",
        };
        (words.to_string(), 0)
    }

    fn told(event: &Event) -> EventText {
        EventText::plain(match event {
            Event::Adjusted { by, to, bound, source, .. } => {
                let source = source.map(|source| format!(", by {source}")).unwrap_or_default();
                let sign = if *by < 0 { "" } else { "+" };
                let (by, to, bound) = (show_span(*by), show_span(to.0), show_span(*bound));
                format!("adjusted {sign}{by} to {to} ±{bound}{source}")
            }
            Event::Time(time) => format!("time {}", show_span(time.0)),
            Event::Failed => "failed".to_string(),
        })
    }
}

/// A clock algorithm, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Timekeeper> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let about = const { &A::ABOUT };
        let members = Members::listed(wanted.nodes.to_vec());
        let config = A::configure(&wanted.settings::<A>(false)?, &members)?;
        if wanted.demand.asks.is_empty() {
            wanted.demand.asks = vec![PlannedAsk { at: 0, who: A::ASKS, words: "sync".into() }];
        }
        let askers: Vec<NodeId> = wanted
            .demand
            .asks
            .iter()
            .filter(|ask| ask.words == "sync")
            .flat_map(|ask| ask.who.places(&members))
            .map(|place| members.at(place))
            .collect();
        let formula = A::formula(&config, &members, &askers);
        let ledger = Accuracy::new(&members, Arc::new(config.clone()), A::drift(&config));
        let plain = Plain {
            about,
            config,
            judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
            ledger,
            formula,
            members,
        };
        Ok(user.with(Prepared::<Timekeeping<A>>::plain(wanted, plain)?))
    }
}

/// What must hold.
const CLAIMS: &[Claim] = &[
    Claim { property: "C1", kind: PropertyKind::Safety, claim: "corrected clocks are as near as was told" },
    Claim { property: "C2", kind: PropertyKind::Safety, claim: "no clock goes back" },
    Claim { property: "C3", kind: PropertyKind::Safety, claim: "who asks is told" },
    COMES_TO_REST,
];
