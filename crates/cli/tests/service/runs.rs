//! Runs of the binary.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::send;
use crate::{PATIENCE, until};

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

/// Ends with its test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
    state.flatten().is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The children of a process.
pub fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The keeper that a runner has started.
pub fn keeper_of(runner: u32) -> u32 {
    let mut found = None;
    until("the runner has a keeper", || {
        found = children_of(runner).first().copied();
        found.is_some()
    });
    found.expect("it was found")
}

pub fn is_stopped(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// Stops the keeper of a runner before it has started the command, unless that comes too late.
pub fn stop_early(runner: u32) -> Option<u32> {
    let deadline = Instant::now() + PATIENCE;
    let is_keeper = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"__keep")
    };
    let keeper = loop {
        if let Some(keeper) = children_of(runner).into_iter().find(is_keeper) {
            break keeper;
        }
        assert!(Instant::now() < deadline, "there is no keeper");
    };
    send(keeper, Signal::STOP);
    until("the keeper is stopped", || is_stopped(keeper));
    if children_of(keeper).is_empty() {
        return Some(keeper);
    }
    send(keeper, Signal::CONT);
    None
}

/// Waits until a process has taken note of a signal that was sent to it.
pub fn has_taken(pid: u32, signal: Signal) {
    let is_pending = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        pending & (1 << (signal.as_raw() - 1)) != 0
    };
    until("the signal is taken note of", || !is_pending());
}
