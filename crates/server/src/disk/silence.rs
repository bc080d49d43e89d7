//! How long a disk has owed an answer.
//!
//! A disk that fails says so, and its node stops. One that hangs says nothing: a controller that resets itself, a network
//! volume whose other end is gone. What waits for it waits; everything else has to know that, and goes by this.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::mutant::{self, Mutant};

/// Since when a disk has owed an answer. Shared by who writes and by all who want to know.
#[derive(Debug)]
pub(crate) struct Silence {
    /// A disk that is silent for so long hangs.
    patience: Duration,
    since: Mutex<Option<Instant>>,
}

/// A write that is under way; over when this is dropped.
pub(crate) struct Write<'a>(&'a Silence);

impl Silence {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: Mutex::default() }
    }

    /// Notes that the disk has been asked something.
    pub(crate) fn begin(&self) -> Write<'_> {
        *self.lock() = Some(Instant::now());
        Write(self)
    }

    /// For how long the disk has hung; nothing if it does not.
    pub(crate) fn hangs(&self) -> Option<Duration> {
        let silent = self.lock().map(|since| since.elapsed())?;
        (silent >= self.patience && !mutant::is(Mutant::WaitsForDisks)).then_some(silent)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_write_that_takes_long_is_a_silence() {
        let silence = Silence::new(Duration::from_millis(100));
        assert_eq!(silence.hangs(), None);
        let write = silence.begin();
        tokio::time::advance(Duration::from_millis(99)).await;
        assert_eq!(silence.hangs(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(silence.hangs(), Some(Duration::from_millis(100)));
        drop(write);
        assert_eq!(silence.hangs(), None);
        // The next one counts from its own beginning.
        let _write = silence.begin();
        tokio::time::advance(Duration::from_millis(99)).await;
        assert_eq!(silence.hangs(), None);
    }
}
