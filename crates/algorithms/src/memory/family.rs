//! Shared memory as a family: its words, and how one of its locks is prepared.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Input, Members, NodeId};

use crate::demand::Demand;
use crate::desk::PlainDesk;
use crate::family::{Endless, EventText, Family, Kind, Prepared, Registered, Searches, Usage, Use, Wanted};
use crate::span::Span;
use crate::{About, Arena, SettingError, Settings};

use super::app::Visits;
use super::judge::MemoryProperties;
use super::ledger::Occupancy;
use super::listed::LOCKS;
use super::machine::{Event, MEMORY, Machine, MachineConfig, Request};
use super::meter::AccessMeter;
use super::users::VisitsPlanned;

/// Processes of one machine that share its memory.
pub const FAMILY: Kind = Kind {
    name: "memory",
    title: "shared memory",
    settings: &[],
    requests: &[Usage { verb: "request", traced: "acquire", values: "" }, Usage::new("release", "")],
    options: &["--entries", "--think", "--hold"],
    always_detects: false,
    provokes_mutants: false,
    chance_ends: true,
    describe,
    counted: ("entry", "entries"),
    searches: Searches { cancels: false, order: false, forever: true, first: false, recovers: false },
};

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let noun = if demand.rounds == 1 { "entry" } else { "entries" };
    let each = if members.len() == 1 { "" } else { " each" };
    vec![format!("{} {noun}{each}", demand.rounds), "a memory (p0)".into()]
}

/// Processes that share a memory.
pub struct Sharing;

impl Family for Sharing {
    type Protocol = Machine;
    type Judge = MemoryProperties;
    type Ledger = Occupancy;
    type App = Visits;
    type Users = VisitsPlanned;
    type Meter = AccessMeter;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::SomebodyEnters { progress: "PROGRESS", starvation: "ME3" };
    /// They look at what the memory is sent, which tells nobody anything.
    const LOOKS_AT_STATES: bool = true;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        match words {
            "acquire" | "request" => Some(Request::Acquire),
            "release" => Some(Request::Release),
            _ => None,
        }
    }

    fn show(request: &Request) -> (String, usize) {
        (word(*request).into(), 0)
    }

    fn told(event: &Event) -> EventText {
        EventText::plain(match event {
            Event::Entered => "entered".into(),
            Event::Exited => "exited".into(),
            Event::Refused(request) => format!("refused {}", word(*request)),
        })
    }

    fn has_application(process: NodeId) -> bool {
        process != MEMORY
    }

    fn begins_waiting(input: &Input<Machine>) -> bool {
        matches!(input, Input::Request(Request::Acquire))
    }

    fn ends_waiting(event: &Event) -> bool {
        matches!(event, Event::Entered)
    }
}

fn word(request: Request) -> &'static str {
    match request {
        Request::Acquire => "acquire",
        Request::Release => "release",
    }
}

/// The lock at this place of the list.
pub struct Of<const PLACE: usize>;

impl<const PLACE: usize> Registered for Of<PLACE> {
    const ABOUT: &'static About = &LOCKS[PLACE].about;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        Ok(user.with(prepared(PLACE, wanted)?))
    }
}

/// All locks are of one type, so that a driver is compiled once for all of them.
fn prepared(place: usize, wanted: &Wanted<'_>) -> Result<Prepared<Sharing>, SettingError> {
    let listed = &LOCKS[place];
    let unfit = |why: String| Err(SettingError::Unfit(why));
    let name = listed.about.name;
    let given = wanted.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let settings = Settings::new(&listed.about, wanted.arena, given, wanted.mutant)?;
    if wanted.arena == Arena::Live {
        return unfit(format!(
            "{name} needs a memory that all processes share, and several machines have none; \
             algorithms for mutual exclusion, such as ricart-agrawala, send messages instead"
        ));
    }
    if wanted.locks != 1 {
        return unfit(format!("{name} is one lock"));
    }
    let all: Vec<NodeId> = wanted.nodes.iter().copied().filter(|id| *id != MEMORY).collect();
    if all.is_empty() {
        return unfit(format!("p0 is the memory, and {name} needs somebody who uses it"));
    }
    // The memory comes last: all others stand where whoever plans a run expects them.
    let members = Members::listed([&all[..], &[MEMORY]].concat());
    let config = MachineConfig { lock: (listed.lock)(&settings), all: all.into() };
    let n = config.all.len() as u64;
    let ledger = Occupancy::new(&config, &members);
    let accesses = config.lock.accesses(n);
    let demand = &wanted.demand;
    let ids: Vec<NodeId> = members.iter().collect();
    let think = demand.think.unwrap_or(Span::Constant(0));
    let hold = demand.hold.unwrap_or(Span::Constant(demand.longest_delay));
    Ok(Prepared {
        about: &listed.about,
        newcomers: wanted.checked_newcomers(name, false)?,
        settings: wanted.settings.clone(),
        locks: 1,
        fifo: wanted.is_fifo(listed.about.channels),
        restless: false,
        normalises: false,
        can_normalise: false,
        changes_group: false,
        overtaking: ledger.promises().bounded.then_some(n - 1),
        expected_messages: 2 * accesses.0 * demand.rounds.saturating_mul(n),
        judge: MemoryProperties::new(ledger.clone(), members.len()),
        users: VisitsPlanned::new(&ids, demand.rounds, think, hold),
        meter: AccessMeter::new(members.len(), accesses),
        desk: PlainDesk::default(),
        members,
        config,
        ledger,
    })
}
