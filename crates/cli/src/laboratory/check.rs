//! `conclave check`: all runs within budgets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use conclave_algorithms::family::{Kind, Searches};
use conclave_algorithms::{About, Channels, Finding, Mutant, RECOVERY_MUTANTS, Synchrony};
use conclave_check::{AskBudget, Budgets, CheckError, Counterexample, Limits, Options, Report};
use conclave_core::{Members, NodeId, Timing};
use conclave_sim::Played;
use conclave_trace::{Command, Setup, Trace, What, commands_of, describe};
use serde_json::{Value, json};

use super::args::{CheckArgs, Ids, RecordedMoment, members};
use super::catalogue::{Catalogue, Entry};
use super::files;
use super::no_such_algorithm;
use super::output::{self, Progress, Searched, grouped, notice, size};
use super::sim::{drawn, not_a_member, settings, with_snapshots};
use super::sweep;
use crate::failure::{Failure, Verdict, nearest};

/// Searches all runs of an algorithm.
pub fn run(args: &CheckArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    if args.all {
        return sweep::run(args, catalogue);
    }
    let led = args.from.as_ref().map(Led::read).transpose()?;
    let (job, attempts) = Job::understood(args, led, catalogue)?;
    args.output.check_with(args.save_script.as_deref())?;
    if args.depth.is_none() && args.time.is_none() && args.states.is_none() {
        warn_of_size(&attempts[0]);
    }
    let interrupt = interrupt()?;
    let attempts: Vec<_> = attempts
        .into_iter()
        .map(|options| Options {
            limits: Limits { interrupt: Some(Arc::clone(&interrupt)), ..options.limits },
            ..options
        })
        .collect();
    job.run(&attempts)
}

/// The exit code of a search that broke nothing and did not see everything.
pub const INCOMPLETE: u8 = 3;

/// Set by the first Ctrl-C, so that what was seen is reported; the second ends the process.
pub fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let wanted = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("signals cannot be heard: {error}")))?;
    let heard = Arc::clone(&wanted);
    std::thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if heard.swap(true, Ordering::Relaxed) {
                    std::process::exit(i32::from(INCOMPLETE));
                }
            }
        });
    });
    Ok(wanted)
}

fn entry(named: Option<&str>, led: Option<&Led>, catalogue: &Catalogue) -> Result<Entry, Failure> {
    let recorded = led.map(|led| led.setup.algorithm.as_str());
    let name = match (named, recorded) {
        (Some(named), Some(recorded)) if named != recorded => {
            return Err(Failure::new(format!("the trace is of {recorded}, not of {named}")));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => {
            return Err(Failure::new("no algorithm is given").hint("'conclave list' shows all of them"));
        }
    };
    catalogue.find(name).ok_or_else(|| no_such_algorithm(name, catalogue))
}

fn setup(about: &About, args: &CheckArgs, mutant: Option<&Mutant>) -> Result<Setup, Failure> {
    let members = members(args.ids.as_ref(), args.n, mutant.map_or(3, |mutant| mutant.nodes))?;
    Ok(Setup {
        algorithm: about.name.into(),
        nodes: members.iter().collect(),
        settings: with_snapshots(settings(&args.set, &args.stamp)?, !args.snapshot.is_empty()),
        mutant: args.mutant.clone(),
        channels: args.channels.map(|channels| Channels::from(channels).name().into()),
        locks: 1,
        timing: Timing::default(),
    })
}

/// A recorded run up to a moment.
pub struct Led {
    setup: Setup,
    commands: Vec<Command>,
}

impl Led {
    fn read(moment: &RecordedMoment) -> Result<Self, Failure> {
        let named =
            |error: &dyn core::fmt::Display| Failure::new(format!("{}: {error}", moment.trace.display()));
        let text = files::read(&moment.trace)?;
        let trace = Trace::read_jsonl(&text).map_err(|error| named(&error))?;
        let step = moment.step.unwrap_or(trace.records.len());
        if step > trace.records.len() {
            return Err(named(&format!("it has {} records, and not {step}", trace.records.len())));
        }
        Self::of(trace, step, &named)
    }

    /// A trace up to a record; `named` says which trace it is.
    pub fn of(
        mut trace: Trace,
        step: usize,
        named: &dyn Fn(&dyn core::fmt::Display) -> Failure,
    ) -> Result<Self, Failure> {
        trace.records.truncate(step);
        if let Some(record) = trace.records.iter().find(|record| is_foreign(&record.what)) {
            let (id, what) = (record.id, describe(record));
            return Err(named(&match record.what {
                What::Violation { .. } => format!("record {id}: {what}; begin before that"),
                _ => format!("record {id}: the checker knows nothing like '{what}'"),
            }));
        }
        Ok(Self { setup: Setup::from_header(&trace.header), commands: commands_of(&trace) })
    }
}

/// What happens in recorded runs, but not in searches.
fn is_foreign(what: &What) -> bool {
    matches!(
        what,
        What::Join
            | What::Pause
            | What::Resume
            | What::Partition { .. }
            | What::Heal { .. }
            | What::Clock { .. }
            | What::Violation { .. }
            | What::Crash { after: Some(_) }
    )
}

fn find_mutant(about: &'static About, name: &str) -> Result<&'static Mutant, Failure> {
    // Whoever can recover has the mutants of the recovery, too.
    let shared = if about.family.searches.recovers { RECOVERY_MUTANTS } else { &[] };
    about.mutants.iter().chain(shared).find(|mutant| mutant.name == name).ok_or_else(|| {
        let names = || about.mutants.iter().map(|mutant| mutant.name);
        let known = match nearest(name, names()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Failure::new(format!("{} has no mutant '{name}'; {known}", about.name))
            .hint(format!("'conclave list {} --mutants' shows them", about.name))
    })
}

/// Refuses options that make no sense for the algorithm.
fn check_family(about: &About, args: &CheckArgs, setup: &Setup, families: &[Kind]) -> Result<(), Failure> {
    let possible = about.family.searches;
    // A group that recovers relies on time, whatever its algorithm does.
    let may_recover = args.crashes.is_some() || args.suspicions.is_some() || !args.set.is_empty();
    let relies_on_time = about.synchrony_with(&setup.settings) == Synchrony::Synchronous
        || (possible.recovers && (may_recover || args.mutant.is_some() || args.from.is_some()));
    let (name, title) = (about.name, about.family.title);
    let foreign = |option: &str, has: fn(&Searches) -> bool| {
        let others = families.iter().filter(|family| has(&family.searches));
        let titles: Vec<_> = others.map(|family| family.title).collect();
        format!("{option} belongs to {}, and {name} is not of that kind", titles.join(", "))
    };
    let why = if !possible.cancels && args.cancels.is_some() {
        foreign("--cancels", |searches| searches.cancels)
    } else if !possible.order && args.order {
        foreign("--order", |searches| searches.order)
    } else if !possible.forever && args.entries == Some(AskBudget::Forever) {
        format!("with requests forever a run of {title} never ends; give --entries a number")
    } else if !possible.first && args.entries == Some(AskBudget::First) {
        foreign("--entries first", |searches| searches.first)
    } else if !relies_on_time && args.untimed {
        format!("--untimed is for algorithms that rely on time, and {name} does not")
    } else {
        return Ok(());
    };
    Err(Failure::new(why))
}

/// Refuses an option that names somebody who does not take part.
fn check_named(option: &str, named: Option<&Ids>, members: &Members) -> Result<(), Failure> {
    let ids = named.map_or(&[][..], |Ids(ids)| ids);
    match ids.iter().find(|id| !members.contains(**id)) {
        Some(stranger) => Err(not_a_member(*stranger, &format!("{option} {}", stranger.0), members)),
        None => Ok(()),
    }
}

/// Refuses more crashes than there can be.
fn check_crashes(args: &CheckArgs, members: &Members) -> Result<(), Failure> {
    let (n, restarts) = (members.len() as u64, u64::from(args.restarts.unwrap_or(0)));
    match args.crashes.map(u64::from) {
        Some(crashes) if crashes > n + restarts => Err(Failure::new(format!(
            "--crashes {crashes}: {n} processes and {restarts} restarts make {} crashes at most",
            n + restarts
        ))),
        _ => Ok(()),
    }
}

/// The searches to make, one after the other until one breaks something: one, or those that refute a mutant.
fn attempts(args: &CheckArgs, mutant: Option<&Mutant>, lead: &[Command]) -> Result<Vec<Options>, Failure> {
    let safety = args.safety || args.verify_reduction || args.by_effect;
    if args.order && safety && !args.no_reduction {
        let sentence = "--order cannot be judged when steps are left out that commute";
        return Err(Failure::new(sentence).hint("leave out --safety, or add --no-reduction"));
    }
    let usual = mutant.map_or_else(|| vec![Options::default()], conclave_check::attempts);
    if usual.is_empty() {
        let sentence = "this mutant is seen only where messages take time, and in a search they take none";
        let hint = "'conclave sim ALGO --mutant NAME --seeds 1000' shows it";
        return Err(Failure::new(sentence).hint(hint));
    }
    // Whoever says how often everyone asks wants one search only.
    let most = if args.entries.is_some() { 1 } else { usual.len() };
    usual.iter().take(most).map(|usual| options(args, usual, lead)).collect()
}

/// What was asked for, and the rest as usual.
fn options(args: &CheckArgs, usual: &Options, lead: &[Command]) -> Result<Options, Failure> {
    let safety = args.safety || args.verify_reduction || args.by_effect;
    let order = args.order || usual.order;
    Ok(Options {
        entries: args.entries.unwrap_or(usual.entries),
        starters: args.start.as_ref().map(|Ids(ids)| ids.clone()),
        snapshots: args.snapshot.clone(),
        budgets: budgets(args, usual.budgets)?,
        mortals: args.crash_only.as_ref().map(|Ids(ids)| ids.clone()),
        atomic_steps: args.atomic_steps || usual.atomic_steps,
        clocks: if args.clock.is_empty() { usual.clocks.clone() } else { args.clock.clone() },
        detector: !args.no_detector,
        order,
        liveness: !safety,
        reduce: safety && !args.no_reduction && !order,
        by_effect: args.by_effect,
        untimed: args.untimed,
        ticks: args.ticks.or(usual.ticks),
        threads: args.threads.unwrap_or_else(cores),
        limits: Limits {
            memory: args.memory.unwrap_or_else(three_quarters),
            depth: args.depth,
            time: args.time,
            states: args.states,
            in_flight: args.in_flight,
            interrupt: None,
        },
        lead: lead.to_vec(),
        paranoid: args.paranoid,
    })
}

fn budgets(args: &CheckArgs, usual: Budgets) -> Result<Budgets, Failure> {
    let budgets = Budgets {
        crashes: args.crashes.unwrap_or(usual.crashes),
        restarts: args.restarts.unwrap_or(usual.restarts),
        amnesia: args.amnesia,
        drops: args.drops.unwrap_or(usual.drops),
        duplicates: args.duplicates.unwrap_or(usual.duplicates),
        suspicions: args.suspicions.unwrap_or(usual.suspicions),
        cancels: args.cancels.unwrap_or(usual.cancels),
    };
    // A recorded run may have crashes in it.
    let may_crash = budgets.crashes > 0 || args.from.is_some();
    let why = if !may_crash && budgets.restarts > 0 {
        "nobody restarts who has not crashed: --restarts needs --crashes"
    } else if budgets.restarts == 0 && budgets.amnesia {
        "--amnesia is about who restarts: it needs --restarts"
    } else if !may_crash && args.no_detector {
        "--no-detector is about who crashes: it needs --crashes"
    } else if !may_crash && args.crash_only.is_some() {
        "--crash-only is about who crashes: it needs --crashes"
    } else if !may_crash && args.atomic_steps {
        "--atomic-steps is about who crashes: it needs --crashes"
    } else {
        return Ok(budgets);
    };
    Err(Failure::new(why))
}

/// Says so if a search may have no end but that of the memory.
fn warn_of_size(options: &Options) {
    if options.entries == AskBudget::Forever && !options.budgets.is_faultless() {
        let why = "with failures, who asks forever may do so in ever new lives and epochs";
        notice(
            "note",
            &format!("{why}: the search may have no end but that of the memory; --depth bounds it"),
        );
    }
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Three quarters of the memory that is available, in bytes.
pub fn three_quarters() -> usize {
    const UNKNOWN: usize = 2 << 30;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kilobytes: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kilobytes * 1024)
    });
    available.map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// What was asked for, understood.
pub struct Job<'a> {
    args: &'a CheckArgs,
    entry: Entry,
    about: &'static About,
    setup: Setup,
}

impl<'a> Job<'a> {
    /// What is searched, and the searches to make.
    pub fn understood(
        args: &'a CheckArgs,
        led: Option<Led>,
        catalogue: &Catalogue,
    ) -> Result<(Self, Vec<Options>), Failure> {
        let entry = entry(args.algo.as_deref(), led.as_ref(), catalogue)?;
        let about = entry.about;
        let name = led.as_ref().map_or(args.mutant.as_deref(), |led| led.setup.mutant.as_deref());
        let mutant = name.map(|name| find_mutant(about, name)).transpose()?;
        let setup = match &led {
            Some(led) => led.setup.clone(),
            None => setup(about, args, mutant)?,
        };
        check_family(about, args, &setup, &catalogue.families())?;
        let members = Members::listed(setup.nodes.clone());
        check_named("--start", args.start.as_ref(), &members)?;
        check_named("--snapshot", Some(&Ids(args.snapshot.clone())), &members)?;
        check_named("--crash-only", args.crash_only.as_ref(), &members)?;
        let clocks = Ids(args.clock.iter().map(|(process, _)| *process).collect());
        check_named("--clock", Some(&clocks), &members)?;
        let lead = led.map_or_else(Vec::new, |led| led.commands);
        check_crashes(args, &members)?;
        let attempts = attempts(args, mutant, &lead)?;
        Ok((Self { args, entry, about, setup }, attempts))
    }

    /// Searches one after the other, until one tells something, and says how far it is.
    pub fn watched(
        &self,
        attempts: &[Options],
        watch: &mut dyn FnMut(&conclave_check::Progress),
    ) -> Result<(Report, Value), Failure> {
        let (_, mut report) = self.first_telling(attempts, watch)?;
        let replayed = report.counterexample.as_mut().map(|found| Replayed::of(found, self.entry));
        let json = json(&report, replayed.as_ref(), None);
        Ok((report, json))
    }

    fn run(&self, attempts: &[Options]) -> Result<Verdict, Failure> {
        let shown = Shown::start(self.about.name);
        let mut watch = |progress: &conclave_check::Progress| shown.tell(*progress);
        let (options, mut report) = self.first_telling(attempts, &mut watch)?;
        let full = match self.args.verify_reduction {
            true => Some(self.search(&Options { reduce: false, ..options.clone() }, &mut watch)?),
            false => None,
        };
        drop(shown);
        let replayed = report.counterexample.as_mut().map(|found| Replayed::of(found, self.entry));
        let compared = full.as_ref().map(|full| Compared::of(&report, full));
        self.write(&report, replayed.as_ref())?;
        if self.args.output.json {
            output::show_json(&json(&report, replayed.as_ref(), compared.as_ref()))?;
        } else {
            let searched = Searched { about: self.about, setup: &self.setup, options, report: &report };
            output::show(&self.page(&searched, replayed.as_ref(), compared.as_ref()))?;
        }
        let is_whole = |report: &Report| report.incomplete.is_none();
        if report.all_held() && !(is_whole(&report) && full.as_ref().is_none_or(is_whole)) {
            return Ok(Verdict::Code(INCOMPLETE));
        }
        Ok(Verdict::of(report.all_held() && compared.is_none_or(|compared| compared.agrees())))
    }

    /// The first search that breaks something or does not come to its end, or else the last.
    fn first_telling<'o>(
        &self,
        attempts: &'o [Options],
        watch: &mut dyn FnMut(&conclave_check::Progress),
    ) -> Result<(&'o Options, Report), Failure> {
        let (last, others) = attempts.split_last().expect("there is something to search");
        for options in others {
            let report = self.search(options, watch)?;
            if !report.complete {
                return Ok((options, report));
            }
        }
        Ok((last, self.search(last, watch)?))
    }

    fn search(
        &self,
        options: &Options,
        watch: &mut dyn FnMut(&conclave_check::Progress),
    ) -> Result<Report, Failure> {
        let name = self.about.name;
        (self.entry.check)(&self.setup, options, watch).map_err(|error| match &error {
            CheckError::Setting(_) => {
                Failure::new(error).hint(format!("'conclave list {name}' shows what there is"))
            }
            CheckError::Unfit(_) if self.args.from.is_some() && !options.untimed => Failure::new(error)
                .hint("'conclave check --help' says what a trace may hold; perhaps --untimed is missing"),
            CheckError::Unfit(_) | CheckError::UnknownAlgorithm(_) => Failure::new(error),
        })
    }

    fn write(&self, report: &Report, replayed: Option<&Replayed>) -> Result<(), Failure> {
        if let (Some(path), Some(found)) = (&self.args.save_script, &report.counterexample) {
            files::write(path, |out| write!(out, "{}", found.script))?;
        }
        match replayed.and_then(|replayed| replayed.played.as_ref()) {
            Some(played) => self.args.output.write(&played.trace),
            None => Ok(()),
        }
    }

    /// The files that were asked for are of a counterexample.
    fn unwritten(&self) -> &'static str {
        let wanted = self.args.save_script.is_some() || self.args.output.wants_files();
        if wanted { "  nothing was written: there is no counterexample\n" } else { "" }
    }

    fn page(
        &self,
        searched: &Searched<'_>,
        replayed: Option<&Replayed>,
        compared: Option<&Compared>,
    ) -> String {
        let mut page = searched.text();
        if let Some(compared) = compared {
            page += &compared.text();
        }
        let (Some(found), Some(replayed)) = (&searched.report.counterexample, replayed) else {
            return page + &searched.verdict() + self.unwritten();
        };
        page += &searched.broken(found);
        if let Some(played) = replayed.played.as_ref().filter(|_| self.args.output.diagram.is_always()) {
            page += &format!("\n{}", drawn(&played.trace, &self.args.output));
        }
        page + &replayed.text(self.args.save_script.as_deref())
    }
}

/// The line on the terminal that says how far a search has come.
struct Shown {
    latest: Arc<Mutex<Option<conclave_check::Progress>>>,
    _line: Progress,
}

impl Shown {
    fn start(name: &'static str) -> Self {
        let latest = Arc::new(Mutex::new(None::<conclave_check::Progress>));
        let shown = Arc::clone(&latest);
        let line = Progress::start(move |_| {
            let progress = *shown.lock().unwrap_or_else(PoisonError::into_inner);
            progress.map_or_else(|| format!("checking {name}"), |progress| how_far(name, &progress))
        });
        Self { latest, _line: line }
    }

    fn tell(&self, progress: conclave_check::Progress) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }
}

/// How far a search has come, in a line.
fn how_far(name: &str, progress: &conclave_check::Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64().max(1e-3);
    format!(
        "checking {name}: {} states, {} to expand on level {}, {} states/s, {}, {seconds:.0} s",
        grouped(progress.states as u64),
        grouped(progress.frontier as u64),
        progress.depth,
        grouped((progress.states as f64 / seconds) as u64),
        size(progress.memory),
    )
}

/// A counterexample, played by the simulator.
struct Replayed {
    /// Nothing if the simulator could not play it.
    played: Option<Played>,
    /// What the simulator saw, if it is not the same.
    disagreement: Option<String>,
}

impl Replayed {
    /// Plays the script, and puts in what came out.
    fn of(found: &mut Counterexample, entry: Entry) -> Self {
        match (entry.play)(&found.script) {
            Ok(played) => {
                found.script.clone_from(&played.script);
                let disagreement = match &played.violation {
                    Some(violation) if violation.property == found.property => None,
                    Some(violation) => {
                        Some(format!("it sees {} broken: {}", violation.property, violation.detail))
                    }
                    None if is_broken(&played, found.property) => None,
                    None => Some("it sees nothing broken".into()),
                };
                Self { played: Some(played), disagreement }
            }
            Err(error) => {
                Self { played: None, disagreement: Some(format!("it cannot play the script: {error}")) }
            }
        }
    }

    fn text(&self, script: Option<&std::path::Path>) -> String {
        output::replayable(script, self.disagreement.as_deref())
    }

    fn json(&self) -> Value {
        json!({ "agrees": self.disagreement.is_none(), "detail": self.disagreement })
    }
}

/// Whether the simulator found a property broken, promised or not: that somebody starves is shown although some algorithms
/// promise no better.
fn is_broken(played: &Played, property: &str) -> bool {
    let is_broken = |finding: &Finding| matches!(finding, Finding::Broken(_));
    played.judgements.iter().any(|judged| judged.property == property && is_broken(&judged.finding))
}

/// What a search found with steps left out, beside what it found without.
struct Compared {
    reduced: (usize, u64),
    full: (usize, u64),
    difference: Option<String>,
}

impl Compared {
    fn of(reduced: &Report, full: &Report) -> Self {
        let broken = |report: &Report| match &report.counterexample {
            Some(found) => format!("{} is broken", found.property),
            None => "nothing is broken".into(),
        };
        let unfinished = |report: &Report| report.incomplete.map(|why| why.to_string());
        let difference = if let Some(why) = unfinished(reduced).or_else(|| unfinished(full)) {
            Some(format!("they cannot be compared, because a search did not come to its end: {why}"))
        } else if broken(reduced) != broken(full) {
            Some(format!("with steps left out {}, without {}", broken(reduced), broken(full)))
        } else {
            None
        };
        let counts = |report: &Report| (report.states, report.transitions);
        Self { reduced: counts(reduced), full: counts(full), difference }
    }

    fn agrees(&self) -> bool {
        self.difference.is_none()
    }

    fn factor(&self) -> f64 {
        self.full.0 as f64 / self.reduced.0.max(1) as f64
    }

    fn text(&self) -> String {
        output::compared(self.reduced, self.full, self.factor(), self.difference.as_deref())
    }

    fn json(&self) -> Value {
        let side =
            |(states, transitions): (usize, u64)| json!({ "states": states, "transitions": transitions });
        json!({
            "agrees": self.agrees(),
            "detail": self.difference,
            "reduced": side(self.reduced),
            "full": side(self.full),
            "factor": self.factor(),
        })
    }
}

/// The report for programs: what was promised apart from what was not, as in the other commands.
fn json(report: &Report, replayed: Option<&Replayed>, compared: Option<&Compared>) -> Value {
    let mut value = json!(report);
    let (promised, other): (Vec<_>, Vec<_>) =
        report.properties.iter().partition(|property| property.promised);
    value["properties"] = json!(promised);
    value["not_promised"] = json!(other);
    if let Some(replayed) = replayed {
        value["simulator"] = replayed.json();
    }
    if let Some(compared) = compared {
        value["reduction"] = compared.json();
    }
    value
}

/// Processes by name.
pub fn names(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
