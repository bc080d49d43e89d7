//! What has been verified, at which size: the table in `docs/verified.md` says no more and no less. `CONCLAVE_UPDATE=1` (or
//! `cargo xtask fix`) writes it again.
//!
//! Without optimisation only the rows with few states are held against the runs; an optimised build takes all of them but
//! those that take minutes or gigabytes. These are left to `cargo xtask soak`, which sets `CONCLAVE_SOAK=1`.

use std::fmt::Write as _;

use conclave_algorithms::{About, registry};
use conclave_check::{AskBudget, Budgets, Limits, Options, Report, check};
use conclave_trace::Setup;

/// No row has more states.
const MOST_STATES: usize = 1_000_000;
/// Nor more than this where two recover: one of these searches has no end.
const MOST_RECOVERING: usize = 200_000;
/// Nor more than this in a soak.
const MOST_SOAKED: usize = 20_000_000;
/// And this for the one election of four that has more.
const MOST_OF_BULLIES: usize = 50_000_000;
/// Rows with more states are left to an optimised build.
const FEW_STATES: usize = 100_000;

/// A row of the table: one algorithm at one size.
struct Row {
    algorithm: &'static str,
    nodes: u32,
    entries: AskBudget,
    crashes: u8,
    /// Whether crashes fall inside steps, too.
    inside: bool,
    order: bool,
    most: usize,
}

fn is_soaking() -> bool {
    std::env::var_os("CONCLAVE_SOAK").is_some()
}

fn rows(about: &'static About) -> Vec<Row> {
    let row = |nodes, entries| Row {
        algorithm: about.name,
        nodes,
        entries,
        crashes: 0,
        inside: false,
        order: false,
        most: MOST_STATES,
    };
    let once = AskBudget::Times(1);
    match about.family.name {
        "mutex" => {
            let endless = Row { order: true, ..row(2, AskBudget::Forever) };
            let recovering = Row { crashes: 1, most: MOST_RECOVERING, ..row(2, once) };
            let recovering_three = Row { nodes: 3, most: MOST_SOAKED, ..recovering };
            let inside = Row { inside: true, ..recovering };
            vec![row(3, once), row(2, AskBudget::Times(2)), endless, recovering, inside, recovering_three]
        }
        "election" => {
            let many = ["bully", "ring-k-leaders"].contains(&about.name);
            let four = Row { most: if many { MOST_SOAKED } else { MOST_STATES }, ..row(4, once) };
            let crash = Row { crashes: 1, ..row(3, once) };
            let mut rows = vec![row(3, once), four, Row { inside: true, ..crash }];
            rows.insert(2, crash);
            // The only one whose calls after the first election make too many states.
            if about.name == "bully" {
                rows.insert(2, Row { most: MOST_OF_BULLIES, ..row(4, AskBudget::First) });
            }
            rows
        }
        _ => Vec::new(),
    }
}

impl Row {
    /// The part of the row that says what is searched.
    fn name(&self) -> String {
        let Self { algorithm, nodes, entries, crashes, inside, order, .. } = self;
        let failures = match (crashes, inside) {
            (0, _) => "none".into(),
            (crashes, true) => format!("{crashes} crash"),
            (crashes, false) => format!("{crashes} crash between steps"),
        };
        let order = if *order { "safety, liveness, order" } else { "safety, liveness" };
        format!("| {algorithm} | {nodes} | {entries} | {failures} | {order} |")
    }

    fn search(&self) -> Report {
        let options = Options {
            entries: self.entries,
            budgets: Budgets { crashes: self.crashes, ..Budgets::default() },
            atomic_steps: !self.inside,
            order: self.order,
            // Which changes nothing but how long it takes.
            threads: if self.is_long() { 2 } else { 1 },
            limits: Limits { memory: 12 << 30, states: Some(self.most), ..Limits::default() },
            ..Options::default()
        };
        check(&Setup::numbered(self.algorithm, self.nodes), &options, &mut |_| {})
            .expect("it can be searched so")
    }

    /// Whether the search takes minutes, or gigabytes.
    fn is_long(&self) -> bool {
        self.most >= MOST_SOAKED
    }

    fn line(&self) -> String {
        let report = self.search();
        let (states, depth, verdict) = match (&report.counterexample, report.incomplete) {
            (Some(found), _) => {
                (grouped(report.states), report.depth.to_string(), format!("{} is broken", found.property))
            }
            (None, Some(_)) => {
                (format!("more than {}", grouped(self.most)), "-".into(), "nothing broken so far".into())
            }
            (None, None) => (grouped(report.states), report.depth.to_string(), "holds".into()),
        };
        format!("{} {states} | {depth} | {verdict} |", self.name())
    }
}

/// A whole number with its thousands set apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let start = digits.len() % 3;
    let mut parts: Vec<&str> = vec![&digits[..start]];
    parts.extend((start..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}

/// What the page says of how many states a row has.
fn recorded_states(line: &str) -> Option<usize> {
    line.split('|').nth(6)?.trim().replace(',', "").parse().ok()
}

fn all_rows() -> impl Iterator<Item = Row> {
    registry::all().into_iter().flat_map(rows)
}

/// The page again; of what is not searched now, what the last page said.
fn page(last: &str) -> String {
    let mut page = HEAD.to_owned();
    for row in all_rows() {
        let line = match row.is_long() && !is_soaking() {
            true => last.lines().find(|line| line.starts_with(&row.name())).map(str::to_owned),
            false => Some(row.line()),
        };
        let line = line.unwrap_or_else(|| format!("{} - | - | not searched yet |", row.name()));
        writeln!(page, "{line}").expect("a text takes every line");
    }
    page
}

const HEAD: &str = "\
# What has been verified

Written by `cargo xtask fix`; a test compares it with the searches. [checking.md](checking.md) says what a search does.

Every row is one search through **all** runs of an algorithm as it is by default: every order of messages, and every moment
for the crash where there is one. *1 crash* may fall [inside a step](checking.md#a-crash-inside-a-step) and lose what was sent;
*1 crash between steps* may not (`--atomic-steps`). *Entries* is how often each process asks (in elections: may call one); `forever` covers
any number, `first` is one call before it hears of a leader, so that all calls belong to one election, whoever makes them.
*Holds*: nothing that is promised is broken, [deadlock and starvation](checking.md#runs-without-end) included.
Where a group [recovers](recovery.md) after the crash, time is [counted](checking.md#what-can-happen). A row that was given up says nothing
of liveness, and of safety only what lies within its states.

Every row assumes that no message is lost or doubled and, where there is a crash, that every crash is reported and nobody else is
suspected, that what was saved is kept, that a message takes at most one tick, a step none, and that timers are exact. No row
has a restart. Of two processes of which one crashes one is left: these rows say nothing of exclusion after the crash. The
order of grants is judged for two processes only. [`conclave check --all`](checking.md#many-searches-at-once) searches more, with restarts,
suspicions and every setting.

A search is given up at 1,000,000 states. Of two processes that recover 200,000 are enough: `token-ring`
counts how often its token has moved, and has no end (with `--set idle=park`, where the token rests, it has one, at 4,407
states). Of three, and of elections of four with many states, it is 20,000,000, and once 50,000,000: those rows are searched by
`cargo xtask soak` and take minutes and gigabytes each.

The same by hand, the first row of each kind:

```sh
conclave check central -n 3
conclave check central -n 2 --entries 2
conclave check central -n 2 --entries forever --order
conclave check central -n 2 --crashes 1 --atomic-steps
conclave check central -n 2 --crashes 1
conclave check central -n 3 --crashes 1 --atomic-steps
conclave check bully -n 3
conclave check bully -n 3 --crashes 1 --atomic-steps
conclave check bully -n 3 --crashes 1
conclave check bully -n 4 --entries first
```

| algorithm | processes | entries | failures | judged | states | depth | verdict |
|---|---|---|---|---|---|---|---|
";

#[test]
fn the_table_says_what_the_searches_find() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verified.md");
    if std::env::var_os("CONCLAVE_UPDATE").is_some() {
        let last = std::fs::read_to_string(path).unwrap_or_default();
        std::fs::write(path, page(&last)).expect("docs/verified.md can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/verified.md is there");
    let (head, lines) = written.split_at(written.rfind("|---|\n").map_or(0, |at| at + "|---|\n".len()));
    assert_eq!(head, HEAD, "the page does not begin as it should; `cargo xtask fix` writes it again");
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), all_rows().count(), "a row per search; `cargo xtask fix` writes them again");
    for (row, line) in all_rows().zip(lines) {
        assert!(line.starts_with(&row.name()), "{} is missing at: {line}", row.name());
        let is_small = recorded_states(line).is_some_and(|states| states <= FEW_STATES);
        let is_searched = if row.is_long() { is_soaking() } else { is_small || !cfg!(debug_assertions) };
        if is_searched {
            assert_eq!(line, row.line(), "the search finds otherwise; `cargo xtask fix` writes it again");
        }
    }
}

#[test]
fn thousands_are_set_apart() {
    for (count, text) in [(7, "7"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(grouped(count), text);
    }
}
