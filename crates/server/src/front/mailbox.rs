//! What a client is told, until it has read it.
//!
//! Whoever does not read must not fill the memory of the node: each box has a limit, and all of them together have one.
//! Beyond that, those are disconnected that are far behind; they ask again for what they missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_wire::v1;
use futures_util::StreamExt as _;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Messages in a box.
const MESSAGES: usize = 4096;
/// Bytes in a box.
const BYTES: usize = 16 << 20;
/// Bytes in all boxes of a node.
const BYTES_IN_ALL: usize = 256 << 20;
/// So many bytes are let into a box even when all of them together have too many.
const BYTES_AT_LEAST: usize = 64 << 10;
/// What an event takes in memory beside its bytes on the wire.
const EVENT: usize = 128;

/// A message for a client.
pub trait Letter {
    /// How much memory it takes, more or less.
    fn bytes(&self) -> usize;
}

impl Letter for v1::ToClient {
    fn bytes(&self) -> usize {
        self.encoded_len() + EVENT * self.events.len()
    }
}

impl Letter for v1::ObserveResponse {
    fn bytes(&self) -> usize {
        self.encoded_len() + EVENT
    }
}

/// The boxes of a node.
#[derive(Clone)]
pub struct PostOffice {
    unread: Arc<AtomicUsize>,
    limit: usize,
}

impl Default for PostOffice {
    fn default() -> Self {
        Self::with(BYTES_IN_ALL)
    }
}

impl PostOffice {
    fn with(limit: usize) -> Self {
        Self { unread: Arc::default(), limit }
    }

    /// Opens a box; the stream is what the client reads.
    pub fn open<T: Letter>(&self) -> (Mailbox<T>, impl Stream<Item = Result<T, Status>> + use<T>) {
        let (messages, inbox) = mpsc::channel::<Result<T, Status>>(MESSAGES);
        let unread = Arc::new(Unread { office: self.clone(), bytes: AtomicUsize::new(0) });
        let mailbox = Mailbox { messages, unread: Arc::clone(&unread) };
        let read = ReceiverStream::new(inbox).inspect(move |message| {
            if let Ok(message) = message {
                unread.take(message.bytes());
            }
        });
        (mailbox, read)
    }
}

/// How much of what it was told a client has not read.
struct Unread {
    office: PostOffice,
    bytes: AtomicUsize,
}

impl Unread {
    /// Counts a message in; says whether there is room for it.
    fn put(&self, bytes: usize) -> bool {
        let own = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = self.office.unread.fetch_add(bytes, Ordering::Relaxed);
        own <= BYTES && (all <= self.office.limit || own + bytes <= BYTES_AT_LEAST)
    }

    fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.office.unread.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.take(self.bytes.load(Ordering::Relaxed));
    }
}

/// Where messages for one client are put.
pub struct Mailbox<T> {
    messages: mpsc::Sender<Result<T, Status>>,
    unread: Arc<Unread>,
}

impl<T: Letter> Mailbox<T> {
    /// Puts a message in; says whether there was room. If not, the box is of no use any more.
    pub fn put(&self, message: T) -> bool {
        self.unread.put(message.bytes()) && self.messages.try_send(Ok(message)).is_ok()
    }

    /// Says that nothing more follows; one whose box is full notices the end of the stream.
    pub fn close(&self, why: Status) {
        drop(self.messages.try_send(Err(why)));
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.messages.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTER: usize = 100_000;

    fn letter() -> v1::ObserveResponse {
        let leader = v1::Leader { value: vec![7; LETTER].into(), ..v1::Leader::default() };
        v1::ObserveResponse { revision: 1, leader: Some(leader) }
    }

    fn fill(mailbox: &Mailbox<v1::ObserveResponse>) -> usize {
        (0..1_000).take_while(|_| mailbox.put(letter())).count()
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_holds_so_many_bytes_and_no_more() {
        let (mailbox, mut read) = PostOffice::default().open();
        let taken = fill(&mailbox);
        assert!((BYTES / (LETTER + 1_000)..BYTES / LETTER + 2).contains(&taken), "{taken} are kept");
        for _ in 0..taken {
            assert!(read.next().await.is_some_and(|message| message.is_ok()));
        }
        assert!(mailbox.put(letter()), "there is room again for one that has read");
    }

    #[tokio::test]
    async fn all_together_hold_so_many_bytes_and_no_more() {
        let office = PostOffice::with(20 * LETTER);
        let (first, read) = office.open();
        assert!((19..22).contains(&fill(&first)));
        let (second, mut answers) = office.open();
        assert!(!second.put(letter()), "there is no room for much");
        let (third, mut few) = office.open();
        assert!(third.put(v1::ObserveResponse::default()), "but for a little there always is");
        assert!(few.next().await.is_some());
        drop((first, read));
        let (fourth, _read) = office.open();
        assert!(fourth.put(letter()), "whoever is gone leaves nothing behind");
        drop((second, third, fourth));
        assert!(answers.next().await.is_none());
    }

    #[test]
    fn boxes_that_are_gone_hold_nothing() {
        let office = PostOffice::with(BYTES_IN_ALL);
        let (mailbox, read) = office.open();
        fill(&mailbox);
        drop((mailbox, read));
        assert_eq!(office.unread.load(Ordering::Relaxed), 0);
    }
}
