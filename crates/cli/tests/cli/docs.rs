//! What the pages and the help show: every command of the laboratory runs, and ends as the page says; every line of an output that
//! a page shows is one that comes out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Desk, line};

/// The commands that need nothing but files.
const COMMANDS: [&str; 9] =
    ["list", "explain", "example", "sim", "step", "check", "compare", "replay", "order"];

/// What would take minutes here: a million processes, and searches of millions of states. Some have tests of their own.
const TOO_LARGE: [&str; 11] = [
    "check --all",
    "-n 1000000",
    "-n 100000 ",
    "compare election -n 2..64",
    "check --from run.jsonl@40",
    "check workers -n 2 --set tasks=2",
    "--crash-only 2 --ticks 1",
    "check central -n 3 --crashes 1 --atomic-steps",
    "check bully -n 3 --crashes 1",
    "check bully -n 4 --entries first",
    "check lamport -n 3 --safety",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page, and its text.
type Page = (String, String);

/// The pages of a folder.
fn pages(folder: &str) -> Vec<Page> {
    let entries = fs::read_dir(root().join(folder)).expect("the pages are there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let mut pages: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    let page = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).expect("a text"));
    pages.into_iter().map(page).collect()
}

/// A fenced block: its language, the paragraph above it, its lines.
struct Fenced<'a> {
    language: &'a str,
    above: String,
    lines: Vec<&'a str>,
}

fn fenced(text: &str) -> Vec<Fenced<'_>> {
    let mut found: Vec<Fenced<'_>> = Vec::new();
    let (mut above, mut is_over, mut inside) = (String::new(), false, false);
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                found.push(Fenced { language, above: core::mem::take(&mut above), lines: Vec::new() });
            }
        } else if inside {
            found.last_mut().expect("a block is open").lines.push(line);
        } else if line.trim().is_empty() {
            is_over = true;
        } else {
            if core::mem::take(&mut is_over) {
                above.clear();
            }
            above += line;
            above.push('\n');
        }
    }
    found
}

/// A command as a page or a help text shows it, with what a reader is told of it.
#[derive(Debug)]
struct Shown {
    command: String,
    comment: String,
}

impl Shown {
    fn of(line: &str) -> Option<Self> {
        let (command, comment) = line.split_once(" #").unwrap_or((line, ""));
        let word = command.strip_prefix("conclave ")?.split_whitespace().next()?;
        let is_ours = COMMANDS.contains(&word) && !TOO_LARGE.iter().any(|large| command.contains(large));
        is_ours.then(|| Self { command: command.trim().to_owned(), comment: comment.to_owned() })
    }

    /// Whether the reader is told that something breaks: `# ME1`, `# ME1: why`, `# ME1 is broken`.
    fn breaks(&self) -> bool {
        let comment = self.comment.trim();
        let (name, rest) = comment.split_once([':', ' ']).unwrap_or((comment, ""));
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_property = match kind {
            "ME" | "E" | "W" | "C" => kind != name,
            _ => WORDS.contains(&name),
        };
        is_property && (rest.is_empty() || comment[name.len()..].starts_with(':') || rest == "is broken")
    }

    /// Runs it by a shell, as a reader would.
    fn run(&self, before: &str, desk: &Desk) -> Result<(), String> {
        let binary = Path::new(env!("CARGO_BIN_EXE_conclave"));
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = binary.parent().expect("it stands in a folder").display();
        let output = Command::new("sh")
            .args(["-c", &format!("{before}{}", self.command)])
            .env("PATH", format!("{folder}:{path}"))
            .current_dir(desk.path(""))
            .stdin(Stdio::null())
            .output()
            .expect("there is a shell");
        let expected = i32::from(self.breaks());
        let err = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(expected) && !err.contains("panicked") {
            return Ok(());
        }
        Err(format!("{}: ended with {:?}, not {expected}: {err}", self.command, output.status.code()))
    }
}

/// A folder with what pages take for granted: a trace, scripts, and the tree.
fn prepared() -> Desk {
    let desk = Desk::new();
    let path = |name| desk.path(name).display().to_string();
    line(&format!("sim lamport -n 3 --entries 1 --trace {}", path("run.jsonl"))).ends(0);
    for name in ["my-script.txt", "mine.txt", "bug.script", "run.txt"] {
        line(&format!("sim lamport -n 2 --entries 1 --save-script {}", path(name))).ends(0);
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(root().join("crates"), desk.path("crates")).expect("links are possible");
    desk
}

/// Runs all commands of these pages.
fn run_all(pages: &[Page], least: usize) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in pages {
        let desk = prepared();
        for block in fenced(text).iter().filter(|block| block.language == "sh") {
            let is_variable = |line: &&&str| line.split_once('=').is_some_and(|(name, _)| is_name(name));
            let before: String =
                block.lines.iter().filter(is_variable).map(|line| format!("{line}\n")).collect();
            for shown in block.lines.iter().filter_map(|line| Shown::of(line)) {
                count += 1;
                wrong.extend(shown.run(&before, &desk).err().map(|why| format!("{path}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= least, "only {count} commands were found");
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_guides_run() {
    let mut guides = pages("docs");
    let readme = root().join("README.md");
    guides.push(("README.md".into(), fs::read_to_string(readme).expect("it is there")));
    run_all(&guides, 50);
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_pages_of_algorithms_run() {
    run_all(&pages("docs/algorithms"), 90);
}

/// The examples stand at the end of the help, indented.
#[test]
#[cfg(unix)]
fn the_examples_of_the_help_run() {
    let mut wrong = Vec::new();
    for command in COMMANDS {
        let help = line(&format!("{command} --help")).ends(0).out;
        let (_, examples) = help.split_once("\nExamples:\n").expect("every command has examples");
        let desk = prepared();
        // Explanations stand behind the commands, two blanks or more away.
        let shown = examples.lines().filter_map(|line| {
            let words = line.trim_start();
            Shown::of(words.split("   ").next().unwrap_or(words).split("  ").next().unwrap_or(words))
        });
        let shown: Vec<_> = shown.collect();
        assert!(!shown.is_empty(), "{command} has no example");
        for mut shown in shown {
            // A mutant is there to break something.
            if shown.command.contains("--mutant ") {
                shown.comment = "ME1".into();
            }
            wrong.extend(shown.run("", &desk).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a page shows of the output of a command comes out of it, line by line in this order. How far the columns of a table are
/// apart does not matter, nor do times and speeds.
#[test]
fn the_outputs_that_pages_show_come_out() {
    let mut all = pages("docs");
    all.extend(pages("docs/algorithms"));
    all.push(("README.md".into(), fs::read_to_string(root().join("README.md")).expect("it is there")));
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in &all {
        for block in fenced(text).iter().filter(|block| block.language == "text") {
            let Some((shown, lines)) = output_of(block) else { continue };
            count += 1;
            let words = unquoted(&shown.command);
            let out = super::conclave(&words[1..]).out;
            let mut left = out.lines().map(squeezed);
            let missing = lines.iter().map(|line| squeezed(line)).find(|wanted| {
                !["", "…", "..."].contains(&wanted.as_str()) && !left.any(|line| line == *wanted)
            });
            wrong.extend(missing.map(|line| format!("{path}: {}: no `{line}` in\n{out}", shown.command)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 7, "only {count} outputs were found");
}

/// The words of a command, as a shell reads them where quotes are single ones.
fn unquoted(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (place, piece) in command.split('\'').enumerate() {
        match place % 2 {
            0 => words.extend(piece.split_whitespace()),
            _ => words.push(piece),
        }
    }
    words
}

/// The command of a block: in its first line, or at the end of the paragraph above it.
fn output_of<'a>(block: &'a Fenced<'_>) -> Option<(Shown, &'a [&'a str])> {
    if let Some(command) = block.lines.first().and_then(|line| line.strip_prefix("$ ")) {
        let is_console = block.lines.iter().any(|line| line.starts_with("> "));
        return Shown::of(command).filter(|_| !is_console).map(|shown| (shown, &block.lines[1..]));
    }
    let above = block.above.trim_end().strip_suffix(':')?;
    let command = above.split('`').skip(1).step_by(2).last()?;
    Shown::of(command).map(|shown| (shown, block.lines.as_slice()))
}

/// One blank between words; and what depends on the machine is left out.
fn squeezed(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_measured = ["time ", "speed ", "memory "].iter().any(|word| line.starts_with(word));
    if is_measured && !line.starts_with("time p") { String::new() } else { line }
}

/// The properties that have no number.
const WORDS: [&str; 16] = [
    "CUT",
    "TOK",
    "END",
    "FENCE",
    "RES",
    "AGREEMENT",
    "VALIDITY",
    "INTEGRITY",
    "TERMINATION",
    "PROGRESS",
    "BOUNDED",
    "FIFO",
    "CAUSAL",
    "TOTAL",
    "VIEW",
    "INV",
];

#[test]
fn commands_are_told_from_what_is_said_of_them() {
    let shown = Shown::of("conclave sim lamport -n 2   # ME1: two are inside").expect("a command");
    assert_eq!(shown.command, "conclave sim lamport -n 2");
    let breaks = |comment: &str| Shown { command: String::new(), comment: comment.into() }.breaks();
    assert!(shown.breaks() && breaks(" E1") && breaks(" ME2 is broken") && breaks("TOK: two"));
    assert!(!breaks(" ME6 is judged") && !breaks(" E: x") && !breaks(" ENDS") && !breaks(" the end"));
    assert!(Shown::of("conclave serve").is_none() && Shown::of("cargo run").is_none());
}
