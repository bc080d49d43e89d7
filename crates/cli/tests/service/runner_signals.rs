//! Signals: to whoever waits, to a command that runs, and from a terminal.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::nodes::{Service, send};
use crate::runs::{BINARY, Running, has_taken, is_alive, stop_early};
use crate::until;

#[test]
fn a_signal_ends_the_wait_and_leaves_no_ghost() {
    let service = Service::one();
    let holder = service.hold("lock a", "in");
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        // By its time to live it would stand in the queue for longer than this test waits.
        let waiter = service.begin("lock a --ttl 10min", "touch never");
        service.has_waiters("a", 1);
        waiter.signal(signal);
        waiter.end().ends(128 + number);
        service.has_waiters("a", 0);
    }
    holder.let_go();
    assert!(!service.path("never").exists());
}

#[test]
fn a_signal_while_no_node_answers_ends_it_too() {
    let service = Service::absent(1);
    // The second one is between two campaigns most of the time.
    for line in ["lock a --connect-wait 10min", "elect a --again --connect-wait 10ms"] {
        let waiter = service.begin(line, "touch never");
        until("it hears signals", || hears(waiter.pid(), 2));
        waiter.signal(Signal::INT);
        waiter.end().ends(128 + 2);
    }
    assert!(!service.path("never").exists());
}

/// Whether a process waits for a signal instead of being ended by it.
fn hears(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    blocked & (1 << (signal - 1)) != 0
}

#[test]
fn signals_reach_the_command_and_its_answer_is_ours() {
    let service = Service::one();
    for (signal, name, line) in
        [(Signal::INT, "INT", "lock a"), (Signal::TERM, "TERM", "elect a"), (Signal::USR1, "USR1", "lock a")]
    {
        let script = format!(
            "trap 'echo {name} > got-{name}; exit 9' {name}; echo in > in-{name}; while :; do sleep 0.02; done"
        );
        let running = service.begin(line, &script);
        service.written(&format!("in-{name}"));
        running.signal(signal);
        running.end().ends(9);
        assert_eq!(service.written(&format!("got-{name}")), format!("{name}\n"));
    }
    // One that the command does not mind leaves everything as it is.
    let calm =
        service.begin("lock a", "trap '' TERM; echo in > calm; while [ ! -e enough ]; do sleep 0.02; done");
    service.written("calm");
    calm.signal(Signal::TERM);
    service.shell("lock a --try", "exit 0").ends(120);
    std::fs::write(service.path("enough"), "").expect("there is room");
    calm.end().ends(0);
}

/// Sent while there is a keeper, and nothing yet that could hear it.
#[test]
fn a_signal_is_heard_by_a_command_that_is_about_to_start() {
    let service = Service::one();
    let is_caught = (0..50).any(|attempt| {
        let running = service.begin(&format!("lock a-{attempt}"), "sleep 3");
        let Some(keeper) = stop_early(running.pid()) else { return false };
        running.signal(Signal::TERM);
        has_taken(running.pid(), Signal::TERM);
        send(keeper, Signal::CONT);
        running.end().ends(128 + 15);
        true
    });
    assert!(is_caught, "the keeper was never early enough");
}

/// Some programs ignore SIGCHLD so that they need not wait for their children, and pass that on to what they start.
#[test]
fn a_runner_that_was_started_with_children_ignored_knows_how_they_end() {
    let service = Service::one();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD,PIPE,USR2", BINARY, "lock", "a", "--", "/bin/sh", "-c"]);
    command.arg("grep SigIgn /proc/self/status; exit 7").stdin(Stdio::null());
    command.current_dir(service.home()).env("CONCLAVE_ENDPOINTS", service.endpoints());
    let ran = Running::start(command).end().ends(7);
    // The two others have their default action in the command. Whoever runs the tests may ignore further signals.
    let bit = |signal: Signal| 1u64 << (signal.as_raw() - 1);
    let mask = ran.out.trim().strip_prefix("SigIgn:\t").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let asked = bit(Signal::CHILD) | bit(Signal::PIPE) | bit(Signal::USR2);
    assert_eq!(mask.map(|mask| mask & asked), Some(bit(Signal::USR2)), "{}", ran.out);
}

#[test]
fn signals_reach_what_the_command_started() {
    let service = Service::one();
    let running = service.begin("lock a", "sleep 60 & echo $! > grandchild; echo $$ > child; wait");
    let pid = |name| service.written(name).trim().parse::<u32>().expect("a number");
    let (child, grandchild) = (pid("child"), pid("grandchild"));
    assert!(is_alive(child) && is_alive(grandchild));
    running.signal(Signal::TERM);
    running.end().ends(128 + 15);
    until("both have ended", || !is_alive(child) && !is_alive(grandchild));
    service.shell("lock a --try", "exit 0").ends(0);
}

/// `script` gives a command a terminal of its own; what it reads is typed there.
#[test]
fn a_command_on_a_terminal_reads_it_and_hears_ctrl_c() {
    let service = Service::one();
    let inner =
        "read line; echo $line > heard; trap \"exit 9\" INT; echo in > armed; while :; do sleep 0.02; done";
    let line = format!(
        "trap : INT; {BINARY} lock a -- /bin/sh -c '{inner}'; echo $? > code; read line; echo $line > after"
    );
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(service.home()).stdin(Stdio::piped());
    command.env("SHELL", "/bin/sh").env("CONCLAVE_ENDPOINTS", service.endpoints());
    let mut terminal = Running::start(command);
    terminal.say("hello\n");
    assert_eq!(service.written("heard"), "hello\n");
    service.written("armed");
    terminal.say("\x03");
    assert_eq!(service.written("code"), "9\n");
    // The terminal belongs to whom it belonged to before.
    terminal.say("again\n");
    assert_eq!(service.written("after"), "again\n");
    terminal.end().ends(0);
}
