//! Runs of the binary.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::send;
use crate::until;

pub const BINARY: &str = env!("CARGO_BIN_EXE_conclave");

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// It ended with this code, and one line that says why.
    #[track_caller]
    pub fn explains(self, code: i32, why: &str) {
        let ran = self.ends(code);
        assert!(ran.err.contains(why), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }

    /// It ended with this code, an error that says why, and a hint.
    #[track_caller]
    pub fn fails(self, code: i32, why: &str, hint: &str) {
        let ran = self.ends(code);
        let lines: Vec<&str> = ran.err.lines().collect();
        let [error, advice] = lines.as_slice() else { panic!("{}", ran.err) };
        assert!(error.starts_with("error: ") && error.contains(why), "{}", ran.err);
        assert!(advice.starts_with("hint: ") && advice.contains(hint), "{}", ran.err);
    }

    /// It was refused as wrong usage, with one sentence and perhaps a hint.
    #[track_caller]
    pub fn refused(self, why: &str) {
        let ran = self.ends(2);
        assert!(ran.err.starts_with("error: ") && ran.err.contains(why), "{}", ran.err);
        assert!(ran.err.lines().count() <= 2, "{}", ran.err);
        assert_eq!(ran.out, "");
    }

    /// The lines of JSON that it printed.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(parse).collect()
    }
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    let code = output.status.code().expect("it ends by itself");
    Ran { code, out: text(output.stdout), err: text(output.stderr) }
}

/// A run that goes on.
pub struct Running {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let out = child.stdout.take().map(collect);
        let err = child.stderr.take().map(collect);
        Self { child, out, err }
    }

    /// A run that prints into a file, to be read while it goes on.
    pub fn into_file(mut command: Command, path: &Path) -> Self {
        let file = File::create(path).expect("there is room for a file");
        let child = command.stdout(file).stderr(Stdio::null()).spawn().expect("the binary runs");
        Self { child, out: None, err: None }
    }

    /// A run whose errors go into a file, to be read while it goes on.
    pub fn with_errors_in(mut command: Command, path: &Path) -> Self {
        let file = File::create(path).expect("there is room for a file");
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("the binary runs");
        Self { child, out: None, err: None }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says something on its standard input, which it must have.
    pub fn say(&mut self, words: &str) {
        let stdin = self.child.stdin.as_mut().expect("it has one");
        stdin.write_all(words.as_bytes()).and_then(|()| stdin.flush()).expect("it listens");
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        drop(self.child.stdin.take());
        until("the command ends", || self.is_over());
        let status = self.child.wait().expect("it has ended");
        let text = |reader: Option<JoinHandle<String>>| {
            reader.map_or_else(String::new, |reader| reader.join().expect("it prints text"))
        };
        let code = status.code().unwrap_or_else(|| panic!("it ended by {status}"));
        Ran { code, out: text(self.out.take()), err: text(self.err.take()) }
    }

    /// Tells the command to end, which gives back what it holds.
    #[track_caller]
    pub fn let_go(self) {
        self.signal(Signal::TERM);
        self.end().ends(128 + 15);
    }
}

impl Drop for Running {
    /// Ends it without a warning.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("it prints text");
        text
    })
}

/// Whether there is a process, other than one that has ended and is not yet buried.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
    state.flatten().is_some_and(|state| !matches!(state, 'Z' | 'X'))
}
