//! `conclave lock` and `conclave elect`: a command that runs while something is held.

mod refusal;
mod terms;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use conclave_client::{Campaign, Client, Error, Guard, Mode, Owner, Request, Session, SessionOptions};
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::args::{ElectArgs, HoldArgs, PatienceArgs, RunArgs};
use super::limits::check_names;
use super::voice::Voice;
use super::{client, run_client};
use crate::child::mutant::{self, Mutant};
use crate::child::{self, Boot, Deadlines, Event, Group, KeeperDied, Mask, Plan, Signals};
use crate::failure::{Failure, Verdict};
use terms::{Terms, chance};

/// How long giving something back may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long it may take to find a node before somebody who looks on is told.
const LOOKING: Duration = Duration::from_secs(1);
/// How long what the command started may outlive it before somebody who looks on is told.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
/// How long killing may take, however long the lease is.
const LONGEST_MARGIN: Duration = Duration::from_secs(2);
/// All names that are held around a command, one in each line.
const HELD: &str = "CONCLAVE_HELD";

/// How an attempt to hold something while a command runs came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The command ended by itself, with this code.
    Ended(u8),
    /// A signal ended the wait.
    Signalled(Signal),
    /// Somebody else has it.
    Busy,
    /// It was not granted in time.
    TimedOut,
    /// It was lost while the command ran.
    Lost,
    /// The same, and something of the command could not be ended.
    StillRunning,
    /// The service does not answer.
    Unavailable,
    /// The service refused.
    Refused,
    /// The command could not be started.
    NotStarted,
}

/// How long a keeper may take to end what must end at once.
const ALLOWANCE: Duration = Duration::from_millis(250);

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Self::Ended(code) => code,
            Self::Signalled(signal) => 128 + u8::try_from(signal as i32).unwrap_or(0),
            Self::Busy => 120,
            Self::TimedOut => 121,
            Self::Lost | Self::StillRunning => 122,
            Self::Unavailable => 123,
            Self::Refused => 124,
            Self::NotStarted => 126,
        }
    }

    /// The exit code, of one's own choosing where somebody else has it.
    fn verdict(self, patience: &PatienceArgs) -> Verdict {
        match (self, patience.conflict_exit_code) {
            (Self::Busy | Self::TimedOut, Some(code)) => Verdict::Code(code),
            (outcome, _) => Verdict::Code(outcome.code()),
        }
    }
}

/// An outcome, and for how long something was held before.
struct Attempt {
    outcome: Outcome,
    held_for: Duration,
}

impl From<Outcome> for Attempt {
    /// Nothing was held.
    fn from(outcome: Outcome) -> Self {
        Self { outcome, held_for: Duration::ZERO }
    }
}

/// A request that waits for as long as was asked for.
fn patient(request: Request, patience: &PatienceArgs) -> Request {
    match patience.wait {
        _ if patience.try_once => request.try_once(),
        Some(wait) => request.wait(wait),
        None => request,
    }
}

/// Runs a command while holding a lock.
pub fn lock(args: &HoldArgs) -> Result<Verdict, Failure> {
    check_names(&args.names)?;
    let mut request = patient(Request::locks(&args.names).priority(args.run.priority), &args.patience);
    if args.shared {
        request = request.mode(Mode::Shared);
    }
    if let Some(limit) = args.permits {
        request = request.mode(Mode::Permits { count: 1, limit });
    }
    if args.skip_if_held {
        request = request.try_once();
    }
    if let Some(delay) = args.lock_delay {
        request = request.lock_delay(delay);
    }
    run_client(async {
        let mut signals = Signals::listen()?;
        let holding = Holding {
            names: &args.names,
            args: &args.run,
            request,
            wait: args.patience.wait,
            is_election: false,
            skips_if_held: args.skip_if_held,
            voice: Voice::start(&args.run)?,
        };
        let attempt = holding.once(&mut signals).await;
        holding.voice.flush();
        Ok(match attempt?.outcome {
            Outcome::Busy if args.skip_if_held => Verdict::Held,
            outcome => outcome.verdict(&args.patience),
        })
    })
}

/// Runs a command while leading.
pub fn elect(args: &ElectArgs) -> Result<Verdict, Failure> {
    let owner = SessionOptions::default().owner;
    let value = args.value.clone().unwrap_or_else(|| format!("{}:{}", owner.host, owner.pid));
    let campaign = Campaign::new(&args.name, value).priority(args.run.priority);
    let request = patient(campaign.into(), &args.patience);
    run_client(async {
        let mut signals = Signals::listen()?;
        let holding = Holding {
            names: std::slice::from_ref(&args.name),
            args: &args.run,
            request,
            wait: args.patience.wait,
            is_election: true,
            skips_if_held: false,
            voice: Voice::start(&args.run)?,
        };
        let outcome = holding.lead(&mut signals, args.again).await;
        holding.voice.flush();
        Ok(outcome?.verdict(&args.patience))
    })
}

/// What is to be held while what runs.
struct Holding<'a> {
    names: &'a [String],
    args: &'a RunArgs,
    request: Request,
    wait: Option<Duration>,
    is_election: bool,
    skips_if_held: bool,
    voice: Voice,
}

impl Holding<'_> {
    /// Campaigns, perhaps again and again. A command that ends by itself was not deposed, whatever its exit code.
    async fn lead(&self, signals: &mut Signals, again: bool) -> Result<Outcome, Failure> {
        let mut terms = Terms::default();
        let mut pause = Duration::ZERO;
        loop {
            if again {
                let blocked = signals.blocked();
                let ready = async {
                    sleep(pause).await;
                    self.until_healthy(blocked).await;
                };
                tokio::select! {
                    () = ready => {}
                    signal = self.interrupted(signals) => return Ok(Outcome::Signalled(signal)),
                }
            }
            let was_unanswered = self.voice.is_unanswered();
            let attempt = self.once(signals).await?;
            pause = match attempt.outcome {
                Outcome::Lost if again => {
                    let pause = terms.after_loss(attempt.held_for, self.args.ttl, chance());
                    self.voice.note(format!("campaigning again in {:.1}s", pause.as_secs_f64()));
                    pause
                }
                Outcome::Unavailable if again => {
                    if !was_unanswered {
                        self.voice.note("campaigning again as soon as the service answers");
                    }
                    Terms::unanswered(chance())
                }
                outcome => return Ok(outcome),
            };
        }
    }

    /// Returns when the probe succeeds: whoever would lose the leadership at once does not take it from others.
    async fn until_healthy(&self, blocked: Mask) {
        let Some(probe) = &self.args.probe else { return };
        let mut is_told = false;
        while !succeeds(probe, &no_term(), self.args.ttl, blocked).await {
            if !is_told {
                self.voice.note("the probe fails: not campaigning until it succeeds");
                is_told = true;
            }
            sleep(self.args.probe_every).await;
        }
        if is_told {
            self.voice.note("the probe succeeds: campaigning");
        }
    }

    /// Acquires, runs the command, releases.
    async fn once(&self, signals: &mut Signals) -> Result<Attempt, Failure> {
        let client = client(&self.args.endpoints)?;
        let opened = tokio::select! {
            opened = self.open(&client) => opened,
            signal = self.interrupted(signals) => return Ok(Outcome::Signalled(signal).into()),
        };
        let session = match opened {
            Ok(session) => session,
            Err(error) => return Ok(self.explain(&client, &error).await.into()),
        };
        self.voice.answered();
        let attempt = tokio::select! {
            acquired = self.acquire(&client, &session) => match acquired {
                Ok(guard) => {
                    let since = Instant::now();
                    let outcome = self.run(&session, &guard, signals).await;
                    if outcome == Outcome::StillRunning {
                        // To drop it would be to release it.
                        std::mem::forget(guard);
                    }
                    Attempt { outcome, held_for: since.elapsed() }
                }
                Err(error) => self.explain(&client, &error).await.into(),
            },
            signal = self.interrupted(signals) => Outcome::Signalled(signal).into(),
        };
        if attempt.outcome == Outcome::StillRunning && !mutant::is(Mutant::ClosesWhatRuns) {
            // The lock must not be given to anybody before its lease is over.
            session.set_renewal(false);
            std::mem::forget(session);
            return Ok(attempt);
        }
        // Whatever it held or waited for ends with it. What cannot be ended now ends when its time is over.
        let _ = timeout(FAREWELL, session.close()).await;
        Ok(attempt)
    }

    /// Waits for a signal that ends the wait for a lock.
    async fn interrupted(&self, signals: &mut Signals) -> Signal {
        loop {
            let arrived = signals.next().await;
            if arrived.signal != Signal::SIGTSTP {
                return arrived.signal;
            }
            self.voice.remark("stopped: its place in the queue is lost if this lasts longer than the TTL");
            self.voice.flush();
            Signals::stop_here(Signal::SIGTSTP, || true);
        }
    }

    async fn open(&self, client: &Client) -> Result<Session, Error> {
        let usual = SessionOptions::default();
        let label = self.args.label.clone().unwrap_or_else(|| shown(&self.args.command));
        let owner = Owner { label, ..usual.owner.clone() };
        let opening = client.session(SessionOptions { ttl: self.args.ttl, owner, ..usual });
        tokio::pin!(opening);
        tokio::select! {
            opened = &mut opening => return opened,
            () = sleep(LOOKING) => {}
        }
        let (places, limit) = (client.endpoints().join(", "), self.args.endpoints.connect_wait);
        let looking = format!("looking for a node of the service at {places} (for up to {limit:?})");
        match self.voice.is_unanswered() {
            true => self.voice.detail(looking),
            false => self.voice.remark(looking),
        }
        opening.await
    }

    async fn acquire(&self, client: &Client, session: &Session) -> Result<Guard, Error> {
        let (queued, mut ahead) = mpsc::unbounded_channel();
        let acquiring = session.acquire(self.request.clone().tell_queued(queued));
        tokio::pin!(acquiring);
        let ahead = tokio::select! {
            biased;
            acquired = &mut acquiring => return acquired,
            Some(ahead) = ahead.recv() => ahead,
        };
        if let Some(name) = self.names.iter().find(|name| is_held_around(name)) {
            self.voice.note(format!(
                "'{name}' is held by a 'conclave lock' around this one, which waits for it to end"
            ));
        }
        if self.voice.is_watched() {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired,
                obstacle = self.obstacle(client) => self.voice.remark(self.waiting(ahead, obstacle)),
            }
        }
        acquiring.await
    }

    async fn run(&self, session: &Session, guard: &Guard, signals: &mut Signals) -> Outcome {
        let token = guard.token().to_string();
        let around = std::env::var(HELD).into_iter();
        let mut variables = vec![
            ("CONCLAVE_LOCK", self.names.join(" ")),
            ("CONCLAVE_LOCKS", self.names.join("\n")),
            (HELD, around.chain(self.names.iter().cloned()).collect::<Vec<_>>().join("\n")),
            ("CONCLAVE_TOKEN", token.clone()),
        ];
        if self.is_election {
            variables.push(("CONCLAVE_LEADER", self.names.join(" ")));
            variables.push(("CONCLAVE_TERM", token));
        }
        let blocked = signals.blocked();
        let group = Group::start(&Plan {
            command: &self.args.command,
            variables: &variables,
            blocked,
            deadlines: self.deadlines(session),
            releases_on_exit: self.args.release_on_exit,
            holds: None,
            is_detached: false,
        });
        let mut group = match group {
            Ok(group) => group,
            Err(error) => return self.not_started(&format!("its keeper cannot be started: {error}")),
        };
        let outcome = tokio::select! {
            outcome = self.watch(session, guard, &mut group, signals) => outcome,
            never = self.probe(session, &variables, blocked) => never,
        };
        group.close().await;
        outcome
    }

    /// Tells the keeper of every renewal, forwards signals, and returns when nothing runs any more.
    async fn watch(
        &self,
        session: &Session,
        guard: &Guard,
        group: &mut Group,
        signals: &mut Signals,
    ) -> Outcome {
        let mut safety = session.watch_safety();
        let mut ended = Outcome::Lost;
        let mut is_lost = false;
        let mut left_behind = None;
        // When the keeper must have ended everything at the latest; before a loss, that follows the lease.
        let mut resort = None;
        loop {
            let last_resort = resort.unwrap_or_else(|| self.last_resort(session));
            tokio::select! {
                biased;
                event = group.next() => match event {
                    Ok(Event::Ended { code, left }) => {
                        ended = Outcome::Ended(code);
                        left_behind = (left > 0 && !self.args.release_on_exit).then(|| (Instant::now() + LEFT_BEHIND, left));
                    }
                    Ok(Event::Ready) => group.begin(signals),
                    Ok(Event::Stopped(_)) if mutant::is(Mutant::IgnoresStops) => {}
                    Ok(Event::Stopped(stop)) => {
                        self.say_stopped(session);
                        group.stop_with(stop, signals);
                    }
                    Ok(Event::Ending) if is_lost => {}
                    Ok(Event::Ending) => {
                        is_lost = true;
                        self.say_lost(guard.why_lost().as_deref().unwrap_or("it could not be renewed in time"));
                    }
                    Ok(Event::Gone) => return if is_lost { Outcome::Lost } else { ended },
                    Ok(Event::NotStarted { errno }) => return self.not_started(&io::Error::from_raw_os_error(errno).to_string()),
                    Err(KeeperDied) => return self.end_without_keeper("the process that kept the command was killed"),
                },
                () = guard.lost(), if !is_lost => {
                    is_lost = true;
                    // Taken by force: somebody else may have it already.
                    let (now, last) = (Boot::now(), self.deadlines(session).kill_at);
                    let kill_at = last.min(now.after(self.grace()));
                    group.set_deadlines(Deadlines { tell_at: now, kill_at });
                    resort = Some(Instant::now() + kill_at.since(now) + ALLOWANCE);
                    self.say_lost(guard.why_lost().as_deref().unwrap_or("it is over"));
                }
                Ok(()) = safety.changed(), if !is_lost => group.set_deadlines(self.deadlines(session)),
                arrived = signals.next() => group.forward(arrived),
                () = sleep_until(last_resort) => {
                    return self.end_without_keeper("the process that kept the command did not end it");
                }
                left = elapsed(left_behind), if left_behind.is_some() => {
                    left_behind = None;
                    self.voice.remark(format!("the command ended, but {left} of its processes still run: {} stays held until they end", self.quoted()));
                }
            }
        }
    }

    fn grace(&self) -> Duration {
        self.args.grace.min(self.args.ttl / 3)
    }

    /// When the command must be told to end, and when it must be dead.
    fn deadlines(&self, session: &Session) -> Deadlines {
        let kill_at = safe_until(session).before(margin(self.args.ttl));
        Deadlines { tell_at: kill_at.before(self.grace()), kill_at }
    }

    /// When the keeper must have ended everything, but the lease has not ended yet.
    fn last_resort(&self, session: &Session) -> Instant {
        Instant::now() + session.remaining().saturating_sub(margin(self.args.ttl) / 2)
    }

    /// Does the work of a keeper that was killed or stopped.
    fn end_without_keeper(&self, why: &str) -> Outcome {
        let is_ended = child::end_everything();
        self.say_lost(why);
        if is_ended {
            return Outcome::Lost;
        }
        self.voice.error(Failure::new("some processes of the command could not be ended"));
        Outcome::StillRunning
    }

    fn say_lost(&self, why: &str) {
        let what = if self.is_election { "leadership of " } else { "" };
        self.voice.error(Failure::new(format!("{what}{} is lost: {why}; ending the command", self.quoted())));
    }

    fn say_stopped(&self, session: &Session) {
        let left = self.deadlines(session).tell_at.since(Boot::now()).as_secs_f64();
        let names = self.quoted();
        self.voice.remark(format!(
            "stopped: {names} is lost and the command ended unless it goes on within {left:.1}s"
        ));
        self.voice.flush();
    }

    fn not_started(&self, why: &str) -> Outcome {
        self.voice.error(Failure::new(format!("'{}' cannot be run: {why}", shown(&self.args.command))));
        Outcome::NotStarted
    }

    /// Lets the session live only while the probe succeeds. Never returns.
    async fn probe(&self, session: &Session, variables: &[Variable], blocked: Mask) -> Outcome {
        let Some(probe) = &self.args.probe else { return std::future::pending().await };
        let mut was_healthy = true;
        loop {
            sleep(self.args.probe_every).await;
            let is_healthy = succeeds(probe, variables, self.args.ttl, blocked).await;
            if is_healthy != was_healthy {
                let news = if is_healthy { "succeeds again" } else { "fails: not renewed until it succeeds" };
                self.voice.note(format!("the probe {news}"));
            }
            session.set_renewal(is_healthy);
            was_healthy = is_healthy;
        }
    }
}

/// How long before the lease is over the command must be dead: what it takes for a signal to arrive on a machine that has
/// much else to do.
fn margin(ttl: Duration) -> Duration {
    (ttl / 20).min(LONGEST_MARGIN)
}

/// Until when nobody else can be given what the session holds. The clock is read first: if this process is stopped before it
/// asks how much is left, the moment comes out too early, never too late.
fn safe_until(session: &Session) -> Boot {
    let now = Boot::now();
    now.after(session.remaining())
}

/// Waits for a moment; gives what it is about.
async fn elapsed(due: Option<(Instant, u32)>) -> u32 {
    let Some((at, what)) = due else { return std::future::pending().await };
    sleep_until(at).await;
    what
}

/// Whether a `conclave lock` that this process runs under holds a name.
fn is_held_around(name: &str) -> bool {
    std::env::var(HELD).is_ok_and(|held| held.lines().any(|held| held == name))
}

/// An addition to the environment of a command.
type Variable = (&'static str, String);

/// What tells a probe that no term has begun. A command around this one may have set them.
fn no_term() -> [Variable; 2] {
    ["CONCLAVE_TERM", "CONCLAVE_TOKEN"].map(|name| (name, String::new()))
}

/// Runs a probe under a keeper of its own: what takes too long is killed, with everything it started.
async fn succeeds(probe: &str, variables: &[Variable], limit: Duration, blocked: Mask) -> bool {
    let end = Boot::now().after(limit);
    let group = Group::start(&Plan {
        command: &["/bin/sh", "-c", probe].map(OsString::from),
        variables,
        blocked,
        deadlines: Deadlines { tell_at: end, kill_at: end },
        releases_on_exit: false,
        holds: None,
        is_detached: true,
    });
    let Ok(mut group) = group else { return false };
    let is_healthy = matches!(group.next().await, Ok(Event::Ended { code: 0, .. }));
    group.close().await;
    is_healthy
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_lease_is_used_up_to_its_last_seconds() {
        for (ttl_ms, margin_ms) in [(500, 25), (10_000, 500), (40_000, 2_000), (86_400_000, 2_000)] {
            assert_eq!(margin(Duration::from_millis(ttl_ms)), Duration::from_millis(margin_ms));
        }
    }
}
