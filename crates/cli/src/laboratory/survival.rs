//! What the algorithms survive, read from the tables that the runs of the simulator have written.

/// The page with the tables; `cargo xtask fix` writes it, and a test holds it against the runs.
const PAGE: &str = include_str!("../../../../docs/survival.md");

/// The rows of the tables, the head of each first.
pub fn tables() -> Vec<Vec<Vec<&'static str>>> {
    let mut tables: Vec<Vec<Vec<&str>>> = Vec::new();
    let mut lines = PAGE.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = lines.peek().is_some_and(|next| next.starts_with("|--"));
        if !line.starts_with('|') || line.starts_with("|--") {
            continue;
        }
        if is_head {
            tables.push(Vec::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push(line.trim_matches('|').split('|').map(str::trim).collect());
        }
    }
    tables
}

/// The failures of the head with what became of this algorithm in each.
pub fn of(algorithm: &str) -> Vec<(&'static str, &'static str)> {
    let named = |row: &&Vec<&str>| row.first() == Some(&algorithm);
    let found = tables().into_iter().find_map(|table| {
        let row = table.iter().find(named)?.clone();
        Some((table.into_iter().next()?, row))
    });
    found.map_or_else(Vec::new, |(head, row)| head.into_iter().zip(row).skip(1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::registry;

    #[test]
    fn the_tables_have_a_row_for_every_mutex_and_election() {
        for about in registry::all() {
            let fates = of(about.name);
            let words: &[&str] = match about.family.name {
                "mutex" => &["yes", "blocks", "fence", "-"],
                "election" => &["yes", "none", "wrong", "two"],
                _ => &[],
            };
            assert_eq!(fates.is_empty(), words.is_empty(), "{}", about.name);
            assert!(fates.iter().all(|(_, word)| words.contains(word)), "{fates:?}");
        }
    }
}
