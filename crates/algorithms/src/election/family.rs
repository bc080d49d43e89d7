//! Elections as a family: their words, and how one of their algorithms is prepared.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Members, NodeId};

use super::meter::ElectionMeter;
use super::{Election, Event, LeadersDesk, Ledger, Properties, RING, Request, Tally};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::family::{Endless, EventText, Family, Kind, Prepared, Registered, Searches, Usage, Use, Wanted};
use crate::span::Draw;
use crate::workload::Calls;
use crate::{About, SettingError};

/// One process that all agree on.
pub const FAMILY: Kind = Kind {
    name: "election",
    title: "elections",
    settings: &[],
    requests: &[Usage::new("start", ""), Usage::new("retire", "")],
    options: &["--start", "--retire"],
    always_detects: true,
    provokes_mutants: false,
    chance_ends: true,
    describe,
    counted: ("call", "calls"),
    searches: Searches { cancels: false, order: false, forever: false, first: true, recovers: false },
};

/// Who starts the election, in words.
fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let word = |ask: &PlannedAsk| ask.in_words(members);
    let starts: Vec<String> = starts(demand).iter().map(word).collect();
    vec![format!("started by {}", starts.join(", "))]
}

/// Who is asked to start; the lowest at once if nobody is named.
fn starts(demand: &Demand) -> Vec<PlannedAsk> {
    let named: Vec<_> = demand.asks.iter().filter(|ask| ask.words == "start").cloned().collect();
    if named.is_empty() {
        return vec![PlannedAsk { at: 0, who: Who::Lowest, words: "start".into() }];
    }
    named
}

/// Elections.
pub struct Electing<A>(PhantomData<A>);

impl<A: Election> Family for Electing<A> {
    type Protocol = A;
    type Judge = Properties<A>;
    type Ledger = Ledger<A>;
    type App = Caller<Request>;
    type Users = Calls<Request>;
    type Meter = ElectionMeter;
    type Desk = LeadersDesk;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = true;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        match words {
            "start" => Some(Request::Start),
            "retire" => Some(Request::Retire),
            _ => None,
        }
    }

    fn show(request: &Request) -> (String, usize) {
        match request {
            Request::Start => ("start".into(), 0),
            Request::Retire => ("retire".into(), 0),
        }
    }

    fn told(event: &Event) -> EventText {
        let Event::Elected { leaders, term } = event;
        let mut event = String::from("elected");
        for (place, leader) in leaders.iter().enumerate() {
            event.push_str(if place == 0 { " " } else { "," });
            event.push_str(&leader.to_string());
        }
        if *term > 0 {
            event.push_str(&format!(" term {term}"));
        }
        EventText { event, ..EventText::default() }
    }
}

/// An algorithm for elections, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Election> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let about = const { &A::ABOUT };
        if wanted.locks != 1 {
            return Err(SettingError::Unfit("an election has no locks".into()));
        }
        let newcomers = wanted.checked_newcomers(about.name, false)?;
        let settings = wanted.settings::<A>(false)?;
        let mut nodes = wanted.nodes.to_vec();
        let random = settings.iter().any(|(key, value)| key == RING.key && value == "random");
        if let Some(rng) = wanted.shuffle.as_mut().filter(|_| random) {
            shuffle(&mut nodes, &mut **rng);
        }
        let members = Members::listed(nodes);
        let config = A::configure(&settings, &members)?;
        let asks = planned(&wanted.demand);
        wanted.demand.asks = asks;
        let calls = wanted.calls::<Electing<A>>(&members, &FAMILY)?;
        let starts = calls.iter().filter(|(_, _, request)| *request == Request::Start);
        let starters: Vec<NodeId> = starts.map(|(_, place, _)| members.at(*place)).collect();
        let tally = Tally { starters: &starters, absent: &[], recovered: None, disturbed: false };
        let expected_messages = A::formula(&config, &members, &tally).low;
        let formula = {
            let (config, members) = (config.clone(), members.clone());
            Box::new(move |tally: &Tally<'_>| A::formula(&config, &members, tally))
        };
        Ok(user.with(Prepared::<Electing<A>> {
            about,
            newcomers,
            settings: wanted.settings.clone(),
            locks: 1,
            fifo: wanted.is_fifo(about.channels),
            restless: false,
            normalises: false,
            can_normalise: true,
            changes_group: false,
            overtaking: None,
            expected_messages,
            judge: Properties::new(&config, &members),
            ledger: Ledger::new(&config, &members),
            users: Calls::new(calls),
            meter: ElectionMeter::new(&members, formula),
            desk: LeadersDesk::default(),
            members,
            config,
        }))
    }
}

/// What is asked: first the starts, then the rest.
fn planned(demand: &Demand) -> Vec<PlannedAsk> {
    let others = demand.asks.iter().filter(|ask| ask.words != "start").cloned();
    starts(demand).into_iter().chain(others).collect()
}

fn shuffle(nodes: &mut [NodeId], rng: &mut dyn Draw) {
    for place in (1..nodes.len()).rev() {
        nodes.swap(place, rng.below(place as u64 + 1) as usize);
    }
}
