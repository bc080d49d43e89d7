//! What judges a single run.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Moment, NodeId, Observer, Process, Transit};

use crate::judge::ENDS;
use crate::{Breach, Ending, Finding, Judge, Judgement, Ledger as _, PropertyKind, Violation};

use super::access::Access;
use super::ledger::Occupancy;
use super::machine::{Event, Machine};

/// Judges a run by what the ledger remembers.
#[derive(Clone, Debug)]
pub struct MemoryProperties {
    ledger: Occupancy,
    /// What was found first, by property, and whether it was promised.
    found: BTreeMap<&'static str, (String, bool)>,
    violation: Option<Violation>,
    ending: Option<Ending>,
    down: Vec<bool>,
    /// When each process asked last, in steps.
    asked: Vec<u64>,
    /// When somebody got in last.
    last_entry: u64,
    entries: u64,
    /// The most entries by others that a known wish had to see.
    overtaking: u64,
}

const CLAIMS: [(&str, PropertyKind, &str); 4] = [
    ("ME1", PropertyKind::Safety, "no more inside than there are places"),
    ("PROGRESS", PropertyKind::Liveness, "if somebody wants in, somebody gets in"),
    ("ME3", PropertyKind::Liveness, "whoever wants in gets in"),
    ("BOUNDED", PropertyKind::Safety, "after at most n − 1 others"),
];

impl MemoryProperties {
    /// Judges by this.
    pub fn new(ledger: Occupancy, n: usize) -> Self {
        Self {
            ledger,
            found: BTreeMap::new(),
            violation: None,
            ending: None,
            down: vec![false; n],
            asked: vec![0; n],
            last_entry: 0,
            entries: 0,
            overtaking: 0,
        }
    }

    /// How many entries there were.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The most entries by others that a known wish had to see; n stands for n or more.
    pub fn max_overtaking(&self) -> u64 {
        self.overtaking
    }

    fn judge(&mut self, step: u64, breaches: Vec<Breach>) {
        for Breach { property, detail, promised } in breaches {
            if promised && self.violation.is_none() {
                self.violation = Some(Violation { property, detail: detail.clone(), step });
            }
            self.found.entry(property).or_insert((detail, promised));
        }
    }

    /// It goes on forever, and this process has been waiting all the time.
    fn starve(&mut self, step: u64, since: u64) {
        let waits = |place: &usize| self.ledger.is_waiting(*place) && self.asked[*place] < since;
        let Some(place) = (0..self.asked.len()).find(waits) else { return };
        let detail = format!("it repeats forever, and {} still waits", self.ledger.process(place));
        let is_undisturbed = !self.ledger.is_disturbed();
        let (property, promised) = match self.last_entry < since {
            true => ("PROGRESS", is_undisturbed),
            false => ("ME3", is_undisturbed && self.ledger.promises().no_starvation),
        };
        self.judge(step, vec![Breach { property, detail, promised }]);
    }

    /// For a long time nobody has got in.
    fn give_up(&mut self, step: u64) {
        if let Some(who) = self.ledger.stuck().filter(|_| !self.ledger.is_occupied()) {
            let promised = !self.ledger.is_disturbed();
            let detail = format!("nobody gets in any more, and {who}");
            self.judge(step, vec![Breach { property: "PROGRESS", detail, promised }]);
        }
    }

    fn is_promised(&self, property: &str) -> bool {
        let promises = self.ledger.promises();
        match property {
            "ME3" => promises.no_starvation,
            "BOUNDED" => promises.bounded,
            _ => true,
        }
    }

    fn finding(&self, property: &str) -> Finding {
        if let Some((detail, _)) = self.found.get(property) {
            return Finding::Broken(detail.clone());
        }
        match self.ending {
            Some(Ending::Quiet) if property == "ME3" => Finding::Open(ENDS.into()),
            Some(Ending::Quiet) => Finding::Held(self.note(property)),
            Some(Ending::OutOfTime) => Finding::Open("time was up".into()),
            Some(Ending::Endless { .. }) => Finding::Open("the run repeats forever".into()),
            Some(Ending::Stopped) | None => Finding::Open("the run was stopped early".into()),
        }
    }

    fn note(&self, property: &str) -> String {
        match property {
            "BOUNDED" => format!("at most {}", self.overtaking),
            _ => String::new(),
        }
    }
}

impl Observer<Machine> for MemoryProperties {
    fn input(&mut self, at: &Moment, process: Process, input: &Input<Machine>) {
        let place = process.index();
        let was_waiting = self.ledger.is_waiting(place);
        self.ledger.input(place, input);
        if !was_waiting && self.ledger.is_waiting(place) {
            self.asked[place] = at.step;
        }
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &Access) {
        if !self.down[transit.to.index()] {
            self.ledger.disturb();
        }
    }

    fn duplicate(&mut self, _at: &Moment, _transit: &Transit, _copy: &Transit) {
        self.ledger.disturb();
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &Event) {
        if *event == Event::Entered {
            self.last_entry = at.step;
            self.entries += 1;
        }
        let mut breaches = Vec::new();
        self.ledger.emit(process.index(), event, &mut breaches);
        self.overtaking = self.overtaking.max(self.ledger.overtaking());
        self.judge(at.step, breaches);
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        let mut breaches = Vec::new();
        self.ledger.reject(process.index(), from, why, &mut breaches);
        self.judge(at.step, breaches);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        let mut breaches = Vec::new();
        self.ledger.invariant(process.index(), why, &mut breaches);
        self.judge(at.step, breaches);
    }

    fn interrupt(&mut self, _at: &Moment, _process: Process, _after: u32) {
        self.ledger.unheard();
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.down[process.index()] = true;
        self.ledger.crash(process.index());
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.down[process.index()] = false;
        self.ledger.restart(process.index(), life);
    }
}

impl Judge<Machine> for MemoryProperties {
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
            Ending::OutOfTime => self.give_up(step),
            Ending::Endless { since } => self.starve(step, since),
            Ending::Stopped => {}
        }
    }

    fn judgements(&self) -> Vec<Judgement> {
        let judged = |(property, kind, claim): (&'static str, PropertyKind, &'static str)| Judgement {
            property,
            kind,
            claim,
            promised: self.found.get(property).map_or_else(|| self.is_promised(property), |found| found.1),
            finding: self.finding(property),
        };
        CLAIMS.into_iter().map(judged).collect()
    }
}
