//! `conclave replay`.

use super::{Desk, conclave, line, words};

const SCRIPT: &str = "\
# Two processes ask at once; the smaller (stamp, id) goes first.
run ricart-agrawala -n 2
request 1
request 2
---
p1 idle -> waiting   p1 => p2 Request{1}
p2 idle -> waiting   p2 => p1 Request{1}

settle
---
p2 => p1 Reply{1,1,0}
p1 waiting -> holding   p1 granted 0.1.1
";

/// Records a run.
fn trace(desk: &Desk, options: &str) {
    let typed = format!("sim {options} --json --no-shrink --trace");
    let ran = conclave(&words(&typed, &desk.path("run.jsonl")));
    assert!(ran.code < 2, "{}", ran.err);
}

#[test]
fn a_script_that_comes_out_as_recorded() {
    let desk = Desk::new();
    let path = desk.put("two.script", SCRIPT);
    for command in ["replay", "sim --script"] {
        let ran = conclave(&words(command, desk.path("two.script").as_path())).ends(0);
        assert!(ran.out.starts_with(SCRIPT), "{}", ran.out);
        assert!(ran.out.contains("✓ it came out as recorded"), "{}", ran.out);
    }
    let report = conclave(&["replay", &path, "--json"]).ends(0).json();
    assert_eq!((&report["same"], &report["kind"]), (&true.into(), &"script".into()));
    assert_eq!(report["script"], SCRIPT);
}

#[test]
fn a_script_that_comes_out_differently_says_where() {
    let desk = Desk::new();
    let wrong = SCRIPT.replace("p1 granted 0.1.1", "p1 granted 0.9.1");
    let path = desk.put("two.script", &wrong);
    let ran = conclave(&["replay", &path]).ends(1);
    for part in [
        "✗ it came out differently, first in the block at line 9",
        "recorded  p1 waiting -> holding   p1 granted 0.9.1",
        "came out  p1 waiting -> holding   p1 granted 0.1.1",
    ] {
        assert!(ran.out.contains(part), "{part}:\n{}", ran.out);
    }
    assert_eq!(desk.read("two.script"), wrong);
    let difference = &conclave(&["replay", &path, "--json"]).ends(1).json()["difference"];
    assert_eq!(
        (&difference["line"], &difference["recorded"]),
        (&9.into(), &"p1 waiting -> holding   p1 granted 0.9.1".into())
    );
    conclave(&["replay", &path, "--update"]).ends(0);
    assert_eq!(desk.read("two.script"), SCRIPT);
    assert_eq!(desk.files(), ["two.script"]);
    conclave(&["replay", &path]).ends(0);
}

#[test]
fn a_script_cut_anywhere_is_refused_or_comes_out_differently() {
    let desk = Desk::new();
    let lines: Vec<_> = SCRIPT.split_inclusive('\n').collect();
    let codes: Vec<_> = (0..lines.len())
        .map(|kept| {
            let path = desk.put("cut.script", &lines[..kept].concat());
            conclave(&["replay", &path]).code
        })
        .collect();
    assert_eq!(codes, [2, 2, 2, 2, 2, 1, 1, 0, 0, 2, 1, 1]);
    let path = desk.put("cut.script", &lines[..4].concat());
    conclave(&["replay", &path]).refused("line 4: the script ends in the middle of a block");
}

#[test]
fn a_recorded_run_comes_out_the_same() {
    let desk = Desk::new();
    for (options, code) in [
        ("lamport -n 3 --entries 2", 0),
        ("maekawa -n 7 --entries 1 --locks 2", 0),
        ("central --ids 3,17,4 --entries 1 --duplicate 20%", 0),
        ("majority -n 3 --entries 1 --crash 2@5..30:amnesia --loss 5% --detector perfect --seed 4", 0),
        ("ricart-agrawala -n 3 --mutant no-tie-break --entries 1", 1),
        ("ricart-agrawala -n 3 --crash 2@5 --entries 1 --set recovery=off", 1),
    ] {
        trace(&desk, options);
        let page = conclave(&words("replay", &desk.path("run.jsonl")));
        assert!(page.out.contains("✓ it came out the same, message by message"), "{options}:\n{}", page.out);
        assert!(code == 0 || page.code == 1, "{options}:\n{}", page.out);
        let report = conclave(&words("replay --json", &desk.path("run.jsonl"))).json();
        assert_eq!((&report["same"], &report["kind"]), (&true.into(), &"trace".into()), "{options}");
    }
}

/// A pause excuses from the order of arrival; a repetition knows nothing of it and must not judge again.
#[test]
fn pauses_and_cuts_are_not_held_against_a_recorded_run() {
    let desk = Desk::new();
    for options in
        ["central -n 3 --entries 2 --pause 1@5..60", "central -n 3 --entries 2 --partition 1/2@5..60:hold"]
    {
        trace(&desk, options);
        let ran = conclave(&words("replay", &desk.path("run.jsonl"))).ends(0);
        assert!(ran.out.contains("not judged again") && ran.out.contains("came out the same"), "{}", ran.out);
        let report = conclave(&words("replay --json", &desk.path("run.jsonl"))).ends(0).json();
        assert!(report.get("properties").is_none() && report.get("violation").is_none(), "{report}");
    }
    trace(&desk, "ricart-agrawala -n 2 --entries 1 --mutant no-tie-break --pause 1@1..2");
    let report = conclave(&words("replay --json", &desk.path("run.jsonl"))).ends(1).json();
    assert_eq!(report["violation"]["property"], "ME1");
}

#[test]
fn a_recorded_run_is_drawn_again_just_as_it_was() {
    let desk = Desk::new();
    let svg = desk.path("run.svg");
    let typed = format!("lamport -n 3 --entries 1 --svg {}", svg.display());
    trace(&desk, &typed);
    let typed = format!("replay {} --svg", desk.path("run.jsonl").display());
    conclave(&words(&typed, &desk.path("again.svg"))).ends(0);
    assert_eq!(desk.read("run.svg"), desk.read("again.svg"));
    let typed = format!("replay {} --trace", desk.path("run.jsonl").display());
    conclave(&words(&typed, &desk.path("again.jsonl"))).ends(0);
    assert_eq!(desk.read("run.jsonl"), desk.read("again.jsonl"));
}

#[test]
fn a_trace_with_a_broken_line_names_it() {
    let desk = Desk::new();
    trace(&desk, "lamport -n 3 --entries 1");
    let whole = desk.read("run.jsonl");
    let mut lines: Vec<_> = whole.lines().collect();
    lines[4] = "{\"id\":3,";
    let path = desk.put("broken.jsonl", &(lines.join("\n") + "\n"));
    conclave(&["replay", &path]).refused("line 5");
    let path = desk.put("cut.jsonl", &whole[..whole.len() - 20]);
    conclave(&["replay", &path]).refused("cut off");
    let path = desk.put("renamed.jsonl", &whole.replacen("\"lamport\"", "\"lambert\"", 1));
    conclave(&["replay", &path]).refused("there is no algorithm 'lambert'");
    let path = desk.put("order.jsonl", &whole.replacen("\"fifo\"", "\"lifo\"", 1));
    conclave(&["replay", &path]).refused("'lifo' is not a channel order");
    conclave(&words("replay --update", &desk.path("run.jsonl"))).refused("--update rewrites scripts");
}

#[test]
fn a_trace_that_tells_another_story_says_where() {
    let desk = Desk::new();
    trace(&desk, "ricart-agrawala -n 2 --entries 1");
    let whole = desk.read("run.jsonl");
    let place = 1 + whole.lines().position(|line| line.contains("granted")).expect("somebody enters");
    let path = desk.put("other.jsonl", &whole.replacen("\"fence\":\"0.1.1\"", "\"fence\":\"0.7.1\"", 1));
    let ran = conclave(&["replay", &path]).ends(1);
    assert!(ran.out.contains(&format!("✗ it came out differently, first at line {place}")), "{}", ran.out);
    assert!(ran.out.contains("recorded  p1 is told: granted 0.7.1"), "{}", ran.out);
    assert!(ran.out.contains("came out  p1 is told: granted 0.1.1"), "{}", ran.out);
    let report = conclave(&["replay", &path, "--json"]).ends(1).json();
    assert_eq!((&report["same"], &report["difference"]["line"]), (&false.into(), &place.into()));
    // A run of another algorithm cannot even be repeated.
    let path = desk.put("alien.jsonl", &whole.replacen("\"ricart-agrawala\"", "\"central\"", 1));
    let ran = conclave(&["replay", &path]).ends(1);
    assert!(ran.out.contains("✗ it came out differently"), "{}", ran.out);
}

#[test]
fn standard_input_will_do() {
    let script = line("sim ricart-agrawala --mutant no-tie-break --json").ends(1).json()["script"].clone();
    let mut binary = std::process::Command::new(env!("CARGO_BIN_EXE_conclave"));
    let binary =
        binary.args(["replay", "-"]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = binary.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("it has an input");
    std::io::Write::write_all(&mut input, script.as_str().expect("a script").as_bytes()).expect("it reads");
    drop(input);
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(1));
}

#[test]
fn a_script_that_nobody_has_recorded_is_played() {
    let desk = Desk::new();
    let path = desk.put(
        "new.txt",
        "run lamport -n 2\nrequest 1\ndeliver p1 → p2 Request\nsettle\nrelease 1\nsettle\n---\n",
    );
    let page = line(&format!("replay {path}")).ends(1).out;
    assert!(page.contains("nothing is recorded yet") && page.contains("--update records it"), "{page}");
    line(&format!("replay {path} --update")).ends(0);
    assert!(desk.read("new.txt").contains("deliver p1 => p2 Request\n"));
    assert!(line(&format!("replay {path}")).ends(0).out.contains("it came out as recorded"));
}
