//! Thousands who wait for one name: what each costs the server, and whether a release wakes one of them only.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;
use tokio::time::timeout;

use crate::BenchError;
use crate::room::{Room, Violation};
use crate::target::{Crowd, Target, TargetError, Wake};

/// How long the server may take until it has all waiters in its queue, or wakes the next.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it must stay silent after a grant, whenever that is looked at.
const SILENCE: Duration = Duration::from_millis(20);
/// How often it is looked at: after every so many releases.
const LISTEN_EVERY: usize = 100;
/// How many more are sent once all before them are in the queue.
const AT_A_TIME: usize = 500;
/// How often the server is asked for the length of its queue.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How to go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiters {
    /// How many wait.
    pub waiters: usize,
    /// Over how many sessions they are spread.
    pub sessions: usize,
    /// How many are released one after the other.
    pub releases: usize,
    /// The process whose memory counts.
    pub pid: Option<u32>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wakeups {
    /// How many waited.
    pub waiters: usize,
    /// How many releases woke exactly one each.
    pub releases: usize,
    /// How many of them a second.
    pub per_second: f64,
    /// By how much the resident memory of the server grew for each waiter, in bytes.
    pub bytes_per_waiter: Option<f64>,
}

/// What must not happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WakeError {
    /// A release woke more than one.
    #[error("waiter {0} was woken though nobody had released")]
    OneTooMany(usize),
    /// A waiter was told to look again, and had to.
    #[error("waiter {0} was woken without being granted")]
    ForNothing(usize),
    /// A release woke nobody.
    #[error("nobody was woken within {} s", PATIENCE.as_secs())]
    Nobody,
    /// The server does not show all of them in its queue.
    #[error("{found} of {expected} are in the queue after {} s", PATIENCE.as_secs())]
    NotAllPresent {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// The lock did not exclude, or a token did not grow.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The process whose memory counts is not there.
    #[error("cannot read the memory of process {0}")]
    NoProcess(u32),
    /// The target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Makes them wait, releases one by one, and looks at what happens.
pub async fn run(target: &dyn Target, how: Waiters, progress: &mut dyn Write) -> Result<Wakeups, BenchError> {
    let mut crowd = target.crowd(how.sessions).await.map_err(WakeError::Target)?;
    let name = format!("crowd-{}", std::process::id());
    let before = how.pid.map(resident).transpose()?;
    gather(crowd.as_mut(), &name, how.waiters).await?;
    let after = how.pid.map(resident).transpose()?;
    writeln!(progress, "{} wait over {} sessions", how.waiters, how.sessions)?;
    let begun = Instant::now();
    let releases = how.releases.min(how.waiters.saturating_sub(1));
    let listened = release_all(crowd.as_mut(), releases).await?;
    let seconds = begun.elapsed().saturating_sub(listened).as_secs_f64();
    crowd.close().await.map_err(WakeError::Target)?;
    let growth = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(Wakeups {
        waiters: how.waiters,
        releases,
        per_second: releases as f64 / seconds,
        bytes_per_waiter: growth.map(|bytes| bytes as f64 / how.waiters as f64),
    })
}

/// Puts them into the queue, so many at a time that no server is asked for more at once than it can answer.
async fn gather(crowd: &mut dyn Crowd, name: &str, waiters: usize) -> Result<(), WakeError> {
    let mut sent = 0;
    while sent < waiters {
        let more = (waiters - sent).min(AT_A_TIME);
        crowd.join(name, more).await?;
        sent += more;
        all_present(crowd, name, sent).await?;
    }
    Ok(())
}

async fn all_present(crowd: &mut dyn Crowd, name: &str, expected: usize) -> Result<(), WakeError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let found = crowd.present(name).await?;
        if found >= expected {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(WakeError::NotAllPresent { found, expected });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Releases one after the other; tells how long it has only listened.
async fn release_all(crowd: &mut dyn Crowd, releases: usize) -> Result<Duration, WakeError> {
    let mut room = Room::default();
    let mut listened = Duration::ZERO;
    let mut holder = granted(crowd, &mut room).await?;
    for release in 0..releases {
        let listen = if release % LISTEN_EVERY == 0 { SILENCE } else { Duration::ZERO };
        silent(crowd, listen).await?;
        listened += listen;
        room.leave();
        crowd.release(holder).await?;
        holder = granted(crowd, &mut room).await?;
    }
    silent(crowd, SILENCE).await?;
    room.leave();
    crowd.release(holder).await?;
    Ok(listened + SILENCE)
}

/// Waits for the one that is woken.
async fn granted(crowd: &mut dyn Crowd, room: &mut Room) -> Result<usize, WakeError> {
    let wake = timeout(PATIENCE, crowd.wake()).await.map_err(|_| WakeError::Nobody)??;
    if !wake.granted {
        return Err(WakeError::ForNothing(wake.waiter));
    }
    room.enter(wake.token)?;
    Ok(wake.waiter)
}

/// Makes sure that nobody else is woken.
async fn silent(crowd: &mut dyn Crowd, listen: Duration) -> Result<(), WakeError> {
    match timeout(listen, crowd.wake()).await {
        Err(_) => Ok(()),
        Ok(Ok(Wake { waiter, .. })) => Err(WakeError::OneTooMany(waiter)),
        Ok(Err(error)) => Err(error.into()),
    }
}

/// The resident memory of a process, in bytes.
fn resident(pid: u32) -> Result<u64, WakeError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or(WakeError::NoProcess(pid))
}
