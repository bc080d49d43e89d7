//! `conclave compare`: algorithms side by side, over the size of the group and the load.

mod export;
mod measured;
mod tables;

use std::sync::{Arc, Mutex};

use conclave_algorithms::demand::{Load, PlannedAsk, Who};
use conclave_algorithms::family::Kind;
use conclave_core::{Members, NodeId};
use conclave_sim::faults::{Crash, Detector, Faults};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, Report};
use conclave_trace::{Setup, What};

use super::args::{CompareArgs, LoadArg};
use super::catalogue::{Catalogue, Entry};
use super::output::{self, Progress};
use super::{files, no_such_algorithm};
use crate::failure::{Failure, Verdict};
pub use export::cell;
pub use measured::Spread;
use measured::{Point, Ran};
pub use tables::number;

/// Runs every algorithm at every size, and tells what came out.
pub fn run(args: &CompareArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let (entries, family) = understood(args, catalogue)?;
    for path in args.csv.iter().chain(&args.svg) {
        files::check(path)?;
    }
    let done = Arc::new(Mutex::new(Done::default()));
    let shown = Arc::clone(&done);
    let progress = Progress::start(move |passed| {
        let Done { points, of, what } = shown.lock().map(|done| done.clone()).unwrap_or_default();
        format!("{points} of {of} points, {what}, {} s", passed.as_secs())
    });
    let comparison = measured(args, family, &entries, &mut |now| {
        if let Ok(mut done) = done.lock() {
            *done = now;
        }
    })?;
    drop(progress);
    comparison.write(args)?;
    if args.json {
        output::show_json(&comparison.json())?;
    } else {
        output::show(&comparison.page())?;
    }
    Ok(Verdict::of(comparison.agrees()))
}

/// What is compared, and that it can be.
pub fn understood(args: &CompareArgs, catalogue: &Catalogue) -> Result<(Vec<Entry>, Kind), Failure> {
    let entries = chosen(&args.what, catalogue)?;
    let family = entries[0].about.family;
    if let Some(other) = entries.iter().find(|entry| entry.about.family != family) {
        let (one, two) = (entries[0].about, other.about);
        return Err(Failure::new(format!(
            "{} is for {}, and {} is for {}: nothing can be compared",
            one.name, one.family.title, two.name, two.family.title
        )));
    }
    check_options(args, &family)?;
    check_settings(args, &entries)?;
    Ok((entries, family))
}

/// How far a comparison has come.
#[derive(Clone, Default)]
pub struct Done {
    /// So many points are measured.
    pub points: usize,
    /// Of so many.
    pub of: usize,
    /// What is measured now.
    pub what: String,
}

/// Runs everything, and says how far it is.
pub fn measured(
    args: &CompareArgs,
    family: Kind,
    entries: &[Entry],
    watch: &mut dyn FnMut(Done),
) -> Result<Comparison, Failure> {
    let comparison = Comparison::of(args, family, entries, watch);
    match (comparison.points.as_slice(), comparison.skipped.as_slice()) {
        ([], [why, ..]) => Err(Failure::new(format!("nothing can be measured: {why}"))),
        _ => Ok(comparison),
    }
}

/// The algorithms that are named, or all of a family.
pub fn chosen(what: &[String], catalogue: &Catalogue) -> Result<Vec<Entry>, Failure> {
    let mut entries: Vec<Entry> = Vec::new();
    for name in what {
        let is_of_family = |about: &&conclave_algorithms::About| about.family.name == name;
        let of_family: Vec<_> = catalogue.all().into_iter().filter(is_of_family).collect();
        let is_algorithm = catalogue.find(name).is_some();
        let names: Vec<&str> = match of_family.as_slice() {
            // An algorithm may be called like its family, and be all of it.
            [_, _, ..] => of_family.iter().map(|about| about.name).collect(),
            _ if is_algorithm => vec![name],
            [about] => vec![about.name],
            [] => return Err(unknown(name, catalogue)),
        };
        let found = names.into_iter().filter_map(|name| catalogue.find(name));
        for entry in found {
            if entries.iter().all(|other| other.about.name != entry.about.name) {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

fn unknown(name: &str, catalogue: &Catalogue) -> Failure {
    let families = catalogue.families();
    let meant = crate::failure::nearest(name, families.iter().map(|family| family.name));
    match meant {
        Some(meant) => {
            Failure::new(format!("there is no family or algorithm '{name}'; did you mean '{meant}'?"))
        }
        None => no_such_algorithm(name, catalogue),
    }
}

/// An option that means nothing to the family is a slip.
fn check_options(args: &CompareArgs, family: &Kind) -> Result<(), Failure> {
    let given = [("--load", args.load.is_some()), ("--entries", args.entries.is_some())];
    let foreign = given.iter().find(|(option, is_given)| *is_given && !family.options.contains(option));
    match foreign {
        Some((option, _)) => Err(Failure::new(format!("{option} means nothing to {}", family.title))),
        None => Ok(()),
    }
}

/// A setting that nobody has is a slip.
fn check_settings(args: &CompareArgs, entries: &[Entry]) -> Result<(), Failure> {
    let settings = super::sim::settings(&args.set, &[])?;
    let is_known = |key: &str| entries.iter().any(|entry| has_setting(entry, key));
    match settings.keys().find(|key| !is_known(key)) {
        Some(key) => Err(Failure::new(format!("none of these algorithms has a setting '{key}'"))),
        None => Ok(()),
    }
}

fn has_setting(entry: &Entry, key: &str) -> bool {
    entry.about.every_setting().any(|setting| setting.key.replace('-', "_") == key.replace('-', "_"))
}

/// What is done in the runs of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Everyone enters, under this load.
    Load(Load),
    /// Every process starts once, alone.
    EachStarts,
    /// All start at once.
    AllStart,
    /// What the users of the family usually do.
    Usual,
}

impl Scenario {
    /// Those that a family has: it says which options of a run mean something to it.
    fn all(family: &Kind, args: &CompareArgs) -> Vec<Self> {
        let has = |option: &str| family.options.contains(&option);
        if has("--load") {
            let given = args.load.as_deref().unwrap_or(&[LoadArg::Light, LoadArg::Saturated]);
            given.iter().map(|load| Self::Load((*load).into())).collect()
        } else if has("--start") {
            vec![Self::EachStarts, Self::AllStart]
        } else {
            vec![Self::Usual]
        }
    }

    /// Its name for programs.
    pub fn key(self) -> &'static str {
        match self {
            Self::Load(load) => load.name(),
            Self::EachStarts => "each-starts",
            Self::AllStart => "all-start",
            Self::Usual => "usual",
        }
    }

    /// Its name for people.
    pub fn title(self) -> String {
        match self {
            Self::Load(load) => format!("{} load", load.name()),
            Self::EachStarts => "one starts, each in turn".into(),
            Self::AllStart => "all start at once".into(),
            Self::Usual => "a run".into(),
        }
    }

    /// Who begins, run by run.
    fn starters(self, members: &Members) -> Vec<Option<Who>> {
        match self {
            Self::EachStarts => members.iter().map(|id| Some(Who::One(id))).collect(),
            Self::AllStart => vec![Some(Who::All)],
            Self::Load(_) | Self::Usual => vec![None],
        }
    }
}

/// Everything that was measured.
pub struct Comparison {
    family: Kind,
    entries: Vec<Entry>,
    sizes: Vec<u32>,
    scenarios: Vec<Scenario>,
    delay: Span,
    seeds: u64,
    /// By algorithm, then scenario, then size.
    points: Vec<Point>,
    /// What an algorithm promises, and what else is judged.
    promises: Vec<Promises>,
    /// Why an algorithm could not run at a size.
    skipped: Vec<String>,
}

/// Codes and claims of properties.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    pub promised: Vec<(&'static str, &'static str)>,
    pub other: Vec<(&'static str, &'static str)>,
}

impl Comparison {
    fn of(args: &CompareArgs, family: Kind, entries: &[Entry], watch: &mut dyn FnMut(Done)) -> Self {
        let scenarios = Scenario::all(&family, args);
        let sizes = args.n.0.clone();
        let of = entries.len() * scenarios.len() * sizes.len();
        let mut points = 0;
        let mut comparison = Self {
            family,
            entries: entries.to_vec(),
            sizes,
            scenarios,
            delay: args.delay,
            seeds: args.seeds.last - args.seeds.first + 1,
            points: Vec::new(),
            promises: Vec::new(),
            skipped: Vec::new(),
        };
        for entry in entries {
            comparison.promises.push(Promises::default());
            for scenario in comparison.scenarios.clone() {
                for n in comparison.sizes.clone() {
                    watch(Done { points, of, what: format!("{}, n = {n}", entry.about.name) });
                    comparison.measure(args, *entry, scenario, n);
                    points += 1;
                }
            }
        }
        comparison
    }

    fn measure(&mut self, args: &CompareArgs, entry: Entry, scenario: Scenario, n: u32) {
        let job = Job { args, entry, scenario, members: Members::numbered(n) };
        let mut point = Point::new(entry.about.name, scenario, n);
        for seed in args.seeds.first..=args.seeds.last {
            for starter in scenario.starters(&job.members) {
                match job.simulate(&job.plan(seed, starter), false) {
                    Ok(outcome) => {
                        self.note_promises(&outcome.report);
                        point.add(seed, named(starter), &outcome);
                    }
                    Err(why) => {
                        return self.skip(format!("{} with {n} processes: {why}", entry.about.name));
                    }
                }
            }
        }
        // Crashes take as many runs as all the rest: they are tried at the largest size only.
        if self.sizes.last() == Some(&n) {
            point.outage = job.outage(&point);
        }
        self.points.push(point);
    }

    /// The same reason comes up in each scenario.
    fn skip(&mut self, why: String) {
        if !self.skipped.contains(&why) {
            self.skipped.push(why);
        }
    }

    fn note_promises(&mut self, report: &Report) {
        let Some(promises) = self.promises.last_mut() else { return };
        let codes = |properties: &[conclave_sim::Property]| {
            properties.iter().map(|property| (property.name, property.claim)).collect()
        };
        *promises = Promises { promised: codes(&report.properties), other: codes(&report.not_promised) };
    }

    /// Whether every number that can be compared with a formula agrees, and no promise was broken.
    fn agrees(&self) -> bool {
        self.points.iter().all(|point| point.disagreements() == 0 && point.failures() == 0)
    }
}

fn named(starter: Option<Who>) -> Option<NodeId> {
    match starter {
        Some(Who::One(id)) => Some(id),
        _ => None,
    }
}

/// Entries of each process, unless --entries says otherwise.
const ENTRIES: u64 = 3;

/// The runs of one point.
struct Job<'a> {
    args: &'a CompareArgs,
    entry: Entry,
    scenario: Scenario,
    members: Members,
}

impl Job<'_> {
    fn plan(&self, seed: u64, starter: Option<Who>) -> Plan {
        let load = match self.scenario {
            Scenario::Load(load) => load,
            _ => Load::Saturated,
        };
        let start = |who| PlannedAsk { at: 0, who, words: "start".into() };
        Plan {
            seed,
            load,
            entries: self.args.entries.unwrap_or(ENTRIES),
            delay: self.args.delay,
            asks: starter.map(start).into_iter().collect(),
            ..Plan::new(self.members.clone())
        }
    }

    fn simulate(&self, plan: &Plan, record: bool) -> Result<Outcome, String> {
        let about = self.entry.about;
        let given = self.args.set.iter().filter(|(key, _)| has_setting(&self.entry, key)).cloned();
        let settings = given.collect();
        let setup = Setup {
            algorithm: about.name.into(),
            nodes: self.members.iter().collect(),
            settings,
            ..Setup::numbered(about.name, 0)
        };
        (self.entry.simulate)(&setup, plan, record).map_err(|error| error.to_string())
    }

    /// The longest time that nobody is served, or told of a leader, after the process that matters most has crashed. Where
    /// users go round, that is the busiest process, at several moments of the run; where they ask once, it is whoever was
    /// elected, when all is over.
    fn outage(&self, point: &Point) -> Option<f64> {
        const MOMENTS: u32 = 8;
        let Ran { seed, starter, busiest, time, .. } = point.runs.first()?;
        // What a family adds, like the memory that processes share, is no member that a run can take away.
        if self.members.len() < 2 || !self.members.contains(*busiest) {
            return None;
        }
        let starter = starter.map(Who::One).or_else(|| self.scenario.starters(&self.members)[0]);
        let plan = self.plan(*seed, starter);
        if self.entry.about.counts_rounds() {
            let moment = |k: u32| (time * 1e3 * f64::from(k) / f64::from(MOMENTS + 1)) as u64;
            let outages = (1..=MOMENTS).filter_map(|k| {
                let figures = self.crashed(&plan, *busiest, moment(k), false)?.report.part.0.figures();
                figures.into_iter().find(|figure| figure.key == "outage")?.value
            });
            return outages.reduce(f64::max);
        }
        let at = (time * 1e3) as u64 + 1_000_000;
        let outcome = self.crashed(&plan, self.leader(&plan).unwrap_or(*busiest), at, true)?;
        let records = outcome.trace?.records;
        let told =
            records.iter().filter(|record| matches!(record.what, What::Event { .. }) && record.time >= at);
        told.map(|record| record.time - at).max().map(|span| span as f64 / 1e3)
    }

    /// The same run with a crash that everybody is told of.
    fn crashed(&self, plan: &Plan, process: NodeId, at: u64, record: bool) -> Option<Outcome> {
        let crash = Crash { process, at, restart: None, amnesia: false, inside: None };
        let detector = Detector::After(Span::Constant(0));
        let faults = Faults { crashes: vec![crash], detector, ..Faults::default() };
        self.simulate(&Plan { faults, ..plan.clone() }, record).ok()
    }

    /// Who is named in the last event of a run: whom everybody relies on.
    fn leader(&self, plan: &Plan) -> Option<NodeId> {
        let trace = self.simulate(plan, true).ok()?.trace?;
        let told = trace.records.iter().rev().find_map(|record| match &record.what {
            What::Event { event, .. } => Some(event.clone()),
            _ => None,
        })?;
        let mut named =
            told.split([' ', ',']).filter_map(|word| word.strip_prefix('p')?.parse().ok().map(NodeId));
        named.find(|id| self.members.contains(*id))
    }
}
