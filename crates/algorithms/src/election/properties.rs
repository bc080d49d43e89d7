//! What an election must keep: E1 to E5.
//!
//! | property | claim |
//! |---|---|
//! | E1 | safety: in one election nobody is told of two different leaders |
//! | E2 | liveness: in the end everyone alive knows a leader |
//! | E3 | uniqueness: in the end just those who are elected believe that they lead, however many started |
//! | E4 | agreement: in the end all who are alive name the same leaders |
//! | E5 | maximality: they are those with the highest priority among the living |
//! | END | the run comes to rest: no message circulates forever |
//!
//! E2 to E5 are judged when nothing moves any more. E1 is judged at once: per term where the algorithm numbers its
//! elections, else election by election, where those that overlap are one. As long as nobody crashed, came back or
//! retired the whole run is one election, and every leader that anyone was ever told of must be the one of the end.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{Disturbance, Incarnation, Input, Members, Moment, NodeId, Observer, Process, Transit};

use super::{Election, Ledger, Request};
use crate::judge::{Breach, Ending, Finding, Judge, Judgement, Ledger as _, PropertyKind, Violation};

/// The observer that judges all properties of an election.
#[derive(Clone, Debug)]
pub struct Properties<A: Election> {
    ledger: Ledger<A>,
    quarrel: Quarrel,
    ending: Option<Ending>,
    violation: Option<Violation>,
    /// What was found at the end.
    found: Vec<Breach>,
    /// The process that is about to crash does so inside a step.
    interrupted: bool,
}

/// How long two living processes believed in different leaders.
#[derive(Clone, Debug, Default)]
struct Quarrel {
    /// How many living processes believe in each set of leaders.
    camps: BTreeMap<Vec<NodeId>, u64>,
    since: u64,
    total: u64,
}

impl Quarrel {
    /// One process gives up one belief and takes on another.
    fn change(&mut self, time: u64, from: &[NodeId], to: &[NodeId]) {
        if self.camps.len() > 1 {
            self.total += time - self.since;
        }
        self.since = time;
        if !from.is_empty()
            && let Some(count) = self.camps.get_mut(from)
        {
            *count -= 1;
            if *count == 0 {
                self.camps.remove(from);
            }
        }
        if !to.is_empty() {
            match self.camps.get_mut(to) {
                Some(count) => *count += 1,
                None => {
                    self.camps.insert(to.to_vec(), 1);
                }
            }
        }
    }
}

impl<A: Election> Properties<A> {
    /// Judges a run of `A` among these members.
    #[must_use]
    pub fn new(config: &A::Config, members: &Members) -> Self {
        Self {
            ledger: Ledger::new(config, members),
            quarrel: Quarrel::default(),
            ending: None,
            violation: None,
            found: Vec::new(),
            interrupted: false,
        }
    }

    /// The same where the last of the members join later.
    #[must_use]
    pub fn with_newcomers(mut self, newcomers: usize) -> Self {
        self.ledger = self.ledger.with_newcomers(newcomers);
        self
    }

    /// Whom the living name, if they all name the same.
    #[must_use]
    pub fn agreed(&self) -> Option<&[NodeId]> {
        self.ledger.agreed()
    }

    /// How long, in microseconds, two living processes believed in different leaders.
    #[must_use]
    pub fn disagreement(&self) -> u64 {
        self.quarrel.total
    }

    fn broken(&mut self, property: &'static str, step: u64, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { property, detail, step });
        }
    }

    /// What the ledger found; the first of it counts.
    fn judge(&mut self, step: u64, breaches: Vec<Breach>) {
        if let Some(Breach { property, detail, .. }) = breaches.into_iter().next() {
            self.broken(property, step, detail);
        }
    }
}

impl<A: Election> Observer<A> for Properties<A> {
    #[inline]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<A>) {
        // Who leaves believes in nobody.
        if A::CHANGES && matches!(input, Input::Request(Request::Leave)) {
            self.quarrel.change(at.time, self.ledger.belief(process.index()), &[]);
        }
        self.ledger.input(process.index(), input);
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &A::Message) {
        // A message to someone who is down from the beginning is part of the game.
        if self.ledger.is_up(transit.to.index()) {
            match self.ledger.is_up(transit.from.index()) {
                true => self.ledger.disturb(),
                false => self.ledger.unheard(),
            }
        }
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &A::Event) {
        let mut breaches = Vec::new();
        self.ledger.emit(process.index(), event, &mut breaches);
        self.judge(at.step, breaches);
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        let mut breaches = Vec::new();
        self.ledger.reject(process.index(), from, why, &mut breaches);
        self.judge(at.step, breaches);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        let Breach { property, detail, .. } = Breach::of_invariant(process.id, why);
        self.broken(property, at.step, detail);
    }

    #[inline]
    fn handled(&mut self, at: &Moment, process: Process, state: &A) {
        let belief = self.ledger.belief(process.index());
        if belief != state.leaders() {
            self.quarrel.change(at.time, belief, state.leaders());
        }
        self.ledger.handled(process.index(), state, &mut Vec::new());
    }

    fn interrupt(&mut self, _at: &Moment, _process: Process, _after: u32) {
        self.interrupted = true;
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        self.quarrel.change(at.time, self.ledger.belief(process.index()), &[]);
        self.ledger.crash(process.index());
        if core::mem::take(&mut self.interrupted) {
            self.ledger.unheard();
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.ledger.restart(process.index(), life);
    }

    fn disturb(&mut self, _at: &Moment, what: &Disturbance) {
        if let Disturbance::Join(process) = what {
            self.ledger.join(process.index());
        }
    }
}

impl<A: Election> Judge<A> for Properties<A> {
    fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.ending = Some(ending);
        match ending {
            Ending::Quiet => {
                self.ledger.quiet(&mut self.found);
                self.judge(step, self.found.clone());
            }
            Ending::OutOfTime | Ending::Endless { .. } => {
                self.broken("END", step, "messages still go round, and nobody learns anything".into());
            }
            Ending::Stopped => {}
        }
    }

    fn judgements(&self) -> Vec<Judgement> {
        let finding = |property: &str| {
            let found = self
                .found
                .iter()
                .find(|breach| breach.property == property)
                .map(|breach| breach.detail.clone());
            let at_once =
                self.violation.as_ref().filter(|v| v.property == property).map(|v| v.detail.clone());
            match (found.or(at_once), self.ending) {
                (Some(detail), _) => Finding::Broken(detail),
                (None, _) if !self.ledger.has_begun() => Finding::Open("nobody started an election".into()),
                (None, Some(Ending::Quiet))
                    if !["E1", "END"].contains(&property) && !self.ledger.concerns_the_living() =>
                {
                    Finding::Open("all who had a part in the election have crashed".into())
                }
                (None, _) if property == "E1" && self.ledger.is_unjudged() => Finding::Open(
                    "two leaders were told of while the group changed, which is not judged".into(),
                ),
                (None, Some(Ending::Quiet)) => Finding::Held(String::new()),
                (None, Some(Ending::OutOfTime | Ending::Endless { .. })) => {
                    Finding::Open("the run did not come to rest".into())
                }
                (None, Some(Ending::Stopped) | None) => Finding::Open("the run was stopped early".into()),
            }
        };
        let claims = [
            ("E1", "nobody is told of two leaders"),
            ("E2", "everyone alive knows a leader"),
            ("E3", "only the elected lead"),
            ("E4", "all who are alive agree"),
            ("E5", "the highest priority leads"),
            ("END", "the run comes to rest"),
        ];
        let judge = |(property, claim)| {
            let kind = if property == "END" { PropertyKind::Liveness } else { PropertyKind::Safety };
            Judgement { property, kind, claim, promised: true, finding: finding(property) }
        };
        claims.map(judge).to_vec()
    }
}
