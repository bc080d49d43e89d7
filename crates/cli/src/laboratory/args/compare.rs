//! Options of `conclave compare`.

use std::path::PathBuf;

use clap::Args;
use conclave_sim::span::Span;

use super::{LoadArg, Seeds, ThemeArg, parse_entries, parse_n, parse_seeds, parse_setting};

/// Options of `conclave compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// A family, or algorithms: mutex, election, or lamport ricart-agrawala.
    #[arg(required = true, value_name = "FAMILY|ALGO")]
    pub what: Vec<String>,
    /// How many processes: 2..32, or 3,5,9.
    #[arg(short, value_name = "N", default_value = "2..16", value_parser = parse_sizes, allow_hyphen_values = true)]
    pub n: Sizes,
    /// Load of mutual exclusion: how soon a process asks again [default: light,saturated].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub load: Option<Vec<LoadArg>>,
    /// Entries of each process in mutual exclusion [default: 3].
    #[arg(long, value_name = "K", value_parser = parse_entries, allow_hyphen_values = true)]
    pub entries: Option<u64>,
    /// Seeds, A to B or 1 to N; numbers are means over all of them.
    #[arg(long, value_name = "A..B|N", default_value = "1", value_parser = parse_seeds, allow_hyphen_values = true)]
    pub seeds: Seeds,
    /// How long messages travel: 5, 1..10 or exp:5. With a constant, delays can be read in hops.
    #[arg(long, value_name = "SPAN", default_value = "5", allow_hyphen_values = true)]
    pub delay: Span,
    /// A setting, for the algorithms that have it.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// Write the numbers as CSV: a row for each algorithm, n and load, with mean, least, most and standard deviation.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// In the CSV, a row for each run.
    #[arg(long, requires = "csv")]
    pub each: bool,
    /// Plot the messages over n, with the curve of the formula; a number stands before the ending if there are
    /// several plots.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The colours of the plot.
    #[arg(long, value_enum, default_value = "auto", requires = "svg")]
    pub theme: ThemeArg,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Sizes of groups, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u32>);

/// More processes would take hours where everyone talks to everyone, once for each that may begin.
const MOST: u32 = 512;

/// `2..32`, `3,5,9`, `2..8,16`.
fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (parse_n(first)?, parse_n(last)?),
            None => (parse_n(part)?, parse_n(part)?),
        };
        if first > last {
            return Err(format!("there is no number in {part}"));
        }
        if last > MOST {
            return Err(format!("runs of at most {MOST} processes are compared"));
        }
        sizes.extend(first..=last);
    }
    Ok(Sizes(sizes.into_iter().collect()))
}

const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave compare mutex -n 2..32 --svg mutex.svg
  conclave compare election -n 2..64
  conclave compare lamport ricart-agrawala
  conclave compare mutex -n 8 --delay 1..10 --seeds 20 --csv runs.csv --each

What is measured: messages of a run without faults, beside the formula of the literature; how long users wait; the
load of the busiest process; and the outage after it has crashed. An election is held once by every process that can
start it, and once by all.

Exit codes: 0 every number agrees with its formula, 1 one does not or a property failed, 2 wrong usage.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_ranges_and_lists() {
        assert_eq!(parse_sizes("2..5"), Ok(Sizes(vec![2, 3, 4, 5])));
        assert_eq!(parse_sizes("9,3,2..3"), Ok(Sizes(vec![2, 3, 9])));
        for wrong in ["", "0", "5..2", "2..", "x", "2..1000"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }
}
