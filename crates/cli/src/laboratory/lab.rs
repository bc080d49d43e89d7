//! `conclave lab`: runs on a page.

mod catalogue;
mod options;
#[cfg(test)]
mod taught;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_algorithms::About;
use conclave_core::NodeId;
use conclave_lab::{
    Bench, Code, Limits, Listening, Options, Problem, Recorded, Run, Searched, Served, Simulated,
};
use conclave_live::process::told_to_stop;
use conclave_live::supervisor;
use conclave_sim::step::Stage;
use conclave_sim::{Outcome, Plan, Played};
use conclave_trace::{Script, Setup, Trace, mermaid, shiviz};
use serde_json::{Value, json};

use super::args::{CheckArgs, CompareArgs, Given, LabArgs, OutputArgs, SimArgs, StartArgs};
use super::catalogue::Catalogue;
use super::{check, compare, files, replay, sim};
use crate::failure::{Failure, Verdict};
use crate::output;

/// Serves the page until it is told to stop.
pub fn run(args: &LabArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let served = Served { listen: args.listen.clone(), web: args.web.clone(), limits: Limits::default() };
    let bench: Arc<dyn Bench> = Arc::new(Workbench { catalogue: catalogue.clone() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no threads can be had: {error}")))?;
    let ended = runtime.block_on(async {
        let listening = Listening::open(&served, bench).await.map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", args.listen))
                .hint("--listen 127.0.0.1:0 takes any port that is free")
        })?;
        output::show(&format!("the lab is at {}\n", listening.url))?;
        if !args.no_open && has_browser() {
            open(&listening.url);
        }
        listening.serve(told_to_stop(false)).await.map_err(Failure::new)
    });
    // What is still being worked on is wanted by nobody.
    runtime.shutdown_background();
    ended.map(|()| Verdict::Held)
}

/// Whether somebody sits here who can look at a page.
fn has_browser() -> bool {
    let has_screen = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let screen =
        cfg!(any(target_os = "macos", windows)) || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(has_screen);
    screen && std::io::stdout().is_terminal()
}

/// Opens a page in a browser, if that is possible: its address has been printed.
fn open(url: &str) {
    let (program, words): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Program::new(program);
    let started =
        command.args(words).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = started {
        std::thread::spawn(move || child.wait());
    }
}

/// The command line, for the lab.
struct Workbench {
    catalogue: Catalogue,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self::refused(&failure);
        match failure.what_to_do() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl Bench for Workbench {
    fn options(&self) -> Value {
        options::all(&self.catalogue)
    }

    fn catalogue(&self) -> Value {
        catalogue::all(&self.catalogue)
    }

    fn about(&self, algorithm: &str) -> Option<&'static About> {
        self.catalogue.find(algorithm).map(|entry| entry.about)
    }

    fn expected_messages(&self, algorithm: &str, options: &Options, limits: &Limits) -> Result<u64, Problem> {
        self.simulation(algorithm, options, limits, |_, messages| Ok(messages))
    }

    fn simulate(&self, algorithm: &str, options: &Options, limits: &Limits) -> Result<Simulated, Problem> {
        self.simulation(algorithm, options, limits, |mut job, _| {
            let Plan { max_events, max_records, .. } = &mut job.plan;
            // A run that was stopped by these is over the limit of the lab.
            *max_events = (*max_events).min(2 * limits.events as u64);
            *max_records = limits.events;
            let setup = job.setup.clone();
            let (outcome, report, command) = job.recorded()?;
            simulated(setup, outcome, report, command)
        })
    }

    fn play(&self, script: &Script) -> Result<(Played, String), Problem> {
        let named = |error: &dyn core::fmt::Display| Failure::new(error);
        let played = self
            .catalogue
            .play(script)
            .map_err(|error| replay::unplayable(error, &named, &self.catalogue))?;
        let report = replay::script_json(Path::new("run.script"), &played, false).to_string();
        Ok((played, report))
    }

    fn stage(&self, setup: &Setup, newcomers: &[NodeId]) -> Result<Stage, Problem> {
        let entry = self.catalogue.find(&setup.algorithm);
        let entry = entry.ok_or_else(|| super::no_such_algorithm(&setup.algorithm, &self.catalogue))?;
        let stage = (entry.step)(setup).and_then(|stepper| stepper.stage(newcomers));
        stage.map_err(Problem::refused)
    }

    fn export(&self, run: &Run, format: &str, query: &Options) -> Result<(&'static str, Vec<u8>), Problem> {
        let trace = run.trace();
        let output = output_args(query, if format == "mermaid" { "mermaid" } else { "svg" })?;
        output.check_only(&trace.header.nodes)?;
        if query.get("stamps").is_some_and(|stamps| stamps == "vector") {
            check_drawn(trace)?;
        }
        Ok(match format {
            "svg" => {
                check_drawn(&output.shown(trace))?;
                ("image/svg+xml", output.drawing(trace).into_bytes())
            }
            "mermaid" => ("text/plain; charset=utf-8", mermaid(&output.shown(trace)).into_bytes()),
            "shiviz" => {
                check_drawn(trace)?;
                ("text/plain; charset=utf-8", shiviz(trace).into_bytes())
            }
            "script" => {
                let text = run.script.clone().map_or_else(|| files::script(trace, &self.catalogue), Ok);
                ("text/plain; charset=utf-8", text?.into_bytes())
            }
            "jsonl" => {
                let mut text = Vec::new();
                trace.write_jsonl(&mut text).map_err(|error| Problem::new(Code::Internal, error))?;
                ("application/jsonl", text)
            }
            "html" => ("text/html; charset=utf-8", run.html()?.into_bytes()),
            "json" => ("application/json", format!("{}\n", run.report).into_bytes()),
            other => return Err(Problem::new(Code::Unknown, format!("there is no format '{other}'"))),
        })
    }

    fn cluster(
        &self,
        algorithm: &str,
        options: &Options,
        limits: &Limits,
    ) -> Result<supervisor::Plan, Problem> {
        let words = options::words("cluster start", algorithm, options, options::starts)?;
        let args = options::read::<StartArgs>("cluster start", words)?;
        let plan = super::cluster::plan(&args, &self.catalogue)?;
        if plan.ids.len() > limits.cluster_processes {
            let sentence = format!(
                "{} real processes are too many for the lab, which starts at most {}",
                plan.ids.len(),
                limits.cluster_processes
            );
            let cost = json!({ "processes": plan.ids.len() });
            let problem = Problem::new(Code::TooLarge, sentence).cost(cost);
            return Err(problem.hint("use a smaller n, or 'conclave cluster' on the command line"));
        }
        Ok(plan)
    }

    fn check(
        &self,
        algorithm: &str,
        given: &Options,
        from: Option<(&Run, usize)>,
        limits: &Limits,
        watch: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Searched, Problem> {
        let mut words = options::words("check", algorithm, given, options::searches)?;
        let led = match from {
            None => None,
            Some((run, at)) => {
                // The options are those of a search that does not begin at the beginning; the trace is at hand.
                words.insert(2, "--from=run".into());
                let named = |error: &dyn core::fmt::Display| Failure::new(error);
                Some(check::Led::of(run.trace().clone(), run.events_at(at), &named)?)
            }
        };
        let args = options::read::<CheckArgs>("check", words)?;
        let (job, mut attempts) = check::Job::understood(&args, led, &self.catalogue)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stopped = Arc::new(AtomicBool::new(false));
        for options in &mut attempts {
            options.limits.interrupt = Some(Arc::clone(&stopped));
            let most = Duration::from_secs(limits.job_seconds);
            // One is left for the page.
            options.threads = (cores - 1).max(1);
            options.limits.memory = options.limits.memory.min(limits.job_bytes);
            options.limits.time = Some(options.limits.time.map_or(most, |time| time.min(most)));
        }
        let mut tell = |progress: &conclave_check::Progress| {
            let seconds = progress.elapsed.as_secs_f64();
            let rate = progress.states as f64 / seconds.max(1e-3);
            let is_wanted = watch(
                json!({ "states": progress.states, "transitions": progress.transitions, "depth": progress.depth,
                "frontier": progress.frontier, "seconds": seconds, "rate": rate.round() }),
            );
            stopped.fetch_or(!is_wanted, Ordering::Relaxed);
        };
        let (report, json) = job.watched(&attempts, &mut tell)?;
        if stopped.load(Ordering::Relaxed) {
            return Err(Problem::refused("it was stopped"));
        }
        let outcome = match (&report.counterexample, report.complete) {
            (Some(_), _) => "broken",
            (None, true) => "held",
            (None, false) => "incomplete",
        };
        let counterexample = report.counterexample.map(|found| (found.script, found.unavoidable_after));
        Ok(Searched { outcome, report: json, counterexample })
    }

    fn compare(
        &self,
        algorithms: &[String],
        given: &Options,
        watch: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Value, Problem> {
        let Some((first, others)) = algorithms.split_first() else {
            return Err(Problem::malformed("no algorithm is named"));
        };
        let mut words = options::words("compare", first, given, options::compares)?;
        words.extend(others.iter().cloned());
        let args = options::read::<CompareArgs>("compare", words)?;
        let (entries, family) = compare::understood(&args, &self.catalogue)?;
        let mut tell = |compare::Done { points, of, what }| {
            // Who has stopped it makes the simulations end by themselves.
            watch(json!({ "done": points, "of": of, "what": what }));
        };
        let comparison = compare::measured(&args, family, &entries, &mut tell)?;
        Ok(json!({ "report": comparison.json(), "plots": comparison.plots_json() }))
    }

    fn shrink(
        &self,
        algorithm: &str,
        options: &Options,
        property: &str,
        limits: &Limits,
    ) -> Result<Option<Script>, Problem> {
        self.simulation(algorithm, options, limits, |job, _| Ok(job.shrunk(property)))
    }

    fn recorded(&self, name: &str, trace: &Trace) -> Result<Recorded, Problem> {
        Ok(replay::recorded(name, trace, &self.catalogue)?)
    }
}

impl Workbench {
    /// Understands the options of a simulated run, and refuses one that is too large.
    fn simulation<T>(
        &self,
        algorithm: &str,
        given: &Options,
        limits: &Limits,
        then: impl FnOnce(sim::Job<'_>, u64) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let refused = |processes: u64, messages: Option<u64>| {
            let sentence = match messages {
                None => format!(
                    "{processes} processes are too many for the lab, which runs at most {}",
                    limits.processes
                ),
                Some(messages) => format!(
                    "this run takes about {messages} messages: more than {} events are too many for the lab",
                    limits.events
                ),
            };
            Problem::new(Code::TooLarge, sentence)
                .hint("use a smaller n or fewer entries, or 'conclave sim' on the command line")
                .cost(json!({ "processes": processes, "messages": messages }))
        };
        // A number that no option takes is too large all the same.
        let wanted = given.get("n").and_then(|n| n.as_u64().or_else(|| n.as_str()?.parse().ok()));
        if let Some(n) = wanted.filter(|n| *n > limits.processes as u64) {
            return Err(refused(n, None));
        }
        let words = options::words("sim", algorithm, given, options::decides)?;
        let typed = options::typed(words)?;
        let args: SimArgs = options::args("sim", &typed)?;
        let given = Given::of(&typed);
        let job = sim::Job::understood(algorithm, &args, &given, &self.catalogue)?;
        let everyone = job.plan.everyone().len();
        if everyone > limits.processes {
            return Err(refused(everyone as u64, None));
        }
        let messages = job.expected_messages()?;
        if messages > limits.events as u64 {
            return Err(refused(everyone as u64, Some(messages)));
        }
        then(job, messages)
    }
}

fn simulated(setup: Setup, outcome: Outcome, report: String, command: String) -> Result<Simulated, Problem> {
    let Outcome { report: numbers, violation, trace } = outcome;
    let trace = trace.ok_or_else(|| Problem::new(Code::Internal, "the run was not recorded"))?;
    let (promised, other) = (numbers.properties, numbers.not_promised);
    Ok(Simulated { setup, trace, report, promised, other, violation, command })
}

/// In these files every event may have something to do with every process: large ones take gigabytes.
fn check_drawn(trace: &Trace) -> Result<(), Problem> {
    const MOST: usize = 20_000_000;
    let (n, events) = (trace.header.nodes.len(), trace.records.len());
    if n * events <= MOST {
        return Ok(());
    }
    let sentence = format!("a file of {events} events of {n} processes is too much for the lab");
    Err(Problem::new(Code::TooLarge, sentence)
        .hint("choose a shorter window, or use 'conclave sim' on the command line"))
}

/// The page that plays a run without a server.
pub fn html(
    setup: &Setup,
    outcome: &Outcome,
    report: String,
    command: String,
    catalogue: &Catalogue,
) -> Result<String, Failure> {
    /// A page takes a multiple of it, and nobody looks through more.
    const MOST: usize = 200_000;
    let events = outcome.trace.as_ref().map_or(0, |trace| trace.records.len());
    if events > MOST {
        return Err(Failure::new(format!("a page shows at most {MOST} events, and this run has {events}"))
            .hint("--trace writes a run of any length"));
    }
    let bench = Workbench { catalogue: catalogue.clone() };
    let run = simulated(setup.clone(), outcome.clone(), report, command)
        .and_then(|simulated| Run::simulated(simulated, None, &bench));
    run.and_then(|run| run.html()).map_err(Failure::new)
}

/// The options of a file, from a query.
fn output_args(query: &Options, format: &str) -> Result<OutputArgs, Problem> {
    let mut query = query.clone();
    if query.get("fields").is_some_and(|value| value == "1") {
        query.insert("fields".into(), true.into());
    }
    let mut words =
        options::words("sim", "central", &query, |arg| options::DRAWING.contains(&arg.get_id().as_str()))?;
    words.insert(2, format!("--{format}=run"));
    options::read("sim", words)
}
