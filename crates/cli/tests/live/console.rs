//! The console: what is typed after `conclave cluster start`.

use std::io::Write as _;
use std::process::Stdio;

use conclave_core::NodeId;

use crate::cluster::{Home, until};

#[test]
fn console_obeys_what_is_piped_into_it() {
    let home = Home::new();
    let mut command = home.command("cluster start ricart-agrawala -n 3 --suspect-after 300ms");
    command.stdin(Stdio::piped());
    let mut live = home.start_with("ricart-agrawala", command);
    let said = home.path().join("ricart-agrawala.said");
    let said = || std::fs::read_to_string(&said).expect("it prints");
    let mut typed = live.child.stdin.take().expect("it is a pipe");
    let mut answered = |line: &str, answer: &str| {
        let before = said().len();
        writeln!(typed, "{line}").expect("it reads");
        until(&format!("'{line}' is answered with '{answer}'"), || said()[before..].contains(answer));
    };
    let pids: Vec<u32> = live.living().iter().map(|living| living.pid).collect();

    answered("status", "2 of 2");
    answered("lock a --via 3 -- echo one was inside", "one was inside");
    answered("lock a -- false", "");
    answered("nonsense", "unrecognized subcommand 'nonsense'");
    answered("kill 9", "the cluster has no p9");
    answered("kill 2", "p2 is killed");
    answered("kill 2", "p2 is down");
    answered("status", "down");
    answered("lock a --via 1 -- echo two stay", "two stay");
    answered("restart 2", "p2 is up, in life 2");
    answered("lock a --via 2 -- echo all are back", "all are back");
    answered("pause 3", "p3 stands still");
    answered("resume 3", "p3 goes on");
    answered("start central", "do that elsewhere");
    answered("", "");
    let back = live.living().iter().map(|living| living.pid).collect::<Vec<_>>();
    assert!(back.len() == 4 && back[2] != pids[2], "{pids:?}, then {back:?}");
    let living = live.living();
    answered("stop", "all have stopped");
    assert!(live.child.wait().expect("it ends").success());
    until("all have ended", || !living.iter().any(conclave_live::cluster::Living::is_alive));
    assert!(!said().contains("panicked"), "{}", said());
}

/// Orders from elsewhere and from several at once are carried out one after the other.
#[test]
fn console_and_others_may_give_orders_at_once() {
    let home = Home::new();
    let live = home.start("central -n 3 --suspect-after 20s");
    std::thread::scope(|scope| {
        for process in 1..=3 {
            let live = &live;
            scope.spawn(move || live.run(&format!("restart {process}")).ends(0));
        }
    });
    let lives: Vec<u32> = live.ids().into_iter().map(|process| live.status(process).life).collect();
    assert_eq!(lives, [2, 2, 2]);
    assert_eq!(live.status(NodeId(1)).complaints, 0);
    live.run("lock a --via 2 --wait 30s -- true").ends(0);
    live.stop();
}
