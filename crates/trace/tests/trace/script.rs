//! Scripts: reading and printing are each other's inverse, and mistakes are named with their line.

use core::time::Duration;
use std::collections::BTreeMap;

use conclave_core::{Incarnation, NodeId, Timing};
use conclave_trace::{Block, Carry, Command, Header, Script, Setup, Which};
use proptest::prelude::*;

const EXAMPLE: &str = "\
# Two processes ask at once; the smaller (stamp, id) goes first.
run ricart-agrawala -n 2
request 1
request 2
---
p1 idle -> waiting   p1 => p2 Request{1}
p2 idle -> waiting   p2 => p1 Request{1}

# Only a remark.

deliver p1 => p2
---
p2 => p1 Reply{1,0}
";

#[test]
fn the_example_is_read_and_printed() {
    let script = Script::parse(EXAMPLE).expect("a script");
    assert_eq!(script.to_string(), EXAMPLE);
    assert_eq!(script.setup(), Some(&Setup::numbered("ricart-agrawala", 2)));
    let ask = |process| Command::Ask { process: NodeId(process), request: "acquire".to_owned(), lock: 0 };
    let [first, remark, last] = &script.blocks[..] else { panic!("there are three blocks") };
    assert_eq!(first.comments, ["Two processes ask at once; the smaller (stamp, id) goes first."]);
    assert_eq!(first.commands[1..], [(ask(1), 3), (ask(2), 4)]);
    assert_eq!(first.recorded.len(), 2);
    assert_eq!(*remark, Block { comments: vec!["Only a remark.".to_owned()], ..Block::default() });
    let deliver =
        Command::Carry { what: Carry::Deliver, from: NodeId(1), to: NodeId(2), which: Which::Oldest };
    assert_eq!(last.commands, [(deliver, 11)]);
}

#[test]
fn who_has_joined_takes_part() {
    let script = Script::parse("run x -n 2\njoin 9\nrequest 9\nleave 9\n---\n").expect("a script");
    assert_eq!(script.newcomers(), [NodeId(9)]);
}

#[test]
fn commands_have_one_spelling_when_printed() {
    let cases = [
        (
            "run central --ids 3,p17,4 --set b=2 --set a=x=y --locks 2 --channels fifo --mutant bad",
            "run central --ids 3,17,4 --set a=x=y --set b=2 --channels fifo --mutant bad --locks 2",
        ),
        ("run central -n 2 --ids 1,2", "run central -n 2"),
        ("  request   p1", "request 1"),
        ("release 2 lock 1", "release 2 lock 1"),
        ("cancel 1 lock 0", "cancel 1"),
        ("leave p3", "leave 3"),
        ("join p6", "join 6"),
        ("deliver 1 => 2 Reply", "deliver p1 => p2 Reply"),
        ("drop p1 => p2 #3", "drop p1 => p2 #3"),
        ("duplicate 1 => p2", "duplicate p1 => p2"),
        ("settle", "settle"),
        ("timer p2 retry", "timer 2 retry"),
        ("crash p1", "crash 1"),
        ("restart 1", "restart 1"),
        ("restart p1 amnesia", "restart 1 amnesia"),
        ("suspect p1 p2", "suspect 1 2"),
        ("trust p1 p2", "trust 1 2"),
        ("show p1", "show 1"),
    ];
    for (written, printed) in cases {
        let command: Command = written.parse().expect(written);
        assert_eq!(command.to_string(), printed);
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let cases = [
        ("", "line 1: the script has no `run`"),
        ("# nothing\n", "line 1: the script has no `run`"),
        ("request 1\n---\n", "line 1: the first command of a script must be `run`"),
        (
            "run x -n 1\n---\n\nrun x -n 1\n---\n",
            "line 4: a script has only one `run`; write a second script instead",
        ),
        ("run x -n 1\ncrsh 1\n---\n", "line 2: there is no command `crsh`; did you mean `crash`?"),
        ("run x -n 1\nfrobnicate\n---\n", "line 2: there is no command `frobnicate`"),
        (
            "run x -n 2\ndeliver 1 2\n---\n",
            "line 2: this is written `deliver P => P [KIND | #N]`: `=>` is missing between sender and receiver",
        ),
        (
            "run x -n 2\ndeliver 1 =>\n---\n",
            "line 2: this is written `deliver P => P [KIND | #N]`: the receiver is missing",
        ),
        (
            "run x -n 2\ndrop 1 => 2 #0\n---\n",
            "line 2: this is written `drop P => P [KIND | #N]`: `#0` is not the number of a message; they are counted from #1",
        ),
        (
            "run x -n 2\nrequest q1\n---\n",
            "line 2: this is written `request P [lock K]`: `q1` is not a process",
        ),
        (
            "run x -n 2\nrequest\n---\n",
            "line 2: this is written `request P [lock K]`: the process is missing",
        ),
        ("run x -n 2\nrequest 1 lock 1\n---\n", "line 2: lock 1 does not exist; `run` has 1, counted from 0"),
        ("run x -n 2\ncrash 1 2\n---\n", "line 2: this is written `crash P [after N]`: `1 2` does not fit"),
        (
            "run x -n 2\ncrash 1 after -1\n---\n",
            "line 2: this is written `crash P [after N]`: `-1` is not a number of effects",
        ),
        ("run x -n 2\ncrash 3 after 1\n---\n", "line 2: p3 is not one of the processes of the run"),
        ("run x -n 2\ncrash 3\n---\n", "line 2: p3 is not one of the processes of the run"),
        ("run x -n 2\nsuspect 1 7\n---\n", "line 2: p7 is not one of the processes of the run"),
        (
            "run x -n 2\nsuspect 1 2 life 0\n---\n",
            "line 2: this is written `suspect P PEER [life N]`: `0` is not the number of a life; they are counted from 1",
        ),
        (
            "run x -n 2\ntrust 1 2 live\n---\n",
            "line 2: this is written `trust P PEER [life N]`: `live` does not fit",
        ),
        ("run x -n 2\nrequest 3\njoin 3\n---\n", "line 2: p3 is not one of the processes of the run"),
        ("run x -n 2\njoin\n---\n", "line 2: this is written `join P`: something is missing"),
        ("run x -n 2\nleave 3\n---\n", "line 2: p3 is not one of the processes of the run"),
        (
            "run x -n 2\ncrash 1",
            "line 2: the script ends in the middle of a block: a line `---` is missing after its commands",
        ),
        (
            "run x -n 2\n\ncrash 1\n---\n",
            "line 2: the commands before this line need a line `---` after them, even if nothing is recorded",
        ),
        ("# a\n---\n", "line 2: there is no command before this `---`"),
        ("run x -n 2\n# a\n---\n", "line 2: comments stand before the commands of their block"),
        (
            "run x -n 2\n---\ncrash 1\n---\n",
            "line 4: a second `---` in one block: blocks are separated by a blank line",
        ),
    ];
    for (text, expected) in cases {
        let error = Script::parse(text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn what_runs_is_checked() {
    let cases = [
        ("run", "the algorithm is missing"),
        ("run -n 3", "the algorithm is missing"),
        ("run x", "`-n` is missing"),
        ("run x -n", "`-n` needs a value"),
        ("run x -n 0", "`0` is not a number of processes from 1 to 1000000"),
        ("run x -n 1000001", "`1000001` is not a number of processes from 1 to 1000000"),
        ("run x -n 2 -n 3", "`-n` is given twice"),
        ("run x -n 2 --ids 1,2,3", "`-n` says 2 processes, `--ids` names 3"),
        ("run x --ids 1,2,1", "p1 is named twice"),
        ("run x --ids 1,,2", "`` is not a process"),
        ("run x --ids 1,4294967296", "`4294967296` is not a process"),
        ("run x -n 2 --set a", "`--set` takes KEY=VALUE"),
        ("run x -n 2 --set a=1 --set a=2", "`a` is set twice"),
        ("run x -n 2 --channels slow", "`slow` is not a channel order; there are `fifo` and `any`"),
        ("run x -n 2 --locks 0", "`0` is not a number of locks"),
        ("run x -n 2 --speed 3", "there is no option `--speed`"),
        ("run x -n 2 now", "`now` does not fit"),
    ];
    for (line, expected) in cases {
        let error = line.parse::<Command>().expect_err(line).to_string();
        assert!(error.ends_with(&format!("]`: {expected}")), "{line}: {error}");
    }
}

#[test]
fn setup_and_header_say_the_same() {
    let timing = Timing { transmission: Duration::from_millis(50), processing: Duration::from_micros(1_500) };
    let setup =
        Setup { channels: Some("fifo".to_owned()), locks: 2, timing, ..Setup::numbered("central", 3) };
    assert!(setup.to_string().ends_with(" --locks 2 --t-trans 50 --t-process 1.5"), "{setup}");
    let header: Header = setup.to_header("any");
    assert_eq!(header.channels, "fifo");
    assert_eq!(Setup::from_header(&header), setup);
    let grown = Header { nodes: [1, 2, 3, 9].map(NodeId).into(), newcomers: vec![NodeId(9)], ..header };
    assert_eq!(Setup::from_header(&grown), setup, "who joins is not set up");
    assert_eq!(Setup { channels: None, ..setup }.to_header("any").channels, "any");
}

const NODES: [u32; 4] = [3, 17, 4, 4_000_000_000];

fn life() -> impl Strategy<Value = Option<Incarnation>> {
    prop::option::of((1..=u32::MAX).prop_map(Incarnation))
}

fn node() -> impl Strategy<Value = NodeId> {
    prop::sample::select(NODES.to_vec()).prop_map(NodeId)
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9_-]{0,8}"
}

fn command() -> impl Strategy<Value = Command> {
    let request = prop::sample::select(vec!["acquire", "release", "cancel", "leave"]);
    let carry = prop::sample::select(vec![Carry::Deliver, Carry::Drop, Carry::Duplicate]);
    let which = prop_oneof![Just(Which::Oldest), word().prop_map(Which::Kind), (1u64..).prop_map(Which::Nth)];
    prop_oneof![
        (node(), request, 0usize..3).prop_map(|(process, request, lock)| Command::Ask {
            process,
            request: request.to_owned(),
            lock
        }),
        (carry, node(), node(), which).prop_map(|(what, from, to, which)| Command::Carry {
            what,
            from,
            to,
            which
        }),
        Just(Command::Settle),
        (node(), word()).prop_map(|(process, timer)| Command::Timer { process, timer }),
        node().prop_map(Command::Crash),
        (node(), 0u32..9).prop_map(|(process, after)| Command::CrashInside { process, after }),
        (node(), any::<bool>()).prop_map(|(process, amnesia)| Command::Restart { process, amnesia }),
        (node(), node(), life()).prop_map(|(process, peer, life)| Command::Suspect { process, peer, life }),
        (node(), node(), life()).prop_map(|(process, peer, life)| Command::Trust { process, peer, life }),
        node().prop_map(Command::Show),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let settings = prop::collection::btree_map(word(), "[!-~]{1,8}", 0..3);
    let channels = prop::option::of(prop::sample::select(vec!["fifo".to_owned(), "any".to_owned()]));
    let bound = || (0..=3_600_000_000u64).prop_map(Duration::from_micros);
    let timing =
        (bound(), bound()).prop_map(|(transmission, processing)| Timing { transmission, processing });
    (word(), settings, prop::option::of(word()), channels, timing).prop_map(
        |(algorithm, settings, mutant, channels, timing)| Setup {
            algorithm,
            nodes: NODES.map(NodeId).to_vec(),
            settings: settings.into_iter().collect::<BTreeMap<_, _>>(),
            mutant,
            channels,
            locks: 3,
            timing,
        },
    )
}

fn line() -> impl Strategy<Value = String> {
    "[ -~]{0,20}[!-~]".prop_filter("a second `---` is a mistake", |line| line != "---")
}

prop_compose! {
    fn block()(
        comments in prop::collection::vec(prop_oneof![Just(String::new()), line()], 0..3),
        commands in prop::collection::vec(command(), 0..4),
        recorded in prop::collection::vec(line(), 0..3),
    ) -> Block {
        let recorded = if commands.is_empty() { Vec::new() } else { recorded };
        Block { comments, commands: commands.into_iter().map(|command| (command, 0)).collect(), recorded }
    }
}

/// Any script; the numbers of its lines are still to be filled in.
fn script() -> impl Strategy<Value = Script> {
    (setup(), prop::collection::vec(block(), 1..5)).prop_map(|(setup, mut blocks)| {
        blocks[0].commands.insert(0, (Command::Run(setup), 0));
        // Somebody joins in the end, after whom nothing else can be said of it.
        blocks.push(Block { commands: vec![(Command::Join(NodeId(5)), 0)], ..Block::default() });
        blocks.retain(|block| *block != Block::default());
        Script { blocks }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(mut script in script()) {
        let text = script.to_string();
        let parsed = Script::parse(&text);
        let lines: Vec<&str> = text.lines().collect();
        if let Ok(parsed) = &parsed {
            for (ours, theirs) in script.blocks.iter_mut().zip(&parsed.blocks) {
                for (ours, theirs) in ours.commands.iter_mut().zip(&theirs.commands) {
                    ours.1 = theirs.1;
                    prop_assert_eq!(lines[theirs.1 - 1], theirs.0.to_string());
                }
            }
        }
        prop_assert_eq!(parsed, Ok(script));
    }

    #[test]
    fn any_text_is_no_panic(text in "(run x -n 3\n)?([a-z]{0,9}[ p0-9=>#-]{0,12}\n|\\PC{0,20}\n|---\n|\n){0,8}") {
        if let Ok(script) = Script::parse(&text) {
            let printed = script.to_string();
            let again = Script::parse(&printed).map(|script| script.to_string());
            prop_assert_eq!(again, Ok(printed));
        }
    }
}
