//! Golden scripts: every file in `scripts/` comes out as it was recorded.
//!
//! `CONCLAVE_UPDATE=1` writes what comes out; read the diff and commit only what you understand.

use std::fs;
use std::path::{Path, PathBuf};

use conclave_sim::play;
use conclave_trace::{Block, Command, Script, Setup, What, commands_of};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    assert!(!files.is_empty(), "there are no scripts");
    files
}

fn read(path: &Path) -> Script {
    let text = fs::read_to_string(path).unwrap();
    Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn golden_scripts_come_out_as_recorded() {
    let update = std::env::var_os("CONCLAVE_UPDATE").is_some();
    for path in scripts() {
        let script = read(&path);
        let played = play(&script).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if update {
            // The other tests read the file at the same time: it must never be seen half written.
            let new = path.with_extension("new");
            fs::write(&new, played.script.to_string()).unwrap();
            fs::rename(new, &path).unwrap();
        } else {
            assert_eq!(played.difference, None, "{} came out differently", path.display());
        }
    }
}

/// A script whose name says so breaks that property, and all others break nothing.
#[test]
fn scripts_break_what_their_names_say() {
    for path in scripts() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let played = play(&read(&path)).unwrap();
        let expected = name.split_once("-breaks-").map(|(_, property)| property.to_uppercase());
        assert_eq!(played.violation.map(|v| v.property.to_string()), expected, "{name}");
    }
}

/// A trace holds all that is needed to run it again: replayed, it comes out the same.
#[test]
fn traces_of_scripts_replay_to_themselves() {
    for path in scripts() {
        let played = play(&read(&path)).unwrap();
        let setup = Setup::from_header(&played.trace.header);
        let commands = [Command::Run(setup)].into_iter().chain(commands_of(&played.trace));
        let block = |command| Block { commands: vec![(command, 0)], ..Block::default() };
        let again = play(&Script { blocks: commands.map(block).collect() }).unwrap();
        // That something repeats forever only a script can say: a trace is finite.
        let is_endless = |what: &What| matches!(what, What::Violation { detail, .. } if detail.starts_with("it repeats forever"));
        let essence = |trace: &conclave_trace::Trace| {
            let finite = trace.records.iter().filter(|record| !is_endless(&record.what));
            finite.map(|r| (r.process, r.what.clone(), r.phase.clone())).collect::<Vec<_>>()
        };
        assert_eq!(essence(&again.trace), essence(&played.trace), "{}", path.display());
    }
}
