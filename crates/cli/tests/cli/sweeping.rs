//! `docs/verified.md` has the rows of `conclave check --all`: what the command prints is what the page says.

use std::path::Path;

use super::line;

/// The part of a row that says what is searched.
fn search(row: &str) -> &str {
    let end = row.match_indices(" | ").nth(1).map_or(row.len(), |(at, _)| at);
    &row[..end]
}

#[test]
fn the_page_says_what_the_sweeps_find() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verified.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    for name in ["central", "raymond", "chang-roberts"] {
        let table = line(&format!("check --all {name} --states 1000 --memory 3G --markdown")).out;
        let found: Vec<_> = table.lines().skip(2).collect();
        let written: Vec<_> = page.lines().filter(|row| row.starts_with(&format!("| {name} |"))).collect();
        assert_eq!(
            found.len(),
            written.len(),
            "{name}: a row per search; `cargo xtask fix` writes them again"
        );
        for (row, written) in found.iter().zip(written) {
            assert_eq!(search(row), search(written));
            // A search that was cut off sooner says less.
            if !row.contains("limit reached") {
                assert_eq!(*row, written, "`cargo xtask fix` writes the page again");
            }
        }
    }
}
