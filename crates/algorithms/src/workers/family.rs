//! Elected masters and their workers as a family: its words, what it must keep, and how it is prepared.
//!
//! | property | claim |
//! |---|---|
//! | W1 | every sum that anybody is told is the right one: each task counts once |
//! | W2 | nobody is told twice in one life |
//! | W3 | when nothing moves any more, everyone alive knows the sum, if anybody alive began or knows it |
//! | END | the run comes to rest |
//!
//! W3 assumes reliable channels and a failure detector that reports every crash; it is not promised once a message was lost.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::time::Duration;

use conclave_core::{After, Incarnation, Input, Members, NodeId, Protocol};

use super::{Event, Mutation, Request, Task, Workers, WorkersConfig};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::desk::PlainDesk;
use crate::election::{AnyConfig, AnyElection, Tally};
use crate::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use crate::judge::{Breach, Ledger, PropertyKind};
use crate::measure::PlainMeter;
use crate::referee::{COMES_TO_REST, Claim, Referee};
use crate::workload::Calls;
use crate::{
    About, Algorithm, Channels, Formula, Led, LedConfig, Setting, SettingError, Settings, Synchrony,
    Topology, Values,
};

/// A master that hands out work.
pub const FAMILY: Kind = Kind {
    name: "workers",
    title: "masters and workers",
    settings: &[],
    requests: &[Usage::new("begin", "")],
    options: &[],
    always_detects: true,
    provokes_mutants: true,
    chance_ends: true,
    describe,
    counted: ("beginning", "beginnings"),
    searches: Searches { cancels: false, order: false, forever: false, first: true, recovers: false },
};

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let words: Vec<String> = begins(demand).iter().map(|ask| ask.in_words(members)).collect();
    vec![format!("begun by {}", words.join(", "))]
}

/// Who is asked to begin; the lowest at once if nobody is named.
fn begins(demand: &Demand) -> Vec<PlannedAsk> {
    match demand.asks.is_empty() {
        true => vec![PlannedAsk { at: 0, who: Who::Lowest, words: "begin".into() }],
        false => demand.asks.clone(),
    }
}

/// An elected master and its workers.
pub trait Work: Algorithm + Protocol<Request = Request, Event = Event> {
    /// The sum that everyone must be told.
    fn right_sum(config: &Self::Config) -> u64;

    /// How many messages a run without failures must have cost, begun by this process.
    fn formula(config: &Self::Config, members: &Members, beginner: NodeId) -> Formula;
}

/// Workers under a master who is elected: by the bully, unless another election is asked for.
pub type ElectedWorkers = Led<AnyElection, Workers>;

crate::registry::family! {
    /// A master and its workers, given to whoever learnt its name at run time.
    Work {
        ElectedWorkers,
    }
}

impl Algorithm for ElectedWorkers {
    const ABOUT: About = About {
        name: "workers",
        title: "Elected master and workers",
        paper: "Garcia-Molina, Elections in a distributed computing system, IEEE Trans. Computers C-31 (1982)",
        idea: "an elected master hands out tasks; each counts once",
        family: FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "3(n − 1) + 2 per task, and the election",
        faults: "crashes and wrong suspicions, as long as one process stays up",
        settings: &[
            Setting {
                key: "numbers",
                values: Values::Number(1, 1_000_000),
                default: "100",
                unsafe_values: &[],
                help: "the numbers from 1 to this are added up",
            },
            Setting {
                key: "tasks",
                values: Values::Number(1, 1_000),
                default: "10",
                unsafe_values: &[],
                help: "how many tasks the work is cut into",
            },
            Setting {
                key: "work",
                values: Values::Number(0, 1_000_000),
                default: "10",
                unsafe_values: &[],
                help: "how long a task takes, in milliseconds",
            },
            AnyConfig::SETTING,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let tasks = Task::split(1..=settings.number("numbers"), settings.number("tasks") as u32);
        let work = After::exactly(Duration::from_millis(settings.number("work")));
        Ok(LedConfig {
            election: AnyConfig::read(settings, members)?,
            application: Mutation::of(settings)
                .into_iter()
                .fold(WorkersConfig::new(tasks, work), WorkersConfig::with_mutation),
        })
    }
}

impl Work for ElectedWorkers {
    fn right_sum(config: &Self::Config) -> u64 {
        config.application.right_sum()
    }

    /// The election, a round of reports, every task out and back, and the sum to everyone.
    fn formula(config: &Self::Config, members: &Members, beginner: NodeId) -> Formula {
        let tally = Tally { starters: &[beginner], absent: &[], recovered: None, disturbed: false };
        let election = config.election.formula(members, &tally);
        let others = members.len() as u64 - 1;
        let tasks = if others == 0 { 0 } else { config.application.tasks() };
        let work = 3 * others + 2 * tasks;
        let high = election.high.map(|high| high + work);
        Formula { text: "election + 3(n − 1) + 2 per task", low: election.low + work, high }
    }
}

/// Masters and workers.
pub struct Working<A>(PhantomData<A>);

impl<A: Work> Family for Working<A> {
    type Protocol = A;
    type Judge = Referee<A, Sums>;
    type Ledger = Sums;
    type App = Caller<Request>;
    type Users = Calls<Request>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        (words == "begin").then_some(Request::Begin)
    }

    fn show(Request::Begin: &Request) -> (String, usize) {
        ("begin".into(), 0)
    }

    fn told(Event::Finished { sum }: &Event) -> EventText {
        EventText::plain(format!("finished {sum}"))
    }
}

/// A master and its workers, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Work> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let about = const { &A::ABOUT };
        let members = Members::listed(wanted.nodes.to_vec());
        let config = A::configure(&wanted.settings::<A>(false)?, &members)?;
        wanted.demand.asks = begins(&wanted.demand);
        let beginner = wanted.demand.asks.iter().find_map(|ask| ask.who.places(&members).first().copied());
        let formula = match beginner {
            Some(place) => A::formula(&config, &members, members.at(place)),
            None => Formula { text: "not stated", low: 0, high: None },
        };
        let ledger = Sums::new(&members, A::right_sum(&config));
        let plain = Plain {
            about,
            config,
            judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
            ledger,
            formula,
            members,
        };
        Ok(user.with(Prepared::<Working<A>>::plain(wanted, plain)?))
    }
}

/// What must hold.
const CLAIMS: &[Claim] = &[
    Claim { property: "W1", kind: PropertyKind::Safety, claim: "every sum is right" },
    Claim { property: "W2", kind: PropertyKind::Safety, claim: "nobody is told twice" },
    Claim { property: "W3", kind: PropertyKind::Safety, claim: "everyone alive is told" },
    COMES_TO_REST,
];

/// Who was told which sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sums {
    members: Members,
    right: u64,
    /// By place.
    processes: Vec<Standing>,
    disturbed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Standing {
    is_down: bool,
    /// Was asked to begin, in this life.
    began: bool,
    /// Was told a sum, in this life.
    told: bool,
}

impl Sums {
    /// Nobody was told anything yet; this is the right sum.
    #[must_use]
    pub fn new(members: &Members, right: u64) -> Self {
        let processes = vec![Standing::default(); members.len()];
        Self { members: members.clone(), right, processes, disturbed: false }
    }
}

impl<A: Work> Ledger<A> for Sums {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, place: usize, input: &Input<A>) {
        if let Input::Request(Request::Begin) = input {
            self.processes[place].began = true;
        }
    }

    fn emit(&mut self, place: usize, Event::Finished { sum }: &Event, breaches: &mut Vec<Breach>) {
        let who = self.members.at(place);
        if *sum != self.right {
            let detail = format!("{who} was told {sum}, and the sum is {}", self.right);
            breaches.push(Breach { property: "W1", detail, promised: true });
        }
        if core::mem::replace(&mut self.processes[place].told, true) {
            let detail = format!("{who} was told a second time in the same life");
            breaches.push(Breach { property: "W2", detail, promised: true });
        }
    }

    fn crash(&mut self, place: usize) {
        self.processes[place] = Standing { is_down: true, ..Standing::default() };
    }

    fn restart(&mut self, place: usize, _life: Incarnation) {
        self.processes[place] = Standing::default();
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// The announcement of a master may be lost with it although its first order arrived: then no election knows that there
    /// is anybody to replace.
    fn unheard(&mut self) {
        self.disturbed = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        let alive = || self.processes.iter().enumerate().filter(|(_, process)| !process.is_down);
        if !alive().any(|(_, process)| process.began || process.told) {
            return;
        }
        if let Some((place, _)) = alive().find(|(_, process)| !process.told) {
            let detail = format!("nothing moves any more, and {} was told nothing", self.members.at(place));
            breaches.push(Breach { property: "W3", detail, promised: !self.disturbed });
        }
    }
}
