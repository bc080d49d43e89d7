//! Taking in TCP connections: no more than there are file descriptors for, and none that says nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_stream::Stream;

use crate::Connection;

/// File descriptors that are left for everything else: the log, snapshots, other nodes.
const RESERVE: usize = 128;
/// More connections than that are taken in by no node.
const MOST: usize = 1 << 16;
/// How long a client may take to say the first words of HTTP/2, which are its to say.
const GREETING: Duration = Duration::from_secs(3);
/// How many bytes these have.
const PREFACE: usize = 24;
/// How long to wait after a connection that could not be taken in.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections there is room for in this process.
fn room() -> usize {
    let files = getrlimit(Resource::Nofile).current.map_or(MOST, |files| files as usize);
    files.saturating_sub(RESERVE).max(files / 2).min(MOST)
}

/// Where connections arrive.
pub struct Door {
    listener: TcpListener,
    room: Arc<Semaphore>,
    limit: usize,
    greeting: Duration,
    /// Whether the last one found no room: that is said once.
    is_full: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Door {
    pub fn new(listener: TcpListener) -> Self {
        Self::with(listener, room(), GREETING)
    }

    fn with(listener: TcpListener, limit: usize, greeting: Duration) -> Self {
        let room = Arc::new(Semaphore::new(limit));
        Self { listener, room, limit, greeting, is_full: false, pause: None }
    }

    /// Takes a connection in, if there is room; otherwise it is closed, so that its client can ask another node.
    fn let_in(&mut self, stream: TcpStream) -> Option<Connection> {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            if !std::mem::replace(&mut self.is_full, true) {
                let limit = self.limit;
                tracing::warn!(
                    limit,
                    "no room for another connection: raise the limit of open files (ulimit -n)"
                );
            }
            return None;
        };
        self.is_full = false;
        // A connection that has ended already.
        stream.set_nodelay(true).ok()?;
        let greeting = Some(Box::pin(tokio::time::sleep(self.greeting)));
        Some(Connection::new(Guest { stream, greeting, heard: 0, _place: place }))
    }
}

impl Stream for Door {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let door = self.get_mut();
        loop {
            if let Some(pause) = &mut door.pause {
                ready!(pause.as_mut().poll(cx));
                door.pause = None;
            }
            match ready!(door.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    if let Some(connection) = door.let_in(stream) {
                        return Poll::Ready(Some(Ok(connection)));
                    }
                }
                // It may be out of descriptors all the same: to try again at once would only burn the processor.
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be taken in");
                    door.pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
                }
            }
        }
    }
}

/// A connection that has been taken in. It must say something soon.
struct Guest {
    stream: TcpStream,
    /// Runs until enough was heard.
    greeting: Option<Pin<Box<Sleep>>>,
    heard: usize,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Guest {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let guest = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut guest.stream).poll_read(cx, buf);
        let Some(greeting) = &mut guest.greeting else { return read };
        guest.heard += buf.filled().len() - before;
        if guest.heard >= PREFACE {
            guest.greeting = None;
        } else if read.is_pending() && greeting.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_stream::StreamExt as _;

    use super::*;

    async fn door(limit: usize, greeting: Duration) -> (Door, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Door::with(listener, limit, greeting), address)
    }

    #[tokio::test]
    async fn who_says_nothing_is_shown_out_and_who_greets_may_be_silent() {
        let (mut door, address) = door(9, Duration::from_millis(200)).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut guest = door.next().await.unwrap().unwrap();
        let mut words = [0; PREFACE];
        let error = guest.read_exact(&mut words).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let mut polite = TcpStream::connect(address).await.unwrap();
        let mut guest = door.next().await.unwrap().unwrap();
        polite.write_all(&[7; PREFACE]).await.unwrap();
        guest.read_exact(&mut words).await.unwrap();
        let more = tokio::time::timeout(Duration::from_millis(600), guest.read(&mut words)).await;
        assert!(more.is_err(), "it waits for more");
    }

    #[tokio::test]
    async fn there_is_room_for_so_many_and_again_when_one_has_left() {
        let (mut door, address) = door(2, Duration::from_secs(60)).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let first = door.next().await.unwrap().unwrap();
        let _second = door.next().await.unwrap().unwrap();
        // The third is closed, and nobody is let in for it.
        let mut third = clients.pop().unwrap();
        let mut byte = [0];
        tokio::select! {
            _ = door.next() => panic!("there is no room"),
            read = third.read(&mut byte) => assert!(matches!(read, Ok(0) | Err(_)), "{read:?}"),
        }
        drop(first);
        let _fourth = TcpStream::connect(address).await.unwrap();
        door.next().await.unwrap().unwrap();
    }
}
