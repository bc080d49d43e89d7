//! Programs, not processes: where what is held runs out, none runs beside the next, whatever happens to its process.
//!
//! Each program writes a line again and again, into a file that is only appended to, and cannot be told to end. If one has
//! written after the next had begun, two were inside; no clock is needed to see that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::caught::assert_caught;
use crate::group::Group;
use crate::until;

/// Who wrote, line by line. A program is known by its fence.
pub fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The first that wrote after somebody else had followed it.
pub fn overlap(lines: &[String]) -> Option<&String> {
    let mut over = BTreeSet::new();
    let mut last: Option<&String> = None;
    for line in lines {
        if let Some(last) = last.filter(|last| *last != line) {
            over.insert(last);
        }
        if over.contains(line) {
            return Some(line);
        }
        last = Some(line);
    }
    None
}

#[test]
fn two_who_write_in_turns_are_seen() {
    let lines = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    assert_eq!(overlap(&lines("a a b b c")), None);
    assert_eq!(overlap(&lines("a b a b")), Some(&"a".to_owned()));
    assert_eq!(overlap(&lines("a b c c b")), Some(&"b".to_owned()));
}

/// `conclave cluster lock` with a program that does not end by itself, nor when it is asked to.
struct Program {
    child: Child,
    via: u32,
}

impl Program {
    fn start(group: &Group, via: u32, file: &Path) -> Self {
        let name = file.file_name().expect("it has a name").to_string_lossy().into_owned();
        let script = format!(
            "trap '' TERM; while :; do echo {via}-$CONCLAVE_FENCE >> {}; sleep 0.005; done",
            file.display()
        );
        let child = group
            .command(&format!("lock {name} --via {via} -- sh -c"))
            .arg(script)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        Self { child, via }
    }

    /// Waits until it writes. On a machine that has much else to do a lease may be lost: then another is started.
    #[track_caller]
    fn is_inside(&mut self, group: &Group, file: &Path) {
        let mark = format!("{}-", self.via);
        until("it is inside", || {
            if self.has_ended() {
                *self = Self::start(group, self.via, file);
            }
            lines(file).last().is_some_and(|line| line.starts_with(&mark))
        });
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its keeper ends what it runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program is inside through one process, and another waits at the next; something happens to the first process. What the
/// programs have written is judged when the second was let in and the first has ended.
fn strike(strike: impl Fn(&Group)) {
    // A lease of 2.6 seconds.
    let group = Group::start("majority", 3, "--set mode=view --transmission 100ms --no-record");
    let file: PathBuf = group.home().join("programs");
    let mut first = Program::start(&group, 1, &file);
    first.is_inside(&group, &file);
    let mut second = Program::start(&group, 2, &file);
    strike(&group);
    second.is_inside(&group, &file);
    until("the first has ended", || first.has_ended());
    assert_eq!(first.child.wait().expect("it has ended").code(), Some(3), "the lock was lost");
    drop(second);
    let lines = lines(&file);
    assert_eq!(overlap(&lines), None, "two programs were inside at once");
}

#[test]
fn a_program_ends_while_its_process_stands_still() {
    strike(|group| drop(group.order("pause 1")));
}

#[test]
fn a_program_has_ended_before_others_go_on_without_its_process() {
    strike(|group| drop(group.order("kill 1")));
}

#[test]
fn a_program_has_ended_before_its_process_is_back_in_the_group() {
    strike(|group| {
        group.order("kill 1");
        group.order("restart 1");
    });
}

#[test]
fn a_program_has_ended_when_its_process_was_shut_down_and_started_again() {
    strike(|group| drop(group.order("restart 1")));
}

#[test]
fn a_program_ends_when_its_process_is_cut_off() {
    strike(|group| drop(group.order("cut 1/2,3")));
}

#[test]
fn that_a_program_runs_out_with_its_lease_is_tested() {
    let test = "programs::a_program_ends_while_its_process_stands_still";
    assert_caught(
        ("CONCLAVE_RUNNER_MUTANT", "ForgetsLeases"),
        test,
        "never came about that the first has ended",
    );
}

/// While the program runs, its process confirms it again and again: nothing runs out that is not lost.
#[test]
fn a_program_stays_as_long_as_it_is_confirmed() {
    let group = Group::start("majority", 3, "--set mode=view --transmission 100ms --no-record");
    // Longer than two leases.
    let ran = group.command("lock long --via 1 -- sleep 6").output().expect("the binary runs");
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
}
