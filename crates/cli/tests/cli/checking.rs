//! `conclave check`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Desk, conclave, line, words};

#[test]
fn a_search_says_what_it_searched_and_what_held() {
    let page = line("check ricart-agrawala -n 3").ends(0).out;
    for part in [
        "Ricart–Agrawala · 3 processes · 1 entry each · nothing fails · messages arrive in any order, at any time",
        "states       5,315",
        "transitions  16,482",
        "depth        18",
        "complete     yes",
        "✓ ME1 ",
        "✓ ME3 ",
        "✓ nothing that was judged is broken in any run",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
}

#[test]
fn the_report_for_programs_has_its_fields() {
    let report = line("check ricart-agrawala -n 3 --json").ends(0).json();
    assert_eq!((&report["algorithm"], &report["nodes"]), (&"ricart-agrawala".into(), &3.into()));
    assert_eq!((&report["entries"], &report["failures"]), (&1.into(), &"nothing fails".into()));
    assert_eq!((&report["states"], &report["transitions"]), (&5315.into(), &16482.into()));
    assert_eq!((&report["depth"], &report["complete"]), (&18.into(), &true.into()));
    assert!(report["counterexample"].is_null() && report["wall_seconds"].is_f64());
    let properties = report["properties"].as_array().expect("a list");
    let me1 = properties.iter().find(|property| property["name"] == "ME1").expect("it is judged");
    assert_eq!((&me1["holds"], &me1["detail"]), (&true.into(), &"".into()));
    assert!(properties.iter().all(|property| property["promised"] == true), "{properties:?}");
    assert!(report["not_promised"].as_array().is_some_and(|other| !other.is_empty()));
    let forever = line("check central -n 2 --entries forever --json").ends(0).json();
    assert_eq!((&forever["entries"], &forever["normalised"]), (&"forever".into(), &true.into()));
}

/// The counterexample is a script that the simulator plays with the same result, recorded output and all.
#[test]
fn a_mutant_is_refuted_by_a_script() {
    let desk = Desk::new();
    let script = desk.path("bug.script");
    let page =
        conclave(&words("check ricart-agrawala --mutant no-tie-break --save-script", &script)).ends(1).out;
    for part in [
        "2 processes · 1 entry each",
        "mutant no-tie-break",
        "✗ ME1 is broken: p1 and p2 are both inside",
        "6 steps, no way is shorter; it can be avoided up to the last of them",
        "run ricart-agrawala -n 2 --mutant no-tie-break",
        "! ME1: p1 and p2 are both inside",
        "✓ the simulator sees it, too",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    assert!(page.contains(&format!("conclave replay {}", script.display())), "{page}");
    assert!(page.contains(&desk.read("bug.script")));
    for command in ["replay", "sim --script"] {
        let ran = conclave(&words(command, &script)).ends(1);
        assert!(ran.out.contains("✓ it came out as recorded"), "{}", ran.out);
        assert!(ran.out.contains("✗ ME1 is broken"), "{}", ran.out);
    }
}

#[test]
fn a_counterexample_for_programs() {
    let report = line("check ricart-agrawala --mutant no-tie-break --json").ends(1).json();
    assert_eq!((&report["complete"], &report["mutant"]), (&false.into(), &"no-tie-break".into()));
    let found = &report["counterexample"];
    assert_eq!((&found["property"], &found["steps"]), (&"ME1".into(), &6.into()));
    assert_eq!(found["unavoidable_after"], 6);
    assert!(found["script"].as_str().is_some_and(|script| script.contains("\n! ME1: ")), "{found}");
    assert_eq!(report["simulator"]["agrees"], true);
    let me1 = &report["properties"][0];
    assert_eq!((&me1["name"], &me1["holds"]), (&"ME1".into(), &false.into()));
}

#[test]
fn a_counterexample_is_drawn() {
    let desk = Desk::new();
    let typed = format!(
        "check ricart-agrawala --mutant no-tie-break --trace {} --svg",
        desk.path("bug.jsonl").display()
    );
    conclave(&words(&typed, &desk.path("bug.svg"))).ends(1);
    assert!(desk.read("bug.svg").starts_with("<svg"));
    conclave(&words("replay", &desk.path("bug.jsonl"))).ends(1);
    let typed = "check ricart-agrawala --mutant no-tie-break --diagram always";
    assert!(line(typed).ends(1).out.contains("p1 granted 0.1.1"));
}

#[test]
fn where_nothing_breaks_nothing_is_written() {
    let desk = Desk::new();
    let typed = format!("check central -n 2 --save-script {} --svg", desk.path("bug.script").display());
    let ran = conclave(&words(&typed, &desk.path("bug.svg"))).ends(0);
    assert!(ran.out.contains("nothing was written: there is no counterexample"), "{}", ran.out);
    assert_eq!(desk.files(), [""; 0]);
}

#[test]
fn a_mutant_brings_what_it_takes_to_see_it() {
    for (typed, property, failures) in [
        ("central --mutant lifo", "ME5-FCFS", "nothing fails"),
        ("token-ring --mutant re-enter", "ME4", "nothing fails"),
        ("suzuki-kasami --mutant regenerate-unasked", "ME1", "1 crash, between steps only"),
    ] {
        let report = line(&format!("check {typed} --json")).ends(1).json();
        assert_eq!(report["counterexample"]["property"], property, "{typed}");
        assert_eq!(report["failures"], failures, "{typed}");
        assert_eq!(report["simulator"]["agrees"], true, "{typed}: {}", report["simulator"]);
    }
}

#[test]
fn the_order_of_grants_is_judged_if_asked_for() {
    let page = line("check central -n 3 --order").ends(0).out;
    assert!(page.contains("overtaking   at most 2, 2 allowed") && page.contains("✓ ME4 "), "{page}");
    let report = line("check central -n 3 --order --json").ends(0).json();
    assert_eq!(report["overtaking"], serde_json::json!({ "most": 2, "bound": 2 }));
}

#[test]
fn an_election_is_called_by_whom_one_says() {
    let all = line("check chang-roberts -n 3 --json").ends(0).json();
    let one = line("check chang-roberts -n 3 --start 2 --json").ends(0).json();
    assert!(one["states"].as_u64() < all["states"].as_u64(), "{one}");
    let page = line("check chang-roberts --ids 3,17,4 --start 4,17 --crashes 1").ends(0).out;
    assert!(page.contains("1 call each, by p4, p17 · 1 crash"), "{page}");
    let page = line("check chang-roberts -n 4 --entries first --start 1,2").ends(0).out;
    assert!(page.contains("1 call each before it knows a result, by p1, p2 · nothing fails"), "{page}");
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let counts = |threads: &str| {
        let report = line(&format!("check maekawa -n 3 --json --threads {threads}")).ends(0).json();
        ["states", "transitions", "depth"].map(|field| report[field].clone())
    };
    assert_eq!(counts("1"), counts("3"));
}

#[test]
fn safety_alone_leaves_out_steps_that_commute() {
    let full = line("check ricart-agrawala -n 3 --safety --no-reduction --json").ends(0).json();
    let reduced = line("check ricart-agrawala -n 3 --safety --json").ends(0).json();
    assert_eq!((&full["states"], &full["reduced"]), (&5315.into(), &false.into()));
    assert_eq!(reduced["reduced"], true);
    let me3 = |report: &serde_json::Value| {
        let properties = report["properties"].as_array().expect("a list");
        properties.iter().find(|property| property["name"] == "ME3").expect("promised")["holds"].clone()
    };
    assert!(me3(&full).is_null() && me3(&reduced).is_null());
}

#[test]
fn the_reduction_can_be_held_against_the_whole() {
    let page = line("check lamport -n 2 --verify-reduction").ends(0).out;
    assert!(page.contains("✓ same verdict, ") && page.contains(" times fewer states"), "{page}");
    let report = line("check lamport -n 2 --verify-reduction --json").ends(0).json();
    let reduction = &report["reduction"];
    assert_eq!(reduction["agrees"], true);
    assert!(reduction["factor"].as_f64() > Some(1.0), "{reduction}");
    assert_eq!(reduction["reduced"]["states"], report["states"]);
    let broken = line("check ricart-agrawala --mutant no-tie-break --verify-reduction --json").ends(1).json();
    assert_eq!(
        (&broken["reduction"]["agrees"], &broken["counterexample"]["property"]),
        (&true.into(), &"ME1".into())
    );
    // Two searches of which one is cut off cannot be compared.
    let cut = line("check lamport -n 2 --verify-reduction --depth 3").ends(3).out;
    assert!(cut.contains("they cannot be compared"), "{cut}");
}

#[test]
fn a_search_that_is_cut_off_says_so() {
    let page = line("check ricart-agrawala -n 3 --depth 4").ends(3).out;
    assert!(page.contains("complete     no: depth limit reached"), "{page}");
    assert!(page.contains("– ME1 ") && !page.contains("✓"), "{page}");
    assert!(page.contains("– nothing is broken in what was seen"), "{page}");
    let page = line("check ricart-agrawala -n 4 --time 0s").ends(3).out;
    assert!(page.contains("complete     no: time limit reached"), "{page}");
    let ran = line("check ricart-agrawala -n 4 --memory 2M --json").ends(3).json();
    assert_eq!((&ran["complete"], &ran["incomplete"]), (&false.into(), &"memory limit reached".into()));
    let properties = ran["properties"].as_array().expect("a list");
    let is_open = |property: &serde_json::Value| property["holds"].is_null() && property["detail"] != "";
    assert!(properties.iter().all(is_open), "{properties:?}");
    assert!(ran["counterexample"].is_null());
}

/// What a verdict covers is printed beside it: its bounds, its assumptions, and what was never met.
#[test]
fn a_report_says_how_far_its_verdict_goes() {
    let page = line("check central -n 2 --crashes 1 --atomic-steps").ends(0).out;
    for part in [
        "assumes      every crash is reported, and nobody else is suspected",
        "never met    somebody waits while another is inside after a crash",
        "two wait at once after a crash",
        "in any run of 2 processes, 1 entry each, 1 crash",
        "not searched: -n 3, --entries 2, --restarts 1, --suspicions 1, --cancels 1, --ticks 2",
    ] {
        let words: Vec<_> = page.split_whitespace().collect();
        assert!(
            words.join(" ").contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")),
            "{part}:\n{page}"
        );
    }
    let report = line("check central -n 2 --json").ends(0).json();
    assert_eq!(report["assumes"][0], "nobody crashes");
    let coverage = report["coverage"].as_array().expect("a list");
    assert!(coverage.iter().all(|row| row["met"] == true), "{coverage:?}");
    let waits = serde_json::json!({ "situation": "somebody waits", "after": "", "met": true });
    assert!(coverage.contains(&waits), "{coverage:?}");
}

#[test]
fn a_mutant_of_the_recovery_is_refuted_in_every_algorithm_that_recovers() {
    let report = line("check lamport --mutant go-on-alone --crashes 2 --restarts 2 --atomic-steps --json")
        .ends(1)
        .json();
    assert_eq!(report["counterexample"]["property"], "FENCE");
    assert_eq!(report["simulator"]["agrees"], true, "{}", report["simulator"]);
    line("check bully --mutant go-on-alone").refused("has no mutant 'go-on-alone'");
}

/// One command for all sizes, failures and settings; each row can be repeated by itself.
#[test]
fn a_sweep_is_a_table_of_searches() {
    let rows = line("check --all central --states 1500 --json").ends(3).json();
    let rows = rows.as_array().expect("a list").clone();
    assert!(rows.len() > 20, "{}", rows.len());
    let row = |command: &str| {
        let found = rows.iter().find(|row| row["command"] == format!("check central {command}"));
        found.unwrap_or_else(|| panic!("no {command} in {rows:?}"))
    };
    assert_eq!(row("-n 3")["verdict"], "holds");
    assert_eq!(row("-n 3 --crashes 1")["verdict"], "not broken in what was seen; state limit reached");
    let crash = row("-n 2 --crashes 1");
    assert!(crash["never_met"].to_string().contains("two wait at once after a crash"), "{crash}");
    let lossy = row("-n 2 --drops 1");
    assert_eq!(
        (&lossy["beyond"], &lossy["verdict"]),
        (&true.into(), &"ME2 is broken, beyond what is assumed".into())
    );
    for command in ["-n 2 --entries forever --order", "-n 2 --suspicions 1", "-n 2 --crashes 1 --ticks 2"] {
        let again = line(&format!("check central {command} --states 1500 --json")).json();
        let row = row(command);
        for field in ["states", "depth", "complete", "failures", "ticks"] {
            assert_eq!(row["report"][field], again[field], "{command}: {field}");
        }
    }
    let table = line("check --all chang-roberts --states 300 --markdown").out;
    assert!(table.starts_with("| algorithm | search | states | depth | verdict | never met |"), "{table}");
    assert!(table.contains("| chang-roberts | `-n 3` | 189 | 24 | holds |"), "{table}");
    let page = line("check --all chang-roberts --states 300").out;
    assert!(page.contains(" searches: ") && page.contains("beyond what is assumed"), "{page}");
    line("check --all central -n 3").refused("cannot be used together");
    line("check --all").refused("no algorithm is given");
    line("check --all mutexes").refused("there is no family or algorithm 'mutexes'; did you mean 'mutex'?");
    line("check central --markdown").refused("--all is missing");
}

/// Ctrl-C once: the search ends and reports what it has seen.
#[test]
fn an_interrupted_search_reports_what_it_has_seen() {
    let typed = "check ricart-agrawala -n 4 --entries 2 --safety --no-reduction --memory 16G --json";
    let mut child = Command::new(env!("CARGO_BIN_EXE_conclave"));
    let child = child.args(typed.split(' ')).stdout(Stdio::piped()).spawn().expect("it starts");
    let pid = child.id();
    // Before it listens, the signal would just end it.
    let hears = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> 1 & 1 == 1)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !hears() {
        assert!(Instant::now() < deadline, "the search hears Ctrl-C");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is there");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("a report");
    assert_eq!((&report["complete"], &report["incomplete"]), (&false.into(), &"interrupted".into()));
    assert!(report["states"].as_u64() > Some(1), "{report}");
}

#[test]
fn a_search_that_may_have_no_end_says_so() {
    let ran = line("check central -n 2 --entries forever --crashes 1 --memory 8M").ends(3);
    assert!(ran.err.starts_with("note: with failures, who asks forever"), "{}", ran.err);
    assert_eq!(line("check central -n 2 --entries forever --crashes 1 --depth 5").ends(3).err, "");
}

#[test]
fn time_is_counted_in_ticks_or_means_nothing() {
    let page = line("check bully -n 2").ends(0).out;
    assert!(page.contains("within 1 tick"), "{page}");
    assert!(line("check bully -n 2 --ticks 2").ends(0).out.contains("within 2 ticks"));
    assert!(line("check central -n 2 --crashes 1").ends(0).out.contains("within 1 tick"));
    assert!(line("check central -n 2 --ticks 1").ends(0).out.contains("within 1 tick"));
    let untimed = line("check bully -n 2 --untimed");
    assert!(untimed.out.contains("at any time"), "{}", untimed.out);
}

/// What is typed after `conclave check ricart-agrawala`, and part of the answer.
#[test]
fn every_wrong_option_is_answered_by_one_sentence() {
    for (typed, sentence) in [
        ("-n 0", "a group has at least 1 process"),
        ("-n 15", "the checker takes 1 to 14 processes, not 15"),
        ("-n 9 --safety", "the reduction takes up to 8 processes"),
        ("--ids 1,1", "process 1 is named twice"),
        ("--ids 1,2 -n 3", "-n says 3 processes, but --ids names 2"),
        ("--entries 0", "a process asks at least once"),
        ("--entries often", "'often' is not a number of entries, nor 'forever' or 'first'"),
        ("--entries 101", "at most 100 times, or forever"),
        ("--crashes -1", "cannot be less than 0"),
        ("--crashes many", "'many' is not a number"),
        ("--crashes 101", "at most 100"),
        ("--restarts 1", "--restarts needs --crashes"),
        ("--crashes 1 --amnesia", "it needs --restarts"),
        ("--no-detector", "it needs --crashes"),
        ("--atomic-steps", "it needs --crashes"),
        ("--crash-only 2", "it needs --crashes"),
        ("--crashes 1 --crash-only 9", "process 9 in '--crash-only 9' is not one of the processes"),
        ("--channels lifo", "it is one of: fifo, any"),
        ("--untimed", "--untimed is for algorithms that rely on time"),
        ("--order --safety", "--order cannot be judged when steps are left out"),
        ("--order --verify-reduction", "--order cannot be judged when steps are left out"),
        ("--no-reduction", "--safety is missing"),
        ("--verify-reduction --no-reduction --safety", "cannot be used together"),
        ("--threads 0", "at least 1 thread"),
        ("--memory lots", "'lots' is not a size; write 512M or 2G"),
        ("--memory 1k", "at least 1M"),
        ("--depth 0", "at least 1 step deep"),
        ("--time soon", "'soon' is not a time; write 90s, 5m or 2h"),
        ("--set answer", "write KEY=VALUE"),
        ("--set loud=yes", "ricart-agrawala has no setting 'loud'"),
        ("--set answer=silent --set answer=queued", "answer is set twice"),
        ("--mutant no-tie-brake", "has no mutant 'no-tie-brake'; did you mean 'no-tie-break'?"),
        ("--mutant gremlin", "has no mutant 'gremlin'; it has: no-tie-break"),
        ("--seed 3", "there is no option '--seed' here"),
    ] {
        line(&format!("check ricart-agrawala {typed}")).refused(sentence);
    }
    line("check").refused("no algorithm is given");
    line("check lambert").refused("there is no algorithm 'lambert'; did you mean 'lamport'?");
    line("check bully --cancels 1").refused("--cancels belongs to mutual exclusion");
    line("check bully --order").refused("--order belongs to mutual exclusion");
    line("check bully --entries forever").refused("never ends");
    line("check central --entries first").refused("--entries first belongs to elections");
    line("check bully --start 9")
        .refused("process 9 in '--start 9' is not one of the processes; they are 1 to 3");
    line("check bully --ticks 0").refused("at least 1 tick");
    line("check bully --ticks 2 --untimed").refused("cannot be used together");
    let desk = Desk::new();
    let path = desk.path("one.file");
    let typed = format!("check central -n 2 --save-script {} --svg", path.display());
    conclave(&words(&typed, &path)).refused("two outputs would go into the one file");
    conclave(&words("check central -n 2 --save-script", &desk.path("nowhere/bug.script")))
        .refused("cannot write");
}

/// Who waits forever although everything goes on: a way, and a circle.
#[test]
fn a_run_without_end_is_a_circle() {
    let desk = Desk::new();
    let script = desk.path("bug.script");
    let page =
        conclave(&words("check chang-roberts --mutant endless-news --save-script", &script)).ends(1).out;
    for part in [
        "✗ END is broken: messages circulate forever",
        " steps that repeat forever",
        "# From here on it repeats forever.\nloop\n",
        "\nagain\n",
        "✓ the simulator sees it, too",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let ran = conclave(&words("sim --script", &script)).ends(1);
    assert!(ran.out.contains("✓ it came out as recorded"), "{}", ran.out);
    let report = line("check chang-roberts --mutant endless-news --json").ends(1).json();
    assert!(report["counterexample"]["circle"].as_u64() > Some(0), "{report}");
}

/// Records a run, and says how many records it has.
fn recorded(desk: &Desk, options: &str) -> usize {
    let typed = format!("sim {options} --json --no-shrink --trace");
    let ran = conclave(&words(&typed, &desk.path("run.jsonl")));
    assert!(ran.code < 2, "{}", ran.err);
    desk.read("run.jsonl").lines().count() - 1
}

fn from(desk: &Desk, step: usize, options: &str) -> super::Ran {
    line(&format!("check --from {}@{step} {options}", desk.path("run.jsonl").display()))
}

#[test]
fn a_search_begins_anywhere_in_a_recorded_run() {
    let desk = Desk::new();
    for options in [
        "lamport -n 3 --entries 2",
        "ricart-agrawala --ids 5,2 --entries 3 --channels fifo",
        "suzuki-kasami -n 3 --entries 2 --duplicate 10% --seed 3",
        "chang-roberts -n 4 --start 1 --start 3@5",
        "central -n 3 --entries 2 --crash 1@25..60 --set recovery=off --loss 5% --seed 2",
        "raymond -n 3 --entries 2 --crash 2@20..60 --set recovery=off",
        "majority -n 3 --entries 1 --crash 2@5..30:amnesia --detector perfect",
    ] {
        let records = recorded(&desk, options);
        for part in 0..=4 {
            // A group that recovers relies on time.
            let untimed = if options.contains("majority") { "--untimed" } else { "" };
            let ran = from(&desk, records * part / 4, &format!("--safety --depth 2 --json {untimed}"));
            assert!([1, 3].contains(&ran.code), "{options}, {part} quarters:\n{}", ran.err);
        }
    }
    let all = from(&desk, 0, "--json --safety --depth 1 --untimed").json();
    assert_eq!(all["algorithm"], "majority");
}

/// At the beginning of a run there is nothing to be led to, so that the search is the same.
#[test]
fn a_search_from_the_start_of_a_recorded_run_is_the_usual_one() {
    let desk = Desk::new();
    recorded(&desk, "ricart-agrawala -n 3");
    let led = from(&desk, 3, "--json").ends(0).json();
    let usual = line("check ricart-agrawala -n 3 --json").ends(0).json();
    for field in ["states", "transitions", "depth", "entries", "nodes"] {
        assert_eq!(led[field], usual[field], "{field}");
    }
}

/// What was met in the recorded run the search has not met, and tokens cannot be counted once it had copies of messages.
#[test]
fn what_led_to_the_search_is_no_part_of_it() {
    let desk = Desk::new();
    let met = |report: &serde_json::Value, situation: &str| {
        let coverage = report["coverage"].as_array().expect("a list").clone();
        coverage.iter().find(|row| row["situation"] == situation).expect("it is a situation")["met"].clone()
    };
    let token = |report: &serde_json::Value| {
        let properties = report["properties"].as_array().expect("a list").clone();
        properties.iter().find(|property| property["name"] == "TOK").expect("it is promised").clone()
    };
    let records = recorded(&desk, "suzuki-kasami -n 2 --entries 1");
    let whole = line("check suzuki-kasami -n 2 --json").ends(0).json();
    let led = from(&desk, records, "--start 1 --json").ends(0).json();
    for (report, two) in [(&whole, true), (&led, false)] {
        assert_eq!(met(report, "two wait at once"), two);
        assert_eq!(met(report, "somebody is inside"), true);
        assert_eq!(token(report)["holds"], true);
    }
    let records = recorded(&desk, "suzuki-kasami -n 2 --entries 1 --duplicate 100%");
    let doubled = token(&from(&desk, records, "--start 1 --json").ends(0).json());
    assert!(doubled["holds"].is_null(), "{doubled}");
    assert_eq!(doubled["detail"], "not judged after a doubled message");
}

/// What is left after everybody has asked is all that happens after that.
#[test]
fn a_counterexample_goes_on_from_the_recorded_run() {
    let desk = Desk::new();
    let records = recorded(&desk, "central -n 3 --entries 1 --mutant grant-while-held --load light");
    let page =
        from(&desk, records / 2, &format!("--save-script {}", desk.path("bug.script").display())).ends(1).out;
    for part in [
        "recorded steps",
        "# As it was recorded.",
        "# Here the search begins.",
        "✓ the simulator sees it, too",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    conclave(&words("replay", &desk.path("bug.script"))).ends(1);
}

#[test]
fn a_recorded_run_that_cannot_be_followed_is_refused() {
    let desk = Desk::new();
    let records = recorded(&desk, "lamport -n 3 --entries 1");
    from(&desk, records + 1, "").refused(&format!("it has {records} records, and not {}", records + 1));
    from(&desk, 5, "-n 3").refused("cannot be used together");
    from(&desk, 5, "central").refused("the trace is of lamport, not of central");
    line("check --from nowhere.jsonl@3").refused("cannot read 'nowhere.jsonl'");
    line("check --from nowhere.jsonl@soon").refused("'soon' is not a number of records");
    let records = recorded(&desk, "central -n 3 --entries 2 --pause 1@5..60");
    from(&desk, records, "").refused("the checker knows nothing like");
    let records = recorded(&desk, "central -n 3 --entries 1 --locks 2");
    from(&desk, records, "").refused("the checker takes one lock");
    let records = recorded(&desk, "ricart-agrawala -n 2 --entries 1 --mutant no-tie-break");
    from(&desk, records, "").refused("both inside; begin before that");
    let records = recorded(&desk, "bully -n 3");
    from(&desk, records, "").refused("cannot be counted in ticks");
    from(&desk, records, "--untimed --depth 1").ends(3);
}

/// A mutant that shows only where clocks are wrong is searched with wrong clocks, as its explanation says.
#[test]
fn a_mutant_of_a_clock_is_found_as_it_is_explained() {
    let page = line("explain step-back").ends(0).out;
    assert!(page.contains("conclave check cristian --mutant step-back"), "{page}");
    let found = line("check cristian --mutant step-back").ends(1).out;
    assert!(found.contains("C2 is broken"), "{found}");
}

/// No search has an attempt for it; the command that the refusal names finds it.
#[test]
fn a_mutant_that_only_time_shows_is_refused() {
    for name in ["cristian", "berkeley", "ntp"] {
        line(&format!("check {name} --mutant one-way")).refused("seen only where messages take time");
        let found = line(&format!("sim {name} --mutant one-way --seeds 1000")).ends(1).out;
        assert!(found.contains("C1"), "{found}");
    }
}
