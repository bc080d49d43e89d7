//! What a live run cost, held against the formula of its algorithm, as the simulator does with its own runs.

use conclave_algorithms::election::{self, Election};
use conclave_algorithms::family::Locking;
use conclave_algorithms::mutex::{self, Load, Mutex};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Algorithm, Arena, Channels, Formula, Named, NamedConfig, Recovering, Settings};
use conclave_core::{Members, NodeId};
use conclave_sim::family::Cast;
use conclave_sim::stage::Stage;
use conclave_trace::{Trace, What, commands_of};

/// The algorithm's own messages.
pub fn messages(trace: &Trace) -> u64 {
    let own = |what: &What| matches!(what, What::Send(message) if !message.overhead);
    trace.records.iter().filter(|record| own(&record.what)).count() as u64
}

/// What the literature says that this run has cost.
pub fn formula(trace: &Trace) -> Formula {
    registry::visit(&trace.header.algorithm, Reckon(trace)).expect("a trace of a known algorithm")
}

/// Whether the algorithm sends messages for ever, if it is left as it is.
pub fn is_restless(algorithm: &str, n: u32) -> bool {
    registry::visit(algorithm, Restless(n)).expect("a known algorithm")
}

struct Reckon<'a>(&'a Trace);

impl Reckon<'_> {
    fn members(&self) -> Members {
        Members::listed(self.0.header.nodes.clone())
    }

    fn settings<A: Algorithm>(&self) -> Settings {
        let given = self.0.header.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Settings::new(const { &A::ABOUT }, Arena::Live, given, None).expect("they were good enough to run")
    }
}

impl Visitor for Reckon<'_> {
    type Output = Formula;

    /// Who waited and who had all at hand is for the judge to say, who watches the run once more.
    fn mutex<A: Mutex>(self) -> Formula {
        let (members, locks) = (self.members(), self.0.header.locks);
        let config = Recovering::<A>::configure(&self.settings::<A>(), &members).expect("it ran");
        let mut stage = Stage::<Locking<Named<Recovering<A>>>, ()>::new(
            Cast {
                judge: mutex::Properties::new::<Recovering<A>>(&config, &members, locks, None),
                members: members.clone(),
                newcomers: Vec::new(),
                restless: false,
                config: NamedConfig::new(config.clone()),
                fifo: self.0.header.channels == Channels::Fifo.name(),
                header: self.0.header.clone(),
            },
            (),
        );
        for command in commands_of(self.0) {
            stage.apply(&command).expect("what happened can happen");
        }
        let judge = stage.judge();
        let (entries, waited, at_hand) = (judge.entries(), judge.waited(), judge.at_hand());
        let tally = mutex::Tally {
            load: Load::Open,
            locks: locks as u64,
            entries: &entries,
            waited: &waited,
            at_hand: &at_hand,
        };
        Recovering::<A>::formula(&config, &members, &tally)
    }

    fn election<A: Election>(self) -> Formula {
        let members = self.members();
        let config = A::configure(&self.settings::<A>(), &members).expect("it ran");
        let started = |what: &What| matches!(what, What::Request { request, .. } if request == "start");
        let starters: Vec<NodeId> = (self.0.records.iter())
            .filter(|record| started(&record.what))
            .filter_map(|record| record.process)
            .collect();
        let tally = election::Tally { starters: &starters, absent: &[], recovered: None, disturbed: false };
        A::formula(&config, &members, &tally)
    }
}

struct Restless(u32);

impl Visitor for Restless {
    type Output = bool;

    fn mutex<A: Mutex>(self) -> bool {
        let settings = Settings::new(const { &A::ABOUT }, Arena::Live, [], None).expect("as it is");
        A::configure(&settings, &Members::numbered(self.0)).is_ok_and(|config| A::is_restless(&config))
    }

    fn election<A: Election>(self) -> bool {
        false
    }
}
