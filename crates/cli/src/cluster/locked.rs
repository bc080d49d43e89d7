//! `conclave cluster lock`: a command inside the critical section.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use conclave_algorithms::mutex::Fence;
use conclave_live::cluster::Cluster;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::through;
use crate::args::LockArgs;
use crate::failure::{Failure, Verdict};
use crate::output;

/// The lock was lost while the command ran.
const LOST: u8 = 3;
/// There is no such command; shells say so, too.
const NO_COMMAND: u8 = 127;
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

/// A text that sorts after those of all fences before it.
fn order(fence: &Fence) -> String {
    let Fence { epoch, counter, process } = fence;
    format!("{:020}.{:010}.{counter:020}.{:010}", epoch.number, epoch.creator.0, process.0)
}

/// Runs the command; what it ends with is ours. The lock is given back when the connection ends.
async fn held(args: &LockArgs, fence: Fence, control: Control) -> Result<u8, Failure> {
    // From here on a signal does not end us before the command.
    let failed = |error: std::io::Error| Failure::new(format!("signals cannot be heard: {error}"));
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangups = signal(SignalKind::hangup()).map_err(failed)?;
    let [program, rest @ ..] = &args.command[..] else {
        return Err(Failure::new("there is no command to run"));
    };
    // However this ends: only then the lock is given back.
    let _closer = control.closer().map_err(Failure::new)?;
    let spawned = Command::new(program)
        .args(rest)
        .env("CONCLAVE_LOCK", args.name.as_str())
        .env("CONCLAVE_FENCE", fence.to_string())
        .env("CONCLAVE_FENCE_ORDER", order(&fence))
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            Failure::new(format!("'{}' cannot be run: {error}", program.display())).print();
            return Ok(NO_COMMAND);
        }
    };
    let mut lost = until_lost(control);
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(ended.map_or(1, code)),
            _ = &mut lost => {
                end(&mut child).await;
                return Ok(LOST);
            }
            // Whoever typed it has interrupted the command as well.
            _ = interrupts.recv() => {}
            _ = terminations.recv() => tell(&child, Signal::TERM),
            _ = hangups.recv() => tell(&child, Signal::HUP),
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

fn tell(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let _ = pid.map(|pid| kill_process(pid, signal));
}

async fn end(child: &mut Child) {
    tell(child, Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn code(status: ExitStatus) -> u8 {
    let signalled = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(signalled)).unwrap_or(1)
}
