//! `conclave sim`.

use super::{Desk, conclave, line, words};

#[test]
fn a_small_run_shows_diagram_costs_and_properties() {
    let page = line("sim ricart-agrawala -n 3 --entries 1").ends(0).out;
    for part in [
        "Ricart–Agrawala · 3 processes · 1 entry each · saturated load · delay 1..10 ms · channels any · seed 1",
        "p1 acquire   p1 → p2 Request{1}",
        "messages per entry  4",
        "2(n-1) = 4 ✓",
        "✓ ME1 ",
        "not promised",
        "digest ",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let quiet = line("sim ricart-agrawala -n 3 --entries 1 --diagram never").ends(0).out;
    assert!(!quiet.contains("p1 acquire"), "{quiet}");
    let large = line("sim ricart-agrawala -n 9 --entries 1").ends(0).out;
    assert!(!large.contains("p1 acquire"), "{large}");
}

#[test]
fn the_report_for_programs_has_the_fields_that_scripts_rely_on() {
    let report = line("sim ricart-agrawala -n 4 --entries 2 --seed 7 --json").ends(0).json();
    assert_eq!(report["algorithm"], "ricart-agrawala");
    assert_eq!(report["nodes"], 4);
    assert_eq!(report["seed"], 7);
    assert_eq!(report["entries"], 8);
    assert_eq!(report["messages"], 48);
    assert_eq!(report["messages_per_entry"], 6.0);
    assert_eq!(report["messages_by_kind"]["Request"], 24);
    assert_eq!(report["formula"]["exact"], 6.0);
    assert_eq!(report["formula"]["text"], "2(n-1)");
    assert!(report["formula"]["low"].is_f64() && report["formula"]["high"].is_f64());
    for number in ["sync_delay_hops", "virtual_time", "wall_seconds"] {
        assert!(report[number].is_f64(), "{number}");
    }
    for count in ["events", "overhead_messages"] {
        assert!(report[count].is_u64(), "{count}");
    }
    for property in report["properties"].as_array().expect("a list of properties") {
        assert!(property["name"].is_string() && property["detail"].is_string(), "{property}");
        assert!(property["holds"].is_boolean() || property["holds"].is_null(), "{property}");
    }
    assert_eq!(report["trace_digest"].as_str().map(str::len), Some(16));
    assert!(report.get("violation").is_none() && report.get("script").is_none());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let digest = |seed: u32| {
        let report =
            line(&format!("sim maekawa -n 7 --entries 2 --loss 1% --seed {seed} --no-shrink --json")).json();
        report["trace_digest"].clone()
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

#[test]
fn options_reach_the_run() {
    let json = |options: &str| line(&format!("sim central --entries 2 {options} --json")).json();
    assert_eq!(json("--ids 3,17,4")["nodes"], 3);
    assert_eq!(json("--load light")["load"], "light");
    assert_eq!(json("--channels fifo")["channels"], "fifo");
    assert_eq!(json("--locks 3")["entries"], 18);
    assert_eq!(json("--set variant=queued")["settings"]["variant"], "queued");
    assert!(json("--duplicate 1")["duplicated"].as_u64() > Some(0));
    assert_eq!(json("--max-events 5")["ending"], "out of events");
    assert_eq!(json("-n 1")["messages"], 0);
    let slow = json("--delay 5 --link 1>3=500 --link 3>1=500");
    assert!(slow["virtual_time"].as_f64() > Some(1000.0), "{slow}");
}

#[test]
fn a_crash_that_the_algorithm_does_not_survive_is_a_failure() {
    let ran = line("sim ricart-agrawala --crash 1@2 --no-shrink --set recovery=off").ends(1);
    assert!(ran.out.contains("✗ ME2 is broken") && ran.out.contains("p1 crash"), "{}", ran.out);
    line("sim central --crash 1@12 --detector perfect").ends(0);
}

/// Where somebody crashes the others are told, unless nobody shall tell them.
#[test]
fn a_crash_is_reported_unless_nobody_shall_report_it() {
    let page = line("sim central --crash 1@12").ends(0).out;
    assert!(page.contains("p3 suspects p1"), "{page}");
    let page = line("sim central --crash 1@12 --detector none --no-shrink").ends(1).out;
    assert!(!page.contains("suspects"), "{page}");
    let page = line("sim central --pause 1@12..20").ends(0).out;
    assert!(!page.contains("suspects"), "{page}");
}

#[test]
fn a_run_with_faults_says_how_long_nobody_could_enter() {
    let page = line("sim central --crash 1@12 --pause 2@5s..6s").ends(0).out;
    for part in ["refused by fence", "0 entries", "outage", "crash p1 at 12 ms", "pause p2 at 5,000 ms"] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let report = line("sim central --crash 1@12 --pause 2@5s..6s --json").ends(0).json();
    assert_eq!(report["refused_by_fence"], 0);
    let outages = report["outages"].as_array().expect("a list");
    assert_eq!((&outages[0]["fault"], &outages[0]["at"]), (&"crash p1".into(), &12.0.into()));
    assert!(outages[0]["outage"].as_f64() > Some(0.0), "{report}");
    assert_eq!(outages[1]["outage"], "none");
    let stuck = line("sim ricart-agrawala --crash 1@2 --no-shrink --json --set recovery=off").ends(1).json();
    assert_eq!(stuck["outages"][0]["outage"], "never");
    // Without faults there is nothing to say about it.
    let quiet = line("sim central --entries 1").ends(0).out;
    assert!(!quiet.contains("refused by fence") && !quiet.contains("outage"), "{quiet}");
    assert_eq!(line("sim central --entries 1 --json").ends(0).json()["outages"], serde_json::json!([]));
}

/// The promise that falls first need not be the one that the mutant is meant to break.
#[test]
fn every_mutant_is_caught_and_its_script_breaks_the_same_promise() {
    let desk = Desk::new();
    let list = line("list --json").json();
    // Other families need requests that fit their mutants: tests of the simulator make them.
    let is_provoked = |about: &&serde_json::Value| {
        ["mutex", "election", "workers"].contains(&about["family"].as_str().expect("a word"))
    };
    let provoked = list.as_array().expect("algorithms").iter().filter(is_provoked);
    let provoked: Vec<_> = provoked.map(|about| about["name"].clone()).collect();
    for mutant in line("list --mutants --json").json().as_array().expect("mutants") {
        if !provoked.contains(&mutant["algorithm"]) {
            continue;
        }
        let text = |field: &str| mutant[field].as_str().expect("a word").to_owned();
        // What takes forever no run shows.
        if text("trigger") == "forever" {
            continue;
        }
        let (algorithm, name) = (text("algorithm"), text("name"));
        let command = format!("sim {algorithm} -n {} --mutant {name} --seeds 1000 --json", mutant["nodes"]);
        // Some need to be alone with the lock, some need company; some need rivals, some a dead leader.
        let dead = format!("--crash {}@0 --start 1", mutant["nodes"]);
        let ways = if text("breaks").starts_with('E') {
            vec!["--start all", "--start 1", &dead]
        } else if text("breaks").starts_with('W') {
            vec![""]
        } else {
            vec!["--load saturated", "--load open"]
        };
        let mut sweeps = ways.iter().map(|way| line(&format!("{command} {way}")));
        let sweep = sweeps.find(|sweep| sweep.code == 1).unwrap_or_else(|| panic!("not caught: {command}"));
        let sweep = sweep.json();
        let failing = &sweep["failing"];
        assert_eq!(failing["seed"], sweep["failing_seed"], "{command}");
        assert!(failing["violation"]["detail"].is_string() && failing["violation"]["step"].is_u64());
        // A run that never ends cannot be told as a script.
        if ["END", "ME3"].contains(&failing["violation"]["property"].as_str().expect("a word")) {
            continue;
        }
        desk.put("bug.script", failing["script"].as_str().unwrap_or_else(|| panic!("no script: {command}")));
        let again = conclave(&words("replay --json", &desk.path("bug.script"))).ends(1).json();
        assert_eq!(again["violation"]["property"], failing["violation"]["property"], "{command}");
        assert_eq!(again["same"], true, "{command}");
    }
}

#[cfg(unix)]
#[test]
fn a_failing_run_names_the_command_that_repeats_it() {
    let desk = Desk::new();
    let trace = desk.path("run.jsonl");
    let options =
        "sim ricart-agrawala --mutant no-tie-break --seeds 5..50 --link 1>2=3 --entries 2 --json --trace";
    let sweep = conclave(&words(options, &trace)).ends(1).json();
    let command = sweep["failing"]["command"].as_str().expect("a command").to_owned();
    assert!(command.contains("'1>2=3'") && command.contains("--seed "), "{command}");
    assert!(!command.contains("--seeds") && !command.contains("--trace"), "{command}");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_conclave"));
    let mut shell = std::process::Command::new("/bin/sh");
    let shell =
        shell.args(["-c", &format!("{command} --json")]).env("PATH", binary.parent().expect("a directory"));
    let output = shell.output().expect("a shell");
    let again: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(again["trace_digest"], sweep["failing"]["trace_digest"]);
    // The trace is that of the failing run.
    assert!(desk.read("run.jsonl").contains("\"violation\""));
}

#[test]
fn a_failing_run_is_told_in_full() {
    let page = line("sim ricart-agrawala --mutant no-tie-break").ends(1).out;
    for part in [
        "✗ ME1 is broken: ",
        "A short script that breaks it too:",
        "run ricart-agrawala -n 2 --mutant no-tie-break",
        "conclave sim ricart-agrawala --mutant no-tie-break --seed 1",
        "conclave replay bug.script",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let short = line("sim ricart-agrawala --mutant no-tie-break --no-shrink").ends(1).out;
    assert!(short.contains("✗ ME1 is broken") && !short.contains("short script"), "{short}");
}

#[test]
fn a_sweep_in_which_all_holds_is_one_line() {
    let page = line("sim lamport --seeds 3..7 --entries 1").ends(0).out;
    assert!(page.contains("✓ seeds 3 to 7: no promise was broken (5 runs, 15 entries"), "{page}");
    let sweep = line("sim lamport --seeds 5 --entries 1 --json").ends(0).json();
    assert_eq!((&sweep["runs"], &sweep["failing_seed"]), (&5.into(), &serde_json::Value::Null));
}

#[test]
fn every_kind_of_file_is_written() {
    let desk = Desk::new();
    desk.put("run.svg", "what was there before");
    let paths = ["run.jsonl", "run.svg", "run.shiviz", "run.mermaid"].map(|name| desk.path(name));
    let mut typed = vec!["sim", "lamport", "--entries", "1", "--stamps", "vector", "--axis", "step"];
    for (option, path) in ["--trace", "--svg", "--shiviz", "--mermaid"].iter().zip(&paths) {
        typed.extend([*option, path.to_str().expect("letters")]);
    }
    conclave(&typed).ends(0);
    assert!(desk.read("run.jsonl").starts_with("{\"format\":\"conclave-trace\""));
    assert!(desk.read("run.svg").starts_with("<svg") && desk.read("run.svg").contains("lamport"));
    assert!(desk.read("run.mermaid").starts_with("sequenceDiagram"));
    assert!(!desk.read("run.shiviz").is_empty());
    assert_eq!(desk.files(), ["run.jsonl", "run.mermaid", "run.shiviz", "run.svg"]);
}

/// What is no ordinary file is written to, not replaced.
#[cfg(unix)]
#[test]
fn a_device_stays_a_device() {
    use std::os::unix::fs::FileTypeExt as _;
    line("sim lamport --entries 1 --trace /dev/null").ends(0);
    let kind = std::fs::metadata("/dev/null").expect("it is there").file_type();
    assert!(kind.is_char_device());
}

#[test]
fn a_paranoid_run_is_repeated_as_one() {
    line("sim token-ring --paranoid --crash 2@12").ends(0);
    line("check ricart-agrawala -n 2 --paranoid").ends(0);
    let broken = line("sim ricart-agrawala --mutant no-tie-break --paranoid --no-shrink").ends(1);
    let page = broken.out + &broken.err;
    assert!(page.contains("--mutant no-tie-break --paranoid --seed 1"), "{page}");
}

/// The stamps of the texts: with these clocks the first requests are stamped 1021, 8 and 12.
#[test]
fn logical_clocks_begin_where_they_are_told_to() {
    let stamps = "--stamp 1=1020 --stamp 2=7 --stamp 3=11";
    let page = line(&format!("sim ricart-agrawala -n 3 --entries 1 {stamps}")).ends(0).out;
    for request in ["p1 → p2 Request{1021}", "p2 → p1 Request{8}", "p3 → p1 Request{12}"] {
        assert!(page.contains(request), "{request}:\n{page}");
    }
    let set = line("sim ricart-agrawala -n 3 --entries 1 --set stamps=1:1020,2:7,3:11").ends(0).out;
    let digest = |page: &str| page.lines().find(|line| line.contains("digest")).map(str::to_owned);
    assert!(digest(&page).is_some() && digest(&page) == digest(&set), "{set}");
    // The smallest stamp enters first.
    let order = line(&format!("sim ricart-agrawala -n 3 --entries 1 {stamps} --diagram always")).ends(0).out;
    let granted = |process: &str| order.find(&format!("{process} granted")).expect("it enters");
    assert!(granted("p2") < granted("p3") && granted("p3") < granted("p1"), "{order}");
    line(&format!("check ricart-agrawala -n 3 {stamps}")).ends(0);
    for (wrong, why) in [
        ("sim bully --stamp 1=5", "bully has no setting 'stamps'"),
        ("sim ricart-agrawala --stamp 9=5", "process 9"),
        ("sim ricart-agrawala --stamp 1", "PROCESS=TIME"),
        ("sim ricart-agrawala --stamp 1=5 --set stamps=1:6", "set twice"),
    ] {
        let ended = line(wrong).ends(2);
        assert!(ended.err.contains(why), "{wrong}: {}", ended.err);
    }
}

#[test]
fn clocks_and_handling_are_told_and_refused_like_other_options() {
    let page = line("sim bully -n 4 --delay 5 --t-process 7 --clock 3=+20ms,50ppm").ends(0).out;
    assert!(page.contains("handling 7") && page.contains("clock 3=+20ms,+50ppm"), "{page}");
    for (wrong, why) in [
        ("sim bully --clock 9=+20ms", "process 9"),
        ("sim bully --clock 3=20", "write +20ms"),
        ("check bully --clock 3=50ppm", "no time passes"),
        ("check bully --clock 9=+1ms", "process 9"),
    ] {
        let ended = line(wrong).ends(2);
        assert!(ended.err.contains(why), "{wrong}: {}", ended.err);
    }
}

/// What a run makes necessary by itself stands in its first line.
#[test]
fn recovery_that_is_on_by_itself_is_said() {
    let run = "sim token-ring -n 4 --entries 1 --lose-token 5";
    let first = |line: &str| line.lines().next().unwrap_or_default().to_owned();
    assert!(first(&line(run).ends(0).out).ends_with("· recovery=on (automatic)"));
    let plain = line(&format!("{run} --set recovery=off")).ends(1).out;
    assert!(first(&plain).ends_with("· recovery=off"), "{plain}");
    assert!(plain.contains("– TOK       one token — there is none in the end"), "{plain}");
}

/// A request that is planned for long after everything else is waited for, and made in whatever life its process is in then.
#[test]
fn planned_requests_are_made_or_reported() {
    let late = conclave(&["sim", "basic", "-n", "3", "--ask", "1@9999 send x", "--json"]).ends(0).json();
    assert_eq!((&late["messages"], &late["ending"]), (&2.into(), &"done".into()), "{late}");
    let ask = |crash: &str| {
        let args = ["sim", "basic", "-n", "3", "--crash", crash, "--ask", "1@200 send x"];
        (conclave(&args).ends(0).err, conclave(&[&args[..], &["--json"]].concat()).ends(0).json())
    };
    let (said, again) = ask("1@5..90");
    assert!(said.is_empty() && again["messages"] == 2 && again.get("unasked").is_none(), "{said}{again}");
    let (said, never) = ask("1@5");
    assert!(said.contains("nobody asked for 'send \"x\"' at 200 ms: p1 was not up then"), "{said}");
    assert_eq!((&never["messages"], &never["unasked"][0]["process"]), (&0.into(), &1.into()), "{never}");
}

/// Where nobody is asked for anything, nothing but the end of the run can be judged.
#[test]
fn what_nobody_was_asked_for_is_open() {
    for algorithm in ["paxos", "cristian", "basic"] {
        let report =
            line(&format!("sim {algorithm} -n 3 --crash 1@0 --crash 2@0 --crash 3@0 --json")).ends(0).json();
        let properties = report["properties"].as_array().expect("a list");
        assert!(properties.len() > 2, "{report}");
        for property in properties {
            let told = property["name"] == "END";
            assert_eq!(property["holds"].as_bool(), told.then_some(true), "{algorithm}: {property}");
        }
        let asked = line(&format!("sim {algorithm} -n 3 --json")).ends(0).json();
        let all = asked["properties"].as_array().expect("a list");
        assert!(all.iter().all(|property| property["holds"] == true), "{algorithm}: {asked}");
    }
}
