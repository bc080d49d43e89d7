//! Everything that can be wrong: one sentence, exit code 2, nothing left behind.

use super::{Desk, conclave, line, words};

/// What is typed after `conclave sim ricart-agrawala`, and part of the answer.
#[test]
fn every_wrong_option_is_answered_by_one_sentence() {
    for (typed, sentence) in [
        ("-n 0", "a group has at least 1 process"),
        ("-n -1", "a group has at least 1 process"),
        ("-n x", "'x' is not a number of processes"),
        ("-n 1.5", "'1.5' is not a number of processes"),
        ("-n 1000001", "at most 1000000"),
        ("-n 99999999999999999999", "at most 1000000"),
        ("-n", "-n needs a value"),
        ("-n 1000000", "do not fit into memory"),
        ("--ids 1,1", "process 1 is named twice"),
        ("--ids 1,,2", "'' is not the id of a process"),
        ("--ids 1,2 -n 3", "-n says 3 processes, but --ids names 2"),
        ("--entries 0", "at least once"),
        ("--entries -3", "at least once"),
        ("--seed x", "'x' is not a seed"),
        ("--seed -1", "a seed is not negative"),
        ("--seeds 9..3", "there is no seed in 9..3"),
        ("--seeds 0", "there is no seed in 0"),
        ("--seed 3 --seeds 9", "cannot be used together"),
        ("--seed 3 --seed 4", "--seed is given twice"),
        ("--load heavy", "it is one of: light, open, saturated"),
        ("--think x", "'x' is not a time"),
        ("--hold 5h", "'5h' is not a time"),
        ("--delay 10..1", "the range 10..1 is empty"),
        ("--delay -5", "'-5' is not a time"),
        ("--delay gauss:5", "is not a delay"),
        ("--link 5", "it has no ="),
        ("--link 12=5", "it has no >"),
        ("--link 1>1=5", "nobody has a link to itself"),
        ("--link 1>9=5", "process 9 in '1>9=5' is not one of the processes"),
        ("--channels lifo", "it is one of: fifo, any"),
        ("--locks 0", "at least 1 lock"),
        ("--loss 2", "must lie between 0 and 1"),
        ("--loss -0.1", "must lie between 0 and 1"),
        ("--loss x", "'x' is not a probability"),
        ("--duplicate 101%", "must lie between 0 and 1"),
        ("--crash 3", "it has no @"),
        ("--crash x@5", "'x' is not the id of a process"),
        ("--crash -1@5", "'-1' is not the id of a process"),
        ("--crash 3@9..5", "ends before it begins"),
        ("--crash 3@5:after=x", "'x' is not a number of messages"),
        ("--crash 3@5:inside:after=1", "it says twice where in a step"),
        ("--crash 3@5:half", "'half' does not belong there"),
        ("--crash 9@5", "process 9 in '9@5' is not one of the processes; they are 1 to 3"),
        ("--pause 1@5", "is not an interval"),
        ("--pause 7@5..6", "process 7 in '7@5..6'"),
        ("--partition 1/2", "it has no @"),
        ("--partition 1@5..6", "at least two sides"),
        ("--partition 1,9/2@5..6", "process 9 in '1,9/2@5..6'"),
        ("--detector sometimes", "is not a failure detector"),
        ("--join 4", "'4' does not say who and when (it has no @)"),
        ("--join 4@soon", "'soon' is not a time"),
        ("--join 2@5", "process 2 in '2@5' is one of the processes already; only a newcomer can join"),
        ("--join 4@5 --join 4@6", "process 4 joins twice"),
        ("--join 4@5 --crash 4@2", "process 4 in '4@2' is not there yet: it joins at 5"),
        ("--join 4@5 --crash 5@2", "process 5 in '5@2' is not one of the processes; they are 1 to 4"),
        ("--join 4@5 --set recovery=off", "ricart-agrawala lets nobody join or leave"),
        ("--leave 9@1", "process 9 in '9@1' is not one of the processes; they are 1 to 3"),
        ("--leave 2@1 --leave 2@3", "process 2 leaves twice"),
        ("--leave x@1", "'x' is not the id of a process"),
        ("--leave 2@1 --set recovery=off", "ricart-agrawala lets nobody join or leave"),
        ("--snapshot 9@5", "process 9 in '--snapshot 9@5' is not one of the processes; they are 1 to 3"),
        ("--snapshot 2", "'2' does not say who and when (it has no @)"),
        ("--snapshot 2@5 --set snapshots=maybe", "snapshots=maybe is not possible"),
        ("--lose-token soon", "'soon' is not a time"),
        ("--lose-token -1", "'-1' is not a time"),
        ("--lose-token 5", "ricart-agrawala moves no token, so none can be lost"),
        ("--faults-until soon", "'soon' is not a time"),
        ("--t-trans -1", "'-1' is not a time"),
        ("--max-events 0", "at least 1 input"),
        ("--set answer", "write KEY=VALUE"),
        ("--set loud=yes", "ricart-agrawala has no setting 'loud'; it has: answer"),
        ("--set answer=loud", "answer is one of: silent, queued"),
        ("--set answer=silent --set answer=queued", "answer is set twice"),
        ("--mutant gremlin", "has no mutant 'gremlin'; it has: no-tie-break"),
        ("--stamps sundial", "it is one of: none, lamport, vector"),
        ("--svg", "--svg needs a value"),
        ("--lod open", "there is no option '--lod' here; did you mean '--load'?"),
        ("lamport", "'lamport' is one argument too many"),
        ("--script x", "cannot be used together"),
    ] {
        let typed: Vec<_> = ["sim", "ricart-agrawala"].into_iter().chain(typed.split(' ')).collect();
        println!("{}", typed.join(" "));
        conclave(&typed).refused(sentence);
    }
}

#[test]
fn names_that_do_not_exist_get_a_suggestion() {
    line("sim ricart-agarwala")
        .refused("there is no algorithm 'ricart-agarwala'; did you mean 'ricart-agrawala'?");
    line("list lamprt").refused("did you mean 'lamport'?");
    line("sim zzz").refused("there is no algorithm 'zzz'");
    line("simulate").refused("there is no command 'simulate'; did you mean 'sim'?");
    line("completions tcsh").refused("it is one of: bash");
    line("sim").refused("no algorithm is given");
    line("replay").refused("FILE is missing");
    line("sim --script x -n 3").refused("-n and --script cannot be used together");
    line("sim central --set coordinator=9").refused("coordinator");
    line("sim maekawa -n 5 --set quorum=plane").refused("quorum=plane");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_asked() {
    let nobody = "--target zookeeper=127.0.0.1:1 --rounds 1";
    line(&format!("bench uncontended {nobody} --connections 2"))
        .refused("clients of zookeeper cannot share connections");
    line(&format!("bench uncontended {nobody} --connections 0")).refused("number would be zero");
    line(&format!("bench uncontended {nobody} {nobody}")).refused("--rounds is given twice");
    line(&format!("bench uncontended {nobody} --target zookeeper=127.0.0.1:2"))
        .refused("two targets are called \"zookeeper\"");
}

#[test]
fn a_file_that_cannot_be_written_is_noticed_before_the_run() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("dir")).expect("room for a directory");
    for option in ["--trace", "--svg", "--shiviz", "--mermaid"] {
        for (path, why) in [("missing/file", "No such file"), ("dir", "is a directory")] {
            let path = desk.path(path);
            let command = format!("sim ricart-agrawala --entries 1 {option}");
            conclave(&words(&command, &path)).refused(why);
        }
    }
    // The one that could be written is not written either.
    let (good, bad) = (desk.path("good.svg"), desk.path("missing/trace"));
    let command = format!("sim ricart-agrawala --entries 1 --svg {} --trace", good.display());
    conclave(&words(&command, &bad)).refused("cannot write");
    let command = format!("sim ricart-agrawala --entries 1 --svg {} --trace", good.display());
    conclave(&words(&command, &good)).refused("two outputs would go into the one file");
    assert_eq!(desk.files(), ["dir"]);
}

#[test]
fn files_that_are_neither_script_nor_trace_are_refused() {
    let desk = Desk::new();
    let replay = |name: &str| conclave(&words("replay", &desk.path(name)));
    replay("missing").refused("No such file");
    std::fs::create_dir(desk.path("dir")).expect("room for a directory");
    replay("dir").refused("directory");
    std::fs::write(desk.path("bytes"), [0xff, 0xfe, 0x00]).expect("room for a file");
    replay("bytes").refused("is not a text");
    desk.put("empty", "");
    replay("empty").refused("line 1: the script has no `run`");
    desk.put("prose", "Once upon a time\n");
    replay("prose").refused("line 1: there is no command `Once`");
    desk.put("object", "{\"a\":1}\n");
    replay("object").refused("this is not a trace");
    desk.put("nobody", "run nobody -n 2\n---\n");
    replay("nobody").refused("there is no algorithm 'nobody'");
    desk.put("early", "run lamport -n 2\ndeliver p1 => p2\n---\n");
    replay("early").refused("line 2: no message is in flight");
    desk.put("join", "run lamport -n 2\njoin 3\n---\n");
    replay("join").refused("lamport lets nobody join or leave");
    desk.put("setting", "run lamport -n 2 --set tone=high\n---\n");
    replay("setting").refused("lamport has no setting 'tone'");
}

/// What people type who know other tools.
#[test]
fn slips_of_case_and_dashes_are_guessed() {
    line("sim LAMPORT").refused("there is no algorithm 'LAMPORT'; did you mean 'lamport'?");
    line("sim --n 3 lamport").refused("there is no option '--n' here; did you mean '-n'?");
    line("check lamport -n 3 --crashes 5").refused("3 processes and 0 restarts make 3 crashes at most");
}
