//! Runners that are killed, stopped or held up, and commands that try to get away: what runs under a lock is dead before
//! the next holder begins. Judged by what the commands write, not by what the runner says.

use std::fs;
use std::process::Stdio;

use rustix::io::ioctl_fionread;
use rustix::process::Signal;

use crate::nodes::{Service, send};
use crate::runs::{BINARY, Killed, Running, is_alive, is_stopped, keeper_of};
use crate::wires::Wire;
use crate::{cannot_run_without, until};

/// Beats into a file of its own, and does not mind being told to end.
const BEAT: &str = "trap '' TERM HUP INT; while :; do date +%s%N >> beats-$1; sleep 0.01; done";
/// The same, as a chain of processes each of which starts the next in a session of its own and ends.
const HOP: &str = "trap '' TERM HUP INT; date +%s%N >> beats-hop; sleep 0.02; setsid sh hop.sh & exit 0";
/// Everything that a command may start: a child, a session, a daemon whose parent ended, a chain.
const FAMILY: &str = "sh beat.sh grandchild & setsid sh beat.sh session & (setsid sh beat.sh daemon &); sh hop.sh & \
                      exec sh beat.sh command";
const KINDS: [&str; 5] = ["command", "grandchild", "session", "daemon", "hop"];

/// Notes when it was let in, and stays for a while in which anything that still runs would show.
const NEXT: &str = "date +%s%N > next; sleep 0.5";

impl Service {
    fn beats_of(&self, kind: &str) -> Vec<u64> {
        let text = fs::read_to_string(self.path(&format!("beats-{kind}"))).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Puts the scripts where the commands find them.
    fn with_scripts(self) -> Self {
        for (name, script) in [("beat.sh", BEAT), ("hop.sh", HOP)] {
            fs::write(self.path(name), script).expect("there is room");
        }
        self
    }

    fn all_beat(&self, kinds: &[&str]) {
        until("everything runs", || kinds.iter().all(|kind| self.beats_of(kind).len() > 2));
    }

    /// The last beat of each was before the next holder began.
    #[track_caller]
    fn all_stopped_in_time(&self, kinds: &[&str]) {
        let next: u64 = self.written("next").trim().parse().expect("it notes a time");
        for kind in kinds {
            let last = self.beats_of(kind).into_iter().max().expect("it ran");
            assert!(last < next, "{kind} ran {} us into the next grant", (last - next) / 1_000);
        }
    }

    fn pid_in(&self, name: &str) -> u32 {
        self.written(name).trim().parse().expect("the number of a process")
    }
}

#[test]
fn nothing_outlives_the_lease_of_a_runner_that_was_killed() {
    let service = Service::one().with_scripts();
    let holder = service.begin("lock a --ttl 3s --grace 300ms", FAMILY);
    service.all_beat(&KINDS);
    let next = service.begin("lock a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    holder.signal(Signal::KILL);
    next.end().ends(0);
    service.all_stopped_in_time(&KINDS);
}

#[test]
fn a_command_whose_runner_was_killed_is_told_before_it_is_killed() {
    let service = Service::one();
    let script = "trap 'echo told > told; exit 0' TERM; echo in > in; while :; do sleep 0.02; done";
    let holder = service.begin("lock a --ttl 1min", script);
    service.written("in");
    holder.signal(Signal::KILL);
    // Long before the lease ends.
    assert_eq!(service.written("told"), "told\n");
}

#[test]
fn nothing_outlives_the_lease_of_a_runner_that_was_stopped() {
    let service = Service::one().with_scripts();
    let holder = service.begin("elect a --ttl 5s --grace 300ms", FAMILY);
    service.all_beat(&KINDS);
    let next = service.begin("elect a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    holder.signal(Signal::STOP);
    next.end().ends(0);
    service.all_stopped_in_time(&KINDS);
    holder.signal(Signal::CONT);
    let ran = holder.end().ends(122);
    assert!(ran.err.contains("error: leadership of 'a' is lost: "), "{}", ran.err);
}

/// The command itself fills the pipe, as it would in front of a pager that nobody scrolls.
#[test]
fn a_full_standard_error_holds_up_neither_renewals_nor_the_end() {
    let service = Service::one().with_scripts();
    let wire = Wire::to(service.address(1).parse().expect("it is an address"));
    let script = "head -c 200000 /dev/zero >&2 & exec sh beat.sh command";
    let address = wire.address.to_string();
    let mut command = service.client(&["lock", "a", "--ttl", "2500ms", "--grace", "300ms", "-v"]);
    command.args(["--endpoints", &address, "--probe", "test -e sick", "--probe-every", "1min"]);
    command.args(["--", "/bin/sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut holder = Killed(command.spawn().expect("the binary runs"));
    let unread = holder.0.stderr.take().expect("it is piped");
    service.all_beat(&["command"]);
    until("the pipe is full", || ioctl_fionread(&unread).is_ok_and(|bytes| bytes >= 65_536));
    // It is renewed all the same.
    let token = service.show("a")["holders"][0]["token"].as_u64();
    let last_beat = || service.beats_of("command").into_iter().max().expect("it runs");
    let full_at = last_beat();
    until("a whole lease has passed", || last_beat() - full_at > 2_600_000_000);
    assert_eq!(service.show("a")["holders"][0]["token"].as_u64(), token, "it was not renewed");

    let next = service.begin("lock a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    wire.cut(true);
    let mut ended = None;
    until("the runner ends", || {
        ended = holder.0.try_wait().expect("it can be asked");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(122));
    next.end().ends(0);
    service.all_stopped_in_time(&["command"]);
    drop(unread);
}

#[test]
fn a_runner_whose_keeper_was_killed_ends_everything_itself() {
    let service = Service::one();
    let script = "setsid sleep 60 & echo $! > session; sleep 60 & echo $! > child; echo $$ > command; wait";
    let mut holder = service.begin("lock a", script);
    let pids = ["session", "child", "command"].map(|name| service.pid_in(name));
    send(keeper_of(holder.pid()), Signal::KILL);
    until("the runner ends", || holder.is_over());
    assert!(!pids.into_iter().any(is_alive), "something runs on");
    let ran = holder.end().ends(122);
    let why = "error: 'a' is lost: the process that kept the command was killed";
    assert!(ran.err.contains(why), "{}", ran.err);
    service.shell("lock a --try", "exit 0").ends(0);
}

#[test]
fn a_command_whose_keeper_is_stopped_ends_in_time_as_well() {
    let service = Service::one().with_scripts();
    let wire = Wire::to(service.address(1).parse().expect("it is an address"));
    let line = format!("lock a --ttl 5s --grace 300ms --endpoints {}", wire.address);
    let holder = service.begin(&line, FAMILY);
    service.all_beat(&KINDS);
    let next = service.begin("lock a --ttl 1min", NEXT);
    service.has_waiters("a", 1);
    send(keeper_of(holder.pid()), Signal::STOP);
    wire.cut(true);
    holder.end().ends(122);
    next.end().ends(0);
    service.all_stopped_in_time(&KINDS);
}

/// Taken by force, the lock is lost while the session lives on: the end of the lease is not what the runner may wait for.
#[test]
fn a_lock_taken_by_force_ends_the_command_whose_keeper_is_stopped() {
    let service = Service::one();
    let script =
        "trap '' TERM; setsid sleep 600 & echo $! > session; echo $$ > command; while :; do sleep 0.02; done";
    let mut holder = service.begin("lock a --ttl 1h --grace 200ms", script);
    let pids = ["session", "command"].map(|name| service.pid_in(name));
    send(keeper_of(holder.pid()), Signal::STOP);
    service.conclave("release a --force --reason maintenance").ends(0);
    until("the runner ends", || holder.is_over());
    assert!(!pids.into_iter().any(is_alive), "something runs on");
    let ran = holder.end().ends(122);
    for why in ["'a' is lost: ", "maintenance", "the process that kept the command did not end it"] {
        assert!(ran.err.contains(why), "{}", ran.err);
    }
}

/// A process of another user, which a runner without the right to kill it must leave alone.
#[test]
fn a_lock_whose_command_cannot_be_ended_is_not_given_back() {
    let service = Service::one();
    if !rustix::process::getuid().is_root() {
        return cannot_run_without("right to become another user");
    }
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--bounding-set", "-kill", "--inh-caps", "-kill", BINARY])
        .args(["lock", "a", "--ttl", "5m"]);
    let becomes = "echo $$ > in; exec setpriv --reuid 65534 --clear-groups --inh-caps -all sleep 600";
    command.args(["--", "/bin/sh", "-c", becomes]).current_dir(service.home()).stdin(Stdio::null());
    command.env("CONCLAVE_ENDPOINTS", service.endpoints());
    // What cannot be ended keeps a pipe open.
    let holder = Running::with_errors_in(command, &service.path("errors"));
    let sleeper = service.pid_in("in");
    let _end = Ended(sleeper);
    until("it is another user's", || {
        let status = fs::read_to_string(format!("/proc/{sleeper}/status")).unwrap_or_default();
        status.contains("Uid:\t65534\t65534") && status.contains("Name:\tsleep")
    });
    let token = service.show("a")["holders"][0]["token"].clone();
    // `setpriv` has become the runner.
    send(keeper_of(holder.pid()), Signal::KILL);
    holder.end().ends(122);
    let said = fs::read_to_string(service.path("errors")).unwrap_or_default();
    assert!(said.contains("error: some processes of the command could not be ended"), "{said}");
    assert!(is_alive(sleeper), "there was nothing to be kept");
    // Until the lease ends, which takes minutes.
    assert_eq!(service.show("a")["holders"][0]["token"], token, "it was given back");
    service.shell("lock a --try", "exit 0").ends(120);
}

/// A process that is killed with its test.
struct Ended(u32);

impl Drop for Ended {
    fn drop(&mut self) {
        send(self.0, Signal::KILL);
    }
}

#[test]
fn a_keeper_that_was_stopped_goes_by_the_newest_deadline() {
    let service = Service::one();
    let script = "echo in > in; while [ ! -e enough ]; do sleep 0.02; done; exit 7";
    let holder = service.begin("lock a --ttl 2s", script);
    service.written("in");
    let keeper = keeper_of(holder.pid());
    send(keeper, Signal::STOP);
    // The runner renews meanwhile, so that the first deadlines pass unread.
    let held_for = || service.show("a")["holders"][0]["held_for_ms"].as_u64();
    until("the first lease is over", || held_for().is_some_and(|age| age > 4_000));
    send(keeper, Signal::CONT);
    fs::write(service.path("enough"), "").expect("there is room");
    holder.end().ends(7);
}

/// A lease ends while the machine sleeps. A timer on another clock would be late by the time that it slept.
#[test]
fn a_keeper_counts_the_time_in_which_the_machine_sleeps() {
    const CLOCK_BOOTTIME: &str = "clockid: 7";
    let service = Service::one();
    let holder = service.hold("lock a", "in");
    let infos = fs::read_dir(format!("/proc/{}/fdinfo", keeper_of(holder.pid()))).expect("it runs");
    let infos = infos.filter_map(|info| fs::read_to_string(info.ok()?.path()).ok());
    let clocks: Vec<String> = infos
        .flat_map(|info| info.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("clockid"))
        .collect();
    assert_eq!(clocks, [CLOCK_BOOTTIME]);
    holder.let_go();
}

#[test]
fn signals_of_the_job_do_not_reach_the_keeper() {
    let service = Service::one();
    let holder = service.begin("lock a", "echo in > in; while [ ! -e enough ]; do sleep 0.02; done; exit 7");
    service.written("in");
    let keeper = keeper_of(holder.pid());
    for signal in
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::USR1, Signal::PIPE]
    {
        send(keeper, signal);
    }
    fs::write(service.path("enough"), "").expect("there is room");
    holder.end().ends(7);
}

/// The command ends as soon as it is told, what it started takes its time.
#[test]
fn what_the_command_started_has_the_grace_as_well() {
    let service = Service::one();
    let slow = "trap 'sleep 0.3; echo done > done; exit' TERM; echo in > in; while :; do sleep 0.02; done";
    fs::write(service.path("slow.sh"), slow).expect("there is room");
    let holder = service.begin("lock a --ttl 1min --grace 15s", "setsid sh slow.sh & wait");
    service.written("in");
    service.conclave("release a --force --reason maintenance").ends(0);
    let ran = holder.end().ends(122);
    assert!(ran.err.contains("maintenance"), "{}", ran.err);
    assert_eq!(fs::read_to_string(service.path("done")).unwrap_or_default(), "done\n", "it was killed");
}

#[test]
fn the_lock_is_kept_for_what_the_command_left_behind() {
    let service = Service::one();
    // It ends with its directory, too.
    let daemon = "echo $$ > daemon; while [ -e daemon ] && [ ! -e enough ]; do sleep 0.02; done";
    fs::write(service.path("daemon.sh"), daemon).expect("there is room");
    let script = "setsid sh daemon.sh < /dev/null > /dev/null 2>&1 & echo $$ > in; exit 5";
    let command = service.client(&["lock", "a", "-v", "--", "/bin/sh", "-c", script]);
    let holder = Running::with_errors_in(command, &service.path("errors"));
    let (command, daemon) = (service.pid_in("in"), service.pid_in("daemon"));
    until("the command has ended", || !is_alive(command));
    service.shell("lock a --try", "touch never").ends(120);
    assert!(is_alive(daemon));
    until("the runner says what it waits for", || {
        let errors = fs::read_to_string(service.path("errors")).unwrap_or_default();
        errors.contains(" of its processes still run: 'a' stays held until they end")
    });
    fs::write(service.path("enough"), "").expect("there is room");
    holder.end().ends(5);
    service.shell("lock a --try", "exit 0").ends(0);

    // Whoever waits for a daemon can be told to end it.
    let holder =
        service.begin("lock b", "setsid sleep 60 < /dev/null > /dev/null 2>&1 & echo $! > sleeper; exit 6");
    let sleeper = service.pid_in("sleeper");
    until("it is all that is left", || {
        let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        stat.split(' ').nth(3) == Some(keeper_of(holder.pid()).to_string().as_str())
    });
    holder.signal(Signal::TERM);
    holder.end().ends(6);
    assert!(!is_alive(sleeper));
    assert!(!service.path("never").exists());
}

#[test]
fn what_the_command_left_behind_is_let_go_when_asked_for() {
    let service = Service::one();
    let script = "setsid sleep 60 < /dev/null > /dev/null 2>&1 & echo $! > sleeper; exit 5";
    service.shell("lock a --release-on-exit", script).ends(5);
    let sleeper = service.pid_in("sleeper");
    service.shell("lock a --try", "exit 0").ends(0);
    assert!(is_alive(sleeper), "it was ended");
    send(sleeper, Signal::KILL);

    // What is lost before the command ends is lost for everything it started.
    let script = "setsid sleep 60 & echo $! > other; echo in > in; exec sleep 60";
    let holder = service.begin("lock a --release-on-exit --grace 200ms", script);
    service.written("in");
    let other = service.pid_in("other");
    service.conclave("release a --force --reason maintenance").ends(0);
    holder.end().ends(122);
    assert!(!is_alive(other));
}

#[test]
fn a_stopped_command_hears_that_it_is_to_end() {
    let service = Service::one();
    // On a terminal the runner would stop as well.
    let script = "trap 'exit 9' TERM; echo $$ > in; while :; do sleep 0.02; done";
    let mut command = std::process::Command::new("setsid");
    command.arg(BINARY).args(["lock", "a", "--", "/bin/sh", "-c", script]).stdin(Stdio::null());
    command.current_dir(service.home()).env("CONCLAVE_ENDPOINTS", service.endpoints());
    let holder = Running::start(command);
    let command = service.pid_in("in");
    send(command, Signal::STOP);
    until("it is stopped", || is_stopped(command));
    holder.signal(Signal::TERM);
    holder.end().ends(9);
}

/// Exit codes of a command are its own, even if they look like ours.
#[test]
fn a_command_with_the_exit_code_of_a_loss_has_not_lost() {
    let service = Service::one();
    for code in [122, 123] {
        let script = format!("echo x >> runs-{code}; exit {code}");
        service.begin("elect a --again", &script).end().ends(code);
        assert_eq!(fs::read_to_string(service.path(&format!("runs-{code}"))).unwrap_or_default(), "x\n");
    }
}

#[test]
fn a_probe_that_hangs_is_killed_with_what_it_started() {
    let service = Service::one();
    let mut command = service.client(&["elect", "a", "--ttl", "2s", "--probe-every", "200ms"]);
    // Only the first one hangs.
    command.args([
        "--probe",
        "echo again >> probes; test -e probe || { setsid sleep 60 & echo $! > probe; wait; }",
    ]);
    command.args(["--", "/bin/sh", "-c", "echo in > in; exec sleep 60"]);
    let leader = Running::start(command);
    service.written("in");
    let probe = service.pid_in("probe");
    until("the probe has ended", || !is_alive(probe));
    // The failure is told before the next probe but one.
    let probes = || fs::read_to_string(service.path("probes")).map_or(0, |text| text.lines().count());
    until("it is probed again", || probes() > 2);
    leader.signal(Signal::TERM);
    let ran = leader.end();
    assert!(ran.err.contains("the probe fails"), "{}", ran.err);
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let service = Service::one();
    let holder = service.hold("lock a", "held");
    let script =
        "trap 'echo heard > heard' USR1; echo in > in; while [ ! -e enough ]; do sleep 0.02; done; exit 7";
    let mut command = std::process::Command::new("nohup");
    command.arg(BINARY).args(["lock", "a", "--", "/bin/sh", "-c", script]);
    command.current_dir(service.home()).env("CONCLAVE_ENDPOINTS", service.endpoints()).stdin(Stdio::null());
    let waiter = Running::start(command);
    service.has_waiters("a", 1);
    waiter.signal(Signal::HUP);
    holder.let_go();
    service.written("in");
    waiter.signal(Signal::HUP);
    // What comes after it is heard.
    waiter.signal(Signal::USR1);
    service.written("heard");
    fs::write(service.path("enough"), "").expect("there is room");
    waiter.end().ends(7);
}
