//! `cargo xtask tidy`: what a machine can tell of the text of the tree, without building it.
//!
//! - every relative link of a page leads to a file, and to a heading if it names one;
//! - an excerpt of a script in a page stands in that script, line by line;
//! - the page of an algorithm has the messages, settings and mutants of its source;
//! - what a crate must not name, it does not name;
//! - every stream of randomness has a number of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::algorithm_pages;

/// All rules, each with all that breaks it.
pub fn check_all() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask stands in the workspace")?;
    let found = [
        broken_links(root),
        stale_excerpts(root),
        algorithm_pages::differences(root),
        banned_words(root),
        shared_streams(root),
    ];
    let found: Vec<String> = found.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("the tree is untidy:\n  {}", found.join("\n  ")))
}

/// All files under a folder with this ending, in order.
pub fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                found.extend(files(&path, ending)?);
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// The pages: those at the root, and all of `docs`.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = files(&root.join("docs"), "md")?;
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        pages.extend(Some(root.join(name)).filter(|path| path.exists()));
    }
    Ok(pages)
}

/// The path of a file as people write it.
pub fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn broken_links(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for page in pages(root)? {
        let text = read(&page)?;
        for (number, target) in links(&text) {
            let (file, heading) = target.split_once('#').map_or((target, None), |(a, b)| (a, Some(b)));
            let folder = page.parent().unwrap_or(root);
            let path = if file.is_empty() { page.clone() } else { folder.join(file) };
            let place = format!("{}:{number}: {target}", shown(&page, root));
            if !path.exists() {
                found.push(format!("{place}: there is no such file"));
            } else if let Some(heading) = heading
                && path.extension().is_some_and(|extension| extension == "md")
                && !headings(&read(&path)?).iter().any(|known| known == heading)
            {
                found.push(format!("{place}: there is no such heading"));
            }
        }
    }
    Ok(found)
}

/// The relative links of a page, with the number of their line.
pub fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = &rest[..end];
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target));
            }
            rest = &rest[end..];
        }
    }
    found
}

/// The lines outside of fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((number, line))
    })
}

/// The headings of a page as they stand in links.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#') else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = found.iter().filter(|known| **known == name).count();
        found.push(if again == 0 { name } else { format!("{name}-{again}") });
    }
    found
}

/// Every line of an excerpt stands in its script, in this order. `...` stands for what is left out.
fn stale_excerpts(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for page in pages(root)? {
        let text = read(&page)?;
        for (number, script, excerpt) in excerpts(&text) {
            let path = page.parent().unwrap_or(root).join(script);
            let Ok(written) = fs::read_to_string(&path) else { continue };
            let mut lines = written.lines();
            let is_missing = |line: &&str| !lines.any(|known| known.trim_end() == line.trim_end());
            let kept = excerpt
                .lines()
                .filter(|line| !line.trim().is_empty() && !["...", "…"].contains(&line.trim()));
            if let Some(line) = kept.into_iter().find(is_missing) {
                let place = format!("{}:{number}", shown(&page, root));
                found.push(format!("{place}: `{line}` does not follow in {}", shown(&path, root)));
            }
        }
    }
    Ok(found)
}

/// The lines of the fenced blocks that begin with `run`: runs, whether they stand in a script or not.
pub fn runs(text: &str) -> Vec<usize> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let begins = fenced && is_fence;
        if begins && text.lines().nth(number).is_some_and(|first| first.starts_with("run ")) {
            found.push(number);
        }
    }
    found
}

/// Line, script and text of each excerpt: a fenced block below a paragraph with a link to a script. A block that begins with
/// `run` may stand further below, in the same chapter.
pub fn excerpts(text: &str) -> Vec<(usize, &str, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    // The link of the chapter, that of the paragraph, and whether the paragraph is over.
    let (mut last, mut near, mut is_over): (Option<&str>, Option<&str>, bool) = (None, None, false);
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            match block.take() {
                None => block = Some((number, String::new())),
                Some((start, body)) => {
                    let script = near.take().or(last.filter(|_| body.starts_with("run ")));
                    last = last.filter(|_| script.is_none());
                    found.extend(script.map(|script| (start, script, body)));
                }
            }
        } else if let Some((_, body)) = &mut block {
            body.push_str(line);
            body.push('\n');
        } else if line.starts_with('#') {
            (last, near) = (None, None);
        } else if line.trim().is_empty() {
            is_over = true;
        } else {
            let link = links(line).into_iter().rfind(|(_, target)| target.ends_with(".txt"));
            let link = link.map(|(_, target)| target);
            near = link.or(near.filter(|_| !is_over));
            (last, is_over) = (link.or(last), false);
        }
    }
    found
}

/// What must not stand in the sources of some crates, and why. Tests at the end of a file may name it.
const BANS: &[(&[&str], &[&str], &str)] = &[
    (
        &["core", "algorithms", "trace", "service"],
        &["Instant::now", "SystemTime::now", "thread_rng", "rand::random"],
        "time and chance come from a driver",
    ),
    (
        &["core", "algorithms", "trace", "sim", "check", "net", "service", "client"],
        &["println!(", "print!(", "eprintln!(", "eprint!("],
        "a library does not print",
    ),
    (
        &["sim", "check", "net", "live", "trace"],
        &[
            "\"mutex\"",
            "\"election\"",
            "\"workers\"",
            "workers::",
            "\"multicast\"",
            "multicast::",
            "election::FAMILY",
            "mutex::FAMILY",
        ],
        "a driver knows no family by name",
    ),
    (
        &["core", "algorithms", "trace", "sim", "check", "net", "live", "service", "client", "server", "cli"],
        &["todo!(", "unimplemented!(", "dbg!("],
        "nothing is left for later",
    ),
];

/// Files that are built for tests only.
const TESTS: [&str; 3] = ["tests.rs", "testing.rs", "trials.rs"];

fn banned_words(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (crates, words, why) in BANS {
        for name in *crates {
            let sources = root.join("crates").join(name).join("src");
            for path in files(&sources, "rs")? {
                if path.file_name().is_some_and(|file| TESTS.iter().any(|name| file == *name)) {
                    continue;
                }
                let text = read(&path)?;
                let code = text.split("\n#[cfg(test)]").next().unwrap_or(&text);
                for (line, number) in code.lines().zip(1..) {
                    let is_comment = line.trim_start().starts_with("//");
                    if let Some(word) = words.iter().find(|word| !is_comment && line.contains(**word)) {
                        found.push(format!("{}:{number}: {word}: {why}", shown(&path, root)));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Two streams of one number draw the same: what one decides would decide the other.
fn shared_streams(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("crates/sim/src/rng.rs");
    let text = read(&path)?;
    let streams = streams(&text);
    let twice = streams.iter().enumerate().filter_map(|(at, (name, number))| {
        let (other, _) = streams[..at].iter().find(|(_, known)| known == number)?;
        Some(format!("{}: {name} and {other} are the same stream of randomness", shown(&path, root)))
    });
    let mut found: Vec<_> = twice.collect();
    if streams.len() < 2 {
        found.push(format!("{}: the streams of randomness are not where they were", shown(&path, root)));
    }
    Ok(found)
}

/// The constants of `mod stream`, with their numbers.
fn streams(text: &str) -> Vec<(&str, &str)> {
    let Some((_, rest)) = text.split_once("mod stream {") else { return Vec::new() };
    let body = rest.split("\n}").next().unwrap_or(rest);
    let constants = body.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    constants.filter_map(|line| line.trim_end_matches(';').split_once(": u64 = ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        assert_eq!(check_all(), Ok(()));
    }

    #[test]
    fn links_are_found_outside_of_fences() {
        let text = "See [a](b.md#c) and [d](https://e.f).\n```\n[g](h.md)\n```\n[i](#j)";
        assert_eq!(links(text), [(1, "b.md#c"), (5, "#j")]);
    }

    #[test]
    fn headings_are_named_as_in_links() {
        let text = "# A `run`, twice\n## What's new?\n```\n# no heading\n```\n## What's new?";
        assert_eq!(headings(text), ["a-run-twice", "whats-new", "whats-new-1"]);
    }

    #[test]
    fn an_excerpt_belongs_to_the_script_that_was_linked_last() {
        let text = "From [`a.txt`](s/a.txt):\n```text\nrun x -n 2\nrequest 1\n```\nThen\n```\nrun y\n```\n";
        assert_eq!(excerpts(text), [(2, "s/a.txt", "run x -n 2\nrequest 1\n".to_owned())]);
        // Below the paragraph it need not begin with the run; further below it must, and in the same chapter.
        assert_eq!(excerpts("[a](a.txt):\n\n```\nx\n```\n"), [(3, "a.txt", "x\n".to_owned())]);
        assert!(excerpts("[a](a.txt)\n\nb\n\n```\nx\n```\n").is_empty());
        assert_eq!(excerpts("[a](a.txt)\n\nb\n\n```\nrun x\n```\n").len(), 1);
        assert!(excerpts("[a](a.txt)\n## B\n```\nrun x\n```\n").is_empty());
    }

    #[test]
    fn streams_are_read() {
        let text = "mod stream {\n    /// x\n    pub const A: u64 = 1;\n    pub const B: u64 = 1;\n}\n";
        assert_eq!(streams(text), [("A", "1"), ("B", "1")]);
    }
}
