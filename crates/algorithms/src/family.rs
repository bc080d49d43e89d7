//! A family of algorithms, and how one of its algorithms is prepared for a driver.
//!
//! A family is a vocabulary (what is asked and told, in words), its users (in a simulated run and in a search), a judge
//! and a ledger, a meter, and a desk for the clients of a live process. All of it stands in one directory of this crate.
//! Drivers take a [`Prepared`] family and know none by name.
//!
//! ```text
//!   Wanted ──▶ registry::visit(name) ──▶ prepare::<A> ──▶ Prepared<F> ──▶ Use::with::<F>
//!   (names,                              (settings, recovery,              (simulator, script player,
//!    settings)                            several locks: decided once)      checker, live process)
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use conclave_core::{Input, Members, NodeId, Observer, Protocol};
use serde::de::DeserializeOwned;

use crate::application::{App, AskBudget};
use crate::demand::Demand;
use crate::desk::{Desk, PlainDesk};
use crate::dynamic::read;
use crate::erased::Erase;
use crate::measure::{Measured, PlainMeter, Ran};
use crate::mutex::Epoch;
use crate::recorded::{self, Token};
use crate::span::Draw;
use crate::workload::{Calls, Workload};
use crate::{
    About, Algorithm, Arena, Breach, Channels, Formula, Judge, Ledger, Setting, SettingError, Settings,
};

/// What the algorithms of a family have in common, for people and programs.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// The problem that it solves, in a few words.
    pub title: &'static str,
    /// What can be set about every algorithm of the family.
    pub settings: &'static [Setting],
    /// What its users may ask, as scripts write it: `request`, `propose VALUE`.
    pub requests: &'static [Usage],
    /// Options of a simulated run that mean something to this family, beyond those that every run has.
    pub options: &'static [&'static str],
    /// Whether processes are told of crashes even where none is planned, unless something else is said.
    pub always_detects: bool,
    /// Whether a failing mutant is provoked by the faults that it takes to see it.
    pub provokes_mutants: bool,
    /// Whether faults that happen by chance come to an end by themselves: users who ask only once see no end of them.
    pub chance_ends: bool,
    /// What the users of a run do, in a few words for its headline.
    pub describe: fn(&Demand, &Members, usize) -> Vec<String>,
    /// What a budget of requests means in a search: `entry`, `entries`.
    pub counted: (&'static str, &'static str),
    /// What a search can be asked for.
    pub searches: Searches,
}

/// What a search of a family can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searches {
    /// Requests can be given up.
    pub cancels: bool,
    /// The order of events can be judged.
    pub order: bool,
    /// Everyone may ask again and again.
    pub forever: bool,
    /// Everyone may ask until it has heard of the first result.
    pub first: bool,
    /// Its algorithms can recover from failures, and rely on time then.
    pub recovers: bool,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

/// A request, as scripts write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its first word in scripts.
    pub verb: &'static str,
    /// The same in traces, where it has long had another name.
    pub traced: &'static str,
    /// What may follow the process: empty, `VALUE`, `[lock K]`.
    pub values: &'static str,
}

impl Usage {
    /// A request that is written alike everywhere.
    #[must_use]
    pub const fn new(verb: &'static str, values: &'static str) -> Self {
        Self { verb, traced: verb, values }
    }
}

/// What a family promises of runs that never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// They may go on, but everyone who waits gets its turn. The property that says so.
    NobodyStarves(&'static str),
    /// The same, where waiting is busy: processes that wait keep moving, so that a run in which nobody gets in goes on, too.
    SomebodyEnters {
        /// The property that says that somebody gets in.
        progress: &'static str,
        /// The property that says that everyone who waits does.
        starvation: &'static str,
    },
    /// There are none. The property that says so.
    Never(&'static str),
}

/// A family of algorithms, seen from a driver.
pub trait Family: Sized + 'static {
    /// The protocols of the family.
    type Protocol: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned>;
    /// What judges a single run of them.
    type Judge: Judge<Self::Protocol> + Clone + Send + 'static;
    /// What a checker remembers in order to judge them.
    type Ledger: Ledger<Self::Protocol> + Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What one process's application does in a search.
    type App: App<Self::Protocol> + 'static;
    /// What all applications do in a simulated run.
    type Users: Workload<Self::Protocol> + 'static;
    /// What a simulated run is measured by.
    type Meter: Meter<Self> + 'static;
    /// What stands between the protocol and the clients of a live process.
    type Desk: Desk<Self::Protocol> + 'static;

    /// What is promised of runs without end.
    const ENDLESS: Endless;
    /// Whether its properties look at the states of processes, and not only at what they say.
    const LOOKS_AT_STATES: bool;

    /// The request that words mean, for this lock.
    fn parse(words: &str, lock: usize) -> Option<RequestOf<Self>>;

    /// The same where only the configuration tells what can be asked.
    fn parse_with(
        _config: &<Self::Protocol as Protocol>::Config,
        words: &str,
        lock: usize,
    ) -> Option<RequestOf<Self>> {
        Self::parse(words, lock)
    }

    /// A request in words, and the lock that it is for.
    fn show(request: &RequestOf<Self>) -> (String, usize);

    /// An event as traces write it.
    fn told(event: &EventOf<Self>) -> EventText;

    /// The name of the lock that a request is for, where locks have names.
    fn lock_asked(_request: &RequestOf<Self>) -> Option<String> {
        None
    }

    /// The name of the lock that an event is about, where locks have names.
    fn lock_told(_event: &EventOf<Self>) -> Option<String> {
        None
    }

    /// What is promised of runs without end, set up so.
    fn endless(_config: &<Self::Protocol as Protocol>::Config) -> Endless {
        Self::ENDLESS
    }

    /// The application of this process in a search.
    fn app(_config: &<Self::Protocol as Protocol>::Config, _process: NodeId, budget: AskBudget) -> Self::App {
        Self::App::new(budget)
    }

    /// Whether the application of this process asks for anything. One that only serves the others has none.
    fn has_application(_process: NodeId) -> bool {
        true
    }

    /// Whether a process that says so has left, and does nothing any more.
    fn has_left(_event: &EventOf<Self>) -> bool {
        false
    }

    /// Whether an input is a request to be let in.
    fn begins_waiting(_input: &Input<Self::Protocol>) -> bool {
        false
    }

    /// Whether an input takes such a request back.
    fn gives_up(_input: &Input<Self::Protocol>) -> bool {
        false
    }

    /// Whether such a request is over when the application is told this.
    fn ends_waiting(_event: &EventOf<Self>) -> bool {
        false
    }

    /// Reads a message as postcard writes it; nothing if it is none.
    fn read_message(_config: &<Self::Protocol as Protocol>::Config, bytes: &[u8]) -> Option<MessageOf<Self>> {
        read(bytes)
    }

    /// Reads what a process has saved as postcard writes it; nothing if it is something else.
    fn read_durable(
        _config: &<Self::Protocol as Protocol>::Config,
        bytes: &[u8],
    ) -> Option<<Self::Protocol as Protocol>::Durable> {
        read(bytes)
    }

    /// Whether there is a token that moves.
    fn is_token_based(_config: &<Self::Protocol as Protocol>::Config) -> bool {
        false
    }

    /// The token that a process has; of several locks, that of the first.
    fn token(_state: &Self::Protocol) -> Option<Epoch> {
        None
    }

    /// What is broken by all these tokens being there at the same time.
    fn too_many(_tokens: &[Epoch]) -> Option<Breach> {
        None
    }

    /// The token that a message carries, of whichever lock.
    fn token_in(_message: &MessageOf<Self>) -> Option<Epoch> {
        None
    }

    /// The token of each lock that a process knows of, or that it does not have it.
    fn tokens(_state: &Self::Protocol) -> Vec<Token> {
        Vec::new()
    }

    /// The token that a message carries, and of which lock.
    fn named_token_in(message: &MessageOf<Self>) -> Option<Token> {
        Self::token_in(message).map(|epoch| Token::only(Some(epoch)))
    }
}

/// Measures a simulated run.
pub trait Meter<F: Family>: Observer<F::Protocol> {
    /// What came out.
    fn measured(&self, judge: &F::Judge, ran: &Ran<'_>) -> Measured;
}

/// The requests of a family.
pub type RequestOf<F> = <<F as Family>::Protocol as Protocol>::Request;
/// The messages of a family.
pub type MessageOf<F> = <<F as Family>::Protocol as Protocol>::Message;
/// The events of a family.
pub type EventOf<F> = <<F as Family>::Protocol as Protocol>::Event;

/// What shall run, as a user says it.
pub struct Wanted<'a> {
    /// Who takes part from the beginning.
    pub nodes: &'a [NodeId],
    /// Who may join later.
    pub newcomers: &'a [NodeId],
    /// Whether somebody is going to leave.
    pub leaves: bool,
    /// Settings of the algorithm, and of recovery.
    pub settings: &'a BTreeMap<String, String>,
    /// A mutant that is to run instead.
    pub mutant: Option<&'a str>,
    /// Another channel order than the algorithm asks for.
    pub channels: Option<Channels>,
    /// How many locks.
    pub locks: usize,
    /// Where it is going to run.
    pub arena: Arena,
    /// Whether processes may fail: then `recovery=auto` is on.
    pub failures: bool,
    /// Whether anything can go wrong, or anybody come or go.
    pub faulty: bool,
    /// Whether a checker judges the order of grants.
    pub order: bool,
    /// Whether there is no end of requests in a search.
    pub forever: bool,
    /// Whether living processes may be suspected: then a checker judges the resource behind the lock, too.
    pub suspicions: bool,
    /// The longest time that a message travels, where there is one: what is promised by time is judged by it.
    pub max_delay: Option<u64>,
    /// What the users want.
    pub demand: Demand,
    /// Where a random order of the members comes from, if the settings ask for one and there is a seed.
    pub shuffle: Option<Box<dyn Draw>>,
}

impl<'a> Wanted<'a> {
    /// These processes with these settings, and everything else as usual.
    #[must_use]
    pub fn new(nodes: &'a [NodeId], settings: &'a BTreeMap<String, String>) -> Self {
        Self {
            nodes,
            newcomers: &[],
            leaves: false,
            settings,
            mutant: None,
            channels: None,
            locks: 1,
            arena: Arena::Laboratory,
            failures: false,
            faulty: false,
            order: false,
            forever: false,
            suspicions: false,
            max_delay: None,
            demand: Demand::default(),
            shuffle: None,
        }
    }

    /// The settings, checked against what the algorithm declares. `recovery` replaces what is said about it.
    pub fn settings<A: Algorithm>(&self, recovery: bool) -> Result<Settings, SettingError> {
        let given = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let recovery = recovery.then_some(("recovery", "on"));
        Settings::new(const { &A::ABOUT }, self.arena, given.chain(recovery), self.mutant)
    }

    /// What a user said about recovery, or `auto`.
    pub(crate) fn recovery(&self) -> &str {
        self.settings.get("recovery").map_or("auto", String::as_str)
    }

    /// Who may join, each named once and none of them there already.
    pub(crate) fn checked_newcomers(
        &self,
        name: &str,
        changes_group: bool,
    ) -> Result<Vec<NodeId>, SettingError> {
        let unfit = |why: String| Err(SettingError::Unfit(why));
        if self.newcomers.is_empty() {
            return Ok(Vec::new());
        }
        if !changes_group {
            return unfit(format!("{name} lets nobody join or leave"));
        }
        let there: BTreeSet<NodeId> = self.nodes.iter().copied().collect();
        if let Some(process) = self.newcomers.iter().find(|process| there.contains(process)) {
            return unfit(format!("{process} is one of the processes already and cannot join"));
        }
        let mut seen = BTreeSet::new();
        Ok(self.newcomers.iter().copied().filter(|process| seen.insert(*process)).collect())
    }

    /// Whether channels keep their order, for an algorithm that declares this.
    pub(crate) fn is_fifo(&self, declared: Channels) -> bool {
        self.channels.unwrap_or(declared) == Channels::Fifo
    }

    /// The requests that are planned, by place and in the order in which they were given.
    ///
    /// # Errors
    /// If the family has no such request.
    pub(crate) fn calls<F: Family>(
        &self,
        members: &Members,
        kind: &Kind,
    ) -> Result<Vec<(u64, usize, RequestOf<F>)>, SettingError> {
        let mut calls = Vec::new();
        for ask in &self.demand.asks {
            let request = parse_words::<F>(&ask.words, kind)?;
            calls.extend(ask.who.places(members).into_iter().map(|place| (ask.at, place, request.clone())));
        }
        Ok(calls)
    }
}

/// The request that words mean, with or without a lock: `acquire lock 2`.
///
/// # Errors
/// If the family has no such request.
pub fn parse_words<F: Family>(words: &str, kind: &Kind) -> Result<RequestOf<F>, SettingError> {
    // What is not a number belongs to the request, which may be a text.
    let lock = words.rsplit_once(" lock ").and_then(|(request, lock)| Some((request, lock.parse().ok()?)));
    let (request, lock) = lock.unwrap_or((words, 0));
    request_for::<F>(request, lock, kind)
}

/// The request that words mean, for this lock.
///
/// # Errors
/// If the family has no such request.
pub fn request_for<F: Family>(words: &str, lock: usize, kind: &Kind) -> Result<RequestOf<F>, SettingError> {
    F::parse(words, lock).ok_or_else(|| unknown_request(words, kind))
}

/// No request of this family is worded so.
#[must_use]
pub fn unknown_request(words: &str, kind: &Kind) -> SettingError {
    let usage = |usage: &Usage| format!("{} {}", usage.traced, usage.values).trim_end().to_string();
    let known: Vec<String> = kind.requests.iter().map(usage).collect();
    let known = known.join(", ");
    SettingError::Unfit(format!("'{words}' is not a request of this algorithm; it has: {known}"))
}

/// An algorithm with everything that a driver needs to run it.
pub struct Prepared<F: Family> {
    /// What the algorithm says of itself, as it is going to run.
    pub about: &'static About,
    /// Who takes part from the beginning.
    pub members: Members,
    /// Who may join later.
    pub newcomers: Vec<NodeId>,
    /// The settings as they were given, with what was decided about recovery.
    pub settings: BTreeMap<String, String>,
    /// How many locks.
    pub locks: usize,
    /// The configuration of the protocol.
    pub config: <F::Protocol as Protocol>::Config,
    /// Whether channels keep their order.
    pub fifo: bool,
    /// Whether messages travel forever although nobody wants anything.
    pub restless: bool,
    /// Whether its numbers grow although nothing new is asked for, and a checker can move them down.
    pub normalises: bool,
    /// Whether they can be moved down at all.
    pub can_normalise: bool,
    /// Whether processes may join and leave.
    pub changes_group: bool,
    /// The most entries by others that are promised between a known request and its grant.
    pub overtaking: Option<u64>,
    /// About how many messages a run takes.
    pub expected_messages: u64,
    /// Who judges.
    pub judge: F::Judge,
    /// What a checker judges by.
    pub ledger: F::Ledger,
    /// The users of a simulated run.
    pub users: F::Users,
    /// What measures it.
    pub meter: F::Meter,
    /// What serves the clients of a live process.
    pub desk: F::Desk,
}

/// What is left to say of a family whose users ask for what is planned, and compete for nothing.
pub struct Plain<F: Family> {
    /// What the algorithm says of itself.
    pub about: &'static About,
    /// Who takes part.
    pub members: Members,
    /// The configuration of the protocol.
    pub config: <F::Protocol as Protocol>::Config,
    /// Who judges.
    pub judge: F::Judge,
    /// What a checker judges by.
    pub ledger: F::Ledger,
    /// How many messages a run without faults must have cost.
    pub formula: Formula,
}

impl<F> Prepared<F>
where
    F: Family<Users = Calls<RequestOf<F>>, Meter = PlainMeter<F>, Desk = PlainDesk<F>>,
{
    /// A family whose users ask for what is planned, and compete for nothing.
    ///
    /// # Errors
    /// If something is wanted that the family does not have: several locks, newcomers, a request of another family.
    pub fn plain(wanted: &Wanted<'_>, plain: Plain<F>) -> Result<Self, SettingError> {
        let Plain { about, members, config, judge, ledger, formula } = plain;
        if wanted.locks != 1 {
            return Err(SettingError::Unfit(format!("{} has no locks", about.name)));
        }
        let newcomers = wanted.checked_newcomers(about.name, false)?;
        Ok(Self {
            about,
            newcomers,
            settings: wanted.settings.clone(),
            locks: 1,
            fifo: wanted.is_fifo(about.channels),
            restless: false,
            normalises: false,
            can_normalise: false,
            changes_group: false,
            overtaking: None,
            expected_messages: formula.low,
            users: Calls::new(wanted.calls::<F>(&members, &about.family)?),
            meter: PlainMeter::new(formula),
            desk: PlainDesk::default(),
            members,
            config,
            judge,
            ledger,
        })
    }
}

/// Something to be done with a prepared algorithm, whatever its family.
pub trait Use {
    /// What comes of it.
    type Output;

    /// Whether it takes several instances of an algorithm beside each other. What is not taken is not compiled.
    const SEVERAL: bool;
    /// Whether it takes a plain algorithm with its types, for speed, or in a box where there is one.
    const TYPED: bool;

    /// Called with the algorithm.
    fn with<F: Family>(self, prepared: Prepared<F>) -> Self::Output;
}

/// An algorithm of some family, which can be prepared for any driver.
pub trait Registered {
    /// What it says of itself.
    const ABOUT: &'static About;

    /// Whether what is wanted is so rare that it is compiled with erased types only: a driver that has a choice takes them.
    fn is_rare(_wanted: &Wanted<'_>) -> bool {
        false
    }

    /// Prepares it and hands it over.
    ///
    /// # Errors
    /// If it cannot be set up so.
    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError>;
}

/// Prepares an algorithm with the layers around it that the settings ask for, and hands it over.
///
/// # Errors
/// If it cannot be set up so.
pub fn prepare<R: Registered, U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
    match recorded::Layer::of(wanted)? {
        None => R::prepare(wanted, user),
        Some(layer) => Ok(user.with(layer.around(wanted, |inner| R::prepare(inner, Erase))?)),
    }
}

/// An event in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventText {
    /// What was told: `granted`, `elected p3`.
    pub event: String,
    /// The proof that came with it, if any.
    pub fence: String,
    /// About which lock.
    pub lock: usize,
}

impl EventText {
    /// Words alone.
    #[must_use]
    pub fn plain(event: String) -> Self {
        Self { event, ..Self::default() }
    }
}

/// In one line, as a script has it.
impl core::fmt::Display for EventText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.event)?;
        if self.lock > 0 {
            write!(f, " lock {}", self.lock)?;
        }
        if self.fence.is_empty() { Ok(()) } else { write!(f, " {}", self.fence) }
    }
}

/// The name of a timer, as scripts and traces write it: in one word.
#[must_use]
pub fn timer_word<T: Debug>(timer: &T) -> String {
    format!("{timer:?}").replace(' ', "")
}
