//! `conclave cluster lock`: a command inside the critical section.

use std::time::{Duration, Instant};

use conclave_algorithms::mutex::Fence;
use conclave_live::cluster::Cluster;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use tokio::sync::oneshot;

use super::through;
use crate::child::{self, Boot, Deadlines, Event, Group, Plan, Signals};
use crate::failure::{Failure, Verdict};
use crate::laboratory::args::LockArgs;
use crate::laboratory::output;

/// The lock was lost while the command ran.
const LOST: u8 = 3;
/// How long a command may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(2);

/// Waits for the lock, and runs the command.
pub fn run(cluster: &Cluster, args: &LockArgs) -> Result<Verdict, Failure> {
    let (via, mut control) = through(cluster, args.via)?;
    control.ask(&Ask::Wish(Wish::Lock { name: args.name.clone() })).map_err(Failure::new)?;
    let Some(fence) = granted(&mut control, args.wait)? else {
        output::notice("note", &format!("{} was not granted in time", args.name));
        return Ok(Verdict::Failed);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("the command cannot be watched: {error}")))?;
    let code = runtime.block_on(held(args, fence, control))?;
    runtime.shutdown_background();
    if code == LOST {
        output::notice("note", &format!("{} was lost: {via} was taken for dead, or died", args.name));
    }
    Ok(Verdict::Code(code))
}

fn granted(control: &mut Control, wait: Option<Duration>) -> Result<Option<Fence>, Failure> {
    let deadline = wait.map(|wait| Instant::now() + wait);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match control.answer(left).map_err(Failure::new)? {
            Some(Answer::Word(Word::Granted { fence, .. })) => return Ok(Some(fence)),
            Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why)) => return Err(Failure::new(why)),
            // It was granted and lost again before we heard of either.
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

/// Runs the command; what it ends with is ours. The lock is given back when the connection ends.
async fn held(args: &LockArgs, fence: Fence, control: Control) -> Result<u8, Failure> {
    // From here on a signal does not end us before the command.
    let mut signals = Signals::listen()?;
    // However this ends: only then the lock is given back.
    let _closer = control.closer().map_err(Failure::new)?;
    let variables = [
        ("CONCLAVE_LOCK", args.name.to_string()),
        ("CONCLAVE_FENCE", fence.to_string()),
        ("CONCLAVE_FENCE_ORDER", fence.sortable()),
    ];
    let plan = Plan {
        command: &args.command,
        variables: &variables,
        blocked: signals.blocked(),
        // There is no lease: what is lost is told.
        deadlines: Deadlines { tell_at: Boot::NEVER, kill_at: Boot::NEVER },
        releases_on_exit: false,
        is_detached: false,
    };
    let start = Group::start(&plan);
    let mut group = start.map_err(|error| Failure::new(format!("the command cannot be run: {error}")))?;
    let mut lost = until_lost(control);
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
            _ = &mut lost, if !is_lost => {
                is_lost = true;
                let now = Boot::now();
                group.set_deadlines(Deadlines { tell_at: now, kill_at: now.after(GRACE) });
            }
            arrived = signals.next() => group.forward(arrived),
        }
    }
}

/// Done when the lock is lost, or the process that has it for us is gone.
fn until_lost(mut control: Control) -> oneshot::Receiver<()> {
    let (lost_in, lost) = oneshot::channel();
    std::thread::spawn(move || {
        while let Ok(Some(answer)) = control.answer(None) {
            if matches!(answer, Answer::Word(Word::Lost { .. })) {
                break;
            }
        }
        let _ = lost_in.send(());
    });
    lost
}
