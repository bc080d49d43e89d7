//! Options of the commands of the laboratory.

mod check;
mod clock;
mod compare;
mod example;
mod group;
mod lab;
mod live;
mod order;
mod step;

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args, Subcommand, ValueEnum};
use conclave_algorithms::Channels;
use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::mutex::Load;
use conclave_core::{Members, NodeId};
use conclave_sim::clocks::ClockSetting;
use conclave_sim::faults::{Change, Crash, Detector, Partition, Pause};
use conclave_sim::rng::Chance;
use conclave_sim::span::{Span, parse_time};
use conclave_trace::{Axis, Counted, Stamps, Theme};

use super::output::quoted;
use crate::args::Typed;

pub use check::{CheckArgs, RecordedMoment};
pub use clock::{ClockArgs, ClockCommand, QueryArgs, ServeArgs};
pub use compare::CompareArgs;
pub use example::ExampleArgs;
pub use group::{GroupArgs, GroupCommand, GroupName, JoinArgs, SendArgs, TailArgs};
pub use lab::LabArgs;
pub use live::{CertArgs, ClusterArgs, ClusterCommand, Groups, LockArgs, NodeArgs, StartArgs};
pub use order::{Cut, OrderArgs};
pub use step::StepArgs;

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub enum LaboratoryCommand {
    /// List the algorithms, or show everything about one.
    List(ListArgs),
    /// Explain a property, algorithm, family, mutant, setting or word.
    Explain(ExplainArgs),
    /// Play a worked example of the literature, step by step.
    Example(Box<ExampleArgs>),
    /// Simulate runs: diagram, costs beside the formula, properties.
    Sim(Box<SimArgs>),
    /// Show runs on a page: step through them, interfere, search.
    Lab(LabArgs),
    /// Drive a run by hand: choose what happens next, go back.
    Step(StepArgs),
    /// Search all runs: every order of messages, every failure.
    Check(Box<CheckArgs>),
    /// Compare algorithms: messages, delays, load, outages over n.
    Compare(Box<CompareArgs>),
    /// Play a script or a recorded trace, and compare.
    Replay(Box<ReplayArgs>),
    /// Ask a trace what happened before what, and who waited.
    Order(OrderArgs),
    /// Run an algorithm in real processes on this machine.
    Cluster(Box<ClusterArgs>),
    /// Multicast between processes that are started one by one.
    Group(GroupArgs),
    /// Run one process of a live cluster, on this or another machine.
    Node(NodeArgs),
    /// Make TLS certificates for the processes of a cluster.
    Cert(CertArgs),
    /// Measure the clock of a server by NTP, or be one.
    Clock(ClockArgs),
}

/// Options of `conclave list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    /// An algorithm, to see everything about it.
    pub algo: Option<String>,
    /// List the mutants, on which properties are tried out.
    #[arg(long)]
    pub mutants: bool,
    /// Show costs, assumptions and the faults that each survives, too.
    #[arg(long, conflicts_with_all = ["algo", "mutants", "json"])]
    pub long: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `conclave explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// What to explain [default: list everything that can be explained].
    pub topic: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const GROUP: &str = "Group";
const LOAD: &str = "Load";
const NETWORK: &str = "Network";
const FAULTS: &str = "Faults";
const JUDGE: &str = "What is judged";
const OUTPUT: &str = "Output";
/// What decides how a run goes.
const DECISIVE: [&str; 5] = [GROUP, LOAD, NETWORK, FAULTS, JUDGE];

/// Options of `conclave sim`.
#[derive(Debug, Args)]
#[command(after_help = SIM_EXAMPLES)]
pub struct SimArgs {
    /// The algorithm; `conclave list` shows all.
    pub algo: Option<String>,
    /// Play a script instead, as `conclave replay` does.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,

    /// How many processes, 1 to 1000000 [default: 3].
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
    /// Run a mutant instead; `conclave list --mutants` shows them.
    #[arg(long, value_name = "NAME", help_heading = GROUP)]
    pub mutant: Option<String>,
    /// How many locks there are, each run by its own instance.
    #[arg(long, value_name = "K", default_value = "1", value_parser = parse_locks, allow_hyphen_values = true, help_heading = GROUP)]
    pub locks: usize,
    /// A process that is not there from the beginning joins (repeatable); only where the group can change.
    #[arg(long, value_name = "NODE@T", allow_hyphen_values = true, help_heading = GROUP)]
    pub join: Vec<Change>,
    /// A process leaves for good, after the entry that it waits for or is in (repeatable); only where the group can change.
    #[arg(long, value_name = "NODE@T", allow_hyphen_values = true, help_heading = GROUP)]
    pub leave: Vec<Change>,

    /// Entries of each process into each lock [default: 3; 1 if there are more than 100 processes].
    #[arg(long, value_name = "K", value_parser = parse_entries, allow_hyphen_values = true, help_heading = LOAD)]
    pub entries: Option<u64>,
    /// Where all chance comes from.
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seed, allow_hyphen_values = true, conflicts_with = "seeds", help_heading = LOAD)]
    pub seed: u64,
    /// Try many seeds, A to B or 1 to N, and stop at the first that breaks a promise.
    #[arg(long, value_name = "A..B|N", value_parser = parse_seeds, allow_hyphen_values = true, help_heading = LOAD)]
    pub seeds: Option<Seeds>,
    /// How hard the processes press: one request at a time, at random times, or all of them always.
    #[arg(long, value_enum, default_value = "saturated", help_heading = LOAD)]
    pub load: LoadArg,
    /// Pause between an exit and the next request [default: 0; random if the load is open, or light and idle messages
    /// travel forever].
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, help_heading = LOAD)]
    pub think: Option<Span>,
    /// How long a process stays inside [default: the longest delay].
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, help_heading = LOAD)]
    pub hold: Option<Span>,
    /// How long a process waits before it gives its request up [default: as long as it takes].
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, help_heading = LOAD)]
    pub give_up: Option<Span>,
    /// In an election: who starts it, and when; all, or P or P@T (repeatable) [default: the lowest id at 0].
    #[arg(long, value_name = "P[@T]|all", value_parser = parse_call, allow_hyphen_values = true, help_heading = LOAD)]
    pub start: Vec<Call>,
    /// In an election: who retires, and when (repeatable).
    #[arg(long, value_name = "P[@T]", value_parser = parse_one_call, allow_hyphen_values = true, help_heading = LOAD)]
    pub retire: Vec<Call>,
    /// A request of one process (or of all) at a moment, in the words of the family, e.g. '3@40 start' (repeatable).
    #[arg(long, value_name = "P[@T] WORDS", value_parser = parse_ask, allow_hyphen_values = true, help_heading = LOAD)]
    pub ask: Vec<PlannedAsk>,
    /// Take a global snapshot, begun by this process at this time (repeatable): what each process was doing, and what was
    /// in flight.
    #[arg(long, value_name = "NODE@T", allow_hyphen_values = true, help_heading = LOAD)]
    pub snapshot: Vec<Change>,
    /// Give up if nobody enters for so long [default: long enough for everyone].
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true, help_heading = LOAD)]
    pub patience: Option<u64>,
    /// Stop after so many inputs.
    #[arg(long, value_name = "N", value_parser = parse_events, allow_hyphen_values = true, help_heading = LOAD)]
    pub max_events: Option<u64>,

    /// How long messages travel: 5, 1..10 or exp:5.
    #[arg(long, value_name = "SPAN", default_value = "1..10", allow_hyphen_values = true, help_heading = NETWORK)]
    pub delay: Span,
    /// Another delay for one link, FROM>TO=SPAN, e.g. '1>2=50' (repeatable).
    #[arg(long, value_name = "LINK", allow_hyphen_values = true, help_heading = NETWORK)]
    pub link: Vec<Link>,
    /// The order in which messages arrive [default: what the algorithm asks for].
    #[arg(long, value_enum, help_heading = NETWORK)]
    pub channels: Option<ChannelsArg>,
    /// The longest delay that the processes may rely on [default: that of --delay].
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true, help_heading = NETWORK)]
    pub t_trans: Option<u64>,

    /// How long a process takes to handle a message, before what it sends in answer leaves: 5, 1..10 or exp:5.
    #[arg(long, value_name = "SPAN", default_value = "0", allow_hyphen_values = true, help_heading = NETWORK)]
    pub t_process: Span,
    /// Set the clock of a process wrong, and perhaps let it drift, e.g. '3=+20ms,50ppm'; from a moment on with
    /// '3@40=...' (repeatable).
    #[arg(long, value_name = "P[@T]=OFFSET[,DRIFT]", allow_hyphen_values = true, help_heading = NETWORK)]
    pub clock: Vec<ClockSetting>,

    /// How likely a message is lost: 0.05 or 5%.
    #[arg(long, value_name = "P", allow_hyphen_values = true, help_heading = FAULTS)]
    pub loss: Option<Chance>,
    /// How likely a message is carried twice: 0.05 or 5%.
    #[arg(long, value_name = "P", allow_hyphen_values = true, help_heading = FAULTS)]
    pub duplicate: Option<Chance>,
    /// A process crashes, and perhaps restarts (repeatable). With :after=K it crashes inside its first step from T on
    /// that sends more than K messages, after K of them; with :inside anywhere in a step, by chance, and it may lose what
    /// it had sent last to each peer.
    #[arg(long, value_name = "NODE@T[..T][:after=K|:inside][:amnesia]", allow_hyphen_values = true, help_heading = FAULTS)]
    pub crash: Vec<Crash>,
    /// A process does nothing for a while (repeatable).
    #[arg(long, value_name = "NODE@T..T", allow_hyphen_values = true, help_heading = FAULTS)]
    pub pause: Vec<Pause>,
    /// The network is cut for a while (repeatable); 1,2>3 cuts one direction; :hold keeps messages back instead of
    /// losing them.
    #[arg(long, value_name = "1,2/3@T..T[:hold]", allow_hyphen_values = true, help_heading = FAULTS)]
    pub partition: Vec<Partition>,
    /// The token that is in flight at T, or else the next that is sent, is lost (repeatable); only where there is one.
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true, help_heading = FAULTS)]
    pub lose_token: Vec<u64>,
    /// What processes are told of crashes: none, perfect, late:SPAN or wrong:SPAN [default: perfect if anybody crashes,
    /// and in elections; else none].
    #[arg(long, value_name = "DETECTOR", allow_hyphen_values = true, help_heading = FAULTS)]
    pub detector: Option<Detector>,
    /// When faults that happen by chance stop.
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true, help_heading = FAULTS)]
    pub faults_until: Option<u64>,

    /// After every step, assert the invariants of the process that took it, and report one that fails as INV.
    #[arg(long, help_heading = JUDGE)]
    pub paranoid: bool,

    #[command(flatten)]
    pub output: OutputArgs,
    /// Write the run as a script that can be played, and changed by hand.
    #[arg(long, value_name = "FILE", conflicts_with = "seeds", help_heading = OUTPUT)]
    pub save_script: Option<PathBuf>,
    /// Write a page that plays the run, in one file, without a server.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "script"], help_heading = OUTPUT)]
    pub html: Option<PathBuf>,
    /// Write the numbers as CSV, a row for each seed.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub csv: Option<PathBuf>,
    /// Do not look for a short script when a promise is broken.
    #[arg(long, help_heading = OUTPUT)]
    pub no_shrink: bool,
}

/// A call to a process, at a time.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Whom.
    pub who: Who,
    /// When.
    pub at: u64,
}

/// Options of `conclave replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// A script, or a trace as `conclave sim --trace` writes it; - reads standard input.
    pub file: PathBuf,
    /// Rewrite the script with what came out.
    #[arg(long)]
    pub update: bool,
    /// Write what was played as a script, e.g. of a trace.
    #[arg(long, value_name = "FILE")]
    pub save_script: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to print and to write.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write what happened as JSON Lines.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub trace: Option<PathBuf>,
    /// Draw a space-time diagram.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub svg: Option<PathBuf>,
    /// Logical clocks in drawings, on the terminal too.
    #[arg(long, value_enum, default_value = "none", help_heading = OUTPUT)]
    pub stamps: StampsArg,
    /// What logical clocks count: messages, as in textbooks, or everything that a process lives through.
    #[arg(long, value_enum, default_value = "messages", help_heading = OUTPUT)]
    pub count: EventsArg,
    /// What distances in the drawing mean.
    #[arg(long, value_enum, default_value = "time", requires = "svg", help_heading = OUTPUT)]
    pub axis: AxisArg,
    /// The colours of the drawing; auto follows the reader's system.
    #[arg(long, value_enum, default_value = "auto", requires = "svg", help_heading = OUTPUT)]
    pub theme: ThemeArg,
    /// Draw from one moment to another only, e.g. 20..80.
    #[arg(long, value_name = "T..T", value_parser = parse_window, allow_hyphen_values = true, help_heading = OUTPUT)]
    pub window: Option<Window>,
    /// Draw these processes and the messages between them only, e.g. 1,3.
    #[arg(long, value_name = "P,P", value_parser = parse_ids, allow_hyphen_values = true, help_heading = OUTPUT)]
    pub only: Option<Ids>,
    /// Do not draw messages that are counted apart, such as acknowledgements.
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub hide: Option<HideArg>,
    /// Draw the fields of messages with their names: Reply{fence 0, to 1.1}.
    #[arg(long, help_heading = OUTPUT)]
    pub fields: bool,
    /// Draw messages under the names that textbooks give them: OK, ACK, I WON; docs/names.md has them all.
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub names: Option<NamesArg>,
    /// Write a log for ShiViz.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub shiviz: Option<PathBuf>,
    /// Write a Mermaid sequence diagram.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub mermaid: Option<PathBuf>,
    /// Plot how wrong each clock is over time (SVG); for physical clocks.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub plot: Option<PathBuf>,
    /// When to draw on the terminal; auto: small runs only.
    #[arg(long, value_enum, default_value = "auto", help_heading = OUTPUT)]
    pub diagram: DiagramArg,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// How hard the processes press.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LoadArg {
    Light,
    Open,
    Saturated,
}

impl From<LoadArg> for Load {
    fn from(load: LoadArg) -> Self {
        match load {
            LoadArg::Light => Self::Light,
            LoadArg::Open => Self::Open,
            LoadArg::Saturated => Self::Saturated,
        }
    }
}

/// The order of messages.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChannelsArg {
    Fifo,
    Any,
}

impl From<ChannelsArg> for Channels {
    fn from(channels: ChannelsArg) -> Self {
        match channels {
            ChannelsArg::Fifo => Self::Fifo,
            ChannelsArg::Any => Self::Any,
        }
    }
}

/// Logical clocks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StampsArg {
    None,
    Lamport,
    Vector,
}

impl From<StampsArg> for Stamps {
    fn from(stamps: StampsArg) -> Self {
        match stamps {
            StampsArg::None => Self::None,
            StampsArg::Lamport => Self::Lamport,
            StampsArg::Vector => Self::Vector,
        }
    }
}

/// What logical clocks count.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EventsArg {
    Messages,
    All,
}

impl From<EventsArg> for Counted {
    fn from(events: EventsArg) -> Self {
        match events {
            EventsArg::Messages => Self::Messages,
            EventsArg::All => Self::Everything,
        }
    }
}

/// What distances mean.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AxisArg {
    Time,
    Step,
}

impl From<AxisArg> for Axis {
    fn from(axis: AxisArg) -> Self {
        match axis {
            AxisArg::Time => Self::Time,
            AxisArg::Step => Self::Step,
        }
    }
}

/// The colours of a drawing.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ThemeArg {
    Auto,
    Light,
    Dark,
}

impl From<ThemeArg> for Theme {
    fn from(theme: ThemeArg) -> Self {
        match theme {
            ThemeArg::Auto => Self::Auto,
            ThemeArg::Light => Self::Light,
            ThemeArg::Dark => Self::Dark,
        }
    }
}

/// What is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HideArg {
    Overhead,
}

/// Whose names messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NamesArg {
    /// Those of the textbooks.
    Textbook,
}

/// From when to when, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub to: u64,
}

/// `20..80`.
fn parse_window(text: &str) -> Result<Window, String> {
    let wrong = || format!("'{text}' is not a window; write two times, such as 20..80");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (parse_time(from)?, parse_time(to)?);
    if from > to { Err(format!("the window {text} ends before it begins")) } else { Ok(Window { from, to }) }
}

/// When to draw on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiagramArg {
    Auto,
    Always,
    Never,
}

impl DiagramArg {
    pub fn is_always(self) -> bool {
        self == Self::Always
    }
}

/// The ids of the processes, no two alike.
#[derive(Clone, Debug)]
pub struct Ids(pub Vec<NodeId>);

/// Seeds to try, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub first: u64,
    pub last: u64,
}

/// A link and its delay.
#[derive(Clone, Debug)]
pub struct Link {
    pub from: NodeId,
    pub to: NodeId,
    pub delay: Span,
}

/// A run has no more processes, and ids are not larger: what is kept about them grows with the largest.
const MOST_PROCESSES: u64 = 1_000_000;
/// More named locks than anyone looks at.
const MOST_LOCKS: u64 = 4_096;

/// A whole number within bounds, or the sentence that says why not.
fn whole(text: &str, what: &str, low: (u64, &str), high: (u64, &str)) -> Result<u64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is not {what}"));
    }
    if text.starts_with('-') {
        return Err(low.1.into());
    }
    match digits.parse::<u64>() {
        Ok(number) if number < low.0 => Err(low.1.into()),
        Ok(number) if number <= high.0 => Ok(number),
        Ok(_) | Err(_) => Err(high.1.into()),
    }
}

fn parse_n(text: &str) -> Result<u32, String> {
    let low = (1, "a group has at least 1 process");
    let high = (MOST_PROCESSES, "a group has at most 1000000 processes");
    whole(text, "a number of processes", low, high).map(|n| n as u32)
}

fn parse_process(text: &str) -> Result<NodeId, String> {
    let low = (0, "the ids of processes are not negative");
    let high = (MOST_PROCESSES, "the ids of processes go up to 1000000");
    whole(text.strip_prefix('p').unwrap_or(text), "the id of a process", low, high)
        .map(|id| NodeId(id as u32))
}

fn parse_ids(text: &str) -> Result<Ids, String> {
    let mut ids = text.split(',').map(parse_process).collect::<Result<Vec<_>, _>>()?;
    let listed = ids.clone();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("process {} is named twice", pair[0].0)),
        None => Ok(Ids(listed)),
    }
}

/// `3`, `3@20`, `all`.
fn parse_call(text: &str) -> Result<Call, String> {
    let (who, at) = match text.split_once('@') {
        Some((who, at)) => (who, parse_time(at)?),
        None => (text, 0),
    };
    let who = if who == "all" { Who::All } else { Who::One(parse_process(who)?) };
    Ok(Call { who, at })
}

/// `3@40 propose 7`, `all start`.
fn parse_ask(text: &str) -> Result<PlannedAsk, String> {
    let (call, words) = text.trim().split_once(char::is_whitespace).ok_or_else(|| {
        format!(
            "'{text}' does not say who asks for what; write a process and a request, such as '3@40 start'"
        )
    })?;
    let Call { who, at } = parse_call(call)?;
    Ok(PlannedAsk { at, who, words: words.split_whitespace().collect::<Vec<_>>().join(" ") })
}

fn parse_one_call(text: &str) -> Result<Call, String> {
    match parse_call(text)? {
        Call { who: Who::All, .. } => Err("somebody must stay: name a single process".into()),
        call => Ok(call),
    }
}

fn parse_locks(text: &str) -> Result<usize, String> {
    let low = (1, "there is at least 1 lock");
    whole(text, "a number of locks", low, (MOST_LOCKS, "there are at most 4096 locks"))
        .map(|locks| locks as usize)
}

fn parse_entries(text: &str) -> Result<u64, String> {
    let low = (1, "a process enters at least once");
    whole(text, "a number of entries", low, (1_000_000_000, "a process enters at most 1000000000 times"))
}

fn parse_events(text: &str) -> Result<u64, String> {
    whole(
        text,
        "a number of inputs",
        (1, "a run has at least 1 input"),
        (u64::MAX, "that is too large a number"),
    )
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let high = (u64::MAX, "a seed is at most 18446744073709551615");
    whole(text, "a seed; write a whole number", (0, "a seed is not negative"), high)
}

fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (parse_seed(first)?, parse_seed(last)?),
        None => (1, parse_seed(text)?),
    };
    if first > last {
        return Err(format!("there is no seed in {text}"));
    }
    Ok(Seeds { first, last })
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.into(), value.into())),
        _ => Err(format!("'{text}' is not a setting; write KEY=VALUE")),
    }
}

/// `4=1020`.
fn parse_stamp(text: &str) -> Result<(NodeId, u64), String> {
    let wrong = || format!("'{text}' does not set a logical clock; write PROCESS=TIME, e.g. 4=1020");
    let (process, time) = text.split_once('=').ok_or_else(wrong)?;
    Ok((process.parse().map_err(|_| wrong())?, time.parse().map_err(|_| wrong())?))
}

/// `1>2=50`.
impl core::str::FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("'{text}' is not a link ({why}); write FROM>TO=SPAN");
        let (ends, delay) = text.split_once('=').ok_or_else(|| wrong("it has no =".into()))?;
        let (from, to) = ends.split_once('>').ok_or_else(|| wrong("it has no >".into()))?;
        let (from, to) = (parse_process(from).map_err(wrong)?, parse_process(to).map_err(wrong)?);
        if from == to {
            return Err(wrong("nobody has a link to itself".into()));
        }
        Ok(Self { from, to, delay: delay.parse().map_err(wrong)? })
    }
}

impl SimArgs {
    /// How often each process enters each lock.
    pub fn entries(&self, processes: usize) -> u64 {
        self.entries.unwrap_or(if processes <= 100 { 3 } else { 1 })
    }
}

/// Who takes part: those who are named, or so many, or the usual number.
pub fn members(ids: Option<&Ids>, n: Option<u32>, usual: u32) -> Result<Members, crate::Failure> {
    match (ids, n) {
        (Some(Ids(ids)), Some(n)) if ids.len() != n as usize => {
            Err(crate::Failure::new(format!("-n says {n} processes, but --ids names {}", ids.len())))
        }
        (Some(Ids(ids)), _) => Ok(Members::listed(ids.clone())),
        (None, n) => Ok(Members::numbered(n.unwrap_or(usual))),
    }
}

/// The options that were typed and decide how a run goes, with their values.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<(String, String)>);

impl Given {
    /// Those of a command that was typed.
    pub fn of(typed: &Typed) -> Self {
        let Some((name, matches)) = typed.matches.subcommand() else { return Self::default() };
        let arguments =
            typed.command.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
        let decisive = arguments.filter(|arg| arg.get_help_heading().is_some_and(is_decisive));
        let typed = decisive
            .filter(|arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine));
        let values = typed.flat_map(|arg| {
            let name = match (arg.get_long(), arg.get_short()) {
                (Some(long), _) => format!("--{long}"),
                (None, short) => format!("-{}", short.unwrap_or_default()),
            };
            let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            // A flag is its name alone.
            let has_value = arg.get_action().takes_values();
            let text = move |value: &OsStr| match has_value {
                true => value.to_string_lossy().into_owned(),
                false => String::new(),
            };
            raw.map(move |value| (name.clone(), text(value)))
        });
        Self(values.collect())
    }

    /// The name of the first of them.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_str())
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The command that repeats the run, with this seed.
    pub fn command(&self, algorithm: &str, seed: u64) -> String {
        let mut line = format!("{} sim {algorithm}", crate::program::name());
        for (name, value) in self.0.iter().filter(|(name, _)| name != "--seed" && name != "--seeds") {
            line += &format!(" {name}");
            if !value.is_empty() {
                line += &format!(" {}", quoted(value));
            }
        }
        line + &format!(" --seed {seed}")
    }
}

/// Whether an option decides how a run goes.
pub fn is_decisive(heading: &str) -> bool {
    DECISIVE.contains(&heading)
}

const LIST_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave list                     every algorithm, a line each
  conclave list ricart-agrawala     one of them, with settings and mutants
  conclave list --mutants --json    all mutants, for a program";

const EXPLAIN_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave explain ME1              a property that a report names
  conclave explain bully            an algorithm
  conclave explain no-tie-break     a mutant
  conclave explain restless         a word of the output";

const SIM_EXAMPLES: &str =
    "Times are in virtual milliseconds unless they carry a unit (250us, 2s). A SPAN is 5, 1..10 or exp:5.

\x1b[1;4mExamples:\x1b[0m
  conclave sim ricart-agrawala -n 3 --entries 1
  conclave sim maekawa -n 7 --seeds 1000
  conclave sim bully -n 7 --crash 7@0 --start 4
  conclave sim central -n 5 --crash 2@40..90 --svg run.svg
  conclave sim ricart-agrawala --mutant no-tie-break";

const REPLAY_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave replay bug.script
  conclave replay bug.script --update
  conclave sim lamport --trace run.jsonl && conclave replay run.jsonl --svg run.svg";
