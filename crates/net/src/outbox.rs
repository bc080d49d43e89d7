//! What is in flight to one peer: queued, or written and not acknowledged.
//!
//! ```text
//!        base              base + written                  the end
//!          │ written, not acked  │      not written yet       │
//!   acked ─┴─────────────────────┴────────────────────────────┴─ push
//! ```
//!
//! A letter has the number `base + its place`, so a new connection goes on by moving `written` back. Nothing here waits:
//! the state machine pushes without blocking, and whoever must wait looks at [`is_high`](Outbox::is_high).
//!
//! **Generations.** Between two processes there is a reliable channel until it breaks: the peer starts a new life, says
//! goodbye, or so much waits for it that the rest is dropped. Then the generation moves on, and letters written for an
//! earlier one are dropped when they are pushed: they were meant for a channel that is gone. The state machine
//! learns of the next generation together with the `PeerDown` and `PeerUp` that separate the two.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use conclave_core::Incarnation;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Limits;
use crate::frame::{Frame, Stamp, encode};
use crate::hello::Refusal;

/// A message in flight.
#[derive(Clone, Debug)]
pub struct Letter {
    /// When it was sent in logical time.
    pub stamp: Option<Stamp>,
    /// The message, encoded.
    pub body: Vec<u8>,
}

/// Bytes that a letter costs besides its body.
const OVERHEAD: usize = size_of::<Letter>();

/// The way to one peer.
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    /// Something changed that the link must look at.
    wake: Notify,
    messages: usize,
    bytes: usize,
    high_water: usize,
}

#[derive(Debug)]
struct State {
    letters: VecDeque<Letter>,
    /// The number of the first letter.
    base: u64,
    written: usize,
    /// The letters that have been written at least once: beyond it, a write is no repetition.
    ever_written: usize,
    bytes: usize,
    /// The newest life of the peer that was seen.
    life: Option<Incarnation>,
    generation: u64,
    /// Letters were dropped, and the peer does not know yet.
    gap: bool,
    /// The present connection belongs to an earlier generation.
    reset: bool,
    /// Since when something waits and nothing was acknowledged.
    waiting_since: Option<Instant>,
    sent: u64,
    resent: u64,
    dropped: u64,
}

/// What became of letters that were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// They will be sent.
    Queued,
    /// They were written for a channel that is gone.
    TooLate,
    /// There were too many: everything in flight to the peer is dropped.
    Overflowed,
}

/// Counts of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Messages that are queued or not acknowledged.
    pub waiting: usize,
    /// Messages written for the first time.
    pub sent: u64,
    /// Messages written again after a connection broke.
    pub resent: u64,
    /// Messages that were dropped with their channel.
    pub dropped: u64,
}

impl Outbox {
    /// Nothing is in flight, and the peer has not been met.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let state = State {
            letters: VecDeque::new(),
            base: 1,
            written: 0,
            ever_written: 0,
            bytes: 0,
            life: None,
            generation: 0,
            gap: false,
            reset: false,
            waiting_since: None,
            sent: 0,
            resent: 0,
            dropped: 0,
        };
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            messages: limits.queue_messages,
            bytes: limits.queue_bytes,
            high_water: limits.high_water,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No method leaves the state half changed, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts letters of a generation in flight, and leaves `letters` empty.
    pub fn push(&self, generation: u64, letters: &mut Vec<Letter>) -> Pushed {
        let mut state = self.state();
        if generation != state.generation {
            state.dropped += letters.len() as u64;
            letters.clear();
            return Pushed::TooLate;
        }
        state.bytes += letters.iter().map(Letter::size).sum::<usize>();
        state.letters.extend(letters.drain(..));
        if state.letters.len() > self.messages || state.bytes > self.bytes {
            state.break_off();
            state.gap = true;
            drop(state);
            self.wake.notify_one();
            return Pushed::Overflowed;
        }
        state.waiting_since.get_or_insert_with(Instant::now);
        drop(state);
        self.wake.notify_one();
        Pushed::Queued
    }

    /// A life of the peer was seen, by whichever connection. Returns the generation that belongs to it.
    ///
    /// # Errors
    /// If a later life has been seen.
    pub fn meet(&self, life: Incarnation) -> Result<u64, Refusal> {
        let mut state = self.state();
        match state.life.replace(life) {
            // What was written before anybody was met is for whoever is met first.
            None => {}
            Some(known) if known == life => {}
            Some(known) if known < life => {
                state.break_off();
                state.base = 1;
                state.gap = false;
                drop(state);
                self.wake.notify_one();
                return Ok(self.state().generation);
            }
            Some(known) => {
                state.life = Some(known);
                return Err(Refusal::StaleLife);
            }
        }
        Ok(state.generation)
    }

    /// A life of the peer is over: nothing more is sent to it.
    pub fn finish(&self, life: Incarnation) {
        let mut state = self.state();
        if state.life == Some(life) {
            state.break_off();
            state.gap = true;
        }
    }

    /// The newest life of the peer that was seen.
    pub fn life(&self) -> Option<Incarnation> {
        self.state().life
    }

    /// The life of the peer that must be told of letters dropped, if there were any.
    pub fn gap(&self) -> Option<Incarnation> {
        let state = self.state();
        state.life.filter(|_| state.gap)
    }

    /// A connection to a life of the peer begins; the peer has this many of our letters, and was told of the gap or not.
    ///
    /// # Errors
    /// If the peer cannot have that many, or once had more; or if the peer was not told of a gap that there is now.
    pub fn resume(&self, life: Incarnation, received: u64, gap_told: bool) -> Result<u64, Refusal> {
        let mut state = self.state();
        if state.life != Some(life) {
            return Err(Refusal::StaleLife);
        }
        if state.gap && !gap_told {
            return Err(Refusal::Missing);
        }
        if state.gap {
            // Nothing is in flight: the channel goes on where the peer is.
            state.base = received.checked_add(1).ok_or(Refusal::FalseAck)?;
            state.gap = false;
        }
        state.acknowledge(received)?;
        state.written = 0;
        state.reset = false;
        // The wait begins again with the connection.
        state.waiting_since = (!state.letters.is_empty()).then(Instant::now);
        Ok(state.generation)
    }

    /// The peer has everything up to this number.
    ///
    /// # Errors
    /// If that was never sent.
    pub fn acknowledge(&self, upto: u64) -> Result<(), Refusal> {
        self.state().acknowledge(upto)
    }

    /// Appends frames of letters that are not written yet, up to about `room` bytes.
    pub fn write(&self, out: &mut Vec<u8>, room: usize) {
        let mut state = self.state();
        let mut at = state.written;
        while at < state.letters.len() && out.len() < room {
            let letter = &state.letters[at];
            let seq = state.base + at as u64;
            encode(&Frame::Data { seq, stamp: letter.stamp.clone(), body: &letter.body }, out);
            at += 1;
        }
        let again = at.min(state.ever_written).saturating_sub(state.written) as u64;
        state.resent += again;
        state.sent += (at - state.written) as u64 - again;
        state.ever_written = state.ever_written.max(at);
        state.written = at;
    }

    /// Waits until there may be something to write, or the connection is of no use any more.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    /// The present generation.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Whether letters wait to be written.
    pub fn has_unwritten(&self) -> bool {
        let state = self.state();
        state.written < state.letters.len()
    }

    /// Whether everything has been acknowledged.
    pub fn is_empty(&self) -> bool {
        self.state().letters.is_empty()
    }

    /// Whether the present connection belongs to a channel that is gone.
    pub fn is_reset(&self) -> bool {
        self.state().reset
    }

    /// Whether so much waits that the application should stop asking for more.
    pub fn is_high(&self) -> bool {
        self.state().letters.len() > self.high_water
    }

    /// Since when something waits and nothing was acknowledged.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.state().waiting_since
    }

    /// For so long nothing could be acknowledged, because this process stood still.
    pub fn excuse(&self, span: Duration) {
        let mut state = self.state();
        state.waiting_since = state.waiting_since.map(|since| (since + span).min(Instant::now()));
    }

    /// How it stands.
    pub fn status(&self) -> OutboxStatus {
        let state = self.state();
        OutboxStatus {
            waiting: state.letters.len(),
            sent: state.sent,
            resent: state.resent,
            dropped: state.dropped,
        }
    }
}

impl Letter {
    fn size(&self) -> usize {
        OVERHEAD + self.body.len() + self.stamp.as_ref().map_or(0, |stamp| 8 * stamp.vector.entries().len())
    }
}

impl State {
    /// The channel ends here.
    fn break_off(&mut self) {
        self.dropped += self.letters.len() as u64;
        self.letters = VecDeque::new();
        (self.written, self.ever_written, self.bytes) = (0, 0, 0);
        self.generation += 1;
        self.reset = true;
        self.waiting_since = None;
    }

    fn acknowledge(&mut self, upto: u64) -> Result<(), Refusal> {
        let count =
            upto.checked_add(1).and_then(|next| next.checked_sub(self.base)).ok_or(Refusal::FalseAck)?;
        let count = usize::try_from(count).ok().filter(|count| *count <= self.ever_written);
        let count = count.ok_or(Refusal::FalseAck)?;
        if count == 0 {
            return Ok(());
        }
        for letter in self.letters.drain(..count) {
            self.bytes -= letter.size();
        }
        self.base += count as u64;
        self.written = self.written.saturating_sub(count);
        self.ever_written -= count;
        self.waiting_since = (!self.letters.is_empty()).then(Instant::now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    use crate::frame::{decode, split};

    const FIRST: Incarnation = Incarnation(1);
    const SECOND: Incarnation = Incarnation(2);

    fn outbox() -> Outbox {
        Outbox::new(&Limits { queue_messages: 10, high_water: 5, ..Limits::default() })
    }

    fn push(outbox: &Outbox, generation: u64, bodies: impl IntoIterator<Item = u8>) -> Pushed {
        let mut letters = bodies.into_iter().map(|body| Letter { stamp: None, body: vec![body] }).collect();
        outbox.push(generation, &mut letters)
    }

    /// Numbers and bodies of what would be written now.
    fn written(outbox: &Outbox) -> Vec<(u64, u8)> {
        let mut out = Vec::new();
        outbox.write(&mut out, usize::MAX);
        let mut buffer = BytesMut::from(&out[..]);
        let mut read = Vec::new();
        while let Some(bytes) = split(&mut buffer, 1 << 20).unwrap() {
            let Ok(Frame::Data { seq, body, .. }) = decode(&bytes) else { panic!("not a message") };
            read.push((seq, body[0]));
        }
        read
    }

    #[test]
    fn what_is_not_acknowledged_is_written_again_under_its_number() {
        let outbox = outbox();
        assert_eq!(outbox.meet(FIRST), Ok(0));
        assert_eq!(push(&outbox, 0, [10, 11, 12]), Pushed::Queued);
        assert_eq!(outbox.resume(FIRST, 0, false), Ok(0));
        assert_eq!(written(&outbox), [(1, 10), (2, 11), (3, 12)]);
        assert_eq!(written(&outbox), []);
        outbox.acknowledge(1).unwrap();
        push(&outbox, 0, [13]);
        // The connection broke; the peer had got one more than it could say.
        outbox.resume(FIRST, 2, false).unwrap();
        assert_eq!(written(&outbox), [(3, 12), (4, 13)]);
        let status = outbox.status();
        assert_eq!((status.sent, status.resent, status.waiting), (4, 1, 2));
        outbox.acknowledge(4).unwrap();
        assert!(outbox.is_empty() && outbox.waiting_since().is_none());
    }

    #[test]
    fn false_acknowledgements_are_refused() {
        let outbox = outbox();
        outbox.meet(FIRST).unwrap();
        push(&outbox, 0, [1, 2, 3]);
        outbox.resume(FIRST, 0, false).unwrap();
        assert_eq!(outbox.acknowledge(1), Err(Refusal::FalseAck), "nothing was written yet");
        written(&outbox);
        outbox.acknowledge(2).unwrap();
        for wrong in [0, 4, u64::MAX] {
            assert_eq!(outbox.acknowledge(wrong), Err(Refusal::FalseAck), "{wrong}");
        }
        assert_eq!(outbox.resume(FIRST, 1, false), Err(Refusal::FalseAck), "it had more before");
    }

    #[test]
    fn what_was_meant_for_one_life_does_not_reach_the_next() {
        let outbox = outbox();
        push(&outbox, 0, [1]);
        assert_eq!(outbox.meet(FIRST), Ok(0), "who was never met is who is met first");
        outbox.resume(FIRST, 0, false).unwrap();
        assert_eq!(written(&outbox), [(1, 1)]);
        push(&outbox, 0, [2]);
        assert_eq!(outbox.meet(SECOND), Ok(1));
        assert!(outbox.is_reset());
        assert_eq!(push(&outbox, 0, [3]), Pushed::TooLate);
        assert_eq!(push(&outbox, 1, [4]), Pushed::Queued);
        assert_eq!(outbox.meet(FIRST), Err(Refusal::StaleLife));
        assert_eq!(outbox.resume(FIRST, 0, false), Err(Refusal::StaleLife));
        outbox.resume(SECOND, 0, false).unwrap();
        assert_eq!(written(&outbox), [(1, 4)]);
        assert_eq!(outbox.status().dropped, 3);
    }

    #[test]
    fn an_overflow_is_a_gap_that_has_to_be_told() {
        let outbox = outbox();
        outbox.meet(FIRST).unwrap();
        outbox.resume(FIRST, 0, false).unwrap();
        assert_eq!(push(&outbox, 0, 0..6), Pushed::Queued);
        assert!(outbox.is_high());
        written(&outbox);
        assert_eq!(push(&outbox, 0, 6..11), Pushed::Overflowed);
        assert!(outbox.is_empty() && !outbox.is_high() && outbox.is_reset());
        assert_eq!(push(&outbox, 0, [20]), Pushed::TooLate);
        assert_eq!(outbox.gap(), Some(FIRST));
        assert_eq!(outbox.resume(FIRST, 4, false), Err(Refusal::Missing));
        assert_eq!(push(&outbox, 1, [30]), Pushed::Queued);
        // The peer had got four of them: the channel goes on with the fifth.
        assert_eq!(outbox.resume(FIRST, 4, true), Ok(1));
        assert_eq!(written(&outbox), [(5, 30)]);
        assert_eq!(outbox.gap(), None);
    }
}
