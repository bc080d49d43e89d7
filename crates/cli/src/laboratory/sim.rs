//! `conclave sim`: simulated runs.

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use conclave_algorithms::demand::{Demand, Load, PlannedAsk, Who};
use conclave_algorithms::family::Kind;
use conclave_algorithms::recorded::{self, SETTING, SNAPSHOT};
use conclave_algorithms::{About, Channels, Synchrony, Topology, Violation};
use conclave_core::{Members, NodeId, Timing};
use conclave_sim::faults::{Detector, Faults, stranger};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, Report, Unasked};
use conclave_trace::{DiagramOptions, Script, Setup, Trace, diagram};
use owo_colors::OwoColorize as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{DiagramArg, Given, OutputArgs, Seeds, SimArgs, members};
use super::catalogue::{Catalogue, Entry};
use super::output::{self, Progress, Sheet, grouped, indented, judged, notice, terminal_width, violated};
use super::replay;
use super::{files, lab, no_such_algorithm};
use crate::failure::{Failure, Verdict};

/// Simulates a run, or one for each of many seeds.
pub fn run(args: &SimArgs, given: &Given, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let name = match (&args.algo, &args.script) {
        (Some(name), None) => name,
        (None, Some(script)) => {
            if let Some(option) = given.first() {
                let sentence =
                    format!("{option} and --script cannot be used together: the script says what runs");
                return Err(Failure::new(sentence));
            }
            return replay::script(script, &args.output, catalogue);
        }
        (Some(name), Some(_)) => {
            return Err(Failure::new(format!(
                "'{name}' and --script cannot be used together: the script says what runs"
            )));
        }
        (None, None) => {
            return Err(Failure::new("no algorithm is given").hint("'conclave list' shows all of them"));
        }
    };
    let job = Job::understood(name, args, given, catalogue)?;
    let expected = job.expected_messages()?;
    warn_of_length(expected, &job.plan);
    args.output.check_only(&job.plan.everyone().iter().collect::<Vec<_>>())?;
    job.run()
}

/// Refuses options that mean something to other families only.
fn check_family(about: &About, given: &Given, families: &[Kind]) -> Result<(), Failure> {
    let ours = about.family.options;
    let theirs = |name: &str| families.iter().find(|family| family.options.contains(&name));
    let foreign =
        given.names().filter(|name| !ours.contains(name)).find_map(|name| Some((name, theirs(name)?)));
    match foreign {
        Some((name, family)) => Err(Failure::new(format!(
            "{name} belongs to {}, and {} is not of that kind",
            family.title, about.name
        ))),
        None => Ok(()),
    }
}

/// All settings, those of the logical clocks among them. Refuses one that is set twice.
pub fn settings(
    set: &[(String, String)],
    stamps: &[(NodeId, u64)],
) -> Result<BTreeMap<String, String>, Failure> {
    let stamps: Vec<_> = stamps.iter().map(|(process, time)| format!("{}:{time}", process.0)).collect();
    let stamps = (!stamps.is_empty()).then(|| ("stamps".to_owned(), stamps.join(",")));
    let mut settings = BTreeMap::new();
    for (key, value) in set.iter().cloned().chain(stamps) {
        if let Some(other) = settings.get(&key) {
            return Err(Failure::new(format!("--set: {key} is set twice, to {other} and to {value}")));
        }
        settings.insert(key, value);
    }
    Ok(settings)
}

/// Whoever wants a snapshot wants the layer that takes it.
pub fn with_snapshots(mut settings: BTreeMap<String, String>, wanted: bool) -> BTreeMap<String, String> {
    if wanted {
        settings.entry(SETTING.key.into()).or_insert_with(|| "on".into());
    }
    settings
}

fn plan(about: &About, args: &SimArgs, members: &Members) -> Result<Plan, Failure> {
    let faults = Faults {
        loss: args.loss.unwrap_or_default(),
        duplicate: args.duplicate.unwrap_or_default(),
        crashes: args.crash.clone(),
        pauses: args.pause.clone(),
        partitions: args.partition.clone(),
        lost_tokens: args.lose_token.clone(),
        joins: args.join.clone(),
        leaves: args.leave.clone(),
        // Where nobody is told of a crash nothing can be done about it.
        detector: args.detector.unwrap_or(if args.crash.is_empty() && !about.family.always_detects {
            Detector::None
        } else {
            Detector::After(Span::Constant(0))
        }),
        until: args.faults_until,
    };
    if let Some(why) = faults.contradiction(members) {
        return Err(Failure::new(why));
    }
    let usual = Plan::new(members.clone());
    let everyone = Plan { faults: faults.clone(), ..usual.clone() }.everyone();
    if let Some((process, fault)) = stranger(&faults, &everyone) {
        return Err(not_a_member(process, &fault, &everyone));
    }
    let place =
        |id: NodeId, link: String| everyone.position(id).ok_or_else(|| not_a_member(id, &link, &everyone));
    let links = args.link.iter().map(|link| {
        let text = format!("{}>{}={}", link.from.0, link.to.0, link.delay);
        Ok((place(link.from, text.clone())?, place(link.to, text)?, link.delay))
    });
    let links = links.collect::<Result<_, Failure>>()?;
    let mut asks = Vec::new();
    for (option, words, calls) in [("--start", "start", &args.start), ("--retire", "retire", &args.retire)] {
        for call in calls {
            if let Who::One(id) = call.who {
                place(id, format!("{option} {}", id.0))?;
            }
            asks.push(PlannedAsk { at: call.at, who: call.who, words: words.into() });
        }
    }
    for ask in &args.ask {
        if let Who::One(id) = ask.who {
            place(id, format!("--ask {} {}", id.0, ask.words))?;
        }
        asks.push(ask.clone());
    }
    for snapshot in &args.snapshot {
        place(snapshot.process, format!("--snapshot {snapshot}"))?;
        asks.push(PlannedAsk { at: snapshot.at, who: Who::One(snapshot.process), words: SNAPSHOT.into() });
    }
    for setting in &args.clock {
        place(setting.process, format!("--clock {setting}"))?;
    }
    Ok(Plan {
        asks,
        seed: args.seed,
        entries: args.entries(members.len()),
        locks: args.locks,
        load: args.load.into(),
        think: args.think,
        hold: args.hold,
        give_up: args.give_up,
        delay: args.delay,
        links,
        channels: args.channels.map(Into::into),
        t_trans: args.t_trans,
        t_process: args.t_process,
        clocks: args.clock.clone(),
        faults,
        patience: args.patience,
        max_events: args.max_events.unwrap_or(usual.max_events),
        paranoid: args.paranoid,
        ..usual
    })
}

/// The sentence about a process that does not take part.
pub fn not_a_member(process: NodeId, whence: &str, members: &Members) -> Failure {
    let range = match members.len() {
        n if members.iter().eq((1..=n as u32).map(NodeId)) => format!("they are 1 to {n}"),
        n if n <= 20 => {
            let ids: Vec<_> = members.iter().map(|id| id.0.to_string()).collect();
            format!("they are {}", ids.join(", "))
        }
        n => format!("there are {n}"),
    };
    Failure::new(format!("process {} in '{whence}' is not one of the processes; {range}", process.0))
}

/// Refuses what no memory can hold.
fn check_size(about: &About, plan: &Plan) -> Result<(), Failure> {
    /// Where everyone talks to everyone, each process keeps something about each: 8 bytes of it are 20 GB here.
    const MOST_COMPLETE: usize = 50_000;
    /// At somewhat more than 100 bytes each.
    const MOST_TRAVELLING: u64 = 1 << 27;
    const MOST_USERS: u64 = 20_000_000;
    const MOST_ENTRIES: u64 = 1_000_000_000_000;
    let n = plan.members.len() + plan.faults.joins.len();
    let users = n as u64 * plan.locks as u64;
    if users > MOST_USERS {
        let locks = plan.locks;
        return Err(Failure::new(format!("{n} processes with {locks} locks each do not fit into memory")));
    }
    if users * plan.entries > MOST_ENTRIES {
        return Err(Failure::new("that many entries would take years"));
    }
    if about.topology != Topology::Complete {
        return Ok(());
    }
    let at_once = if plan.load == Load::Light { n as u64 } else { users * n as u64 };
    if n > MOST_COMPLETE || at_once > MOST_TRAVELLING {
        let sentence =
            format!("in {} everyone talks to everyone: {n} processes do not fit into memory", about.name);
        return Err(Failure::new(sentence).hint("use a smaller -n, or an algorithm with another topology"));
    }
    Ok(())
}

/// Who relies on a longest delay must be told it.
fn check_delays(about: &About, settings: &BTreeMap<String, String>, plan: &Plan) -> Result<(), Failure> {
    let spans = || plan.links.iter().map(|(_, _, span)| span).chain([&plan.delay]);
    match spans().find(|span| span.max().is_none()) {
        Some(span) if about.synchrony_with(settings) == Synchrony::Synchronous && plan.t_trans.is_none() => {
            let sentence = format!("{} relies on a longest delay, and {span} has none", about.name);
            Err(Failure::new(sentence).hint("say with --t-trans what it may rely on"))
        }
        _ => Ok(()),
    }
}

fn warn_of_length(messages: u64, plan: &Plan) {
    const LONG: u64 = 1_000_000_000;
    if messages > LONG && plan.max_events > LONG {
        let sentence = format!("this run takes about {:.0e} messages and a long time", messages as f64);
        notice("warning", &sentence);
    }
}

/// What was asked for, understood.
pub struct Job<'a> {
    args: &'a SimArgs,
    given: &'a Given,
    entry: Entry,
    about: &'static About,
    pub setup: Setup,
    pub plan: Plan,
    catalogue: &'a Catalogue,
}

impl<'j> Job<'j> {
    /// Understands the options of a run of this algorithm.
    pub fn understood(
        name: &str,
        args: &'j SimArgs,
        given: &'j Given,
        catalogue: &'j Catalogue,
    ) -> Result<Self, Failure> {
        let entry = catalogue.find(name).ok_or_else(|| no_such_algorithm(name, catalogue))?;
        let about = entry.about;
        check_family(about, given, &catalogue.families())?;
        let members = members(args.ids.as_ref(), args.n, 3)?;
        let plan = plan(about, args, &members)?;
        check_size(about, &plan)?;
        let setup = Setup {
            algorithm: about.name.into(),
            nodes: members.iter().collect(),
            settings: with_snapshots(settings(&args.set, &args.stamp)?, !args.snapshot.is_empty()),
            mutant: args.mutant.clone(),
            channels: args.channels.map(|channels| Channels::from(channels).name().into()),
            locks: args.locks,
            timing: Timing::default(),
        };
        check_delays(about, &setup.settings, &plan)?;
        Ok(Self { args, given, entry, about, setup, plan, catalogue })
    }

    /// About how many messages the run takes.
    pub fn expected_messages(&self) -> Result<u64, Failure> {
        (self.entry.expected_messages)(&self.setup, &self.plan).map_err(|error| {
            Failure::new(error).hint(format!("'conclave list {}' shows what there is", self.about.name))
        })
    }

    /// A short script that breaks this property as the run does, if one is found.
    pub fn shrunk(&self, property: &str) -> Option<Script> {
        (self.entry.shrink)(&self.setup, &self.plan, property)
    }

    /// One run, with a record of it, its report, and the command that repeats it.
    pub fn recorded(&self) -> Result<(Outcome, String, String), Failure> {
        let outcome = self.simulate(&self.plan, true)?;
        let (report, rerun) = self.told(&outcome)?;
        Ok((outcome, report, rerun))
    }

    /// The report of a run in JSON, and the command that repeats it.
    fn told(&self, outcome: &Outcome) -> Result<(String, String), Failure> {
        let rerun = self.given.command(self.about.name, self.plan.seed);
        let report = serde_json::to_string(&Full::new(outcome, None)).map_err(Failure::new)?;
        Ok((report, rerun))
    }

    fn run(&self) -> Result<Verdict, Failure> {
        self.output().check_with(self.args.save_script.as_deref())?;
        self.output().check_with(self.args.csv.as_deref())?;
        self.output().check_with(self.args.html.as_deref())?;
        match self.args.seeds {
            Some(seeds) => self.sweep(seeds),
            None => self.single(),
        }
    }

    fn simulate(&self, plan: &Plan, record: bool) -> Result<Outcome, Failure> {
        (self.entry.simulate)(&self.setup, plan, record).map_err(Failure::new)
    }

    fn output(&self) -> &OutputArgs {
        &self.args.output
    }

    fn single(&self) -> Result<Verdict, Failure> {
        let draws = draws(self.output(), self.about, &self.plan);
        let progress = Progress::start(|passed| format!("simulating, {} s", passed.as_secs()));
        let files = [&self.args.save_script, &self.args.html];
        let records = draws || self.output().wants_files() || files.into_iter().any(Option::is_some);
        let outcome = self.simulate(&self.plan, records)?;
        drop(progress);
        let broken = outcome.violation.as_ref().map(|violation| self.explain(&self.plan, violation));
        if let Some(trace) = &outcome.trace {
            self.output().write(trace)?;
            if let Some(path) = &self.args.save_script {
                files::save_script(path, trace, self.catalogue)?;
            }
            if let Some(path) = &self.args.html {
                let (report, command) = self.told(&outcome)?;
                let page = lab::html(&self.setup, &outcome, report, command, self.catalogue)?;
                files::write(path, |out| out.write_all(page.as_bytes()))?;
            }
        }
        self.write_csv(&[table::Row::of(&outcome)])?;
        for Unasked { process, at, request } in &outcome.report.unasked {
            notice("note", &format!("nobody asked for '{request}' at {at} ms: {process} was not up then"));
        }
        if self.output().json {
            output::show_json(&Full::new(&outcome, broken.as_ref()))?;
        } else {
            let picture = outcome.trace.as_ref().filter(|_| draws);
            output::show(&self.page(&outcome, picture, broken.as_ref()))?;
        }
        Ok(verdict(&outcome))
    }

    fn page(&self, outcome: &Outcome, picture: Option<&Trace>, broken: Option<&Broken<'_>>) -> String {
        let report = &outcome.report;
        let mut page = self.header(&report.channels, Some(report.seed), &report.settings) + "\n";
        if let Some(trace) = picture {
            page += &drawn(trace, self.output());
            page.push('\n');
        }
        page += &Sheet::of(report, &self.plan.everyone());
        page.push('\n');
        page += &judged(&report.properties, &report.not_promised);
        page += &format!("\n  {}\n", format!("digest {}", report.trace_digest).dimmed());
        if let Some(broken) = broken {
            page += &format!("\n{}", broken.text());
        }
        page
    }

    /// What runs, in a line; of the settings those that were given, and those that the run has made necessary.
    fn header(&self, channels: &str, seed: Option<u64>, settings: &BTreeMap<String, String>) -> String {
        let (about, plan) = (self.about, &self.plan);
        let n = plan.members.len();
        let mut facts = vec![format!("{} process{}", grouped(n as u64), if n == 1 { "" } else { "es" })];
        facts.extend(comings_and_goings(plan));
        facts.extend((about.family.describe)(&demand(plan), &plan.members, plan.locks));
        let delay = plan.delay.to_string();
        // Milliseconds go without saying in an option, but not in a sentence.
        let unit = if delay.ends_with('s') { "" } else { " ms" };
        facts.push(format!("delay {delay}{unit}"));
        if plan.t_process != Span::Constant(0) {
            facts.push(format!("handling {}", plan.t_process));
        }
        facts.extend(plan.clocks.iter().map(|setting| format!("clock {setting}")));
        facts.push(format!("channels {channels}"));
        facts.extend(seed.map(|seed| format!("seed {seed}")));
        facts.extend(settings.iter().map(|(key, value)| match self.setup.settings.contains_key(key) {
            true => format!("{key}={value}"),
            false => format!("{key}={value} (automatic)"),
        }));
        facts.extend(self.args.mutant.as_ref().map(|mutant| format!("mutant {mutant}")));
        let line = indented("", &format!("{} · {}", about.title, facts.join(" · ")));
        line.replacen(about.title, &about.title.bold().to_string(), 1)
    }

    /// A broken promise with a short script, if one is wanted and found.
    fn explain<'a>(&self, plan: &Plan, violation: &'a Violation) -> Broken<'a> {
        let script = (!self.args.no_shrink).then(|| {
            let _progress =
                Progress::start(|passed| format!("looking for a short script, {} s", passed.as_secs()));
            (self.entry.shrink)(&self.setup, plan, violation.property)
        });
        let rerun = self.given.command(self.about.name, plan.seed);
        Broken { violation, script: script.flatten(), rerun }
    }

    /// Writes the numbers of all runs, if that is wanted.
    fn write_csv(&self, rows: &[table::Row]) -> Result<(), Failure> {
        match &self.args.csv {
            Some(path) => files::write(path, |out| out.write_all(table::csv(rows).as_bytes())),
            None => Ok(()),
        }
    }

    fn sweep(&self, seeds: Seeds) -> Result<Verdict, Failure> {
        let mut swept = Swept {
            seeds,
            runs: 0,
            entries: 0,
            disagreed: 0,
            messages: 0,
            wall_seconds: 0.0,
            rows: Vec::new(),
        };
        let failing = self.first_failing(&mut swept)?;
        self.write_csv(&swept.rows)?;
        let broken = failing
            .as_ref()
            .and_then(|(plan, outcome)| Some(self.explain(plan, outcome.violation.as_ref()?)));
        if let Some((plan, _)) = failing.as_ref().filter(|_| self.output().wants_files())
            && let Some(trace) = &self.simulate(plan, true)?.trace
        {
            self.output().write(trace)?;
        }
        let outcome = failing.as_ref().map(|(_, outcome)| outcome);
        if self.output().json {
            output::show_json(&self.swept_json(&swept, outcome, broken.as_ref()))?;
        } else {
            output::show(&self.swept_page(&swept, outcome, broken.as_ref()))?;
        }
        Ok(outcome.map_or(Verdict::Held, verdict))
    }

    fn first_failing(&self, swept: &mut Swept) -> Result<Option<(Plan, Outcome)>, Failure> {
        let Seeds { first, last } = swept.seeds;
        let begin = Instant::now();
        let current = Arc::new(AtomicU64::new(first));
        let shown = Arc::clone(&current);
        let _progress = Progress::start(move |passed| {
            format!("seed {} of {first} to {last}, {} s", shown.load(Ordering::Relaxed), passed.as_secs())
        });
        for seed in first..=last {
            current.store(seed, Ordering::Relaxed);
            let plan = Plan { seed, ..self.plan.clone() };
            let outcome = self.simulate(&plan, false)?;
            swept.add(&outcome);
            swept.wall_seconds = begin.elapsed().as_secs_f64();
            if verdict(&outcome) == Verdict::Failed {
                return Ok(Some((plan, outcome)));
            }
        }
        Ok(None)
    }

    fn swept_page(&self, swept: &Swept, failing: Option<&Outcome>, broken: Option<&Broken<'_>>) -> String {
        // Snapshots need channels that keep their order, also where the algorithm does not.
        let is_recorded = recorded::is_wanted(&self.setup.settings);
        let usual = if is_recorded { Channels::Fifo } else { self.about.channels };
        let channels = self.plan.channels.unwrap_or(usual).name();
        let mut page = self.header(channels, None, &self.setup.settings);
        let entries = match self.about.family.counted {
            (_, entries) if self.about.counts_rounds() => format!("{} {entries}, ", grouped(swept.entries)),
            _ => String::new(),
        };
        let done = format!(
            "{} runs, {entries}{} messages, {:.1} s",
            grouped(swept.runs),
            grouped(swept.messages),
            swept.wall_seconds
        );
        let Seeds { first, last } = swept.seeds;
        page += &match failing {
            None => {
                let text = format!("seeds {first} to {last}: no promise was broken ({done})");
                format!("{}{}", "✓".green(), &indented("  ", &text)[1..])
            }
            Some(outcome) => {
                let seed = format!("✗ seed {} fails", outcome.report.seed);
                format!("{} ({done})\n", seed.red().bold())
            }
        };
        page += &table::spreads(&swept.rows);
        if swept.disagreed > 0 {
            page +=
                &format!("{} the formula did not agree in {} runs\n", "–".yellow(), grouped(swept.disagreed));
        }
        if let Some(broken) = broken {
            page += &format!("\n{}", broken.text());
        }
        page
    }

    fn swept_json<'a>(
        &'a self,
        swept: &Swept,
        failing: Option<&'a Outcome>,
        broken: Option<&'a Broken<'_>>,
    ) -> impl Serialize + 'a {
        #[derive(Serialize)]
        struct Sweep<'a> {
            algorithm: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            mutant: Option<&'a str>,
            nodes: usize,
            seeds: Value,
            runs: u64,
            entries: u64,
            messages: u64,
            formula_disagreed: u64,
            spread: Value,
            wall_seconds: f64,
            failing_seed: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            failing: Option<Full<'a>>,
        }
        Sweep {
            algorithm: self.about.name,
            mutant: self.args.mutant.as_deref(),
            nodes: self.plan.members.len(),
            seeds: json!({ "first": swept.seeds.first, "last": swept.seeds.last }),
            runs: swept.runs,
            entries: swept.entries,
            messages: swept.messages,
            formula_disagreed: swept.disagreed,
            spread: table::spreads_json(&swept.rows),
            wall_seconds: swept.wall_seconds,
            failing_seed: failing.map(|outcome| outcome.report.seed),
            failing: failing.map(|outcome| Full::new(outcome, broken)),
        }
    }
}

/// Who joins and who leaves, in words.
fn comings_and_goings(plan: &Plan) -> Vec<String> {
    let faults = &plan.faults;
    let [joins, leaves] = [&faults.joins, &faults.leaves].map(|changes| {
        let names: Vec<_> = changes.iter().map(|change| change.process.to_string()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    });
    let joins = joins.map(|names| format!("{names} joining"));
    joins.into_iter().chain(leaves.map(|names| format!("{names} leaving"))).collect()
}

/// What the users want.
fn demand(plan: &Plan) -> Demand {
    let asks = plan.asks.iter().filter(|ask| ask.words != SNAPSHOT).cloned().collect();
    Demand { rounds: plan.entries, load: plan.load, asks, ..Demand::default() }
}

/// What many runs came to.
struct Swept {
    seeds: Seeds,
    runs: u64,
    entries: u64,
    messages: u64,
    /// Runs in which the formula did not agree.
    disagreed: u64,
    wall_seconds: f64,
    /// The numbers of each run.
    rows: Vec<table::Row>,
}

impl Swept {
    fn add(&mut self, outcome: &Outcome) {
        let report = &outcome.report;
        self.rows.push(table::Row::of(outcome));
        self.runs += 1;
        self.entries += report.unit.name.map_or(0, |_| report.unit.count);
        self.messages += report.messages;
        self.disagreed += u64::from(report.formula.agrees == Some(false));
    }
}

/// A broken promise, and how to see it again.
struct Broken<'a> {
    violation: &'a Violation,
    script: Option<Script>,
    rerun: String,
}

impl Broken<'_> {
    fn text(&self) -> String {
        violated(self.violation, self.script.as_ref(), &self.rerun)
    }
}

fn verdict(outcome: &Outcome) -> Verdict {
    Verdict::of(outcome.violation.is_none() && outcome.report.all_held())
}

/// Whether a run is drawn: always, never, or if it is small enough to be looked at.
fn draws(output: &OutputArgs, about: &About, plan: &Plan) -> bool {
    const FEW_PROCESSES: usize = 8;
    const FEW_ENTRIES: u64 = 12;
    let n = plan.members.len() + plan.faults.joins.len();
    let few = !about.counts_rounds() || n as u64 * plan.locks as u64 * plan.entries <= FEW_ENTRIES;
    let small = n <= FEW_PROCESSES && few;
    !output.json
        && match output.diagram {
            DiagramArg::Always => true,
            DiagramArg::Never => false,
            DiagramArg::Auto => small,
        }
}

/// The diagram of a run; only who asks for all of it gets all of it.
pub fn drawn(trace: &Trace, output: &OutputArgs) -> String {
    let max_lines = if output.diagram == DiagramArg::Always { 0 } else { 60 };
    let width = terminal_width().unwrap_or(100);
    let options = DiagramOptions {
        ascii: false,
        colour: true,
        width,
        max_lines,
        stamps: output.stamps.into(),
        legend: true,
    };
    diagram(&output.shown(trace), &options)
}

/// A violation in JSON.
pub fn violation_json(violation: &Violation) -> Value {
    json!({ "property": violation.property, "detail": violation.detail, "step": violation.step })
}

/// A report with what was broken in it.
#[derive(Serialize)]
struct Full<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
}

impl<'a> Full<'a> {
    fn new(outcome: &'a Outcome, broken: Option<&'a Broken<'_>>) -> Self {
        Self {
            report: &outcome.report,
            violation: outcome.violation.as_ref().map(violation_json),
            script: broken.and_then(|broken| broken.script.as_ref()).map(ToString::to_string),
            command: broken.map(|broken| broken.rerun.as_str()),
        }
    }
}
