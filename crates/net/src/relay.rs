//! Carries connections between two others whose own way is broken.
//!
//! ```text
//!   p4 ── Hello { to: p1, onward: p5 } ──▶ p1 ── connects ──▶ p5
//!   p4 ◀── Onward ──────────────────────── p1
//!   p4 ── Hello { to: p5, via: p1 } ─────────────────────────▶ p5
//!   p4 ◀───────────────────────────────────────────── Welcome ── p5
//! ```
//!
//! Who carries sees bytes only. Both ends go through the whole handshake with each other, certificates and all, so that it
//! cannot speak for either.

use core::time::Duration;
use std::io;

use conclave_core::{NodeId, Protocol};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::Address;
use crate::frame::Frame;
use crate::hello::Refusal;
use crate::peer::{Hub, Peer};
use crate::stream::{Broken, Connection};

/// Bytes that are carried at a time.
const ROOM: usize = 16 << 10;

/// Connects to where a process is found now.
pub(crate) async fn dial<P: Protocol>(hub: &Hub<P>, address: &Address) -> Result<TcpStream, Broken> {
    let found = hub.resolver.resolve(address).await.map_err(Broken::Unnamed)?;
    let stream = TcpStream::connect(&found[..]).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Carries a connection to another peer until an end of it closes, or a link that it needs is cut.
pub(crate) async fn carry<P: Protocol>(hub: &Hub<P>, from: &Peer, to: NodeId, mut near: Connection) {
    let far = match reach(hub, to).await {
        Ok(far) => far,
        Err(why) => return near.refuse(why).await,
    };
    let Ok(_place) = hub.carried.try_acquire() else { return near.refuse(Refusal::Unreachable).await };
    if near.send(&Frame::Onward).await.is_err() {
        return;
    }
    let (Some(near), Some(target)) = (near.into_stream(), hub.peers.get(&to)) else { return };
    let (near_in, near_out) = tokio::io::split(near);
    let (far_in, far_out) = far.into_split();
    let silence = hub.silence();
    // Whichever direction ends first takes the other with it.
    let _ = tokio::select! {
        ended = forward(near_in, far_out, silence) => ended,
        ended = forward(far_in, near_out, silence) => ended,
        () = from.until_cut(true) => Ok(()),
        () = target.until_cut(true) => Ok(()),
    };
}

async fn reach<P: Protocol>(hub: &Hub<P>, to: NodeId) -> Result<TcpStream, Refusal> {
    let target = hub.peers.get(&to).ok_or(Refusal::Unreachable)?;
    if target.is_cut() {
        return Err(Refusal::Cut);
    }
    match timeout(hub.limits.handshake, dial(hub, &target.address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(_)) | Err(_) => Err(Refusal::Unreachable),
    }
}

/// Both ends beat, and answer beats: one that says nothing for long is gone.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    silence: Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; ROOM];
    loop {
        let count = timeout(silence, from.read(&mut buffer)).await??;
        if count == 0 {
            return to.shutdown().await;
        }
        let write = async {
            to.write_all(&buffer[..count]).await?;
            to.flush().await
        };
        timeout(silence, write).await??;
    }
}
