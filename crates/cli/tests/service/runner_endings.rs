//! Commands that end by themselves, and those that never begin.

use std::fs;
use std::process::Stdio;

use crate::nodes::Service;
use crate::runs::{Running, ran};

#[test]
fn the_end_of_the_command_is_ours() {
    let service = Service::one();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 128 + 9),
        ("kill -TERM $$", 128 + 15),
        ("kill -INT $$", 128 + 2),
    ] {
        let locked = service.shell("lock a", script).ends(code);
        assert_eq!((locked.out.as_str(), locked.err.as_str()), ("", ""), "{script}");
        service.shell("elect b", script).ends(code);
    }
    // Whichever end it was, what was held is free at once.
    service.shell("lock a --try", "exit 0").ends(0);
    service.shell("lock b --try", "exit 0").ends(0);
}

#[test]
fn a_command_that_cannot_be_run_holds_nothing() {
    let service = Service::one();
    service.conclave("lock a -- /no/such/command").explains(127, "'/no/such/command' cannot be run");
    service.conclave("elect a -- no-such-command-anywhere").explains(127, "cannot be run");
    fs::write(service.path("plain"), "not a program").expect("there is room");
    service.conclave("lock a -- ./plain").explains(126, "'./plain' cannot be run");
    service.conclave("lock a -- /").explains(126, "'/' cannot be run");
    service.shell("lock a --try", "exit 0").ends(0);
}

#[test]
fn the_command_knows_what_it_holds() {
    let service = Service::one();
    let first = service.shell("lock a", "echo $CONCLAVE_LOCK $CONCLAVE_TOKEN").ends(0).out;
    let second = service.shell("lock a", "echo $CONCLAVE_LOCK $CONCLAVE_TOKEN").ends(0).out;
    assert!(token_of(&second, "a") > token_of(&first, "a"), "{first}{second}");
    let several = service.shell("lock x y", "echo $CONCLAVE_LOCK").ends(0).out;
    assert_eq!(several, "x y\n");
    let leader = "echo $CONCLAVE_LEADER $CONCLAVE_TERM; echo $CONCLAVE_LOCK $CONCLAVE_TOKEN";
    let leader = service.shell("elect b", leader).ends(0).out;
    let (as_leader, as_holder) = leader.trim().split_once('\n').expect("two lines");
    assert_eq!(as_leader, as_holder);
    assert!(token_of(as_leader, "b") > 0, "{leader}");
}

fn token_of(line: &str, name: &str) -> u64 {
    let (of, token) = line.trim().split_once(' ').expect("a name and a token");
    assert_eq!(of, name);
    token.parse().expect("a token is a number")
}

#[test]
fn a_lock_within_a_lock_shows_the_inner_one_inside() {
    let service = Service::one();
    let script = format!(
        "{} lock inner -- /bin/sh -c 'echo in $CONCLAVE_LOCK $CONCLAVE_TOKEN'; echo out $CONCLAVE_LOCK $CONCLAVE_TOKEN",
        crate::runs::BINARY
    );
    let ran = service.shell("lock outer", &script).ends(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    let [inner, outer] = lines.as_slice() else { panic!("{}", ran.out) };
    let inner = token_of(inner.strip_prefix("in ").expect("the inner one first"), "inner");
    let outer = token_of(outer.strip_prefix("out ").expect("then the outer one"), "outer");
    assert!(inner > 0 && outer > 0);
}

#[test]
fn standard_input_reaches_the_command() {
    let service = Service::one();
    let mut command = service.client(&["lock", "a", "--", "cat"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let much: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
    running.say(&much);
    let ran = running.end().ends(0);
    assert!(ran.out == much, "{} bytes of {}", ran.out.len(), much.len());
}

#[test]
fn wrong_usage_is_explained_in_a_sentence() {
    let service = Service::absent(1);
    for (line, why) in [
        ("lock", "NAME"),
        ("lock a", "CMD"),
        ("lock a --", "CMD"),
        ("lock a --try --wait 5s -- true", "--wait"),
        ("lock a --try --skip-if-held -- true", "--skip-if-held"),
        ("lock a --shared --permits 2 -- true", "--shared"),
        ("lock a --permits 0 -- true", "--permits"),
        ("lock a --permits many -- true", "--permits"),
        ("lock a --wait soon -- true", "--wait"),
        ("lock a --ttl 0s -- true", "--ttl"),
        ("lock a --ttl=-5s -- true", "--ttl"),
        ("lock a --ttl 99999999999999999999s -- true", "--ttl"),
        ("lock a --nonsense -- true", "--nonsense"),
        ("lock a --endpoints nowhere -- true", "'nowhere' is not an address"),
        ("lock a --endpoints 127.0.0.1:99999 -- true", "127.0.0.1:99999"),
        ("lock a --config /no/such/file -- true", "/no/such/file"),
        ("elect", "NAME"),
        ("elect a b -- true", "b"),
        ("release a --force", "--reason is missing"),
        ("release a --reason x", "--force is missing"),
        ("release a", "--force and --reason are missing"),
        ("lock a --priority high -- true", "--priority: 'high' is not a whole number"),
        ("release a --force --reason x --token=-1", "--token"),
        ("show", "NAME"),
        ("serve --id 4 --cluster 1=127.0.0.1:1,2=127.0.0.1:2", "node 4 is not in the cluster"),
        ("serve --cluster nonsense", "nonsense"),
        ("serve --id 0", "--id: nodes are numbered from 1"),
        ("serve --id x", "--id: 'x' is not the number of a node"),
        ("serve --listen 0.0.0.0:7400", "nothing is encrypted yet"),
        ("serve --listen nowhere", "'nowhere' is not an address"),
        ("serve --log loud", "loud"),
    ] {
        let ran = service.conclave(line);
        assert!(!ran.err.contains("panicked"), "{line}: {}", ran.err);
        assert!(ran.code == 2, "{line}: {ran:?}");
        ran.refused(why);
    }
    let mut command = service.client(&["lock", "a", "--", "true"]);
    command.env("CONCLAVE_ENDPOINTS", "not an address");
    ran(&mut command).refused("'not an address' is not an address");
}
