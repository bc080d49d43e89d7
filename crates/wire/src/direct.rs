//! `Talk` without HTTP/2: what a client and a node say on the hot path, as frames on a connection of their own.
//!
//! ```text
//!   client ── GREETING ─▶ node       24 bytes, as many as those with which HTTP/2 begins, at the same address
//!
//!   frame   kind     1 byte
//!           length   4 bytes, big-endian
//!           payload
//!
//!   kind    m        a message in protobuf: ToServer one way, ToClient the other, beginning with a Welcome
//!           e        the end: a status code of gRPC in one byte, and why, in words; the connection is closed
//!           ?  !     whether the other end is still there, and that it is; empty
//! ```
//!
//! It says what the gRPC call says, in the same order and with the same status at the end; clients in other languages use
//! that one. HTTP/2 wakes four tasks for each message, two at either end beside those who have something to say, and takes
//! locks and copies for streams that share a connection. Here nobody shares it: whoever speaks reads and writes it
//! as well.

#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prost::Message;
use prost::bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::{Code, Status};

use crate::Connection;

/// What a client says first.
pub const GREETING: &[u8; 24] = b"conclave talk, frames 1\n";

/// What stands before a payload.
const HEAD: usize = 5;
const MESSAGE: u8 = b'm';
const END: u8 = b'e';
const ASK: u8 = b'?';
const ANSWER: u8 = b'!';
/// Read at one time, and kept for that.
const READ_BYTES: usize = 4 << 10;
/// More is put before the other end only when less is waiting to be sent.
const UNSENT_BYTES: usize = 64 << 10;
/// How long the other end may take to hear why a connection is closed.
const FAREWELL: Duration = Duration::from_millis(200);

/// How one end of a connection is set up.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// No message that is taken has more bytes.
    pub largest: usize,
    /// When nothing was heard for so long, the other end is asked whether it is there,
    pub ask_after: Duration,
    /// and must say so within this time.
    pub answer_within: Duration,
}

/// One end of a connection on which frames are exchanged.
pub struct Direct {
    connection: Connection,
    terms: Terms,
    inbox: BytesMut,
    outbox: BytesMut,
    /// Whether something was written that may still be on its way to the connection.
    is_flushed: bool,
    /// Whether anything was heard since the timer was set.
    heard: bool,
    /// Whether the other end owes a sign of life.
    asked: bool,
    timer: Pin<Box<Sleep>>,
}

/// What somebody wants who has just connected.
pub enum Arrival {
    /// To exchange frames.
    Direct(Direct),
    /// Something else; nothing of what was read is missing.
    Other(Connection),
}

impl Direct {
    /// The end of a client: it greets with the first message.
    #[must_use]
    pub fn greet(connection: Connection, terms: Terms) -> Self {
        let mut direct = Self::new(connection, terms);
        direct.outbox.put_slice(GREETING);
        direct
    }

    /// The end of a node: hears what whoever connected says first.
    ///
    /// # Errors
    /// If the connection ends before, or says too little for too long.
    pub async fn meet(connection: Connection, terms: Terms) -> io::Result<Arrival> {
        timeout(terms.ask_after, Self::hear_greeting(connection, terms)).await?
    }

    async fn hear_greeting(mut connection: Connection, terms: Terms) -> io::Result<Arrival> {
        let mut heard = BytesMut::with_capacity(GREETING.len());
        while heard.len() < GREETING.len() {
            let room = GREETING.len() - heard.len();
            if (&mut connection).take(room as u64).read_buf(&mut heard).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !GREETING.starts_with(&heard) {
                return Ok(Arrival::Other(Connection::new(Rewound { heard: heard.freeze(), connection })));
            }
        }
        Ok(Arrival::Direct(Self::new(connection, terms)))
    }

    fn new(connection: Connection, terms: Terms) -> Self {
        Self {
            connection,
            terms,
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            is_flushed: true,
            heard: false,
            asked: false,
            timer: Box::pin(sleep(terms.ask_after / 2)),
        }
    }

    /// Puts a message behind what waits to be sent. It leaves when [`Self::next`] or [`Self::send`] is polled.
    pub fn put(&mut self, message: &impl Message) {
        self.put_frame(MESSAGE, |outbox| {
            message.encode(outbox).expect("a buffer that grows has room");
        });
    }

    /// Says why nothing more follows.
    pub fn put_end(&mut self, why: &Status) {
        self.put_frame(END, |outbox| {
            outbox.put_u8(why.code() as u8);
            outbox.put_slice(why.message().as_bytes());
        });
    }

    fn put_frame(&mut self, kind: u8, fill: impl FnOnce(&mut BytesMut)) {
        let start = self.outbox.len();
        self.outbox.put_slice(&[kind, 0, 0, 0, 0]);
        fill(&mut self.outbox);
        let length = (self.outbox.len() - start - HEAD) as u32;
        self.outbox[start + 1..start + HEAD].copy_from_slice(&length.to_be_bytes());
    }

    /// Whether as little waits to be sent that more may be put behind it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.outbox.len() < UNSENT_BYTES
    }

    /// Whether everything was sent.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.outbox.is_empty() && self.is_flushed
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn send(&mut self) -> Result<(), Status> {
        poll_fn(|cx| self.poll_send(cx)).await.map_err(|error| broken(&error))
    }

    /// The next message; nothing at the end. Sends what waits meanwhile, and makes sure that the other end is there. Whoever
    /// drops the future misses nothing.
    ///
    /// # Errors
    /// Why the other end closed the connection, or how it broke.
    pub async fn next<T: Message + Default>(&mut self) -> Result<Option<T>, Status> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Sends what waits, and closes the connection when the other end has heard it, or soon after.
    pub async fn close(mut self) {
        let parting = async {
            self.send().await?;
            self.connection.shutdown().await.map_err(|error| broken(&error))?;
            // To close a connection on which something was not read is to break it off.
            let mut rest = [0; 512];
            while self.connection.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
            Ok::<(), Status>(())
        };
        // Whoever is gone already need not be told.
        drop(timeout(FAREWELL, parting).await);
    }

    fn poll_next<T: Message + Default>(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Status>> {
        loop {
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(broken(&error)));
            }
            while let Some((kind, length)) = self.frame()? {
                let payload = &self.inbox[HEAD..HEAD + length];
                let message = match kind {
                    MESSAGE => Some(T::decode(payload).map_err(|error| nonsense(&error))),
                    END => Some(Err(end(payload))),
                    _ => None,
                };
                self.inbox.advance(HEAD + length);
                match message {
                    Some(message) => return Poll::Ready(message.map(Some)),
                    // Much that waits to be sent shows it as well.
                    None if kind == ASK && self.has_room() => self.put_frame(ANSWER, |_| {}),
                    None => {}
                }
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) if self.inbox.is_empty() => return Poll::Ready(Ok(None)),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(broken(&io::ErrorKind::UnexpectedEof.into()))),
                Poll::Ready(Ok(_)) => self.on_heard(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(&error))),
                Poll::Pending if self.outbox.is_empty() => {
                    ready!(self.poll_silence(cx))?;
                }
                // There was an answer to be given, or there is no room for more on the way.
                Poll::Pending => {
                    let sent = self.poll_send(cx).map_err(|error| broken(&error))?;
                    if sent.is_pending() {
                        ready!(self.poll_silence(cx))?;
                    }
                }
            }
        }
    }

    /// The kind and length of the first frame, when all of it is there.
    fn frame(&self) -> Result<Option<(u8, usize)>, Status> {
        let Some(&[kind, ref length @ ..]) = self.inbox.first_chunk::<HEAD>() else {
            return self.inbox.first().map_or(Ok(None), |kind| known(*kind).map(|()| None));
        };
        known(kind)?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.terms.largest {
            let most = self.terms.largest;
            return Err(Status::out_of_range(format!("a message of {length} bytes: {most} at most")));
        }
        Ok((self.inbox.len() >= HEAD + length).then_some((kind, length)))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.inbox.is_empty() {
            give_back(&mut self.inbox);
        }
        self.inbox.reserve(READ_BYTES);
        pin!(self.connection.read_buf(&mut self.inbox)).poll(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let written = ready!(Pin::new(&mut self.connection).poll_write(cx, &self.outbox))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outbox.advance(written);
            self.is_flushed = false;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
            self.is_flushed = true;
            give_back(&mut self.outbox);
        }
        Poll::Ready(Ok(()))
    }

    fn on_heard(&mut self) {
        self.heard = true;
        if std::mem::take(&mut self.asked) {
            self.heard = false;
            self.timer.as_mut().reset(Instant::now() + self.terms.ask_after / 2);
        }
    }

    /// Returns when the other end has to be asked whether it is there, or fails when it did not say so. The timer runs for
    /// half of the time, so that nothing has to be done about it when something is heard.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if std::mem::take(&mut self.heard) {
                self.timer.as_mut().reset(Instant::now() + self.terms.ask_after / 2);
                continue;
            }
            if self.asked {
                return Poll::Ready(Err(Status::unavailable("the connection is silent")));
            }
            self.asked = true;
            self.timer.as_mut().reset(Instant::now() + self.terms.answer_within);
            self.put_frame(ASK, |_| {});
            return Poll::Ready(Ok(()));
        }
    }
}

/// Room for something large is not kept when it is not needed any more.
fn give_back(room: &mut BytesMut) {
    if room.try_reclaim(UNSENT_BYTES + 1) {
        *room = BytesMut::new();
    }
}

fn known(kind: u8) -> Result<(), Status> {
    match kind {
        MESSAGE | END | ASK | ANSWER => Ok(()),
        _ => Err(nonsense("there is no such frame")),
    }
}

fn end(payload: &[u8]) -> Status {
    let (code, why) = payload.split_first().unwrap_or((&(Code::Unknown as u8), &[]));
    Status::new(Code::from_i32((*code).into()), String::from_utf8_lossy(why))
}

fn broken(error: &io::Error) -> Status {
    Status::unavailable(format!("the connection broke: {error}"))
}

fn nonsense(why: impl std::fmt::Display) -> Status {
    Status::failed_precondition(format!(
        "what came is no message of this protocol ({why}): use the same version of conclave on both sides"
    ))
}

/// A connection, and what was read from it already.
struct Rewound {
    heard: Bytes,
    connection: Connection,
}

impl AsyncRead for Rewound {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rewound = self.get_mut();
        if rewound.heard.is_empty() {
            return Pin::new(&mut rewound.connection).poll_read(cx, buf);
        }
        let some = rewound.heard.split_to(rewound.heard.len().min(buf.remaining()));
        buf.put_slice(&some);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
