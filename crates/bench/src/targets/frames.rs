//! A TCP connection that is read message by message, for the protocols spoken by hand.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::target::TargetError;

/// Nothing that is measured sends messages of this size.
const LARGEST: usize = 16 << 20;

/// A connection and the bytes that have arrived and not been used yet.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Frames {
    /// Connects without delay for small packets.
    pub async fn connect(endpoint: &str) -> Result<Self, TargetError> {
        let open = async {
            let stream = TcpStream::connect(endpoint).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = open.await.map_err(|reason: io::Error| TargetError::Unreachable {
            endpoint: endpoint.to_owned(),
            reason: reason.to_string(),
        })?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(4096) })
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), TargetError> {
        self.stream.write_all(bytes).await.map_err(lost)
    }

    /// The next message, as `take` cuts it off the front of the buffer once it is complete. Nothing is lost when this
    /// is given up halfway.
    pub async fn next<T>(
        &mut self,
        take: impl Fn(&mut BytesMut) -> Result<Option<T>, TargetError>,
    ) -> Result<T, TargetError> {
        loop {
            if let Some(message) = take(&mut self.buffer)? {
                return Ok(message);
            }
            if self.buffer.len() > LARGEST {
                return Err(TargetError::Garbled("a message without end".to_owned()));
            }
            if self.stream.read_buf(&mut self.buffer).await.map_err(lost)? == 0 {
                return Err(TargetError::Lost("closed by the server".to_owned()));
            }
        }
    }
}

// By value, as `map_err` wants it.
#[allow(clippy::needless_pass_by_value)]
fn lost(reason: io::Error) -> TargetError {
    TargetError::Lost(reason.to_string())
}
