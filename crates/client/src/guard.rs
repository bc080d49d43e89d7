//! What is held.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_wire::v1;
use conclave_wire::v1::command::Act;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::driver::Answer;
use crate::error::{Error, Lost};
use crate::millis;
use crate::request::Mode;
use crate::session::{LOOK_EVERY, Session, Shared, done, gone};

/// What is known of a grant.
pub struct GuardState {
    token: AtomicU64,
    lost: CancellationToken,
    why: Mutex<Option<String>>,
    contended: watch::Sender<Option<String>>,
    /// How many guards there are of it: several only if it was granted again to the same strand.
    guards: AtomicU64,
}

impl GuardState {
    pub fn new(token: u64) -> Self {
        Self {
            token: AtomicU64::new(token),
            lost: CancellationToken::new(),
            why: Mutex::default(),
            contended: watch::Sender::new(None),
            guards: AtomicU64::new(0),
        }
    }

    pub fn add_guard(&self) {
        self.guards.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one guard away; says whether it was the last.
    pub fn remove_guard(&self) -> bool {
        self.guards.fetch_sub(1, Ordering::Relaxed) == 1
    }

    pub fn lose(&self, why: &str) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.to_owned());
        self.lost.cancel();
    }

    pub fn contended(&self, name: &str) {
        self.contended.send_replace(Some(name.to_owned()));
    }

    pub fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    pub fn rename(&self, token: u64) {
        self.token.store(token, Ordering::Relaxed);
    }
}

/// What is known of something held, for those who work under it: its token, and whether it is still held. It keeps
/// nothing from being released. Clones are the same.
#[derive(Clone)]
pub struct Fence {
    shared: Arc<Shared>,
    state: Arc<GuardState>,
}

impl Fence {
    /// The fencing token: greater than that of every earlier grant of the same names. It is a number for messages and
    /// records, and stays the same when what it stands for is lost; [`Self::check`] gives it only while it is held.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.state.token()
    }

    /// The fencing token, if it is still held: looks at the clock, whatever the runtime has been doing.
    pub fn check(&self) -> Result<u64, Lost> {
        let token = self.token();
        if self.is_lost() {
            let why = self.why_lost().unwrap_or_else(|| "its session is over".to_owned());
            return Err(Lost { token, why });
        }
        Ok(token)
    }

    /// For how long from now nobody else can get it, unless it is taken by force. Zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_lost() { Duration::ZERO } else { self.shared.remaining() }
    }

    /// Returns when it is lost, which is before anybody else can get it, unless it was taken by force, or the runtime was
    /// blocked or the machine suspended at that time.
    pub async fn lost(&self) {
        while !self.is_lost() {
            // It has a timer of its own, so that it depends on nobody. The timer stands still while the machine sleeps:
            // it is short.
            let nap = self.shared.remaining().min(LOOK_EVERY);
            tokio::select! {
                biased;
                () = self.state.lost.cancelled() => return,
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Whether it is lost: looks at the clock, whatever the runtime has been doing. What is lost stays lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.lost.is_cancelled() || self.shared.has_run_out()
    }

    /// A token that is cancelled when it is lost, to hand to whatever must stop then. It is cancelled by the thread of the
    /// client: work that may be stopped or suspended asks [`Self::is_lost`] or [`Self::check`].
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.state.lost.clone()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn why_lost(&self) -> Option<String> {
        self.state.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Fence");
        shown.field("session", &format_args!("{:016x}", self.shared.id)).field("token", &self.token());
        shown.field("lost", &self.why_lost()).finish()
    }
}

/// Something held. It is released when the guard is dropped; [`Guard::release`] waits until that is done. What it knows of
/// itself is that of a [`Fence`].
///
/// To drop it is to send the release, which takes a program that goes on: at the end of `main` see
/// [`Client::shutdown`](crate::Client::shutdown).
#[must_use = "what it guards is released when it is dropped"]
pub struct Guard {
    fence: Fence,
    /// Keeps the session open.
    session: Option<Session>,
    is_released: bool,
}

impl Deref for Guard {
    type Target = Fence;

    fn deref(&self) -> &Fence {
        &self.fence
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.fence).finish()
    }
}

impl Guard {
    pub(crate) fn new(shared: Arc<Shared>, state: Arc<GuardState>) -> Self {
        Self { fence: Fence { shared, state }, session: None, is_released: false }
    }

    pub(crate) fn keep(&mut self, session: Session) {
        self.session = Some(session);
    }

    /// What is known of it, for those who work under it.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Returns the name as soon as somebody waits for one.
    pub async fn contended(&self) -> String {
        let mut contended = self.state.contended.subscribe();
        let result = match contended.wait_for(Option::is_some).await {
            Ok(name) => name.clone(),
            Err(_) => None,
        };
        match result {
            Some(name) => name,
            // The sender lives as long as this guard.
            None => std::future::pending().await,
        }
    }

    /// Holds one of its names in another mode from now on; a stronger mode has a new token. Waits for that as long as it
    /// takes, or no longer than given (in whole milliseconds, rounded up).
    ///
    /// To drop the future is to stop waiting: the conversion is cancelled. If it was granted before that, the guard stands
    /// for the stronger mode and its new token.
    pub async fn convert(&self, name: &str, mode: Mode, wait: Option<Duration>) -> Result<(), Error> {
        let convert = v1::Convert {
            token: self.token(),
            name: name.to_owned(),
            mode: Some(mode.into()),
            wait_ms: wait.and_then(millis::wait),
        };
        done(self.shared.ask_while_wanted(Act::Convert(convert)).await?)
    }

    /// Releases it, and returns when that is done.
    pub async fn release(mut self) -> Result<(), Error> {
        self.is_released = true;
        let (to, answer) = oneshot::channel();
        self.shared.give_back(&self.state, Answer::Plain(to))?;
        done(answer.await.map_err(|_| gone())??)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_released {
            if self.is_lost() {
                self.shared.forget(&self.state);
            } else {
                // A driver that is gone has nothing left to release.
                drop(self.shared.give_back(&self.state, Answer::Nobody));
            }
        }
    }
}

/// Leadership. It is resigned when it is dropped.
#[derive(Debug)]
#[must_use = "it is resigned when it is dropped"]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Leadership that a former run of the client had, if that is what the guard of a [resumed](crate::Session::resumed)
    /// session stands for; otherwise the service refuses what only a leader can do.
    pub fn of(guard: Guard) -> Self {
        Self { guard }
    }

    /// The term: greater than every earlier one, and a fencing token.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.guard.token()
    }

    /// What is held, as a guard.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Shows another value.
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        let proclaim = v1::Proclaim { token: self.term(), value: value.into().into() };
        self.guard.shared.done(Act::Proclaim(proclaim)).await
    }

    /// Resigns, and returns when that is done.
    pub async fn resign(self) -> Result<(), Error> {
        self.guard.release().await
    }

    /// Resigns in favour of a candidate's session.
    pub async fn transfer(mut self, to: u64) -> Result<(), (Self, Error)> {
        let token = self.term();
        match self.guard.shared.done(Act::Transfer(v1::Transfer { token, to })).await {
            Ok(()) => {
                self.guard.is_released = true;
                self.guard.shared.forget(&self.guard.state);
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }
}
