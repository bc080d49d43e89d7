//! Commands in flight to the next batch.
//!
//! There is room for so many bytes. A command whose client finds none waits, and with it whatever that client says next.

use std::sync::Arc;

use conclave_service::Command;
use tokio::sync::{Semaphore, mpsc};

use crate::mutant::{self, Mutant};

/// What may wait for the next batch, in bytes.
const ROOM: u32 = 16 << 20;
/// A command counts for at least so many, which bounds their number too: they take more memory here than on the wire.
const LEAST: u32 = 1 << 10;

/// A command, and its size on the wire.
#[derive(Debug)]
pub struct Queued {
    pub command: Command,
    pub bytes: u32,
}

impl Queued {
    fn cost(&self) -> u32 {
        if mutant::is(Mutant::BatchesByCount) {
            return LEAST;
        }
        self.bytes.clamp(LEAST, ROOM)
    }
}

/// Where commands are put.
#[derive(Clone)]
pub struct Queue {
    commands: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
}

/// Where they are taken from.
pub struct Gathered {
    commands: mpsc::UnboundedReceiver<Queued>,
    room: Arc<Semaphore>,
}

/// Nobody takes commands any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// An empty queue.
pub fn queue() -> (Queue, Gathered) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ROOM as usize));
    (Queue { commands: sender, room: Arc::clone(&room) }, Gathered { commands: receiver, room })
}

impl Queue {
    /// Puts a command in, as soon as there is room for it.
    pub async fn push(&self, command: Command, bytes: usize) -> Result<(), Closed> {
        let queued = Queued { command, bytes: u32::try_from(bytes).unwrap_or(ROOM) };
        let permit = self.room.acquire_many(queued.cost()).await.map_err(|_| Closed)?;
        // Given back by whoever takes the command.
        permit.forget();
        self.commands.send(queued).map_err(|_| Closed)
    }
}

impl Gathered {
    /// The next command; nothing if nobody can send any.
    pub async fn next(&mut self) -> Option<Queued> {
        let queued = self.commands.recv().await?;
        Some(self.take(queued))
    }

    /// The next command, if there is one.
    pub fn try_next(&mut self) -> Option<Queued> {
        let queued = self.commands.try_recv().ok()?;
        Some(self.take(queued))
    }

    fn take(&self, queued: Queued) -> Queued {
        self.room.add_permits(queued.cost() as usize);
        queued
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.room.close();
    }
}

#[cfg(test)]
mod tests {
    use conclave_service::{Act, Life, RequestId, SessionId};
    use futures_util::FutureExt as _;

    use super::*;

    fn command() -> Command {
        let request = RequestId(1);
        let (session, life, settled) = (SessionId(1), Life(1), Vec::new());
        Command { session, life, request, acked: request, settled, act: Act::Renew }
    }

    #[tokio::test]
    async fn it_is_full_by_bytes_and_by_commands() {
        for (bytes, most) in [(0, 16 * 1024), (1 << 10, 16 * 1024), (64 << 10, 256), (1 << 30, 1)] {
            let (queue, mut gathered) = queue();
            let push = || tokio::task::unconstrained(queue.push(command(), bytes)).now_or_never();
            let mut count = 0;
            while push().is_some() {
                count += 1;
            }
            assert_eq!(count, most, "of {bytes} bytes");
            gathered.try_next().unwrap();
            assert_eq!(push(), Some(Ok(())), "there is room again");
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_told_that_nobody_takes_anything() {
        let (queue, gathered) = queue();
        queue.push(command(), 1 << 30).await.unwrap();
        let waiting = queue.push(command(), 1);
        drop(gathered);
        assert_eq!(waiting.await, Err(Closed));
    }
}
