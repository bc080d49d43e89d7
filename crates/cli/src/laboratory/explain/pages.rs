//! What the pages in docs say, as far as they can be looked up: their tables, and the ideas of the algorithms.

const PROPERTIES: &str = include_str!("../../../../../docs/properties.md");
const WORDS: &str = include_str!("../../../../../docs/words.md");
const ARCHITECTURE: &str = include_str!("../../../../../ARCHITECTURE.md");

/// The pages of the algorithms.
macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        const PAGES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../../docs/algorithms/", $name, ".md")))),+];
    };
}

pages![
    "bakery",
    "basic",
    "berkeley",
    "bully",
    "carvalho-roucairol",
    "causal",
    "central",
    "chang-roberts",
    "compare-and-swap",
    "cristian",
    "critical-region",
    "events",
    "fifo",
    "flag",
    "flood-set",
    "interrupts",
    "isis",
    "lamport",
    "lamport-stamps",
    "lodha-kshemkalyani",
    "maekawa",
    "majority",
    "mcs",
    "monitor",
    "ntp",
    "paxos",
    "paxos-log",
    "ben-or",
    "peterson",
    "raymond",
    "reliable",
    "ricart-agrawala",
    "ricart-agrawala-token",
    "ring-active-list",
    "ring-ballot",
    "ring-k-leaders",
    "ring-list",
    "semaphore",
    "sequencer",
    "singhal",
    "total-order",
    "suzuki-kasami",
    "swap",
    "test-and-set",
    "ticket",
    "token-ring",
    "views",
    "waiting-array",
    "workers",
];

/// Properties that no judge lists, because a run in which they hold has nothing to say of them.
pub const ANYWHERE: [(&str, &str); 3] = [
    ("PROTOCOL", "every message follows the rules"),
    ("INV", "every state is one that may be"),
    ("CUT", "snapshots are consistent"),
];

/// What the page says of a property.
#[derive(Default)]
pub struct Found {
    pub claim: Option<&'static str>,
    /// One, or one for each case.
    pub rules: Vec<String>,
}

/// The section of the properties of a family.
pub fn section(family: &str) -> &'static str {
    match family {
        "mutex" => "Mutual exclusion",
        "election" => "Elections",
        "workers" => "Masters and workers",
        "consensus" => "Consensus",
        "memory" => "Shared memory",
        "clock" => "Physical clocks",
        "order" => "The order of events",
        "multicast" => "Multicast",
        _ => "",
    }
}

/// What the page says of a property in this section; nothing of those of one's own families.
pub fn property(name: &str, section: &str) -> Found {
    let mut found = Found::default();
    let mut head = "";
    let lines = PROPERTIES.lines().skip_while(|line| *line != format!("## {section}")).skip(1);
    for line in lines.take_while(|line| !line.starts_with("## ")) {
        let Some(row) = row(line) else {
            head = "";
            continue;
        };
        let [first, second] = row[..] else { continue };
        if head.is_empty() {
            head = second;
            continue;
        }
        let (code, case) = first.split_once(", ").unwrap_or((first, ""));
        match head {
            _ if code != name => {}
            "claim" => found.claim = Some(second),
            "rule" if case.is_empty() => found.rules.push(plain(second)),
            "rule" => found.rules.push(format!("{}: {}", plain(case), plain(second))),
            _ => {}
        }
    }
    found
}

/// The cells of a row of a table.
fn row(line: &'static str) -> Option<Vec<&'static str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<_> = inner.split('|').map(str::trim).collect();
    Some(cells)
}

/// A word of the output.
pub struct Word {
    pub name: &'static str,
    pub meaning: String,
    pub see_also: Vec<&'static str>,
}

/// The words of the output, and those that the code and the pages use.
pub fn words() -> impl Iterator<Item = Word> {
    let output = WORDS.lines().filter_map(row).filter(|row| row.len() == 3).skip(2).map(|row| Word {
        name: row[0],
        meaning: plain(row[1]),
        see_also: row[2].split(", ").filter(|name| !name.is_empty()).collect(),
    });
    let glossary = ARCHITECTURE.lines().skip_while(|line| *line != "## Words").skip(1);
    let glossary = glossary.take_while(|line| !line.starts_with("## ")).filter_map(row).skip(2);
    let glossary = glossary.flat_map(|row| {
        let names: Vec<_> = row[0].split(", ").collect();
        names.clone().into_iter().map(move |name| Word {
            name,
            meaning: plain(row[1]),
            see_also: names.iter().copied().filter(|other| *other != name).collect(),
        })
    });
    output.chain(glossary)
}

/// Where the page of an algorithm stands.
pub fn path(algorithm: &str) -> Option<String> {
    page(algorithm).map(|_| format!("docs/algorithms/{algorithm}.md"))
}

/// The first paragraph about the idea of an algorithm.
pub fn idea(algorithm: &str) -> Option<String> {
    let section = page(algorithm)?.split("## Problem and idea\n").nth(1)?;
    let paragraph = section.trim_start().split("\n\n").next()?;
    Some(plain(&paragraph.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The page of an algorithm.
pub fn page(algorithm: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == algorithm).map(|(_, page)| *page)
}

/// A text without what only a page shows: links become their words, marks go.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        match link.split_once("](").and_then(|(words, after)| Some((words, after.split_once(')')?.1))) {
            Some((words, after)) if !words.contains('[') => {
                plain += words;
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = link;
            }
        }
    }
    (plain + rest).replace(['`', '*'], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::registry;

    #[test]
    fn every_page_of_an_algorithm_is_known() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/algorithms");
        for file in std::fs::read_dir(dir).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(".md").unwrap();
            assert!(page(name).is_some(), "{name} is missing among the pages");
            assert!(registry::find(name).is_some(), "{name} has a page and is no algorithm");
            assert!(idea(name).is_some_and(|idea| idea.len() > 60), "{name}");
        }
    }

    #[test]
    fn links_and_marks_are_taken_out() {
        assert_eq!(plain("see [the *end*](x.md#y) of `a[1]`"), "see the end of a[1]");
    }
}
