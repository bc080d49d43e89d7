//! Options of `conclave order`.

use std::path::PathBuf;

use clap::Args;
use conclave_core::NodeId;
use conclave_sim::span::parse_time;

use super::{EventsArg, parse_process};

/// Options of `conclave order`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OrderArgs {
    /// A trace as `conclave sim --trace` writes it, or a script; - reads standard input.
    pub file: PathBuf,
    /// Two events: did the first happen before the second?
    #[arg(value_name = "EVENT", num_args = 0..=2)]
    pub events: Vec<u64>,
    /// All events that are concurrent with this one.
    #[arg(long, value_name = "EVENT", conflicts_with = "events")]
    pub concurrent: Option<u64>,
    /// One order of all events that agrees with what happened before what.
    #[arg(long, conflicts_with_all = ["events", "concurrent"])]
    pub total: bool,
    /// A cut: of each process everything up to an event, of the others nothing. Is it consistent?
    #[arg(long, value_name = "P=EVENT,...", value_parser = parse_cut, conflicts_with_all = ["events", "concurrent", "total"])]
    pub cut: Option<Cut>,
    /// Who waits for whom at this moment.
    #[arg(long, value_name = "T", value_parser = parse_time, conflicts_with_all = ["events", "concurrent", "total", "cut"])]
    pub waits: Option<u64>,
    /// What logical clocks count: messages, as in textbooks, or everything that a process lives through.
    #[arg(long, value_enum, default_value = "messages")]
    pub count: EventsArg,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The last event of each process in a cut.
#[derive(Clone, Debug)]
pub struct Cut(pub std::collections::BTreeMap<NodeId, u64>);

fn parse_cut(text: &str) -> Result<Cut, String> {
    let mut cut = std::collections::BTreeMap::new();
    for part in text.split(',') {
        let wrong = || {
            format!("'{part}' does not say how far a process is in the cut; write PROCESS=EVENT, e.g. 1=12")
        };
        let (process, event) = part.split_once('=').ok_or_else(wrong)?;
        let (process, event) = (parse_process(process)?, event.parse().map_err(|_| wrong())?);
        if cut.insert(process, event).is_some() {
            return Err(format!("{process} is named twice"));
        }
    }
    Ok(Cut(cut))
}

const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave sim lamport -n 3 --entries 1 --trace run.jsonl
  conclave order run.jsonl                     every event with its stamps
  conclave order run.jsonl 4 17                did 4 happen before 17?
  conclave order run.jsonl --concurrent 4
  conclave order run.jsonl --total
  conclave order run.jsonl --cut 1=17,2=13,3=11
  conclave order run.jsonl --waits 12.5

Events are named by the numbers of their records, which stand first in every line.

Exit codes: 0 it is so: before, concurrent with something, consistent; 1 it is not; 2 wrong usage or input.";
