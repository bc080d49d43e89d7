//! What the pages show is what comes out: every script in them is played.

use std::path::{Path, PathBuf};

use conclave_algorithms::registry;
use conclave_sim::play;
use conclave_trace::Script;

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the docs are there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let found = paths.flat_map(|path| if path.is_dir() { pages(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The scripts of a page, with the line at which each begins. One that leaves something out (`...`) cannot be played.
fn scripts(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("```") {
            match block.take() {
                None => block = Some((number + 1, String::new())),
                Some((start, body)) if body.starts_with("run ") && !body.contains("\n...") => {
                    found.push((start, body));
                }
                Some(_) => {}
            }
        } else if let Some((_, body)) = &mut block {
            body.push_str(line);
            body.push('\n');
        }
    }
    found
}

#[test]
fn every_script_in_a_page_comes_out_as_it_is_shown() {
    let mut played = 0;
    let mut wrong = Vec::new();
    for path in pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")) {
        let text = std::fs::read_to_string(&path).expect("a page can be read");
        for (line, text) in scripts(&text) {
            let algorithm = text.split_whitespace().nth(1).unwrap_or_default();
            // Placeholders, and algorithms that a page makes up.
            if registry::find(algorithm).is_none() {
                continue;
            }
            let place = format!("{}:{line}", path.display());
            let script = Script::parse(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
            let outcome = play(&script).unwrap_or_else(|error| panic!("{place}: {error}"));
            played += 1;
            wrong.extend(outcome.difference.map(|difference| format!("{place}: {difference:?}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(played > 10, "only {played} scripts were found");
}
