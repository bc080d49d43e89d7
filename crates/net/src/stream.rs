//! A connection, plain or encrypted, that speaks in frames.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use bytes::BytesMut;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use crate::frame::{Frame, FrameError, encode, split};
use crate::hello::Refusal;

/// Bytes asked for in one read.
const READ: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("nothing moved for too long")]
    TooSlow,
    /// The name of the peer could not be looked up.
    #[error("{0}")]
    Unnamed(io::Error),
    /// Nothing came back, and somebody else hears the peer.
    #[error("nothing comes back on it")]
    Silent,
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// We refuse to go on.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The peer refuses to go on.
    #[error("the peer refused: {0}")]
    RefusedByPeer(Refusal),
    /// A newer connection takes its place, or the node wants it closed.
    #[error("no longer needed")]
    Superseded,
    /// The life of the peer is over.
    #[error("the peer said goodbye")]
    Bye,
}

impl From<Refusal> for Broken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What carries a connection: the network, or another process.
pub(crate) enum Carrier {
    Tcp(TcpStream),
    Process(Box<Stream>),
}

/// Either kind of connection.
pub(crate) enum Stream {
    Plain(Carrier),
    Tls(Box<TlsStream<Carrier>>),
}

impl AsyncRead for Carrier {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Process(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Process(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Process(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Process(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A connection that speaks in frames.
pub(crate) struct Connection {
    stream: Stream,
    incoming: BytesMut,
    outgoing: Vec<u8>,
    /// The largest frame that may come in.
    pub limit: usize,
    /// How long a write may take.
    stall: Duration,
}

impl Connection {
    pub fn new(stream: Stream, limit: usize, stall: Duration) -> Self {
        Self { stream, incoming: BytesMut::new(), outgoing: Vec::new(), limit, stall }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What is left when nothing more is said in frames. Bytes that have arrived behind the last frame would be lost: then
    /// there is none.
    pub fn into_stream(self) -> Option<Stream> {
        self.incoming.is_empty().then_some(self.stream)
    }

    /// Reads what there is, at least something. Cancel-safe.
    pub async fn fill(&mut self) -> Result<(), Broken> {
        // A stranger gets little room. For others it is made again before it becomes short, which costs nothing when
        // all frames before it are gone, and keeps what was written together together.
        let room = READ.min(self.limit);
        if self.incoming.capacity() - self.incoming.len() < room / 2 {
            self.incoming.reserve(room);
        }
        match self.stream.read_buf(&mut self.incoming).await? {
            0 => Err(Broken::Closed),
            _ => Ok(()),
        }
    }

    /// The bytes of the next frame that has arrived whole.
    pub fn next(&mut self) -> Result<Option<BytesMut>, Broken> {
        Ok(split(&mut self.incoming, self.limit)?)
    }

    /// The bytes of the next frame, waiting for it.
    pub async fn receive(&mut self) -> Result<BytesMut, Broken> {
        loop {
            if let Some(frame) = self.next()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    /// Puts a frame with those to be written next.
    pub fn stage(&mut self, frame: &Frame<'_>) {
        encode(frame, &mut self.outgoing);
    }

    /// Where frames can be put that are to be written next.
    pub fn staged(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Writes what was staged.
    pub async fn flush(&mut self) -> Result<(), Broken> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let Self { stream, outgoing, stall, .. } = self;
        let write = async {
            stream.write_all(outgoing).await?;
            stream.flush().await
        };
        timeout(*stall, write).await.map_err(|_| Broken::TooSlow)??;
        self.outgoing.clear();
        Ok(())
    }

    /// Writes one frame.
    pub async fn send(&mut self, frame: &Frame<'_>) -> Result<(), Broken> {
        self.stage(frame);
        self.flush().await
    }

    /// Tells the other side why this is the end. It may not listen any more; then there is nothing to be done.
    pub async fn refuse(&mut self, refusal: Refusal) {
        self.outgoing.clear();
        let _ = self.send(&Frame::Refusal(refusal)).await;
        let _ = timeout(self.stall, self.stream.shutdown()).await;
    }
}
