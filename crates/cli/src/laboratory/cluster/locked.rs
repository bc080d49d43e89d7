//! `conclave cluster lock`: a command inside the critical section.
//!
//! Where what a process holds runs out (`majority --set mode=view`), the command runs out with it: it begins only when its
//! process has said how much time is left, and the keeper ends it by itself if no more is confirmed. So it does not matter
//! whether the process, this program or the machine stands still. Time is counted from when it was asked for, on this side.

use std::time::{Duration, Instant};

use conclave_algorithms::Name;
use conclave_algorithms::mutex::Fence;
use conclave_live::cluster::Cluster;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use tokio::sync::mpsc;

use super::through;
use crate::child::mutant::{self, Mutant};
use crate::child::{self, Boot, Deadlines, Event, Group, Plan, Signals};
use crate::failure::{Failure, Verdict};
use crate::laboratory::args::LockArgs;
use crate::laboratory::output;

/// The lock was lost while the command ran.
const LOST: u8 = 3;
/// How long a command may take to end when it is told to, if nothing runs out.
const GRACE: Duration = Duration::from_secs(2);
/// How often to ask in the time of a notice how much is left.
const QUESTIONS: u32 = 3;

/// Waits for the lock, and runs the command.
pub fn run(cluster: &Cluster, args: &LockArgs) -> Result<Verdict, Failure> {
    let deadline = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let (via, mut control) = through(cluster, args.via)?;
        control.ask(&Ask::Wish(Wish::Lock { name: args.name.clone() })).map_err(Failure::new)?;
        let given = match granted(&mut control, deadline)? {
            Some(fence) => confirmed(&mut control, &args.name, deadline)?.map(|term| (fence, term)),
            None => None,
        };
        let Some((fence, term)) = given else {
            output::notice("note", &format!("{} was not granted in time", args.name));
            return Ok(Verdict::Failed);
        };
        // It was lost before the command began: ask again.
        let Term::For(lease) = term else { continue };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::new(format!("the command cannot be watched: {error}")))?;
        let code = runtime.block_on(held(args, fence, lease, control))?;
        runtime.shutdown_background();
        if code == LOST {
            output::notice("note", &format!("{} was lost: {via} was taken for dead, or died", args.name));
        }
        return Ok(Verdict::Code(code));
    }
}

/// How much time is left of a lock that is held.
#[derive(Clone, Copy)]
enum Term {
    /// It is no longer held.
    Over,
    /// So much; nothing if it does not run out.
    For(Option<Lease>),
}

/// Until when a command may run.
#[derive(Clone, Copy)]
struct Lease {
    deadlines: Deadlines,
    /// How often to ask whether it has become longer.
    period: Duration,
}

impl Term {
    /// What an answer means that was asked for at this moment.
    fn of(asked: Boot, micros: Option<u64>, notice: u64) -> Self {
        let Some(micros) = micros.filter(|_| !mutant::is(Mutant::ForgetsLeases)) else {
            return Self::For(None);
        };
        let notice = Duration::from_micros(notice);
        let kill_at = asked.after(Duration::from_micros(micros));
        let period = (notice / QUESTIONS).max(Duration::from_millis(1));
        let lease = Lease { deadlines: Deadlines { tell_at: kill_at.before(notice), kill_at }, period };
        if lease.deadlines.tell_at <= Boot::now() { Self::Over } else { Self::For(Some(lease)) }
    }
}

fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

fn granted(control: &mut Control, deadline: Option<Instant>) -> Result<Option<Fence>, Failure> {
    loop {
        match control.answer(left(deadline)).map_err(Failure::new)? {
            Some(Answer::Word(Word::Granted { fence, .. })) => return Ok(Some(fence)),
            Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why)) => return Err(Failure::new(why)),
            // It was granted and lost again before we heard of either.
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

/// Asks how much time there is before anything runs; nothing if there is no answer in time.
fn confirmed(control: &mut Control, name: &Name, deadline: Option<Instant>) -> Result<Option<Term>, Failure> {
    let asked = Boot::now();
    control.ask(&Ask::Left { name: name.clone() }).map_err(Failure::new)?;
    loop {
        match control.answer(left(deadline)).map_err(Failure::new)? {
            Some(Answer::Left { micros, notice, .. }) => return Ok(Some(Term::of(asked, micros, notice))),
            Some(Answer::Word(Word::Lost { .. })) => return Ok(Some(Term::Over)),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

/// Runs the command; what it ends with is ours. The lock is given back when the connection ends, which the keeper holds
/// open, too.
async fn held(args: &LockArgs, fence: Fence, lease: Option<Lease>, control: Control) -> Result<u8, Failure> {
    // From here on a signal does not end us before the command.
    let mut signals = Signals::listen()?;
    // However this ends: only then the lock is given back.
    let _closer = control.closer().map_err(Failure::new)?;
    let mut asker = control.asker().map_err(Failure::new)?;
    let variables = [
        ("CONCLAVE_LOCK", args.name.to_string()),
        ("CONCLAVE_FENCE", fence.to_string()),
        ("CONCLAVE_FENCE_ORDER", fence.sortable()),
    ];
    // Without a lease, what is lost is told.
    let never = Deadlines { tell_at: Boot::NEVER, kill_at: Boot::NEVER };
    let mut deadlines = lease.map_or(never, |lease| lease.deadlines);
    let plan = Plan {
        command: &args.command,
        variables: &variables,
        blocked: signals.blocked(),
        deadlines,
        releases_on_exit: false,
        is_detached: false,
        holds: Some(control.hold().map_err(Failure::new)?),
    };
    let start = Group::start(&plan);
    drop(plan);
    let mut group = start.map_err(|error| Failure::new(format!("the command cannot be run: {error}")))?;
    let mut news = listen(control);
    let mut asked = None;
    let mut question = tokio::time::interval(lease.map_or(GRACE, |lease| lease.period));
    question.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_lost = false;
    let mut ended = 1;
    loop {
        tokio::select! {
            event = group.next() => match event {
                Ok(Event::Ended { code, .. }) => ended = code,
                Ok(Event::Ready) => group.begin(&signals),
                Ok(Event::Stopped(stop)) => group.stop_with(stop, &signals),
                Ok(Event::Ending) => is_lost = true,
                Ok(Event::NotStarted { errno }) => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    return Err(Failure::new(format!("the command cannot be run: {error}")));
                }
                Ok(Event::Gone) => return Ok(if is_lost { LOST } else { ended }),
                Err(_) => {
                    let _ = child::end_everything();
                    return Ok(LOST);
                }
            },
            _ = question.tick(), if lease.is_some() && asked.is_none() && !is_lost => {
                asked = Some(Boot::now());
                asker.ask(&Ask::Left { name: args.name.clone() });
            }
            said = news.recv(), if !is_lost => match said {
                Some(Answer::Left { micros, notice, .. }) => {
                    // What is over is told as well; until then the old deadlines hold.
                    let term = asked.take().map(|asked| Term::of(asked, micros, notice));
                    if let Some(Term::For(Some(lease))) = term {
                        deadlines = lease.deadlines;
                        group.set_deadlines(deadlines);
                    }
                }
                Some(_) => {}
                None => {
                    is_lost = true;
                    let now = Boot::now();
                    let kill_at = now.after(GRACE).min(deadlines.kill_at);
                    group.set_deadlines(Deadlines { tell_at: now, kill_at });
                }
            },
            arrived = signals.next() => group.forward(arrived),
        }
    }
}

/// What the process says; it ends when the lock is lost, or the process that has it for us is gone.
fn listen(mut control: Control) -> mpsc::UnboundedReceiver<Answer> {
    let (news_in, news) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(Some(answer)) = control.answer(None) {
            if matches!(answer, Answer::Word(Word::Lost { .. })) || news_in.send(answer).is_err() {
                break;
            }
        }
    });
    news
}
