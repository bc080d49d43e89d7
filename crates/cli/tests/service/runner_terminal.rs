//! Commands on a terminal: an interactive shell in a pseudo-terminal, with somebody who types.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::nodes::{Service, send};
use crate::runs::{BINARY, Killed, children_of, has_taken, is_alive, is_stopped, stop_early};
use crate::until;

/// An interactive shell with job control.
struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(service: &Service) -> Self {
        let pty = nix::pty::openpty(None, None).expect("there are terminals");
        let side = || pty.slave.try_clone().expect("a terminal can be shared");
        let mut command = Command::new("setsid");
        command.args(["--ctty", "bash", "--norc", "--noprofile", "-i"]).current_dir(service.home());
        command.env("CONCLAVE_ENDPOINTS", service.endpoints()).env("PS1", "$ ");
        // Where tests run by themselves, colours may be on for a dumb terminal, too.
        command.env("TERM", "dumb").env("NO_COLOR", "1");
        let shell = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("there is a shell");
        let keyboard = File::from(pty.master);
        let screen = watched(&keyboard);
        Self { shell, keyboard, screen }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("somebody listens");
    }

    /// Types Ctrl-Z until the command is stopped: while the shell still puts a job in the foreground, a key goes to the shell.
    fn stops(&mut self, command: u32) {
        until("the command is stopped", || {
            self.types("\x1a");
            std::thread::sleep(Duration::from_millis(50));
            is_stopped(command)
        });
    }

    fn line(&mut self, line: &str) {
        self.types(&format!("{line}\n"));
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn shows(&self, text: &str) {
        until(&format!("the screen shows {text}"), || self.screen().contains(text));
    }
}

/// What is shown on a terminal.
fn watched(keyboard: &File) -> Arc<Mutex<String>> {
    let mut from = keyboard.try_clone().expect("a terminal can be shared");
    let screen = Arc::new(Mutex::new(String::new()));
    let shown = Arc::clone(&screen);
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            shown.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
    });
    screen
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        if std::thread::panicking() {
            println!("--- the screen\n{}", self.screen());
        }
    }
}

fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    parent.expect("it has a parent")
}

#[test]
fn a_background_job_leaves_the_terminal_to_the_shell() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    // It says at once what becomes of its jobs.
    terminal.line("set -b");
    let script = "echo in > in; while [ ! -e enough ]; do sleep 0.02; done; echo out > out";
    terminal.line(&format!("{BINARY} lock a -- sh -c '{script}' &"));
    service.written("in");
    terminal.line("read line; echo $line > first");
    terminal.line("typed");
    assert_eq!(service.written("first"), "typed\n");
    fs::write(service.path("enough"), "").expect("there is room");
    service.written("out");
    terminal.line("wait; echo $? > code; read line; echo $line > second");
    terminal.line("again");
    assert_eq!(service.written("second"), "again\n");
    // A background job that reads the terminal is stopped, as any other.
    terminal.line(&format!(
        "{BINARY} lock b --ttl 1min -- sh -c 'echo $$ > reader; read line; echo $line > third' &"
    ));
    let reader = service.written("reader").trim().parse().expect("a number");
    until("it is stopped", || is_stopped(reader));
    // The shell knows it when all threads of the runner have stopped too.
    terminal.shows("Stopped");
    terminal.line("fg");
    terminal.line("to the job");
    assert_eq!(service.written("third"), "to the job\n");
}

#[test]
fn ctrl_z_gives_the_prompt_back_and_fg_goes_on() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    let script =
        "echo $$ > in; read line; echo $line > heard; while [ ! -e enough ]; do sleep 0.02; done; exit 3";
    terminal.line(&format!("{BINARY} lock a --ttl 1min -- sh -c '{script}'"));
    let command = service.written("in").trim().parse().expect("a number");
    terminal.stops(command);
    terminal.line("echo prompt > prompt");
    assert_eq!(service.written("prompt"), "prompt\n");
    // The second time as the first.
    for round in ["one", "two"] {
        terminal.line("fg");
        until("it goes on", || !is_stopped(command));
        terminal.stops(command);
        terminal.line(&format!("echo {round} > {round}"));
        service.written(round);
    }
    terminal.line("fg");
    terminal.line("hello");
    assert_eq!(service.written("heard"), "hello\n");
    fs::write(service.path("enough"), "").expect("there is room");
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "3\n");
    // A runner that is stopped does not wait until this is printed, so it may appear only when it goes on.
    terminal.shows("note: stopped: 'a' is lost and the command ended unless it goes on within ");
}

#[test]
fn a_job_that_is_stopped_for_too_long_loses_its_lock_and_its_command() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    terminal.line(&format!("{BINARY} lock a --ttl 2s --grace 100ms -- sh -c 'echo $$ > in; exec sleep 60'"));
    let command: u32 = service.written("in").trim().parse().expect("a number");
    terminal.stops(command);
    service.shell("lock a", &format!("kill -0 {command} || echo dead > dead")).ends(0);
    assert_eq!(service.written("dead"), "dead\n");
    terminal.line("fg");
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "122\n");
    terminal.shows("error: 'a' is lost: it could not be renewed in time");
}

#[test]
fn a_signal_is_heard_once_whoever_sent_it() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    let script =
        "trap \"echo INT >> ints\" INT; echo $PPID > in; while [ ! -e enough ]; do sleep 0.02; done; exit 4";
    terminal.line(&format!("{BINARY} lock a -- sh -c '{script}'"));
    let keeper: u32 = service.written("in").trim().parse().expect("a number");
    let ints = || fs::read_to_string(service.path("ints")).unwrap_or_default().lines().count();
    terminal.types("\x03");
    until("Ctrl-C is heard", || ints() == 1);
    send(parent_of(keeper), Signal::INT);
    until("the signal is heard", || ints() == 2);
    fs::write(service.path("enough"), "").expect("there is room");
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "4\n");
    assert_eq!(ints(), 2);
}

/// A command that sends a signal to its own group has it already when the runner hears of it.
#[test]
fn a_stop_of_the_own_group_is_heard_once() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    let script = "trap \"echo TSTP >> stops\" TSTP; trap \"echo USR1 > heard\" USR1; kill -TSTP 0; \
                  echo $PPID > in; while [ ! -e enough ]; do sleep 0.02; done";
    terminal.line(&format!("{BINARY} lock a -- sh -c '{script}'"));
    let keeper: u32 = service.written("in").trim().parse().expect("a number");
    let runner = parent_of(keeper);
    has_taken(runner, Signal::TSTP);
    // What was forwarded before it has arrived before it.
    send(runner, Signal::USR1);
    service.written("heard");
    assert_eq!(service.written("stops"), "TSTP\n");
    fs::write(service.path("enough"), "").expect("there is room");
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "0\n");
}

/// The other end of a pipeline is in the same job, and may read the terminal, as pagers do.
#[test]
fn a_pipeline_is_one_job() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    let pager = "read line < /dev/tty; echo $line > typed; cat > piped";
    let script = "echo text; echo in > in; while [ ! -e typed ]; do sleep 0.02; done";
    terminal.line(&format!("{BINARY} lock a -- sh -c '{script}' | sh -c '{pager}'"));
    service.written("in");
    terminal.line("key");
    assert_eq!(service.written("typed"), "key\n");
    assert_eq!(service.written("piped"), "text\n");
}

/// Typed while there is a keeper, and nothing yet that could hear it.
#[test]
fn ctrl_c_is_heard_by_a_command_that_is_about_to_start() {
    let service = Service::one();
    let is_caught = (0..50).any(|attempt| {
        let mut terminal = Terminal::open(&service);
        terminal.line(&format!("{BINARY} lock a-{attempt} -- sleep 3; echo $? > code-{attempt}"));
        let mut runner = None;
        until("the runner starts", || {
            runner = children_of(terminal.shell.id()).first().copied();
            runner.is_some()
        });
        let runner = runner.expect("it was found");
        let Some(keeper) = stop_early(runner) else { return false };
        terminal.types("\x03");
        // The terminal shows it when it has sent the signal.
        terminal.shows("^C");
        has_taken(runner, Signal::INT);
        send(keeper, Signal::CONT);
        assert_eq!(service.written(&format!("code-{attempt}")), "130\n");
        true
    });
    assert!(is_caught, "the keeper was never early enough");
}

/// As with `ssh -t host 'conclave lock ...'`: the runner leads the session, and nobody else is told.
#[test]
fn a_hangup_ends_the_command_of_a_runner_that_leads_its_session() {
    let service = Service::one();
    let pty = nix::pty::openpty(None, None).expect("there are terminals");
    // A terminal hangs up when nobody has its other side any more.
    fcntl_setfd(&pty.master, FdFlags::CLOEXEC).expect("it is open");
    let side = || pty.slave.try_clone().expect("a terminal can be shared");
    let mut command = Command::new("setsid");
    command.args(["--ctty", BINARY, "lock", "a", "--", "sh", "-c"]);
    command.arg("echo $$ > in; exec sleep 600").current_dir(service.home());
    command.env("CONCLAVE_ENDPOINTS", service.endpoints());
    command.stdin(side()).stdout(side()).stderr(side());
    let runner = Killed(command.spawn().expect("there is a shell"));
    let sleeper = service.written("in").trim().parse().expect("a number");
    drop((command, pty.slave));
    assert!(is_alive(runner.0.id()) && is_alive(sleeper));
    drop(pty.master);
    until("the command has ended", || !is_alive(sleeper));
    service.shell("lock a --wait 20s", "exit 0").ends(0);
}

/// As editors do when they read a Ctrl-Z from a terminal that does not act on it.
#[test]
fn a_command_that_stops_its_own_group_goes_on_after_one_fg() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    let script = "for i in 1 2 3 4 5; do echo $i > in-$i; kill -TSTP 0; echo $i > on-$i; done; exit 6";
    terminal.line(&format!("{BINARY} lock a --ttl 1min -- sh -c '{script}'"));
    for round in 1..=5 {
        service.written(&format!("in-{round}"));
        terminal.line(&format!("echo prompt > prompt-{round}"));
        service.written(&format!("prompt-{round}"));
        assert!(!service.path(&format!("on-{round}")).exists(), "it did not stop");
        terminal.line("fg");
        service.written(&format!("on-{round}"));
    }
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "6\n");
}

#[test]
fn a_command_that_suspends_itself_gives_the_prompt_back() {
    let service = Service::one();
    let mut terminal = Terminal::open(&service);
    // A shell makes a process group of its own, and leaves it before it stops.
    terminal.line(&format!("{BINARY} lock a --ttl 1min -- bash --norc --noprofile -i"));
    terminal.line("echo $PPID > inside");
    let keeper: u32 = service.written("inside").trim().parse().expect("a number");
    assert_ne!(keeper, terminal.shell.id());
    for round in 1..=2 {
        terminal.line("suspend");
        terminal.line(&format!("echo $$ > outside-{round}"));
        assert_eq!(service.written(&format!("outside-{round}")), format!("{}\n", terminal.shell.id()));
        terminal.line("fg");
        terminal.line(&format!("echo $PPID > inside-{round}"));
        assert_eq!(service.written(&format!("inside-{round}")), format!("{keeper}\n"));
    }
    terminal.line("exit 3");
    terminal.line("echo $? > code");
    assert_eq!(service.written("code"), "3\n");
    // One that stops itself only.
    terminal.line(&format!("{BINARY} lock a --ttl 1min -- sh -c 'echo in > alone; kill -STOP $$; exit 4'"));
    service.written("alone");
    terminal.line("echo prompt > prompt");
    service.written("prompt");
    terminal.line("fg");
    terminal.line("echo $? > last");
    assert_eq!(service.written("last"), "4\n");
}
