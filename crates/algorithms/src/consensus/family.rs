//! Consensus as a family: its words, and how one of its algorithms is prepared.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::Members;

use super::ledger::{CLAIMS, Decisions};
use super::{AnyConsensus, Consensus, Event, Propose};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::desk::PlainDesk;
use crate::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use crate::measure::PlainMeter;
use crate::referee::Referee;
use crate::workload::Calls;
use crate::{About, SettingError};

/// Agreeing on a value.
pub const FAMILY: Kind = Kind {
    name: "consensus",
    title: "consensus",
    settings: &[],
    requests: &[Usage::new("propose", "[VALUE]")],
    options: &[],
    always_detects: true,
    provokes_mutants: true,
    chance_ends: true,
    describe,
    counted: ("proposal", "proposals"),
    searches: Searches { cancels: false, order: false, forever: false, first: true, recovers: false },
};

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let words = |ask: &PlannedAsk| format!("{} by {}", ask.words, ask.in_words(members));
    vec![proposals(demand).iter().map(words).collect::<Vec<_>>().join(", ")]
}

/// Everyone proposes its own id at once, if nothing else is asked for.
fn proposals(demand: &Demand) -> Vec<PlannedAsk> {
    match demand.asks.is_empty() {
        true => vec![PlannedAsk { at: 0, who: Who::All, words: "propose".into() }],
        false => demand.asks.clone(),
    }
}

/// Consensus, by any of its algorithms: what drives it is compiled once for all of them.
pub struct Deciding;

impl Family for Deciding {
    type Protocol = AnyConsensus;
    type Judge = Referee<AnyConsensus, Decisions>;
    type Ledger = Decisions;
    type App = Caller<Propose>;
    type Users = Calls<Propose>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, _lock: usize) -> Option<Propose> {
        match words.split_once(' ') {
            None => (words == "propose").then_some(Propose(None)),
            Some((verb, value)) => {
                (verb == "propose").then(|| value.parse().ok().map(|value| Propose(Some(value))))?
            }
        }
    }

    fn show(Propose(value): &Propose) -> (String, usize) {
        (value.map_or_else(|| "propose".into(), |value| format!("propose {value}")), 0)
    }

    fn told(event: &Event) -> EventText {
        EventText::plain(match event {
            Event::Decided(value) => format!("decided {value}"),
            Event::Logged { slot, value, total: None } => format!("decided {slot} {value}"),
            Event::Logged { slot, value, total: Some(total) } => {
                format!("decided {slot} {value} total {total}")
            }
            Event::GaveUp => "gave up".into(),
        })
    }
}

/// An algorithm of the family, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Consensus> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        Ok(user.with(prepared::<A>(wanted)?))
    }
}

fn prepared<A: Consensus>(wanted: &mut Wanted<'_>) -> Result<Prepared<Deciding>, SettingError> {
    let members = Members::listed(wanted.nodes.to_vec());
    let settings = wanted.settings::<A>(false)?;
    let config = A::configure(&settings, &members)?;
    wanted.demand.asks = proposals(&wanted.demand);
    let proposals: usize = wanted.demand.asks.iter().map(|ask| ask.who.places(&members).len()).sum();
    let ledger = Decisions::new(&members, A::needs(&config));
    let plain = Plain {
        about: const { &A::ABOUT },
        formula: A::formula(&config, &members, proposals as u64),
        config: A::any(config),
        judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
        ledger,
        members,
    };
    Prepared::plain(wanted, plain)
}
