//! What is searched, by both.

use conclave_algorithms::election::Electing;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::Locking;
use conclave_algorithms::mutex::{self, Mutex, Scope};
use conclave_algorithms::registry;
use conclave_algorithms::{About, Algorithm, Arena, Channels, Recovering, Settings, Synchrony, recovers};
use conclave_check::{AskBudget, Budgets, Limits, Options, check};
use conclave_core::{Members, Protocol};
use conclave_trace::Setup;
use stateright::{Checker, HasDiscoveries, Model};

use super::{Applied, System};

/// An algorithm, how many take part, and what may happen.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub setup: Setup,
    pub entries: AskBudget,
    pub budgets: Budgets,
    /// Whether crashes fall inside steps, too.
    pub cuts_steps: bool,
    /// Ticks that a message takes at most where time counts; nothing if time never counts.
    pub ticks: Option<u16>,
    /// How far the search goes, if not to the end.
    pub depth: Option<u32>,
}

/// Bytes after which the engine gives up; stateright, which knows no such limit, would take many times as much.
const MOST_MEMORY: usize = 1 << 30;

/// In the words of the command line.
impl core::fmt::Display for Scenario {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { setup, entries, budgets, cuts_steps, ticks, depth } = self;
        write!(f, "{} -n {} {entries:?}", setup.algorithm, setup.nodes.len())?;
        if let Some(mutant) = &setup.mutant {
            write!(f, " --mutant {mutant}")?;
        }
        for (key, value) in &setup.settings {
            write!(f, " --set {key}={value}")?;
        }
        if let Some(order) = &setup.channels {
            write!(f, " --channels {order}")?;
        }
        if *ticks != Some(1) {
            write!(f, " ticks {ticks:?}")?;
        }
        if *budgets != Budgets::default() {
            write!(f, " {budgets:?}")?;
        }
        if *cuts_steps {
            write!(f, " inside steps, too")?;
        }
        depth.map_or(Ok(()), |depth| write!(f, " --depth {depth}"))
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub states: usize,
    pub transitions: u64,
    /// Steps to the farthest state.
    pub depth: u32,
    pub holds: bool,
}

impl Scenario {
    /// Everyone enters once, and nothing fails.
    pub fn new(algorithm: &str, n: u32) -> Self {
        Self {
            setup: Setup::numbered(algorithm, n),
            entries: AskBudget::Times(1),
            budgets: Budgets::default(),
            cuts_steps: false,
            ticks: Some(1),
            depth: None,
        }
    }

    pub fn entries(self, entries: AskBudget) -> Self {
        Self { entries, ..self }
    }

    /// With these failures; a lock recovers after a crash.
    pub fn failing(mut self, budgets: Budgets) -> Self {
        let is_lock =
            registry::find(&self.setup.algorithm).is_some_and(|about| about.family == mutex::FAMILY);
        if is_lock && (budgets.crashes > 0 || budgets.suspicions > 0) {
            self.setup.settings.insert("recovery".into(), "on".into());
        }
        Self { budgets, ..self }
    }

    /// Crashes fall inside steps, too.
    pub fn inside_steps(self) -> Self {
        Self { cuts_steps: true, ..self }
    }

    pub fn mutant(mut self, name: &str) -> Self {
        self.setup.mutant = Some(name.into());
        self
    }

    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.setup.settings.insert(key.into(), value.into());
        self
    }

    pub fn channels(mut self, order: Channels) -> Self {
        self.setup.channels = Some(order.name().into());
        self
    }

    pub fn ticks(self, ticks: Option<u16>) -> Self {
        Self { ticks, ..self }
    }

    pub fn down_to(self, depth: u32) -> Self {
        Self { depth: Some(depth), ..self }
    }

    /// What the engine finds.
    pub fn engine(&self) -> Found {
        let limits = Limits { depth: self.depth, memory: MOST_MEMORY, ..Limits::default() };
        let options = Options {
            entries: self.entries,
            budgets: self.budgets,
            atomic_steps: !self.cuts_steps,
            untimed: self.ticks.is_none(),
            ticks: self.ticks.filter(|ticks| *ticks != 1),
            liveness: false,
            limits,
            ..Options::default()
        };
        let report = check(&self.setup, &options, &mut |_| {}).expect("the scenario can be searched");
        let is_enough = self.depth.is_some() || report.incomplete.is_none();
        assert!(is_enough, "{self}: {} states, and more than a test has room for", report.states);
        Found {
            states: report.states,
            transitions: report.transitions,
            depth: report.depth,
            holds: report.all_held(),
        }
    }

    /// What stateright finds in the plain model.
    pub fn oracle(&self) -> Found {
        build(self, Walk { depth: self.depth })
    }
}

/// What is done with the plain model of a scenario.
pub trait Use {
    type Output;

    fn with<F: Applied>(self, system: System<F>) -> Self::Output;
}

/// Makes the plain model of a scenario and hands it over.
pub fn build<U: Use>(scenario: &Scenario, then: U) -> U::Output {
    let builder = Builder { scenario, then };
    let name = &scenario.setup.algorithm;
    let found = if mutex::all().iter().any(|about| about.name == name) {
        mutex::visit(name, builder)
    } else {
        election::visit(name, builder)
    };
    found.expect("there is such an algorithm")
}

/// The same where the algorithm is known beforehand.
pub fn build_lock<A: Mutex + Algorithm, U: Use>(scenario: &Scenario, then: U) -> U::Output {
    Builder { scenario, then }.lock::<A>()
}

struct Builder<'a, U> {
    scenario: &'a Scenario,
    then: U,
}

impl<U: Use> Builder<'_, U> {
    fn members(&self) -> Members {
        Members::listed(self.scenario.setup.nodes.clone())
    }

    fn settings<A: Algorithm>(&self) -> Settings {
        let setup = &self.scenario.setup;
        let given = setup.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings = Settings::new(const { &A::ABOUT }, Arena::Laboratory, given, setup.mutant.as_deref());
        settings.expect("there are such settings")
    }

    fn lock<A: Mutex + Algorithm>(self) -> U::Output {
        let members = self.members();
        let config = A::configure(&self.settings::<A>(), &members).expect("it can be set up so");
        let scope = Scope { resource: self.scenario.budgets.suspicions > 0, ..Scope::default() };
        let ledger = mutex::Ledger::new::<A>(&config, &members, scope);
        let goes_on =
            A::is_restless(&config) || A::asks_again(&config) || self.scenario.entries == AskBudget::Forever;
        // The numbers of a group that recovers are not those of its members' places.
        let lowers = goes_on && !A::CHANGES_GROUP;
        self.hand_over::<Locking<A>>(&A::ABOUT, members, config, ledger, lowers)
    }

    fn hand_over<F: Applied>(
        self,
        about: &About,
        members: Members,
        config: <F::Protocol as Protocol>::Config,
        ledger: F::Ledger,
        lowers: bool,
    ) -> U::Output {
        let Scenario { entries, budgets, cuts_steps, ticks, .. } = *self.scenario;
        let order = self.scenario.setup.channels.as_deref().unwrap_or(about.channels.name());
        let relies_on_time = about.synchrony == Synchrony::Synchronous;
        self.then.with(System::<F> {
            members,
            config,
            ledger,
            fifo: order == Channels::Fifo.name(),
            ticks: ticks.filter(|_| relies_on_time),
            entries,
            budgets,
            cuts_steps,
            lowers,
        })
    }
}

impl<U: Use> mutex::Visitor for Builder<'_, U> {
    type Output = U::Output;

    fn visit<A: Mutex + Algorithm>(self) -> U::Output {
        if recovers::<A>(&self.settings::<A>(), &self.members()) {
            return self.lock::<Recovering<A>>();
        }
        self.lock::<A>()
    }
}

impl<U: Use> election::Visitor for Builder<'_, U> {
    type Output = U::Output;

    fn visit<A: Election>(self) -> U::Output {
        let members = self.members();
        let config = A::configure(&self.settings::<A>(), &members).expect("it can be set up so");
        let ledger = election::Ledger::<A>::new(&config, &members);
        let lowers = self.scenario.entries == AskBudget::Forever;
        self.hand_over::<Electing<A>>(&A::ABOUT, members, config, ledger, lowers)
    }
}

struct Walk {
    depth: Option<u32>,
}

impl Use for Walk {
    type Output = Found;

    fn with<F: Applied>(self, system: System<F>) -> Found {
        let mut checker = system.checker().finish_when(HasDiscoveries::Any);
        if let Some(depth) = self.depth {
            // It counts the first state as well.
            checker = checker.target_max_depth(depth as usize + 1);
        }
        let checker = checker.spawn_bfs().join();
        Found {
            states: checker.unique_state_count(),
            transitions: checker.state_count() as u64 - 1,
            depth: checker.max_depth() as u32 - 1,
            holds: checker.discoveries().is_empty(),
        }
    }
}
