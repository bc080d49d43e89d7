//! `conclave sim` with elections.

use super::{Desk, line};

#[test]
fn an_election_shows_who_won_and_what_it_cost() {
    let page = line("sim bully -n 7 --crash 7@0 --start 4").ends(0).out;
    for part in [
        "Bully · 7 processes · started by p4 · delay 1..10 ms",
        "p4 start   p4 → p5 Election",
        "messages         14",
        "= 14 ✓",
        "leader           p6",
        "✓ E4 ",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
}

#[test]
fn the_report_for_programs_has_the_fields_of_an_election() {
    let report = line("sim chang-roberts -n 5 --start 1 --json").ends(0).json();
    assert_eq!(report["messages"], 14);
    assert_eq!(report["formula"]["exact"], 14.0);
    assert_eq!(report["leader"], 5);
    assert_eq!(report["leaders"], serde_json::json!([5]));
    assert_eq!(report["turnaround_hops"], 14);
    assert_eq!(report["elections"], 1);
    assert!(report["term"].is_u64() && report["disagreement"].is_f64() && report["turnaround"].is_f64());
    assert!(report.get("entries").is_none());
    let names: Vec<_> = report["properties"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["E1", "E2", "E3", "E4", "E5", "END"]);
}

/// The leader dies in office, and one process notices.
#[test]
fn elections_are_shown_one_by_one() {
    let story = "sim bully --ids 0,1,3,4,5,6 --start 6 --crash 6@50 --detector none --start 3@60 --delay 5";
    let page = line(story).ends(0).out;
    for part in [
        "the sum of its elections = 18 ✓",
        "elections        2",
        "at 0 ms by p6    5 messages = 5 ✓, 5 ms, p6 leads",
        "at 60 ms by p3   13 messages = 13 ✓, 20.001 ms, p5 leads",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let report = line(&format!("{story} --json")).ends(0).json();
    assert_eq!((&report["elections"], &report["turnaround"]), (&2.into(), &20.001.into()));
    let messages: Vec<_> = report["each"].as_array().unwrap().iter().map(|one| &one["messages"]).collect();
    assert_eq!(messages, [5, 13]);
}

/// The same on rings, where a dead successor is found by trying it: one message more than the formula has.
#[test]
fn on_a_ring_a_leader_that_dies_in_office_costs_one_lost_try() {
    let story =
        "--ids 0,1,3,4,5,6 --start 6 --crash 6@65 --detector none --start 3@75 --delay 5 --set handoff=acked";
    for (algorithm, second) in [("chang-roberts", 13), ("ring-list", 11)] {
        let report = line(&format!("sim {algorithm} {story} --json")).ends(0).json();
        let each = report["each"].as_array().expect("elections");
        let count =
            |at: usize| (each[at]["messages"].clone(), each[at]["low"].clone(), each[at]["agrees"].clone());
        assert_eq!(each.len(), 2, "{algorithm}");
        assert_eq!(count(0), (12.into(), 12.into(), true.into()), "{algorithm}");
        assert_eq!(count(1), (second.into(), (second - 1).into(), true.into()), "{algorithm}");
        assert_eq!(report["leader"], 5, "{algorithm}");
    }
    // The leader dies while the news of it is under way: its last process calls, too, and neither call is in vain.
    let sooner = story.replace("6@65", "6@50").replace("3@75", "3@60");
    let report = line(&format!("sim chang-roberts {sooner} --json")).ends(0).json();
    let messages: Vec<_> = report["each"].as_array().unwrap().iter().map(|one| &one["messages"]).collect();
    assert_eq!(messages, [12, 12]);
}

/// One n for all formulas: the whole group. Where somebody is dead, the formulas of rings say so.
#[test]
fn formulas_say_whom_they_count() {
    let page = line("sim ring-list --ids 0,1,3,4,5,6 --crash 6@0 --start 3").ends(0).out;
    assert!(page.contains("2l per starter, l alive = 10 ✓"), "{page}");
    let page = line("sim ring-list -n 5").ends(0).out;
    assert!(page.contains("2n per starter = 10 ✓"), "{page}");
    assert!(!page.contains("per real second"), "so few messages say nothing of the speed:\n{page}");
}

#[test]
fn calls_at_times_by_all_and_retirement() {
    let all = line("sim chang-roberts -n 5 --start all --set ring=random --json").ends(0).json();
    assert_eq!(all["leader"], 5);
    let later = line("sim bully -n 4 --start 2@30 --start 1@50 --json").ends(0).json();
    assert_eq!(later["leader"], 4);
    let retired = line("sim bully -n 4 --start 1 --retire 4@500 --json").ends(0).json();
    assert_eq!(retired["leader"], 3);
    let weighted = line("sim bully -n 4 --start 1 --set weights=2:9 --json").ends(0).json();
    assert_eq!(weighted["leader"], 2);
}

#[test]
fn options_of_the_other_family_are_refused() {
    for (command, sentence) in [
        ("sim bully --entries 3", "--entries belongs to mutual exclusion, and bully is not of that kind"),
        ("sim bully --lose-token 5", "--lose-token belongs to mutual exclusion"),
        ("sim lamport --start 2", "--start belongs to elections, and lamport is not of that kind"),
        ("sim bully --start 9", "process 9 in '--start 9' is not one of the processes; they are 1 to 3"),
        ("sim bully --start x", "'x' is not the id of a process"),
        ("sim bully --retire all", "somebody must stay: name a single process"),
    ] {
        line(command).refused(sentence);
    }
}

/// A broken election is told as a script that breaks in the same way.
#[test]
fn a_broken_election_replays() {
    let desk = Desk::new();
    let failed = line("sim bully -n 4 --mutant no-answer-wait --start all --json").ends(1).json();
    let property = failed["violation"]["property"].clone();
    let bug = desk.put("bug.script", failed["script"].as_str().expect("a script"));
    let replayed = line(&format!("replay {bug} --json")).ends(1).json();
    assert_eq!(replayed["violation"]["property"], property);
}
