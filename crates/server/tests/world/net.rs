//! The simulated network, as nodes and clients use it.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use conclave_wire::{Connecting, Connection, Incoming, Listening, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

/// Connections that the simulation carries.
pub struct Simulated;

impl Transport for Simulated {
    fn connect(&self, address: String) -> Connecting {
        Box::pin(async move { TcpStream::connect(address).await.map(Connection::new) })
    }

    fn listen(&self, address: String) -> Listening {
        Box::pin(async move {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let port = port.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            let listener = TcpListener::bind(("0.0.0.0", port)).await?;
            let incoming = futures_util::stream::unfold(listener, |listener| async move {
                let accepted = listener.accept().await.map(|(stream, _)| Connection::new(stream));
                Some((accepted, listener))
            });
            Ok((Box::pin(incoming) as Incoming, address))
        })
    }
}

/// What the nodes of a world are told of each other that is not true: that a connection broke, and that nobody listens.
#[derive(Default)]
pub struct Rumours(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// Who is told that nobody listens at which address.
    refused: BTreeSet<(u64, String)>,
    /// The connections that nodes have made: who, to which address.
    open: Vec<(u64, String, Weak<Mutex<Wire>>)>,
}

/// A connection, in so far as it can be broken.
#[derive(Default)]
struct Wire {
    is_broken: bool,
    reader: Option<Waker>,
}

impl Rumours {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaks what a node has open to an address.
    pub fn break_off(&self, from: u64, address: &str) {
        self.told().open.retain(|(who, to, wire)| {
            let Some(wire) = wire.upgrade() else { return false };
            if *who == from && to == address {
                let mut wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
                wire.is_broken = true;
                wire.reader.take().into_iter().for_each(Waker::wake);
            }
            true
        });
    }

    /// From now on a node is told that nobody listens there.
    pub fn refuse(&self, from: u64, address: &str) {
        self.told().refused.insert((from, address.to_owned()));
    }

    /// Undoes that.
    pub fn admit(&self, from: u64, address: &str) {
        self.told().refused.remove(&(from, address.to_owned()));
    }
}

/// The transport of a node: what is simulated, and what is only said.
pub struct Gossiping {
    pub node: u64,
    pub rumours: Arc<Rumours>,
}

impl Transport for Gossiping {
    fn connect(&self, address: String) -> Connecting {
        let (node, rumours) = (self.node, Arc::clone(&self.rumours));
        Box::pin(async move {
            if rumours.told().refused.contains(&(node, address.clone())) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let stream = TcpStream::connect(address.clone()).await?;
            let wire = Arc::new(Mutex::new(Wire::default()));
            let mut told = rumours.told();
            told.open.retain(|(.., wire)| wire.strong_count() > 0);
            told.open.push((node, address, Arc::downgrade(&wire)));
            Ok(Connection::new(Breakable { stream, wire }))
        })
    }

    fn listen(&self, address: String) -> Listening {
        Simulated.listen(address)
    }
}

struct Breakable {
    stream: TcpStream,
    wire: Arc<Mutex<Wire>>,
}

impl Breakable {
    fn is_broken(&self, reader: Option<&Waker>) -> io::Result<()> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        if wire.is_broken {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if let Some(reader) = reader {
            wire.reader = Some(reader.clone());
        }
        Ok(())
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_broken(Some(cx.waker()))?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.is_broken(None)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_broken(None)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
