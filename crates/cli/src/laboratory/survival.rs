//! What the algorithms for mutual exclusion survive, read from the table that the runs of the simulator have written.

/// The page with the table; `cargo xtask fix` writes it, and a test holds it against the runs.
const PAGE: &str = include_str!("../../../../docs/survival.md");

/// The rows of the table, its head first.
pub fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let lines = PAGE.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The failures of the head with what became of this algorithm in each.
pub fn of(algorithm: &str) -> Vec<(&'static str, &'static str)> {
    let head = rows().next().unwrap_or_default();
    let Some(row) = rows().find(|row| row.first() == Some(&algorithm)) else { return Vec::new() };
    head.into_iter().zip(row).skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::{mutex, registry};

    #[test]
    fn the_table_has_a_row_for_every_mutex() {
        for about in registry::all() {
            let fates = of(about.name);
            assert_eq!(fates.is_empty(), about.family != mutex::FAMILY, "{}", about.name);
            assert!(
                fates.iter().all(|(_, word)| ["yes", "blocks", "fence", "-"].contains(word)),
                "{fates:?}"
            );
        }
    }
}
