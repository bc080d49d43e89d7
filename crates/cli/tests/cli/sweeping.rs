//! `docs/swept.md`: what `conclave check --all` finds of every lock and election. `CONCLAVE_UPDATE=1` writes it again.

use std::path::Path;

use super::line;

const HEAD: &str = "\
# What the sweeps find

Written by `CONCLAVE_UPDATE=1 cargo test --workspace --test cli sweeping`; a test compares small searches of a few algorithms with it.

[`conclave check --all`](checking.md#many-searches-at-once) puts every algorithm through the same searches, each with the options of its
row. A search is given up at 5,000 states, so that much of this is not seen to the end: what a row says then is that nothing
broke among the states nearest to the beginning. [verified.md](verified.md) has fewer searches that go further, and what all of them assume.

*Never met* names situations that a search did not come to although it went to its end: its verdict says nothing of them. *Beyond
what is assumed*: a message is lost or doubled, or in an election the living are called dead.

What is broken and not beyond that: `watch=heartbeat` never comes to rest, which is what END asks for. Where an algorithm relies on
time, or does so with a setting of its row (`handoff=acked`), messages take at most one tick unless the row says otherwise.

```sh
conclave check --all mutex --states 5000 --markdown
conclave check --all election --states 5000 --markdown
```

| algorithm | search | states | depth | verdict | never met |
|---|---|---|---|---|---|
";

fn rows(name: &str, states: u32) -> Vec<String> {
    let table = line(&format!("check --all {name} --states {states} --memory 3G --markdown")).out;
    table.lines().skip(2).map(str::to_owned).collect()
}

/// The part of a row that says what is searched.
fn search(row: &str) -> &str {
    let end = row.match_indices(" | ").nth(1).map_or(row.len(), |(at, _)| at);
    &row[..end]
}

#[test]
fn the_page_says_what_the_sweeps_find() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/swept.md");
    if std::env::var_os("CONCLAVE_UPDATE").is_some() {
        let rows = [rows("mutex", 5_000), rows("election", 5_000)].concat();
        std::fs::write(&path, format!("{HEAD}{}\n", rows.join("\n"))).expect("the page can be written");
    }
    let page = std::fs::read_to_string(path).expect("the page is there");
    assert!(
        page.starts_with(HEAD),
        "the page does not begin as it should; CONCLAVE_UPDATE=1 writes it again"
    );
    for name in ["central", "raymond", "chang-roberts"] {
        let found = rows(name, 1_000);
        let written: Vec<_> = page.lines().filter(|row| row.starts_with(&format!("| {name} |"))).collect();
        assert_eq!(
            found.len(),
            written.len(),
            "{name}: a row per search; CONCLAVE_UPDATE=1 writes them again"
        );
        for (row, written) in found.iter().zip(written) {
            assert_eq!(search(row), search(written));
            // A search that was cut off sooner says less.
            if !row.contains("limit reached") {
                assert_eq!(row, written, "CONCLAVE_UPDATE=1 writes the page again");
            }
        }
    }
}
