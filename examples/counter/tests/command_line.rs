//! The program around a family of one's own: the whole command line of the laboratory.

use std::path::Path;
use std::process::{Command, Stdio};

/// Ends the cluster, whatever becomes of the test.
struct Stopped<'a>(&'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut stop = Command::new(env!("CARGO_BIN_EXE_counter"));
        stop.args(["cluster", "stop"]).env("CONCLAVE_HOME", self.0.join("clusters")).stdin(Stdio::null());
        // It may have ended by itself.
        let _ = stop.output();
    }
}

/// Runs the program with words of which the last may have blanks in it; gives what it printed.
#[track_caller]
fn ends(home: &Path, line: &str, last: &[&str], code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_counter"))
        .args(line.split_whitespace())
        .args(last)
        .current_dir(home)
        .env("CONCLAVE_HOME", home.join("clusters"))
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line} {last:?}:\n{text}");
    text
}

#[test]
fn it_is_listed_simulated_and_drawn() {
    let home = tempfile::tempdir().unwrap();
    let list = ends(home.path(), "list", &[], 0);
    assert!(list.contains("everyone counts for itself and tells the others"), "{list}");
    let page = ends(home.path(), "sim counter -n 3 --svg run.svg --ask", &["2@3 add 40"], 0);
    assert!(page.contains("add 40") && page.contains("C1") && page.contains("total 40"), "{page}");
    assert!(std::fs::read_to_string(home.path().join("run.svg")).unwrap().contains("total 40"));
    let foreign = ends(home.path(), "sim counter --entries 3", &[], 2);
    assert!(foreign.contains("--entries belongs to mutual exclusion"), "{foreign}");
    let foreign = ends(home.path(), "sim counter --ask", &["1 raise 2"], 2);
    assert!(foreign.contains("it has: add N"), "{foreign}");
}

#[test]
fn a_search_finds_the_mutant_and_writes_the_script() {
    let home = tempfile::tempdir().unwrap();
    ends(home.path(), "check counter -n 2 --entries 2", &[], 0);
    let page =
        ends(home.path(), "check counter --mutant adds-up --entries 2 --save-script", &["bug.script"], 1);
    assert!(page.contains("C1 is broken") && page.contains("the simulator sees it, too"), "{page}");
    let played = ends(home.path(), "replay bug.script", &[], 1);
    assert!(played.contains("C1 is broken") && played.contains("it came out as recorded"), "{played}");
}

#[test]
fn it_lives_in_processes_of_this_program() {
    let home = tempfile::tempdir().unwrap();
    ends(home.path(), "cluster start counter -n 3 --detach", &[], 0);
    let cluster = Stopped(home.path());
    ends(home.path(), "cluster ask 1 add 5", &[], 0);
    let refused = ends(home.path(), "cluster ask 2 raise 5", &[], 2);
    assert!(refused.contains("'raise 5' is not a request of this algorithm"), "{refused}");
    let told = ends(home.path(), "cluster status", &[], 0);
    assert!(told.contains("counter"), "{told}");
    drop(cluster);
    let judged = ends(home.path(), "cluster trace --cluster counter --diagram never", &[], 0);
    assert!(judged.contains("it came out the same"), "{judged}");
}
