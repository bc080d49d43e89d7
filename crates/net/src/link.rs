//! The way to one peer: connects, introduces itself, writes what is in the outbox, and begins again when it breaks.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use conclave_core::Protocol;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::frame::{Frame, decode};
use crate::hello::{Hello, Refusal};
use crate::peer::{Arrival, Hub, Peer, Stage, lock};
use crate::secret::{Secret, Side};
use crate::stream::{Broken, Connection, Stream};
use crate::timers::fraction;

/// Bytes that are gathered for one write.
const BATCH: usize = 64 << 10;

/// Keeps a connection to the peer until the node stops.
pub(crate) async fn run<P: Protocol>(hub: Arc<Hub<P>>, peer: Arc<Peer>) {
    let mut backoff = Backoff::new(hub.limits.backoff_min, hub.limits.backoff_max);
    while hub.is_running() {
        tokio::select! {
            () = peer.until_cut(false) => {}
            () = hub.until(Stage::Closing) => return,
        }
        let before = peer.counts.connections.load(Ordering::Relaxed);
        let broken = tokio::select! {
            broken = connect_and_serve(&hub, &peer) => broken,
            () = peer.until_cut(true) => Broken::Superseded,
            () = hub.until(Stage::Stopped) => return,
        };
        peer.counts.connected_to.store(false, Ordering::Relaxed);
        note(&hub, &peer, &broken);
        if peer.counts.connections.load(Ordering::Relaxed) > before {
            backoff.reset();
        }
        tokio::select! {
            () = sleep(backoff.next()) => {}
            () = peer.nudge.notified() => {}
            () = hub.until(Stage::Closing) => return,
        }
    }
}

/// Refusals are worth a line in the log; that a peer cannot be reached just now is not.
fn note<P: Protocol>(hub: &Hub<P>, peer: &Peer, broken: &Broken) {
    tracing::debug!("connection to {}: {broken}", peer.id);
    match broken {
        Broken::Refused(why) => *lock(&peer.counts.refused_by_us) = Some(*why),
        Broken::RefusedByPeer(why) => *lock(&peer.counts.refused_by_it) = Some(*why),
        Broken::Frame(_) => *lock(&peer.counts.refused_by_us) = Some(Refusal::Garbage),
        _ => return,
    }
    hub.complaints.about(&peer.id, broken);
}

async fn connect_and_serve<P: Protocol>(hub: &Hub<P>, peer: &Peer) -> Broken {
    match timeout(hub.limits.handshake, introduce(hub, peer)).await {
        Ok(Ok(mut connection)) => {
            peer.counts.connections.fetch_add(1, Ordering::Relaxed);
            peer.counts.connected_to.store(true, Ordering::Relaxed);
            *lock(&peer.counts.refused_by_it) = None;
            let broken = serve(hub, peer, &mut connection).await.err().unwrap_or(Broken::Closed);
            if let Broken::Refused(why) = broken {
                connection.refuse(why).await;
            }
            broken
        }
        Ok(Err(broken)) => broken,
        Err(_) => Broken::TooSlow,
    }
}

/// Connects and says hello; the connection is ours to write to afterwards.
async fn introduce<P: Protocol>(hub: &Hub<P>, peer: &Peer) -> Result<Connection, Broken> {
    let stream = TcpStream::connect(peer.address).await?;
    stream.set_nodelay(true)?;
    let stream = match &hub.tls {
        Some(tls) => tls.connect(stream, peer.id).await?,
        None => Stream::Plain(stream),
    };
    let mut connection = Connection::new(stream, hub.limits.frame, hub.limits.stall);
    let gap = peer.outbox.gap();
    let hello = hub.identity.hello(peer.id, gap);
    connection.send(&Frame::Hello(hello.clone())).await?;
    if let Some(secret) = &hub.identity.secret {
        answer_challenge(&mut connection, secret, &hello).await?;
    }
    let answer = connection.receive().await?;
    let welcome = match decode(&answer)? {
        Frame::Welcome(welcome) => welcome,
        Frame::Refusal(why) => {
            if why.is_final() {
                hub.tell(Arrival::Disowned { peer: peer.id, why }).await;
            }
            return Err(Broken::RefusedByPeer(why));
        }
        // It has a secret, and we have none.
        Frame::Challenge { .. } => {
            connection.refuse(Refusal::Secret).await;
            return Err(Broken::RefusedByPeer(Refusal::Secret));
        }
        _ => return Err(Refusal::Garbage.into()),
    };
    let judged = hub.identity.judge_welcome(&welcome, peer.id, peer.known());
    let met = judged.and_then(|()| peer.outbox.meet(welcome.life));
    if let Err(why) = met {
        connection.refuse(why).await;
        return Err(why.into());
    }
    *lock(&peer.directory) = Some(welcome.directory);
    let gap_told = gap == Some(welcome.life);
    let generation = match peer.outbox.resume(welcome.life, welcome.received, gap_told) {
        Ok(generation) => generation,
        // The channel broke while we said hello: say it again, with what is true now.
        Err(Refusal::Missing) => return Err(Broken::Superseded),
        Err(why) => {
            connection.refuse(why).await;
            return Err(why.into());
        }
    };
    peer.pulse().heard(hub.now());
    let contact = Arrival::Contact { peer: peer.id, life: welcome.life, generation, gap: false };
    if hub.tell(contact).await { Ok(connection) } else { Err(Broken::Superseded) }
}

/// Shows that we know the secret, to somebody who has shown it first.
async fn answer_challenge(connection: &mut Connection, secret: &Secret, hello: &Hello) -> Result<(), Broken> {
    let answer = connection.receive().await?;
    match decode(&answer)? {
        Frame::Challenge { nonce, proof } if secret.is_proof(Side::Accepts, hello, nonce, &proof) => {
            connection.send(&Frame::Proof(secret.prove(Side::Connects, hello, nonce))).await
        }
        Frame::Refusal(why) => Err(Broken::RefusedByPeer(why)),
        _ => {
            connection.refuse(Refusal::Secret).await;
            Err(Refusal::Secret.into())
        }
    }
}

/// Writes what there is to write, and beats; reads acknowledgements.
async fn serve<P: Protocol>(hub: &Hub<P>, peer: &Peer, connection: &mut Connection) -> Result<(), Broken> {
    let mut beat = interval(hub.detector.beat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing = core::pin::pin!(hub.until(Stage::Closing));
    let mut is_closing = false;
    loop {
        if peer.outbox.is_reset() {
            return Err(Broken::Superseded);
        }
        peer.outbox.write(connection.staged(), BATCH);
        connection.flush().await?;
        if is_closing && peer.outbox.is_empty() {
            connection.send(&Frame::Bye).await?;
            return Ok(());
        }
        let more = peer.outbox.has_unwritten();
        tokio::select! {
            biased;
            filled = connection.fill() => {
                filled?;
                on_frames(hub, peer, connection)?;
            }
            () = core::future::ready(()), if more => {}
            () = peer.outbox.changed() => {}
            _ = beat.tick() => connection.stage(&Frame::Beat),
            () = &mut closing, if !is_closing => {
                // A beat asks for what is still to be acknowledged.
                connection.stage(&Frame::Beat);
                is_closing = true;
            }
        }
    }
}

fn on_frames<P: Protocol>(hub: &Hub<P>, peer: &Peer, connection: &mut Connection) -> Result<(), Broken> {
    while let Some(bytes) = connection.next()? {
        match decode(&bytes)? {
            Frame::Ack { upto } => {
                let was_high = peer.outbox.is_high();
                peer.outbox.acknowledge(upto)?;
                if was_high && !peer.outbox.is_high() {
                    hub.room.notify_one();
                }
            }
            Frame::Refusal(why) => return Err(Broken::RefusedByPeer(why)),
            Frame::Hello(_)
            | Frame::Challenge { .. }
            | Frame::Proof(_)
            | Frame::Welcome(_)
            | Frame::Data { .. }
            | Frame::Beat
            | Frame::Bye => return Err(Refusal::Garbage.into()),
        }
    }
    peer.pulse().heard(hub.now());
    Ok(())
}

/// How long to wait before connecting again: twice as long each time, less a random part, so that those who were cut off
/// together do not come back together.
struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, next: min }
    }

    fn reset(&mut self) {
        self.next = self.min;
    }

    fn next(&mut self) -> Duration {
        let wait = self.next.mul_f64(0.5 + fraction() / 2.0);
        self.next = (self.next * 2).min(self.max);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_small_again() {
        let (min, max) = (Duration::from_millis(10), Duration::from_millis(100));
        let mut backoff = Backoff::new(min, max);
        let waits: Vec<Duration> = (0..20).map(|_| backoff.next()).collect();
        assert!(waits[0] <= min && waits[0] >= min / 2);
        assert!(waits[5..].iter().all(|wait| (max / 2..=max).contains(wait)), "{waits:?}");
        assert!(waits[5..].windows(2).any(|pair| pair[0] != pair[1]), "no jitter: {waits:?}");
        backoff.reset();
        assert!(backoff.next() <= min);
    }
}
