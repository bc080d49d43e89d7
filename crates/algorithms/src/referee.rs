//! A judge made from a ledger: all that a new family has to write down is what it remembers and what breaks its claims.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Incarnation, Input, Moment, NodeId, Observer, Process, Protocol, Shown, Transit};

use crate::judge::{Breach, Ending, Finding, Judge, Judgement, Ledger, PropertyKind, Violation};

/// A property that a family claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its code: `W1`.
    pub property: &'static str,
    /// What it takes to judge it.
    pub kind: PropertyKind,
    /// What it says, in a few words.
    pub claim: &'static str,
}

/// The claim that every family makes of a run: it comes to rest.
pub const COMES_TO_REST: Claim =
    Claim { property: "END", kind: PropertyKind::Liveness, claim: "the run comes to rest" };

/// Judges a run by a ledger.
#[derive(Clone, Debug)]
pub struct Referee<P, L> {
    ledger: L,
    claims: &'static [Claim],
    /// What was found first, by property, and whether it was promised.
    found: BTreeMap<&'static str, (String, bool)>,
    violation: Option<Violation>,
    ending: Option<Ending>,
    /// Nobody was asked for anything, and nobody told anything.
    is_idle: bool,
    down: Vec<bool>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol, L: Ledger<P>> Referee<P, L> {
    /// Judges these claims by this ledger, in a run of `n` processes.
    #[must_use]
    pub fn new(ledger: L, claims: &'static [Claim], n: usize) -> Self {
        Self {
            ledger,
            claims,
            found: BTreeMap::new(),
            violation: None,
            ending: None,
            is_idle: true,
            down: alloc::vec![false; n],
            protocol: PhantomData,
        }
    }

    fn is_down(&self, process: Process) -> bool {
        self.down.get(process.index()) == Some(&true)
    }

    fn judge(&mut self, step: u64, breaches: Vec<Breach>) {
        for Breach { property, detail, promised } in breaches {
            if promised && self.violation.is_none() {
                self.violation = Some(Violation { property, detail: detail.clone(), step });
            }
            self.found.entry(property).or_insert((detail, promised));
        }
    }
}

impl<P: Protocol, L: Ledger<P>> Observer<P> for Referee<P, L> {
    fn clock(&mut self, _at: &Moment, process: Process, shown: Shown) {
        self.ledger.clock(process.index(), shown);
    }

    fn input(&mut self, _at: &Moment, process: Process, input: &Input<P>) {
        self.is_idle &= !matches!(input, Input::Request(_));
        self.ledger.input(process.index(), input);
    }

    fn send(&mut self, _at: &Moment, transit: &Transit, message: &P::Message) {
        self.ledger.sent(transit.from.index(), transit.to.index(), message);
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &P::Message) {
        if self.is_down(transit.to) {
            return;
        }
        match self.is_down(transit.from) {
            // What it had sent last was still in its outbox when it crashed.
            true => self.ledger.unheard(),
            false => self.ledger.disturb(),
        }
    }

    fn duplicate(&mut self, _at: &Moment, _transit: &Transit, _copy: &Transit) {
        self.ledger.disturb();
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        self.is_idle = false;
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
        self.judge(at.step, alloc::vec![Breach::of_invariant(process.id, why)]);
    }

    fn handled(&mut self, at: &Moment, process: Process, state: &P) {
        let mut breaches = Vec::new();
        self.ledger.handled(process.index(), state, &mut breaches);
        self.judge(at.step, breaches);
    }

    fn interrupt(&mut self, _at: &Moment, _process: Process, _after: u32) {
        self.ledger.unheard();
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        if let Some(down) = self.down.get_mut(process.index()) {
            *down = true;
        }
        self.ledger.crash(process.index());
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, durable: bool) {
        if !durable {
            self.ledger.forget(process.index());
        }
        if let Some(down) = self.down.get_mut(process.index()) {
            *down = false;
        }
        self.ledger.restart(process.index(), life);
    }
}

impl<P: Protocol, L: Ledger<P>> Judge<P> for Referee<P, L> {
    fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.ending = Some(ending);
        match ending {
            Ending::Quiet => {
                let mut breaches = Vec::new();
                self.ledger.quiet(&mut breaches);
                self.judge(step, breaches);
            }
            Ending::OutOfTime | Ending::Endless { .. } => {
                let detail = "messages still travel, and nobody learns anything".into();
                self.judge(step, alloc::vec![Breach { property: "END", detail, promised: true }]);
            }
            Ending::Stopped => {}
        }
    }

    fn judgements(&self) -> Vec<Judgement> {
        let judged = |claim: &Claim| {
            let Claim { property, kind, claim } = *claim;
            let (finding, promised) = match (self.found.get(property), self.ending) {
                (Some((detail, promised)), _) => (Finding::Broken(detail.clone()), *promised),
                (None, Some(Ending::Quiet)) if self.is_idle && property != COMES_TO_REST.property => {
                    (Finding::Open("nothing was asked for".into()), true)
                }
                (None, Some(Ending::Quiet)) => (Finding::Held(String::new()), true),
                (None, Some(Ending::OutOfTime | Ending::Endless { .. })) => {
                    (Finding::Open("the run did not come to rest".into()), true)
                }
                (None, Some(Ending::Stopped) | None) => {
                    (Finding::Open("the run was stopped early".into()), true)
                }
            };
            let promised = promised && self.ledger.promises(property);
            Judgement { property, kind, claim, promised, finding }
        };
        self.claims.iter().map(judged).collect()
    }
}
