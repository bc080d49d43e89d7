//! The program around one's own algorithm: the whole command line of the laboratory.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the program; gives what it printed and its exit code.
fn porter(home: &Path, words: &[&str]) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_porter"))
        .args(words)
        .current_dir(home)
        .env("CONCLAVE_HOME", home.join("clusters"))
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code().expect("it ends by itself"))
}

#[track_caller]
fn ends(home: &Path, line: &str, code: i32) -> String {
    let (text, ended) = porter(home, &line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ended, code, "{line}:\n{text}");
    text
}

#[test]
fn it_is_listed_with_the_others() {
    let home = tempfile::tempdir().unwrap();
    let list = ends(home.path(), "list", 0);
    assert!(list.contains("a porter has the only key") && list.contains("ricart-agrawala"), "{list}");
    let details = ends(home.path(), "list porter", 0);
    assert!(details.contains("forgets") && details.contains("ME1"), "{details}");
    let help = ends(home.path(), "--help", 0);
    assert!(help.contains("porter sim porter") && help.contains("cluster"), "{help}");
    // It is a laboratory, whatever features its dependencies were built with.
    assert!(!help.contains("\n  serve ") && !help.contains("conclave "), "{help}");
    let wrong = ends(home.path(), "sim poter", 2);
    assert!(wrong.contains("did you mean 'porter'?") && wrong.contains("'porter list'"), "{wrong}");
}

#[test]
fn it_is_simulated_drawn_and_replayed() {
    let home = tempfile::tempdir().unwrap();
    let page = ends(home.path(), "sim porter -n 3 --entries 1 --svg run.svg --trace run.jsonl", 0);
    assert!(page.contains("→ p1 Ask") && page.contains("messages per entry"), "{page}");
    let drawing = std::fs::read_to_string(home.path().join("run.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("Key"), "{drawing}");
    let again = ends(home.path(), "replay run.jsonl --diagram never", 0);
    assert!(again.contains("it came out the same"), "{again}");
    // Beside it, one that everybody has.
    ends(home.path(), "sim central -n 3 --entries 1", 0);
}

#[test]
fn a_failing_run_is_shrunk_to_a_script() {
    let home = tempfile::tempdir().unwrap();
    let page = ends(home.path(), "sim porter -n 4 --mutant forgets", 1);
    assert!(page.contains("ME1 is broken") && page.contains("A short script that breaks it too"), "{page}");
    assert!(page.contains("porter sim porter -n 4 --mutant forgets --seed 1"), "{page}");
    assert!(page.contains("porter replay bug.script"), "{page}");
    let script = page.split("A short script that breaks it too:").nth(1).unwrap();
    let script = script.split("run it again").next().unwrap();
    std::fs::write(home.path().join("bug.script"), script).unwrap();
    let played = ends(home.path(), "replay bug.script", 1);
    assert!(played.contains("it came out as recorded"), "{played}");
}

#[test]
fn a_search_finds_the_mutant_and_writes_the_script() {
    let home = tempfile::tempdir().unwrap();
    ends(home.path(), "check porter -n 3", 0);
    let page = ends(home.path(), "check porter --mutant forgets --save-script bug.script", 1);
    assert!(page.contains("ME1 is broken") && page.contains("the simulator sees it, too"), "{page}");
    let played = ends(home.path(), "replay bug.script", 1);
    assert!(played.contains("ME1 is broken") && played.contains("it came out as recorded"), "{played}");
}

#[test]
fn it_is_compared_and_driven_by_hand() {
    let home = tempfile::tempdir().unwrap();
    let page = ends(home.path(), "compare porter central -n 2..4", 0);
    assert!(page.contains("porter") && page.contains("messages per entry"), "{page}");
    assert!(page.contains("what they promise"), "{page}");
    let page = ends(home.path(), "step porter -n 2", 0);
    assert!(page.contains("p1 idle · p2 idle") && page.contains("request P"), "{page}");
}

/// Ends the cluster, whatever becomes of the test.
struct Stopped<'a>(&'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        porter(self.0, &["cluster", "stop"]);
    }
}

#[test]
fn it_lives_in_processes_of_this_program() {
    let home = tempfile::tempdir().unwrap();
    let wrong = ends(home.path(), "cluster start poter", 2);
    assert!(wrong.contains("did you mean 'porter'?"), "{wrong}");
    ends(home.path(), "cluster start porter -n 3 --detach", 0);
    let cluster = Stopped(home.path());
    let first = ends(home.path(), "cluster lock door --via 2 -- printenv CONCLAVE_FENCE_ORDER", 0);
    let second = ends(home.path(), "cluster lock door --via 3 -- printenv CONCLAVE_FENCE_ORDER", 0);
    assert!(first < second, "{first} {second}");
    // What they have written down is complete when they have ended.
    drop(cluster);
    let judged = ends(home.path(), "cluster trace --cluster porter --svg live.svg --diagram never", 0);
    assert!(judged.contains("it came out the same, message by message"), "{judged}");
    assert!(home.path().join("live.svg").exists());
}
