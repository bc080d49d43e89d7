//! Elections as a family: their words, and how one of their algorithms is prepared.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Members, NodeId};

use super::meter::ElectionMeter;
use super::{AFTER, Changing, Election, Event, GROUP, LeadersDesk, Ledger, Properties, RING, Request, Tally};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::family::{Endless, EventText, Family, Kind, Prepared, Registered, Searches, Usage, Use, Wanted};
use crate::span::Draw;
use crate::workload::Calls;
use crate::{About, SettingError, Settings};

/// One process that all agree on.
pub const FAMILY: Kind = Kind {
    name: "election",
    title: "elections",
    settings: &[GROUP, AFTER],
    requests: &[
        Usage::new("start", ""),
        Usage::new("retire", ""),
        Usage::new("leave", ""),
        Usage::new("reweigh", "WEIGHT"),
    ],
    options: &["--start", "--retire", "--join", "--leave"],
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
            "leave" => Some(Request::Leave),
            _ => words.strip_prefix("reweigh ")?.trim().parse().ok().map(Request::Reweigh),
        }
    }

    fn show(request: &Request) -> (String, usize) {
        match request {
            Request::Start => ("start".into(), 0),
            Request::Retire => ("retire".into(), 0),
            Request::Leave => ("leave".into(), 0),
            Request::Reweigh(weight) => (format!("reweigh {weight}"), 0),
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
        if wanted.locks != 1 {
            return Err(SettingError::Unfit("an election has no locks".into()));
        }
        let settings = wanted.settings::<A>(false)?;
        match Self::is_rare(wanted) {
            true if U::SEVERAL => prepare::<Changing<A>, U>(wanted, &settings, user),
            true => Err(SettingError::Unfit(
                "the group is fixed here: nobody joins, leaves or weighs more".into(),
            )),
            false => prepare::<A, U>(wanted, &settings, user),
        }
    }

    /// A group that changes.
    fn is_rare(wanted: &Wanted<'_>) -> bool {
        let is_change = |ask: &PlannedAsk| ask.words == "leave" || ask.words.starts_with("reweigh ");
        match wanted.settings.get(GROUP.key).map(String::as_str) {
            Some("changing") => true,
            Some("fixed") => false,
            _ => wanted.leaves || !wanted.newcomers.is_empty() || wanted.demand.asks.iter().any(is_change),
        }
    }
}

fn prepare<A: Election, U: Use>(
    wanted: &mut Wanted<'_>,
    settings: &Settings,
    user: U,
) -> Result<U::Output, SettingError> {
    let about = const { &A::ABOUT };
    let newcomers = wanted.checked_newcomers(about.name, A::CHANGES)?;
    let mut nodes = wanted.nodes.to_vec();
    let random = settings.iter().any(|(key, value)| key == RING.key && value == "random");
    if let Some(rng) = wanted.shuffle.as_mut().filter(|_| random) {
        shuffle(&mut nodes, &mut **rng);
    }
    let everyone = Members::listed(nodes.iter().chain(&newcomers).copied().collect::<Vec<_>>());
    let members = Members::listed(nodes);
    let config = A::configure(settings, &members)?;
    let asks = planned(&wanted.demand);
    wanted.demand.asks = asks;
    let calls = wanted.calls::<Electing<A>>(&everyone, &FAMILY)?;
    let starts = calls.iter().filter(|(_, _, request)| *request == Request::Start);
    let starters: Vec<NodeId> = starts.map(|(_, place, _)| everyone.at(*place)).collect();
    let tally = Tally { starters: &starters, absent: &[], recovered: None, disturbed: false };
    let expected_messages = A::formula(&config, &members, &tally).low;
    let formula = {
        let (config, members) = (config.clone(), members.clone());
        Box::new(move |tally: &Tally<'_>| A::formula(&config, &members, tally))
    };
    Ok(user.with(Prepared::<Electing<A>> {
        about,
        settings: wanted.settings.clone(),
        locks: 1,
        fifo: wanted.is_fifo(about.channels),
        restless: false,
        normalises: false,
        can_normalise: !A::CHANGES,
        changes_group: A::CHANGES,
        overtaking: None,
        expected_messages,
        judge: Properties::new(&config, &everyone).with_newcomers(newcomers.len()),
        ledger: Ledger::new(&config, &everyone).with_newcomers(newcomers.len()),
        users: Calls::new(calls).leaving_by(Request::Leave),
        meter: ElectionMeter::new(&everyone, formula),
        desk: LeadersDesk::default(),
        newcomers,
        members,
        config,
    }))
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
