//! The names that textbooks give to messages, read from the page that lists them.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../docs/names.md");

/// The rows of the table: algorithm, our name, that of the textbooks.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = PAGE.lines().filter(|line| line.starts_with("| `"));
    lines.filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`'));
        Some((cells.next()?, cells.next()?, cells.next()?))
    })
}

/// The names for the messages of an algorithm, by ours.
pub fn of(algorithm: &str) -> BTreeMap<String, String> {
    let own = rows().filter(|(name, ..)| *name == algorithm);
    own.map(|(_, ours, theirs)| (ours.to_owned(), theirs.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::registry;
    use std::collections::BTreeSet;

    #[test]
    fn every_algorithm_has_names_and_each_of_them_once() {
        let mut seen = BTreeSet::new();
        for (algorithm, ours, theirs) in rows() {
            assert!(registry::find(algorithm).is_some(), "{algorithm}");
            assert!(seen.insert((algorithm, ours)), "{algorithm} {ours} twice");
            assert!(!theirs.is_empty() && ours.starts_with(char::is_uppercase), "{algorithm} {ours}");
        }
        for about in registry::all() {
            assert!(!of(about.name).is_empty(), "{} is missing", about.name);
        }
    }
}
