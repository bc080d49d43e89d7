//! `conclave example`.

use super::{Desk, conclave, line};

#[test]
fn every_example_is_listed_and_comes_out_as_recorded() {
    let page = line("example").ends(0).out;
    let listed = line("example --json").ends(0).json();
    let listed = listed.as_array().expect("a list");
    assert!(listed.len() > 30, "only {} examples", listed.len());
    for example in listed {
        let name = example["name"].as_str().expect("a name");
        assert!(page.contains(&format!("    {name} ")), "{name} in\n{page}");
        for what in ["title", "source", "look_at"] {
            assert!(example[what].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {what}");
        }
        let played = line(&format!("example {name} --json")).ends(0).json();
        assert_eq!(played["same"], true, "{name}");
        assert_eq!(played["violation"]["property"], example["breaks"], "{name}");
        let steps = played["steps"].as_array().expect("steps");
        assert!(steps.iter().all(|step| step["processes"].is_array()), "{name}");
    }
    let own = line("example --of bully --json").ends(0).json();
    assert!(own.as_array().is_some_and(|own| own.iter().all(|example| example["algorithm"] == "bully")));
    let family = line("example --of election").ends(0).out;
    assert!(family.contains("bully-4-notices") && !family.contains("lock-manager"), "{family}");
}

#[test]
fn an_example_tells_its_story_step_by_step() {
    let page = line("example lock-manager").ends(0).out;
    for part in [
        "A lock manager serves three clients, steps a to k\n",
        "  algorithm  Central coordinator (central)",
        "  look at    ",
        "  # A manager, p4, and three clients.",
        "  request 3\n      p3 idle -> waiting   p3 => p4 Request{3.1}\n",
        "      p1 idle · p2 idle · p3 holding · p4 idle\n",
        "desk.queue: [p1#1, p2#1]",
        "✓ ME5-FCFS",
        "✓ it came out as recorded",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // By the name of its file, too, and without what happens inside.
    let brief = line("example tv-k1-central --brief").ends(0).out;
    assert!(brief.contains("p3 granted 0.1.3") && !brief.contains("desk.queue"), "{brief}");
    let broken = line("example lamport-needs-fifo").ends(0).out;
    assert!(broken.contains("✗ ME1 is broken") && broken.contains("came out as recorded"), "{broken}");
}

#[test]
fn an_example_can_be_drawn_printed_and_changed() {
    let desk = Desk::new();
    let svg = desk.path("run.svg").display().to_string();
    line(&format!("example bully-4-notices --svg {svg} --brief")).ends(0);
    assert!(desk.read("run.svg").contains("Coordinator"));
    let script = line("example ricart-agrawala-tie --print").ends(0).out;
    let path = desk.put("mine.txt", &script);
    line(&format!("replay {path}")).ends(0);
}

#[test]
fn wrong_names_are_guessed() {
    line("example lock-manger").refused("did you mean 'lock-manager'?");
    line("example nothing-like-it").refused("there is no example 'nothing-like-it'");
    line("example --of buly").refused("did you mean 'bully'?");
    line("example --svg x.svg").refused("no example is given");
    line("example lock-manager --only 99").refused("--only names p99");
    line("example lamport-needs-fifo --live").refused("cannot be played with real processes");
    line("example lock-manager --live").refused("cannot be played with real processes");
    assert_eq!(conclave(&["example", "x", "--of", "bully"]).code, 2);
}
