//! What a run of mutual exclusion is measured by, and what is reported of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Disturbance, Input, Moment, Observer, Process, Transit};

use super::family::Locking;
use super::outages::{Fault, Outage, Outages};
use super::times::EntryTimes;
use super::{Event, Locks, Properties, Request, Tally};
use crate::Formula;
use crate::demand::Load;
use crate::family::Meter;
use crate::measure::{
    Figure, List, Measured, Outcome, Part, Piece, Ran, Row, Summary, Timed, Unit, Value, round,
};

/// More numbers than that are no report.
const MOST_LISTED: usize = 1_000;

type FormulaOf = Box<dyn Fn(&Tally<'_>) -> (Formula, Option<f64>) + Send + Sync>;

/// Measures how long entries take, and how long nobody could enter after a fault.
pub struct LockMeter {
    times: EntryTimes,
    outages: Outages,
    locks: usize,
    load: Load,
    /// How often a token was sent.
    token_sends: u64,
    /// How often it had been when a process last asked, by place.
    sends_at_request: Vec<u64>,
    /// How often it was sent between a request and its entry.
    sends_until_entry: Timed,
    /// What the literature gives for a run: the messages, and their mean.
    formula: FormulaOf,
}

impl LockMeter {
    /// Of a run of `n` processes on this many locks; faults are followed only where some are to come.
    pub(super) fn new(n: usize, locks: usize, load: Load, faulty: bool, formula: FormulaOf) -> Self {
        let outages = if faulty { Outages::new(n, locks) } else { Outages::none() };
        let times = EntryTimes::new(n, locks);
        let (sends_at_request, sends_until_entry) = (vec![0; n], Timed::default());
        Self { times, outages, locks, load, token_sends: 0, sends_at_request, sends_until_entry, formula }
    }
}

impl<L: Locks> Observer<L> for LockMeter {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<L>) {
        self.times.input(at, process, input);
        self.outages.input(at, process, input);
        if L::MOVES_TOKEN
            && let Input::Request(request) = input
            && L::asked(request).1 == Request::Acquire
        {
            self.sends_at_request[process.index()] = self.token_sends;
        }
    }

    #[inline(always)]
    fn send(&mut self, _at: &Moment, _transit: &Transit, message: &L::Message) {
        self.token_sends += u64::from(L::MOVES_TOKEN && L::token_in(message).is_some());
    }

    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &L::Event) {
        Observer::<L>::emit(&mut self.times, at, process, event);
        if L::MOVES_TOKEN && matches!(L::told(event).1, Event::Granted { .. }) {
            self.sends_until_entry.add(self.token_sends - self.sends_at_request[process.index()]);
        }
        Observer::<L>::emit(&mut self.outages, at, process, event);
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &L::Message) {
        Observer::<L>::drop(&mut self.outages, at, transit, message);
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        Observer::<L>::crash(&mut self.times, at, process);
        Observer::<L>::crash(&mut self.outages, at, process);
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        Observer::<L>::disturb(&mut self.outages, at, what);
    }
}

impl<L: Locks> Meter<Locking<L>> for LockMeter {
    fn measured(&self, judge: &Properties, ran: &Ran<'_>) -> Measured {
        let (entries, waited, at_hand) = (judge.entries(), judge.waited(), judge.at_hand());
        let total: u64 = entries.iter().sum();
        let founders = ran.members.len();
        // A formula knows of the members; who joined is not in it, and it is not compared then.
        let tally = Tally {
            load: self.load,
            locks: self.locks as u64,
            entries: &entries[..founders],
            waited: &waited[..founders],
            at_hand: &at_hand[..founders],
        };
        let (formula, mean) = (self.formula)(&tally);
        let mean_delay = ran.mean_delay.filter(|delay| *delay > 0.0);
        let hops = self.times.sync_delay.mean().zip(mean_delay);
        let seconds = ran.time as f64 / 1e6;
        let report = LockReport {
            locks: self.locks,
            load: self.load.name(),
            entries: total,
            waited: waited.iter().sum(),
            entries_by_process: if entries.len() <= MOST_LISTED { entries } else { Vec::new() },
            messages_per_entry: (total > 0).then(|| round(ran.messages as f64 / total as f64)),
            // Of several tokens nobody could say which one came.
            token_sends: Some(self.sends_until_entry).filter(|_| self.token_sends > 0 && self.locks == 1),
            client_delay: self.times.client_delay.into(),
            sync_delay: self.times.sync_delay.into(),
            sync_delay_hops: hops.map(|(mean, delay)| round(mean / delay)),
            response: self.times.response.into(),
            max_overtaking: judge.max_overtaking(),
            throughput: (seconds > 0.0).then(|| round(total as f64 / seconds)),
            refused_by_fence: judge.refused_entries(),
            outages: self.outages.faults().into_iter().map(OutageReport::from).collect(),
            disturbed: ran.faulty,
        };
        Measured {
            unit: Unit { count: total, name: Some("entry"), none: "nobody entered" },
            formula,
            mean,
            agrees: (total > 0 && !ran.faulty).then(|| formula.admits(ran.messages)),
            part: Box::new(report),
        }
    }
}

/// What is reported of mutual exclusion.
#[derive(Clone, Debug)]
pub struct LockReport {
    /// How many locks.
    pub locks: usize,
    /// `light`, `open` or `saturated`.
    pub load: &'static str,
    /// Entries made, by all.
    pub entries: u64,
    /// Entries made, by process; left out for more than a thousand.
    pub entries_by_process: Vec<u64>,
    /// Entries that were not granted in direct answer to their own request.
    pub waited: u64,
    /// The algorithm's own messages, per entry.
    pub messages_per_entry: Option<f64>,
    /// How often the token was sent between a request and its entry, where there is one token.
    pub token_sends: Option<Timed>,
    /// Request to entry, in milliseconds.
    pub client_delay: Summary,
    /// Exit to the next entry while somebody waits, in milliseconds.
    pub sync_delay: Summary,
    /// The same in mean message delays.
    pub sync_delay_hops: Option<f64>,
    /// Request to exit, in milliseconds.
    pub response: Summary,
    /// The most entries by others that a known request had to see.
    pub max_overtaking: u64,
    /// Entries per second of virtual time.
    pub throughput: Option<f64>,
    /// Entries whose fence was old: the resource refused what they wrote.
    pub refused_by_fence: u64,
    /// What disturbed the run, and how long nobody could enter because of it.
    pub outages: Vec<OutageReport>,
    /// Whether anything could go wrong, or anybody come or go.
    pub disturbed: bool,
}

/// A fault, and how long nobody entered after it although somebody waited.
#[derive(Clone, Debug, PartialEq)]
pub struct OutageReport {
    /// What happened.
    pub fault: String,
    /// When, in milliseconds.
    pub at: f64,
    /// How long nobody entered.
    pub outage: Outage,
}

impl From<Fault> for OutageReport {
    fn from(fault: Fault) -> Self {
        Self { fault: fault.text, at: fault.at as f64 / 1e3, outage: fault.outage }
    }
}

fn sends_value(sends: Timed) -> Value {
    let mean = round(sends.mean().unwrap_or_default());
    Value::Map(vec![("count", sends.count.into()), ("mean", mean.into()), ("max", sends.max.into())])
}

impl Part for LockReport {
    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            Row::new(
                "entries",
                [
                    Piece::Count(self.entries),
                    ", ".into(),
                    Piece::Count(self.waited),
                    " of them waited".into(),
                ],
            ),
            Row::new("client delay", [Piece::Times(self.client_delay)]),
        ];
        if let Some(mean) = self.token_sends.as_ref().and_then(Timed::mean) {
            let most = self.token_sends.map_or(0, |sends| sends.max);
            let pieces = ["mean ".into(), Piece::Number(round(mean)), ", max ".into(), Piece::Count(most)];
            rows.push(Row::new("token sends", pieces));
        }
        let mut sync = vec![Piece::Times(self.sync_delay)];
        if let Some(hops) = self.sync_delay_hops {
            sync.extend([", ".into(), Piece::Number(hops), " mean hops".into()]);
        }
        rows.push(Row::new("sync delay", sync));
        rows.push(Row::new("response time", [Piece::Times(self.response)]));
        rows.push(Row::new("overtaking", [Piece::Text(format!("at most {}", self.max_overtaking))]));
        if let Some(throughput) = self.throughput {
            rows.push(Row::new(
                "throughput",
                [Piece::Number(throughput), " entries per virtual second".into()],
            ));
        }
        if self.disturbed {
            let refused = self.refused_by_fence;
            let noun = if refused == 1 { " entry" } else { " entries" };
            rows.push(Row::new("refused by fence", [Piece::Count(refused), noun.into()]));
        }
        rows
    }

    fn list(&self) -> Option<List> {
        let row = |outage: &OutageReport| {
            let what =
                vec![Piece::Text(format!("{} at ", outage.fault)), Piece::Number(outage.at), " ms".into()];
            let lasted = match outage.outage {
                Outage::None => Outcome::Good(vec!["none".into()]),
                Outage::Lasted(span) => Outcome::Good(vec![Piece::Number(span as f64 / 1e3), " ms".into()]),
                Outage::Never => Outcome::Bad(vec!["never over".into()]),
            };
            (what, lasted)
        };
        let rows: Vec<_> = self.outages.iter().map(row).collect();
        (!rows.is_empty()).then_some(List { title: "outage", rows })
    }

    fn figures(&self) -> Vec<Figure> {
        let lasted = |outage: &OutageReport| match outage.outage {
            Outage::None => 0.0,
            Outage::Lasted(span) => span as f64 / 1e3,
            Outage::Never => f64::INFINITY,
        };
        vec![
            Figure::new("client_delay", "client delay", "ms", self.client_delay.mean),
            Figure::new("sync_delay_hops", "sync delay", "hops", self.sync_delay_hops),
            Figure::new("overtaking", "overtaking", "", Some(self.max_overtaking as f64)),
            Figure::new("outage", "outage", "ms", self.outages.iter().map(lasted).reduce(f64::max)),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = vec![
            ("locks", Value::Count(self.locks as u64)),
            ("load", self.load.into()),
            ("entries", self.entries.into()),
        ];
        if !self.entries_by_process.is_empty() {
            fields.push(("entries_by_process", self.entries_by_process.clone().into()));
        }
        fields.push(("waited", self.waited.into()));
        fields.extend(self.messages_per_entry.map(|messages| ("messages_per_entry", messages.into())));
        fields.extend(self.token_sends.map(|sends| ("token_sends", sends_value(sends))));
        fields.push(("client_delay", self.client_delay.into()));
        fields.push(("sync_delay", self.sync_delay.into()));
        fields.extend(self.sync_delay_hops.map(|hops| ("sync_delay_hops", hops.into())));
        fields.push(("response", self.response.into()));
        fields.push(("max_overtaking", self.max_overtaking.into()));
        fields.extend(self.throughput.map(|throughput| ("throughput", throughput.into())));
        fields.push(("refused_by_fence", self.refused_by_fence.into()));
        let outage = |outage: &OutageReport| {
            let lasted = match outage.outage {
                Outage::None => "none".into(),
                Outage::Lasted(span) => Value::Number(span as f64 / 1e3),
                Outage::Never => "never".into(),
            };
            Value::Map(vec![
                ("fault", outage.fault.as_str().into()),
                ("at", outage.at.into()),
                ("outage", lasted),
            ])
        };
        fields.push(("outages", Value::List(self.outages.iter().map(outage).collect())));
        fields
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
