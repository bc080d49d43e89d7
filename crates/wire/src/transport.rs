//! How bytes travel: TCP in earnest, whatever a test puts in its place otherwise.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_stream::Stream;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::door::Door;

/// A stream of bytes in both directions.
pub struct Connection(Pin<Box<dyn Duplex>>);

/// What a connection is made of.
trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Connection {
    /// Takes any stream for one.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>>;
/// The connections that arrive.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;
/// A door that is being opened: what arrives, and the address it really got.
pub type Listening = Pin<Box<dyn Future<Output = io::Result<(Incoming, String)>> + Send>>;
/// A transport that many share.
pub type Connector = Arc<dyn Transport>;

/// How bytes travel.
pub trait Transport: Send + Sync + 'static {
    /// Connects to an address, `host:port`.
    fn connect(&self, address: String) -> Connecting;
    /// Accepts connections at an address; the second is the one it really got, where a port was left open.
    fn listen(&self, address: String) -> Listening;
}

/// A connection on which nothing is heard for so long is asked whether it lives.
const ASK_AFTER: Duration = Duration::from_secs(2);
/// And must say so in this time, or is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// A channel to an address, which connects when it is first used. It breaks when the other end is silent for too long:
/// a machine that is gone does not say goodbye.
pub fn channel(
    transport: &Connector,
    address: &str,
    connect_timeout: Duration,
) -> Result<Channel, tonic::transport::Error> {
    let transport = Arc::clone(transport);
    let target = address.to_owned();
    let endpoint = Endpoint::try_from(format!("http://{address}"))?
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ASK_AFTER)
        .keep_alive_timeout(ANSWER_WITHIN);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let connecting = transport.connect(target.clone());
        async move { connecting.await.map(TokioIo::new) }
    })))
}

/// TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Transport for Tcp {
    fn connect(&self, address: String) -> Connecting {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Connection::new(stream))
        })
    }

    fn listen(&self, address: String) -> Listening {
        Box::pin(async move {
            let listener = tokio::net::TcpListener::bind(address).await?;
            let local = listener.local_addr()?.to_string();
            Ok((Box::pin(Door::new(listener)) as Incoming, local))
        })
    }
}
