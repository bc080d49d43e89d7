//! The processes below one process, and signals to them.
//!
//! Nothing in the kernel stops a tree at once: a process may start another between the moment at which it is found and
//! the moment at which it is killed. Whoever must end a tree is therefore a child subreaper, so that what was missed becomes
//! its own child, and looks again until it has no child any more.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, WaitStatus, wait};

/// How often to look for processes that were started while others were told.
const LOOKS: usize = 3;

/// How far up to look for an ancestor.
const DEEPEST: usize = 1_000;

/// A process, as `/proc` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    is_dead: bool,
    is_stopped: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program comes first, in parentheses, and may have anything in it.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group) = (number()?, number()?);
        Some(Self { pid, parent, group, is_dead: matches!(state, "Z" | "X"), is_stopped: state == "T" })
    }
}

/// Everything below a process that has not ended.
fn below(root: i32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        let Some(children) = children(parent) else { return below_by_scan(root) };
        for child in children.into_iter().filter(|child| seen.insert(*child)) {
            open.push(child);
            found.extend(Process::read(child).filter(|process| !process.is_dead));
        }
    }
    found
}

/// The children of a process, by any of its threads; nothing if this kernel does not list them.
fn children(pid: i32) -> Option<Vec<i32>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => {
                children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
            }
            // The thread may have ended meanwhile.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

/// The same by asking every process of the machine for its parent.
fn below_by_scan(root: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter_map(Process::read).collect();
    let mut within = BTreeSet::from([root]);
    loop {
        let before = within.len();
        within.extend(
            all.iter()
                .filter(|process| within.contains(&process.parent))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if within.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|process| process.pid != root && within.contains(&process.pid) && !process.is_dead)
        .collect()
}

fn own() -> i32 {
    Pid::this().as_raw()
}

/// Whether a process is below this one.
pub fn is_below(pid: u32) -> bool {
    let mut at = i32::try_from(pid).unwrap_or(0);
    // A process that ends meanwhile leaves its children to another, so that this comes to an end.
    for _ in 0..DEEPEST {
        match Process::read(at) {
            Some(process) if process.parent == own() => return true,
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

/// Whether a process is stopped.
pub fn is_stopped(pid: i32) -> bool {
    Process::read(pid).is_some_and(|process| process.is_stopped)
}

/// How many processes there are below this one.
pub fn count() -> u32 {
    u32::try_from(below(own()).len()).unwrap_or(u32::MAX)
}

/// Sends a signal once to everything below this process, or to what is of one process group. A process that is stopped
/// would not hear it, so it goes on.
pub fn tell(signal: Signal, group: Option<Pid>) {
    let mut told = BTreeSet::new();
    for _ in 0..LOOKS {
        let found = below(own());
        let new: Vec<Process> = found
            .into_iter()
            .filter(|process| group.is_none_or(|group| group.as_raw() == process.group))
            .filter(|process| told.insert(process.pid))
            .collect();
        if new.is_empty() {
            return;
        }
        for process in new {
            send(process.pid, signal);
            if matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) {
                send(process.pid, Signal::SIGCONT);
            }
        }
    }
}

/// Kills everything that is found below this process now. What is started meanwhile is found by the next call.
pub fn kill_found() {
    for process in below(own()) {
        send(process.pid, Signal::SIGKILL);
    }
}

fn send(pid: i32, signal: Signal) {
    // Whoever has ended already needs no signal.
    let _ = kill(Pid::from_raw(pid), signal);
}

/// What became of the children of this process.
pub enum Reaped {
    /// One ended.
    Ended(i32, u8),
    /// One was stopped, by this signal.
    Stopped(i32, i32),
    /// There are some, and none has ended.
    Running,
    /// There are none.
    Nobody,
}

/// Takes note of a child that ended or was stopped. A child subreaper without children has nothing below it.
pub fn reap() -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) => {
                let pid = pid.as_raw_nonzero().get();
                let stopped = status.stopping_signal().map(|signal| Reaped::Stopped(pid, signal));
                return stopped.unwrap_or_else(|| Reaped::Ended(pid, code(status)));
            }
            Ok(None) => return Reaped::Running,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Reaped::Nobody,
        }
    }
}

/// The exit code that stands for an end, as shells have it.
fn code(status: WaitStatus) -> u8 {
    let signalled = || status.terminating_signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.exit_status().unwrap_or_else(signalled)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn both_ways_to_look_find_children_and_grandchildren() {
        let script = "sleep 60 & echo ready; wait";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut ready = [0; 6];
        let out = child.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(out, &mut ready).expect("it says that it is ready");
        let pid = i32::try_from(child.id()).expect("a number");
        // Between the shell's fork and the sleep it is to become, both have the same parent.
        for below in [below, below_by_scan] {
            let found = below(pid);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].parent, pid);
            assert!(below(own()).iter().any(|process| process.pid == found[0].pid));
            assert!(below(own()).iter().any(|process| process.pid == pid));
        }
        for process in below(pid) {
            send(process.pid, Signal::SIGKILL);
        }
        child.wait().expect("it ends with what it waits for");
        assert!(below(pid).is_empty() && below_by_scan(pid).is_empty());
    }
}
