//! What has been verified, at which size: the table in `docs/verified.md` has the rows of `conclave check --all`, and says no
//! more and no less than they find. `CONCLAVE_UPDATE=1` (or `cargo xtask fix`) writes it again.
//!
//! Without optimisation only the rows with few states are held against the runs; an optimised build takes all of them but
//! those that take minutes or gigabytes. These are left to `cargo xtask soak`, which sets `CONCLAVE_SOAK=1`.

use conclave_algorithms::{About, election, mutex};
use conclave_check::{LONG, Limits, Swept, Trial, check, sweep};

/// Rows with more states are left to an optimised build, and so are those that were given up.
const FEW_STATES: usize = 10_000;

/// A row of the table.
struct Row {
    algorithm: &'static str,
    trial: Trial,
}

fn is_soaking() -> bool {
    std::env::var_os("CONCLAVE_SOAK").is_some()
}

fn all_rows() -> impl Iterator<Item = Row> {
    let rows =
        |about: &'static About| sweep(about).into_iter().map(|trial| Row { algorithm: about.name, trial });
    mutex::all().into_iter().chain(election::all()).flat_map(rows)
}

impl Row {
    /// The part of the row that says what is searched.
    fn search(&self) -> String {
        Swept::search(self.algorithm, &self.trial)
    }

    /// Whether the search takes minutes, or gigabytes.
    fn is_long(&self) -> bool {
        self.trial.most >= LONG
    }

    fn line(&self) -> String {
        let limits = Limits { memory: 12 << 30, states: Some(self.trial.most), ..Limits::default() };
        // Threads change nothing but how long it takes.
        let options = self.trial.options(&limits, if self.is_long() { 2 } else { 1 });
        let found = check(&self.trial.setup(self.algorithm), &options, &mut |_| {});
        let found = found.map_err(|error| error.to_string());
        Swept { algorithm: self.algorithm.into(), trial: self.trial.clone(), found }.row()
    }

    /// Whether it is searched by this build, if the page says this of it.
    fn is_searched(&self, line: &str) -> bool {
        let is_small = recorded_states(line).is_some_and(|states| states <= FEW_STATES);
        let is_cut_off = line.contains("limit reached");
        if self.is_long() { is_soaking() } else { (is_small && !is_cut_off) || !cfg!(debug_assertions) }
    }
}

/// What the page says of how many states a row has.
fn recorded_states(line: &str) -> Option<usize> {
    line.split('|').nth(3)?.trim().replace(',', "").parse().ok()
}

/// The page again; of what is not searched now, what the last page said.
fn page(last: &str) -> String {
    let line = |row: Row| match row.is_long() && !is_soaking() {
        true => last
            .lines()
            .find(|line| line.starts_with(&row.search()))
            .map_or_else(|| format!("{} - | - | not searched yet | |", row.search()), str::to_owned),
        false => row.line(),
    };
    let lines: String = all_rows().map(|row| line(row) + "\n").collect();
    format!("{TEXT}{}{lines}", Swept::HEAD)
}

const TEXT: &str = "\
# What has been verified

Written by `cargo xtask fix`; a test compares it with the searches. [checking.md](checking.md) says what a search does.

Every row is one search of [`conclave check --all`](checking.md#many-searches-at-once), with the options of its row: `conclave check
central -n 2 --crashes 1` is a row of `central`. A row that *holds* went through **all** runs: every order of messages, and every moment for
what fails, [inside a step](checking.md#a-crash-inside-a-step) unless it says `--atomic-steps`. Nothing that is promised is broken in
them, [deadlock and starvation](checking.md#runs-without-end) included, and with `--order` neither is the order of grants. Where a
group [recovers](recovery.md), time is [counted](checking.md#what-can-happen). *State limit reached*: the search was given up, and
says nothing of liveness, and of safety only what lies among the states nearest to the beginning. Of groups of three that recover the
[parts](checking.md#recovery-in-parts) are searched to the end.

Every row assumes that no message is lost or doubled unless it says so, that every crash is reported and nobody is suspected
unless it says `--suspicions`, that what was saved is kept, that a message takes at most one tick, a step none, and that timers are
exact. *Never met* names situations that a search did not come to although it went to its end: its verdict says nothing of them. Of
two processes of which one crashes one is left, for instance. *Beyond what is assumed*: a message is lost or doubled, or in an
election the living are called dead.

What is broken and not beyond that: `watch=heartbeat` never comes to rest, which is what END asks for. Where an algorithm relies on
time, or does so with a setting of its row (`handoff=acked`), messages take at most one tick unless the row says otherwise. A
deadlock of `singhal` is open: a request that is overtaken by the token that answers it is thrown away where it arrives, and
neither of two processes believes the other to be requesting any more (`conclave check singhal -n 3 --entries 2`). In
`mode=backoff` chance decides, and a process may be unlucky forever.

Searches without failures, and those of elections with one crash, are given up at 1,000,000 states, two processes that recover from a crash at
200,000 (`token-ring` counts how often its token has moved, and has no end), and most others at 20,000. Three processes
that recover from a crash between steps may take 20,000,000, as may elections of four with many states, and one 50,000,000: those rows
are searched by `cargo xtask soak` and take minutes and gigabytes each.

";

#[test]
fn the_table_says_what_the_searches_find() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verified.md");
    if std::env::var_os("CONCLAVE_UPDATE").is_some() {
        let last = std::fs::read_to_string(path).unwrap_or_default();
        std::fs::write(path, page(&last)).expect("docs/verified.md can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/verified.md is there");
    let head = format!("{TEXT}{}", Swept::HEAD);
    let lines = written.strip_prefix(&head);
    let lines = lines.expect("the page does not begin as it should; `cargo xtask fix` writes it again");
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), all_rows().count(), "a row per search; `cargo xtask fix` writes them again");
    for (row, line) in all_rows().zip(lines) {
        assert!(line.starts_with(&row.search()), "{} is missing at: {line}", row.search());
        if row.is_searched(line) {
            assert_eq!(line, row.line(), "the search finds otherwise; `cargo xtask fix` writes it again");
        }
    }
}
