//! The real binary, from outside: what it prints, what it leaves behind, how it exits.

mod bad_input;
mod checking;
mod clocks;
mod comparing;
mod completing;
mod deciding;
mod docs;
mod drawings;
mod electing;
mod examples;
mod explaining;
mod listing;
mod ordering;
mod replaying;
mod simulating;
mod stepping;
mod sweeping;
mod width;

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run of the binary left.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs `conclave` with these words.
fn conclave<S: AsRef<std::ffi::OsStr>>(words: &[S]) -> Ran {
    told(words, Stdio::null())
}

/// Runs `conclave` with the words of a line, and this on its standard input.
fn fed(line: &str, input: &str) -> Ran {
    let mut file = tempfile::tempfile().expect("there is room for a file");
    file.write_all(input.as_bytes()).and_then(|()| file.rewind()).expect("it can be written");
    told(&line.split_whitespace().collect::<Vec<_>>(), file.into())
}

fn told<S: AsRef<std::ffi::OsStr>>(words: &[S], input: Stdio) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(words)
        .stdin(input)
        .env_remove("CLICOLOR_FORCE")
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    let err = text(output.stderr);
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code().expect("it ends by itself"), out: text(output.stdout), err }
}

/// Runs `conclave` with the words of a line; no word has a blank in it.
fn line(line: &str) -> Ran {
    conclave(&line.split_whitespace().collect::<Vec<_>>())
}

impl Ran {
    /// The run ended like this, and what it printed is no surprise in a pipe.
    #[track_caller]
    fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        assert!(!self.out.contains('\x1b') && !self.err.contains('\x1b'), "colours in a pipe");
        self
    }

    /// The run was refused with one sentence, perhaps a hint, and nothing else.
    #[track_caller]
    fn refused(self, sentence: &str) {
        let ran = self.ends(2);
        let lines: Vec<_> = ran.err.lines().collect();
        assert!(matches!(lines.len(), 1 | 2), "one sentence and at most one hint:\n{}", ran.err);
        assert!(lines[0].starts_with("error: ") && lines[0].contains(sentence), "{}", ran.err);
        assert!(lines[1..].iter().all(|hint| hint.starts_with("hint: ")), "{}", ran.err);
        assert_eq!(ran.out, "");
    }

    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one line of JSON and nothing else:\n{}", self.out);
        serde_json::from_str(&self.out).expect("it prints JSON")
    }
}

/// A directory that is gone afterwards.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("there is room for a file");
        self.path(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is there")
    }

    /// Everything in it.
    fn files(&self) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name());
        let names = std::fs::read_dir(self.0.path()).expect("it is a directory").map(name);
        let mut names: Vec<_> =
            names.map(|name| name.expect("readable").to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn words<'a>(line: &'a str, path: &'a Path) -> Vec<&'a str> {
    line.split_whitespace().chain([path.to_str().expect("a path of letters")]).collect()
}

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in [
        "",
        "list",
        "explain",
        "example",
        "sim",
        "step",
        "check",
        "compare",
        "replay",
        "order",
        "completions",
        "man",
    ] {
        let ran = line(&format!("{command} --help")).ends(0);
        assert!(ran.out.contains("Example"), "{command}:\n{}", ran.out);
        assert_eq!(ran.err, "");
    }
    assert!(line("--version").ends(0).out.starts_with("conclave "));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    for command in [
        "list",
        "list --json",
        "sim central --entries 1",
        "sim central --entries 1 --json",
        "check central -n 2",
        "completions bash",
    ] {
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let mut binary = Command::new(env!("CARGO_BIN_EXE_conclave"));
        let output =
            binary.args(command.split(' ')).stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{command}");
    }
}
