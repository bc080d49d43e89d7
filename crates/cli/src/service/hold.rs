//! `conclave lock` and `conclave elect`: a command that runs while something is held.

use std::ffi::OsString;
use std::future::Future;
use std::io::IsTerminal as _;
use std::process::Stdio;
use std::time::Duration;

use conclave_client::v1::failed::Code;
use conclave_client::{Error, Guard, Mode, Owner, Request, Session, SessionOptions};
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::args::{ElectArgs, HoldArgs, RunArgs};
use super::{client, run_client};
use crate::child::{Group, Signals};
use crate::failure::{Failure, Verdict};
use crate::output;

/// Somebody else has it.
const BUSY: u8 = 120;
/// It was not granted in time.
const TIMED_OUT: u8 = 121;
/// It was lost while the command ran.
const LOST: u8 = 122;
/// The service does not answer.
const UNAVAILABLE: u8 = 123;
/// The service refused.
const REFUSED: u8 = 124;
/// How long giving something back may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a leader that lost waits before it campaigns again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a probe may take.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Runs a command while holding a lock.
pub fn lock(args: &HoldArgs) -> Result<Verdict, Failure> {
    let mut request = Request::locks(&args.names).priority(args.run.priority);
    if args.shared {
        request = request.mode(Mode::Shared);
    }
    if let Some(limit) = args.permits {
        request = request.mode(Mode::Permits { count: 1, limit });
    }
    if args.try_once || args.skip_if_held {
        request = request.try_once();
    }
    if let Some(wait) = args.wait {
        request = request.wait(wait);
    }
    if let Some(delay) = args.lock_delay {
        request = request.lock_delay(delay);
    }
    let names = args.names.join(" ");
    let holding = Holding { what: &names, args: &args.run, request, is_election: false };
    let code = run_client(async { holding.once(&mut Signals::listen()?).await })?;
    if args.skip_if_held && code == BUSY {
        return Ok(Verdict::Held);
    }
    Ok(Verdict::Code(code))
}

/// Runs a command while leading.
pub fn elect(args: &ElectArgs) -> Result<Verdict, Failure> {
    let owner = SessionOptions::default().owner;
    let value = args.value.clone().unwrap_or_else(|| format!("{}:{}", owner.host, owner.pid));
    let request = Request::campaign(&args.name, value).priority(args.run.priority);
    let holding = Holding { what: &args.name, args: &args.run, request, is_election: true };
    run_client(async {
        let mut signals = Signals::listen()?;
        loop {
            let code = holding.once(&mut signals).await?;
            if !(args.again && matches!(code, LOST | UNAVAILABLE)) {
                return Ok(Verdict::Code(code));
            }
            output::notice("note", "campaigning again");
            tokio::select! {
                () = sleep(PAUSE) => {}
                signal = signals.next() => return Ok(Verdict::Code(ended_by(signal))),
            }
        }
    })
}

/// What is to be held while what runs.
struct Holding<'a> {
    what: &'a str,
    args: &'a RunArgs,
    request: Request,
    is_election: bool,
}

impl Holding<'_> {
    /// Acquires, runs the command, releases; gives the exit code.
    async fn once(&self, signals: &mut Signals) -> Result<u8, Failure> {
        let client = client(&self.args.endpoints)?;
        let opened = tokio::select! {
            opened = client.session(self.session()) => opened,
            signal = signals.next() => return Ok(ended_by(signal)),
        };
        let session = match opened {
            Ok(session) => session,
            Err(error) => return Ok(self.explain(&error)),
        };
        let code = tokio::select! {
            acquired = self.acquire(&session) => match acquired {
                Ok(guard) => self.run(&session, &guard, signals).await,
                Err(error) => self.explain(&error),
            },
            signal = signals.next() => ended_by(signal),
        };
        // Whatever it held or waited for ends with it. What cannot be ended now ends when its time is over.
        let _ = timeout(FAREWELL, session.close()).await;
        Ok(code)
    }

    fn session(&self) -> SessionOptions {
        let usual = SessionOptions::default();
        let label = self.args.label.clone().unwrap_or_else(|| shown(&self.args.command));
        let owner = Owner { label, ..usual.owner.clone() };
        SessionOptions { ttl: self.args.ttl, owner, ..usual }
    }

    async fn acquire(&self, session: &Session) -> Result<Guard, Error> {
        let (queued, mut ahead) = mpsc::unbounded_channel();
        let acquiring = session.acquire(self.request.clone().tell_queued(queued));
        tokio::pin!(acquiring);
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired,
                Some(ahead) = ahead.recv() => self.say_queued(ahead),
            }
        }
    }

    fn say_queued(&self, ahead: u32) {
        if std::io::stderr().is_terminal() {
            let what = self.what;
            let others = if ahead == 0 { String::new() } else { format!(", behind {ahead} others") };
            output::notice(
                "note",
                &format!("waiting for {what}{others}; 'conclave why {what}' tells for whom"),
            );
        }
    }

    fn explain(&self, error: &Error) -> u8 {
        let code = match error {
            Error::Refused(failure) => match failure.code {
                Code::Busy => BUSY,
                Code::TimedOut => TIMED_OUT,
                _ => REFUSED,
            },
            // Nothing has run yet: to lose the session is to be without the service, and nothing worse.
            Error::Unavailable(_) | Error::SessionOver(_) => UNAVAILABLE,
            Error::Endpoint(_) | Error::Protocol(_) => REFUSED,
        };
        output::notice("note", &format!("{}: {error}", self.what));
        code
    }

    async fn run(&self, session: &Session, guard: &Guard, signals: &mut Signals) -> u8 {
        let token = guard.token().to_string();
        let mut variables = vec![("CONCLAVE_LOCK", self.what.to_owned()), ("CONCLAVE_TOKEN", token.clone())];
        if self.is_election {
            variables.push(("CONCLAVE_LEADER", self.what.to_owned()));
            variables.push(("CONCLAVE_TERM", token));
        }
        let mut group = match Group::start(&self.args.command, &variables) {
            Ok(group) => group,
            Err(code) => return code,
        };
        tokio::select! {
            code = self.watch(session, guard, &mut group, signals) => code,
            never = self.probe(session) => never,
        }
    }

    /// Waits for the command, forwards signals, and ends it when what it runs under is lost.
    async fn watch(&self, session: &Session, guard: &Guard, group: &mut Group, signals: &mut Signals) -> u8 {
        let grace = self.args.grace.min(self.args.ttl / 3);
        let mut safety = session.watch_safety();
        loop {
            let last_call = self.dead_by(session).checked_sub(grace).unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                code = group.wait() => return code,
                signal = signals.next() => group.tell(signal),
                () = guard.lost() => {
                    self.say_lost(guard.why_lost());
                    // Taken by force: somebody else may have it already.
                    let until = self.dead_by(session).min(Instant::now() + grace);
                    group.end(until).await;
                    return LOST;
                }
                () = sleep_until(last_call) => {
                    self.say_lost(Some("it could not be renewed in time".to_owned()));
                    group.end(self.dead_by(session)).await;
                    return LOST;
                }
                // Renewed: the last call is later now.
                Ok(()) = safety.changed() => {}
            }
        }
    }

    /// When the command must be dead: early enough for a signal to arrive on a machine that has much else to do.
    fn dead_by(&self, session: &Session) -> Instant {
        session.safe_until().checked_sub(self.args.ttl / 20).unwrap_or_else(Instant::now)
    }

    fn say_lost(&self, why: Option<String>) {
        let why = why.unwrap_or_else(|| "it is over".to_owned());
        output::notice("note", &format!("{} is lost: {why}; the command is ended", self.what));
    }

    /// Lets the session live only while the probe succeeds. Never returns.
    async fn probe(&self, session: &Session) -> u8 {
        let Some(probe) = &self.args.probe else { return std::future::pending().await };
        let mut was_healthy = true;
        loop {
            sleep(self.args.probe_every).await;
            let is_healthy = succeeds(probe).await;
            if is_healthy != was_healthy {
                let news = if is_healthy { "succeeds again" } else { "fails: not renewed until it succeeds" };
                output::notice("note", &format!("the probe {news}"));
            }
            session.set_renewal(is_healthy);
            was_healthy = is_healthy;
        }
    }
}

/// The exit code for an end by a signal.
fn ended_by(signal: Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

fn succeeds(probe: &str) -> impl Future<Output = bool> {
    let mut command = tokio::process::Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(probe)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    async move {
        match timeout(PROBE_LIMIT, command.status()).await {
            Ok(Ok(status)) => status.success(),
            _ => false,
        }
    }
}

/// A command, as people write it.
fn shown(command: &[OsString]) -> String {
    let mut text: String = command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if text.len() > 200 {
        let end =
            text.char_indices().map(|(index, _)| index).take_while(|index| *index <= 200).last().unwrap_or(0);
        text.truncate(end);
    }
    text
}
