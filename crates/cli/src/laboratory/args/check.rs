//! Options of `conclave check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use conclave_check::AskBudget;
use conclave_core::NodeId;
use conclave_sim::clocks::ClockSetting;

use super::live::parse_id;
use super::{
    ChannelsArg, FAULTS, GROUP, Ids, JUDGE, LOAD, NETWORK, OUTPUT, OutputArgs, parse_ids, parse_n,
    parse_setting, parse_stamp, whole,
};

const SEARCH: &str = "Search";

/// Options of `conclave check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The algorithm; `conclave list` shows all. With --all also a family: mutex, election.
    pub algo: Option<String>,

    /// Make many small searches and show a table: sizes, requests, crashes, restarts, suspicions, lost and doubled messages,
    /// and every setting of the algorithm.
    #[arg(long, conflicts_with_all = ["from", "n", "ids", "set", "stamp", "mutant", "entries", "start", "cancels", "channels",
        "ticks", "untimed", "clock", "crashes", "crash_only", "atomic_steps", "restarts", "amnesia", "drops", "duplicates",
        "suspicions", "no_detector", "order", "safety", "by_effect", "verify_reduction", "paranoid", "depth", "in_flight", "save_script"])]
    pub all: bool,
    /// With --all: write the table as Markdown.
    #[arg(long, requires = "all", conflicts_with = "json")]
    pub markdown: bool,

    /// Begin at a moment of a recorded run, after so many records of its trace, instead of at the beginning.
    #[arg(long, value_name = "TRACE@STEP", value_parser = parse_moment, conflicts_with_all = ["n", "ids", "set", "mutant", "channels"])]
    pub from: Option<RecordedMoment>,

    /// How many processes, 1 to 14 [default: 3; for a mutant the size at which it breaks].
    #[arg(short, value_name = "N", value_parser = parse_n, allow_hyphen_values = true, help_heading = GROUP)]
    pub n: Option<u32>,
    /// The ids of the processes, in ring order, e.g. 3,17,4 [default: 1,2,...,n].
    #[arg(long, value_parser = parse_ids, allow_hyphen_values = true, help_heading = GROUP)]
    pub ids: Option<Ids>,
    /// A setting of the algorithm; `conclave list ALGO` shows them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting, help_heading = GROUP)]
    pub set: Vec<(String, String)>,
    /// What the logical clock of a process shows at the start, e.g. '4=1020' (repeatable): its first request is stamped
    /// 1021. The same as --set stamps=4:1020.
    #[arg(long, value_name = "P=N", value_parser = parse_stamp, allow_hyphen_values = true, help_heading = GROUP)]
    pub stamp: Vec<(NodeId, u64)>,
    /// Search a mutant instead, with the failures that it takes to see it; `conclave list --mutants` shows them.
    #[arg(long, value_name = "NAME", help_heading = GROUP)]
    pub mutant: Option<String>,

    /// How often each process asks, or calls an election: a number, or forever, or first: calls an election once, and only
    /// before it hears of a leader [default: 1; for a mutant what it takes].
    #[arg(long, value_name = "K|forever|first", value_parser = parse_entries, allow_hyphen_values = true, help_heading = LOAD)]
    pub entries: Option<AskBudget>,
    /// Who may ask, or call an election, e.g. 1,3 [default: everyone].
    #[arg(long, value_name = "IDS", value_parser = parse_ids, allow_hyphen_values = true, help_heading = LOAD)]
    pub start: Option<Ids>,
    /// Take a global snapshot, begun by this process at any moment, and judge it (repeatable).
    #[arg(long, value_name = "P", value_parser = parse_id, allow_hyphen_values = true, help_heading = LOAD)]
    pub snapshot: Vec<NodeId>,
    /// How many requests may be given up.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = LOAD)]
    pub cancels: Option<u8>,

    /// The order in which messages arrive [default: what the algorithm asks for].
    #[arg(long, value_enum, help_heading = NETWORK)]
    pub channels: Option<ChannelsArg>,
    /// Count time, and let a message take so many ticks at most [default: 1 where the algorithm relies on time].
    #[arg(long, value_name = "K", value_parser = parse_ticks, allow_hyphen_values = true, conflicts_with = "untimed", help_heading = NETWORK)]
    pub ticks: Option<u16>,
    /// Messages and timers take any time, although the algorithm relies on a bound.
    #[arg(long, help_heading = NETWORK)]
    pub untimed: bool,

    /// Set the clock of a process ahead or behind, e.g. '3=+20ms' (repeatable); in a search no time passes on it.
    #[arg(long, value_name = "P=OFFSET", value_parser = parse_offset, allow_hyphen_values = true, help_heading = GROUP)]
    pub clock: Vec<(NodeId, i64)>,

    /// How many processes may crash.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = FAULTS)]
    pub crashes: Option<u8>,
    /// Who may crash, e.g. 2,3 [default: everyone].
    #[arg(long, value_name = "IDS", value_parser = parse_ids, allow_hyphen_values = true, help_heading = FAULTS)]
    pub crash_only: Option<Ids>,
    /// Processes crash between two steps only, and everything that they sent is sent [default: a crash may also fall
    /// between any two effects of a step, and lose what a process had sent last to each peer].
    #[arg(long, help_heading = FAULTS)]
    pub atomic_steps: bool,
    /// How many restarts there may be.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = FAULTS)]
    pub restarts: Option<u8>,
    /// Who restarts has lost what it had saved.
    #[arg(long, help_heading = FAULTS)]
    pub amnesia: bool,
    /// How many messages may be lost.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = FAULTS)]
    pub drops: Option<u8>,
    /// How many messages may be carried twice.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = FAULTS)]
    pub duplicates: Option<u8>,
    /// How often a failure detector may call a living process dead.
    #[arg(long, value_name = "K", value_parser = parse_budget, allow_hyphen_values = true, help_heading = FAULTS)]
    pub suspicions: Option<u8>,
    /// Nobody is told of crashes.
    #[arg(long, help_heading = FAULTS)]
    pub no_detector: bool,

    /// Judge the order of grants, too: ME4 and ME5, and the most that a request is overtaken.
    #[arg(long, help_heading = JUDGE)]
    pub order: bool,
    /// Judge only what can break in a finite run, with less memory and with steps left out that commute.
    #[arg(long, help_heading = JUDGE)]
    pub safety: bool,
    /// With --safety: leave out no steps.
    #[arg(long, requires = "safety", help_heading = JUDGE)]
    pub no_reduction: bool,
    /// Judge safety with steps left out by what they do, not only by where: fewer states, more time for each. Elections,
    /// clocks, shared memory, failures and counted time are reduced by place all the same.
    #[arg(long, conflicts_with = "no_reduction", help_heading = JUDGE)]
    pub by_effect: bool,
    /// Judge safety with steps left out and without, and compare.
    #[arg(long, conflicts_with = "no_reduction", help_heading = JUDGE)]
    pub verify_reduction: bool,
    /// After every step, assert the invariants of the process that took it, and report one that fails as INV.
    #[arg(long, help_heading = JUDGE)]
    pub paranoid: bool,

    /// How many threads search; the result does not depend on it [default: the number of cores].
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_hyphen_values = true, help_heading = SEARCH)]
    pub threads: Option<usize>,
    /// How much memory the search may take: 512M, 2G [default: three quarters of what is available].
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, allow_hyphen_values = true, help_heading = SEARCH)]
    pub memory: Option<usize>,
    /// Look at runs of up to so many steps only.
    #[arg(long, value_name = "N", value_parser = parse_depth, allow_hyphen_values = true, help_heading = SEARCH)]
    pub depth: Option<u32>,
    /// Do not follow states with more than so many messages in flight from one process to another.
    #[arg(long, value_name = "N", value_parser = parse_in_flight, allow_hyphen_values = true, help_heading = SEARCH)]
    pub in_flight: Option<usize>,
    /// Stop after so many states [default: none; with --all 100000 in each search].
    #[arg(long, value_name = "N", value_parser = parse_states, allow_hyphen_values = true, help_heading = SEARCH)]
    pub states: Option<usize>,
    /// Stop after so long: 90s, 5m, 2h.
    #[arg(long, value_name = "T", value_parser = parse_real_time, allow_hyphen_values = true, help_heading = SEARCH)]
    pub time: Option<Duration>,

    /// Write the counterexample as a script.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub save_script: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A moment of a recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedMoment {
    /// Its trace, as `conclave sim --trace` writes it.
    pub trace: PathBuf,
    /// How many of its records lie before; all if nothing is said.
    pub step: Option<usize>,
}

/// `run.jsonl@40`.
fn parse_moment(text: &str) -> Result<RecordedMoment, String> {
    match text.rsplit_once('@') {
        Some((trace, step)) if !trace.is_empty() => {
            let high = (usize::MAX as u64, "no trace has so many records");
            let step = whole(
                step,
                "a number of records; write TRACE@STEP",
                (0, "no record lies before the first"),
                high,
            )?;
            Ok(RecordedMoment { trace: trace.into(), step: Some(step as usize) })
        }
        _ if text.is_empty() => Err("write TRACE@STEP".into()),
        _ => Ok(RecordedMoment { trace: text.into(), step: None }),
    }
}

/// `3=+20ms`: as in a run, but for what takes time.
fn parse_offset(text: &str) -> Result<(NodeId, i64), String> {
    let ClockSetting { process, at, deviation } = text.parse()?;
    if at > 0 || deviation.drift != 0 {
        return Err(
            "in a search no time passes: a clock can be ahead or behind, but not be set later or drift"
                .into(),
        );
    }
    Ok((process, deviation.offset))
}

fn parse_entries(text: &str) -> Result<AskBudget, String> {
    match text {
        "forever" => return Ok(AskBudget::Forever),
        "first" => return Ok(AskBudget::First),
        _ => {}
    }
    let (low, high) =
        ((1, "a process asks at least once"), (100, "a process asks at most 100 times, or forever"));
    whole(text, "a number of entries, nor 'forever' or 'first'", low, high)
        .map(|times| AskBudget::Times(times as u8))
}

fn parse_budget(text: &str) -> Result<u8, String> {
    whole(
        text,
        "a number",
        (0, "that cannot be less than 0"),
        (100, "that is more than any search can take; at most 100"),
    )
    .map(|budget| budget as u8)
}

fn parse_ticks(text: &str) -> Result<u16, String> {
    let (low, high) = ((1, "a message takes at least 1 tick"), (20, "a message takes at most 20 ticks"));
    whole(text, "a number of ticks", low, high).map(|ticks| ticks as u16)
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let (low, high) = ((1, "there is at least 1 thread"), (256, "there are at most 256 threads"));
    whole(text, "a number of threads", low, high).map(|threads| threads as usize)
}

fn parse_depth(text: &str) -> Result<u32, String> {
    let (low, high) =
        ((1, "a search goes at least 1 step deep"), (u64::from(u32::MAX), "no search goes so deep"));
    whole(text, "a number of steps", low, high).map(|depth| depth as u32)
}

fn parse_states(text: &str) -> Result<usize, String> {
    let (low, high) =
        ((1, "a search sees at least 1 state"), (u64::from(u32::MAX) / 2, "no search sees so many"));
    whole(text, "a number of states", low, high).map(|most| most as usize)
}

fn parse_in_flight(text: &str) -> Result<usize, String> {
    let (low, high) =
        ((1, "with no message in flight nothing happens"), (u64::from(u32::MAX), "no channel holds so many"));
    whole(text, "a number of messages", low, high).map(|most| most as usize)
}

/// The digits at the front, and the unit behind them.
fn with_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `512M`, `2G`, `2GiB`.
fn parse_memory(text: &str) -> Result<usize, String> {
    let wrong = || format!("'{text}' is not a size; write 512M or 2G");
    let (digits, unit) = with_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let count: usize = digits.parse().map_err(|_| wrong())?;
    match count.checked_mul(1 << shift) {
        None => Err("that is too large a size".into()),
        Some(bytes) if bytes < LEAST_MEMORY => Err("a search takes at least 1M".into()),
        Some(bytes) => Ok(bytes),
    }
}

const LEAST_MEMORY: usize = 1 << 20;

/// `90s`, `5m`, `2h`; seconds if there is no unit.
fn parse_real_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time; write 90s, 5m or 2h");
    let (digits, unit) = with_unit(text);
    let millis: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "that is too long a time".into())
}

const EXAMPLES: &str = "Everything that can happen within the budgets is tried: every order of messages, every failure at every \
moment.

\x1b[1;4mExamples:\x1b[0m
  conclave check ricart-agrawala -n 3
  conclave check suzuki-kasami -n 2 --entries forever --order
  conclave check chang-roberts -n 4 --start 1,3 --crashes 1
  conclave check lamport -n 3 --safety --threads 4 --memory 2G
  conclave check ricart-agrawala --mutant no-tie-break --svg bug.svg --save-script bug.txt
  conclave check --all central --states 20000
  conclave sim lamport --trace run.jsonl && conclave check --from run.jsonl@40

Ctrl-C ends a search and reports what it has seen so far.

Exit codes: 0 nothing promised is broken in any run, 1 something is, 2 wrong usage, 3 nothing is broken in what was \
seen, but not everything was seen.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(parse_memory("2G"), Ok(2 << 30));
        assert_eq!(parse_memory("512MiB"), Ok(512 << 20));
        assert!(parse_memory("2").is_err() && parse_memory("G").is_err() && parse_memory("1k").is_err());
        assert!(parse_memory("99999999999T").is_err());
        assert_eq!(parse_real_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_real_time("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_real_time("soon").is_err() && parse_real_time("-1s").is_err());
    }
}
