//! Drawings and numbers for reports and papers.

use super::{Desk, line};

#[test]
fn a_drawing_shows_a_part_in_the_words_and_colours_that_are_wanted() {
    let desk = Desk::new();
    let svg = desk.path("run.svg").display().to_string();
    let run = "sim ricart-agrawala -n 3 --entries 2 --diagram never";
    line(&format!("{run} --svg {svg}")).ends(0);
    let whole = desk.read("run.svg");
    assert!(whole.contains("prefers-color-scheme"));
    line(&format!(
        "{run} --svg {svg} --window 0..20 --only 1,2 --theme light --names textbook --stamps vector"
    ))
    .ends(0);
    let part = desk.read("run.svg");
    assert!(part.len() < whole.len() && !part.contains("prefers-color-scheme"));
    assert!(part.contains(">OK</text>") && part.contains("[1,0]") && !part.contains(">p3</text>"), "{part}");
    line(&format!("{run} --svg {svg} --fields")).ends(0);
    assert!(desk.read("run.svg").contains("Request{time 1}"), "{}", desk.read("run.svg"));
    line(&format!("{run} --svg {svg} --only 9")).refused("--only names p9");
    line(&format!("{run} --svg {svg} --window 9..3")).refused("ends before it begins");
    line(&format!("{run} --svg {svg} --window 9")).refused("write two times");
}

#[test]
fn the_terminal_has_stamps_names_and_a_legend() {
    let page = line("sim ricart-agrawala -n 2 --entries 1 --stamps lamport --names textbook").ends(0).out;
    assert!(page.contains("p1 → p2 REQUEST{1} (1)"), "{page}");
    assert!(page.contains("OK{1,1,0}"), "{page}");
    assert!(page.contains("\n  · idle   ○ waiting   ● holding   → sends   ← receives\n"), "{page}");
    let recovering = "sim token-ring -n 4 --entries 1 --lose-token 5 --diagram always --fields";
    let page = line(recovering).ends(0).out;
    assert!(page.contains("Token{epoch 0, ") && page.contains("}@0") && !page.contains("Part"), "{page}");
    let parked = line("sim token-ring -n 3 --entries 1 --set handoff=acked").ends(0).out;
    assert!(parked.contains(" Ack"), "{parked}");
    let hidden = line("sim token-ring -n 3 --entries 1 --set handoff=acked --hide overhead").ends(0).out;
    let diagram = hidden.split("measured").next().expect("a diagram");
    assert!(diagram.contains("Token") && !diagram.contains(" Ack"), "{hidden}");
}

#[test]
fn a_run_is_saved_as_a_script() {
    let desk = Desk::new();
    let script = desk.path("run.txt").display().to_string();
    for run in [
        "lamport -n 3 --entries 1",
        "bully -n 4 --crash 4@0 --start 1",
        "suzuki-kasami -n 3 --loss 5% --seed 2",
    ] {
        line(&format!("sim {run} --save-script {script} --no-shrink"));
        let played = line(&format!("replay {script}"));
        assert!(played.out.contains("it came out as recorded"), "{run}:\n{}", played.out);
    }
    let trace = desk.path("run.jsonl").display().to_string();
    line(&format!("sim lamport -n 2 --entries 1 --trace {trace}")).ends(0);
    line(&format!("replay {trace} --save-script {script}")).ends(0);
    assert!(desk.read("run.txt").starts_with("run lamport -n 2"));
    assert_eq!(line(&format!("sim lamport --seeds 3 --save-script {script}")).code, 2);
}

#[test]
fn a_row_for_each_seed_and_the_spread_of_all() {
    let desk = Desk::new();
    let csv = desk.path("runs.csv").display().to_string();
    let page = line(&format!("sim central -n 4 --seeds 5 --csv {csv}")).ends(0).out;
    assert!(page.contains("client delay, ms") && page.contains("standard deviation"), "{page}");
    let text = desk.read("runs.csv");
    assert_eq!(text.lines().count(), 6);
    assert!(text.starts_with("seed,messages_per_entry,formula_low,formula_high,agrees,"), "{text}");
    assert!(text.lines().nth(3).is_some_and(|row| row.starts_with("3,2.25,2.25,2.25,true,")), "{text}");
    let report = line("sim central -n 4 --seeds 5 --json").ends(0).json();
    assert_eq!(report["spread"]["messages"]["runs"], 5);
    assert_eq!(report["spread"]["messages"]["sd"], 0.0);
    let election = line(&format!("sim bully -n 4 --csv {csv}")).ends(0);
    assert!(election.out.contains("turnaround"));
    assert!(desk.read("runs.csv").starts_with("seed,messages,"));
}
