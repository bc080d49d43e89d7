//! The simulated network, as nodes and clients use it.

use std::io;

use conclave_wire::{Connecting, Connection, Incoming, Listening, Transport};
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
