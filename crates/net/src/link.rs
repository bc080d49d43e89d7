//! The way to one peer: connects, introduces itself, writes what is in the outbox, and begins again when it breaks.
//!
//! If the straight way fails, or nothing has come back on it for half as long as makes a suspect, a process that hears the peer
//! is asked to carry the connection ([`relay`](crate::relay)). While it does, the straight way is tried again and again.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use conclave_core::{Incarnation, NodeId, Protocol};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::frame::{Frame, decode};
use crate::hello::{Hello, Refusal, Welcome};
use crate::peer::{Arrival, Hub, Peer, Stage, lock};
use crate::relay::dial;
use crate::secret::{Secret, Side};
use crate::stream::{Broken, Carrier, Connection, Stream};
use crate::timers::fraction;

/// Bytes that are gathered for one write.
const BATCH: usize = 64 << 10;

/// How long before the straight way is tried again while another process carries the connection: twice as long each time.
const STRAIGHT_AGAIN: Duration = Duration::from_secs(2);
/// It is never longer.
const STRAIGHT_AT_LAST: Duration = Duration::from_secs(60);

/// How a connection to a peer is made.
#[derive(Clone)]
enum Way {
    Straight,
    /// This one carries it.
    Via(Arc<Peer>),
}

impl Way {
    fn carrier(&self) -> Option<NodeId> {
        match self {
            Self::Straight => None,
            Self::Via(carrier) => Some(carrier.id),
        }
    }

    /// Resolves once the first link on the way is cut.
    async fn until_cut(&self, peer: &Peer) {
        match self {
            Self::Straight => peer.until_cut(true).await,
            Self::Via(carrier) => carrier.until_cut(true).await,
        }
    }
}

/// Keeps a connection to the peer until the node stops.
pub(crate) async fn run<P: Protocol>(hub: Arc<Hub<P>>, peer: Arc<Peer>) {
    let mut backoff = Backoff::new(hub.limits.backoff_min, hub.limits.backoff_max);
    // By whom the connection was to be carried that failed last; nobody, on the straight way.
    let mut failed: BTreeSet<Option<NodeId>> = BTreeSet::new();
    while hub.is_running() {
        if let Some(way) = next_way(&hub, &peer, &failed) {
            let before = peer.counts.connections.load(Ordering::Relaxed);
            let broken = tokio::select! {
                // Who is killed says no goodbye.
                biased;
                () = hub.until(Stage::Stopped) => return,
                broken = connect_and_serve(&hub, &peer, way.clone()) => broken,
            };
            peer.counts.connected_to.store(false, Ordering::Relaxed);
            *lock(&peer.counts.via) = None;
            note(&hub, &peer, &broken);
            let has_served = peer.counts.connections.load(Ordering::Relaxed) > before;
            let is_silent = matches!(broken, Broken::Silent);
            if !has_served {
                failed.insert(way.carrier());
                continue;
            }
            failed.clear();
            if is_silent {
                failed.insert(way.carrier());
            } else {
                backoff.reset();
            }
        } else {
            failed.clear();
        }
        let is_cut = peer.is_cut();
        tokio::select! {
            () = sleep(backoff.next()) => {}
            () = peer.nudge.notified() => {}
            () = peer.until_cut(false), if is_cut => {}
            () = hub.until(Stage::Closing) => return,
        }
    }
}

/// The way to be tried next: the straight one, then one by each who hears the peer.
fn next_way<P: Protocol>(hub: &Hub<P>, peer: &Peer, failed: &BTreeSet<Option<NodeId>>) -> Option<Way> {
    if !peer.is_cut() && !failed.contains(&None) {
        return Some(Way::Straight);
    }
    let carrier = hub.detours(peer).find(|carrier| !failed.contains(&Some(carrier.id)))?;
    Some(Way::Via(Arc::clone(carrier)))
}

/// Refusals are worth a line in the log, and names that mean nothing; that a peer cannot be reached just now is not.
fn note<P: Protocol>(hub: &Hub<P>, peer: &Peer, broken: &Broken) {
    tracing::debug!("connection to {}: {broken}", peer.id);
    match broken {
        Broken::Refused(why) => *lock(&peer.counts.refused_by_us) = Some(*why),
        Broken::RefusedByPeer(why) => *lock(&peer.counts.refused_by_it) = Some(*why),
        Broken::Frame(_) => *lock(&peer.counts.refused_by_us) = Some(Refusal::Garbage),
        Broken::Unnamed(why) => *lock(&peer.counts.unnamed) = Some(why.to_string()),
        _ => return,
    }
    hub.complaints.about(&peer.id, broken);
}

async fn connect_and_serve<P: Protocol>(hub: &Hub<P>, peer: &Peer, mut way: Way) -> Broken {
    // Where somebody else can carry the connection, a way on which nothing comes back is not waited for.
    let has_detour = matches!(way, Way::Straight) && hub.detours(peer).next().is_some();
    let limit =
        if has_detour { hub.limits.handshake.min(hub.detector.at_least / 2) } else { hub.limits.handshake };
    let introduced = tokio::select! {
        introduced = timeout(limit, introduce(hub, peer, &way)) => introduced,
        () = way.until_cut(peer) => return Broken::Superseded,
    };
    let mut introduced = match introduced {
        Ok(Ok(introduced)) => introduced,
        Ok(Err(broken)) => return broken,
        Err(_) => return Broken::TooSlow,
    };
    loop {
        let mut connection = match settle(hub, peer, introduced).await {
            Ok(connection) => connection,
            Err(broken) => return broken,
        };
        peer.counts.connections.fetch_add(1, Ordering::Relaxed);
        peer.counts.connected_to.store(true, Ordering::Relaxed);
        *lock(&peer.counts.via) = way.carrier();
        *lock(&peer.counts.unnamed) = None;
        *lock(&peer.counts.refused_by_it) = None;
        let served = tokio::select! {
            served = serve(hub, peer, &way, &mut connection) => served,
            () = way.until_cut(peer) => return Broken::Superseded,
        };
        match served {
            Ok(None) => return Broken::Closed,
            Ok(Some(straight)) => (introduced, way) = (straight, Way::Straight),
            Err(broken) => {
                if let Broken::Refused(why) = broken {
                    connection.refuse(why).await;
                }
                return broken;
            }
        }
    }
}

/// A connection on which the peer has said that it is welcome.
struct Introduced {
    connection: Connection,
    welcome: Welcome,
    /// The life that was told of messages that were dropped.
    gap: Option<Incarnation>,
}

/// Connects and says hello.
async fn introduce<P: Protocol>(hub: &Hub<P>, peer: &Peer, way: &Way) -> Result<Introduced, Broken> {
    let carrier = match way {
        Way::Straight => Carrier::Tcp(dial(hub, &peer.address).await?),
        Way::Via(carrier) => Carrier::Process(Box::new(be_carried(hub, carrier, peer.id).await?)),
    };
    let mut connection = connection(hub, carrier, peer.id).await?;
    let gap = peer.outbox.gap();
    let hello = Hello { via: way.carrier(), ..hub.identity.hello(peer.id, gap) };
    match greet(hub, &mut connection, hello).await {
        Ok(Greeted::Welcome(welcome)) => Ok(Introduced { connection, welcome, gap }),
        Ok(Greeted::Onward) => Err(Refusal::Garbage.into()),
        Err(Broken::RefusedByPeer(why)) => {
            if why.is_final() {
                hub.tell(Arrival::Disowned { peer: peer.id, why }).await;
            }
            Err(Broken::RefusedByPeer(why))
        }
        Err(broken) => Err(broken),
    }
}

/// Asks somebody to carry a connection.
async fn be_carried<P: Protocol>(hub: &Hub<P>, carrier: &Peer, to: NodeId) -> Result<Stream, Broken> {
    let stream = Carrier::Tcp(dial(hub, &carrier.address).await?);
    let mut connection = connection(hub, stream, carrier.id).await?;
    let hello = Hello { onward: Some(to), ..hub.identity.hello(carrier.id, None) };
    match greet(hub, &mut connection, hello).await {
        Ok(Greeted::Onward) => connection.into_stream().ok_or(Broken::Refused(Refusal::Garbage)),
        // Why one that carries does not says nothing about the peer.
        Ok(Greeted::Welcome(_)) | Err(Broken::Refused(_) | Broken::RefusedByPeer(_)) => Err(Broken::Closed),
        Err(broken) => Err(broken),
    }
}

/// Encrypts what carries a connection to a process, if the group has certificates.
async fn connection<P: Protocol>(hub: &Hub<P>, carrier: Carrier, to: NodeId) -> Result<Connection, Broken> {
    let stream = match &hub.tls {
        Some(tls) => tls.connect(carrier, to).await?,
        None => Stream::Plain(carrier),
    };
    Ok(Connection::new(stream, hub.limits.frame, hub.limits.stall))
}

/// The answer to a hello.
enum Greeted {
    Welcome(Welcome),
    Onward,
}

/// Says hello, and shows that we know the secret if there is one.
async fn greet<P: Protocol>(
    hub: &Hub<P>,
    connection: &mut Connection,
    hello: Hello,
) -> Result<Greeted, Broken> {
    connection.send(&Frame::Hello(hello.clone())).await?;
    if let Some(secret) = &hub.identity.secret {
        answer_challenge(connection, secret, &hello).await?;
    }
    let answer = connection.receive().await?;
    match decode(&answer)? {
        Frame::Welcome(welcome) => Ok(Greeted::Welcome(welcome)),
        Frame::Onward => Ok(Greeted::Onward),
        Frame::Refusal(why) => Err(Broken::RefusedByPeer(why)),
        // It has a secret, and we have none.
        Frame::Challenge { .. } => {
            connection.refuse(Refusal::Secret).await;
            Err(Broken::RefusedByPeer(Refusal::Secret))
        }
        _ => Err(Refusal::Garbage.into()),
    }
}

/// The connection is ours to write to from now on.
async fn settle<P: Protocol>(
    hub: &Hub<P>,
    peer: &Peer,
    introduced: Introduced,
) -> Result<Connection, Broken> {
    let Introduced { mut connection, welcome, gap } = introduced;
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

/// Writes what there is to write, and beats; reads acknowledgements. If somebody else carries the connection and the straight
/// way is found again, that is what is returned.
async fn serve<P: Protocol>(
    hub: &Hub<P>,
    peer: &Peer,
    way: &Way,
    connection: &mut Connection,
) -> Result<Option<Introduced>, Broken> {
    let mut beat = interval(hub.detector.beat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing = core::pin::pin!(hub.until(Stage::Closing));
    let mut is_closing = false;
    let began = Instant::now();
    let is_carried = way.carrier().is_some();
    let mut straight = core::pin::pin!(find_straight_way(hub, peer));
    loop {
        if peer.outbox.is_reset() {
            return Err(Broken::Superseded);
        }
        peer.outbox.write(connection.staged(), BATCH);
        connection.flush().await?;
        if is_closing && peer.outbox.is_empty() {
            connection.send(&Frame::Bye).await?;
            return Ok(None);
        }
        let more = peer.outbox.has_unwritten();
        tokio::select! {
            biased;
            filled = connection.fill() => {
                filled?;
                on_frames(hub, peer, connection)?;
            }
            found = &mut straight, if is_carried => return Ok(Some(found)),
            () = core::future::ready(()), if more => {}
            () = peer.outbox.changed() => {}
            _ = beat.tick() => {
                if is_silent(hub, peer, began) && (is_carried || hub.detours(peer).next().is_some()) {
                    return Err(Broken::Silent);
                }
                connection.stage(&Frame::Beat);
                connection.stage(&Frame::Hears(hub.heard_here(peer.id)));
            }
            () = &mut closing, if !is_closing => {
                // A beat asks for what is still to be acknowledged.
                connection.stage(&Frame::Beat);
                is_closing = true;
            }
        }
    }
}

/// Whether a connection is of no use although it has not broken: nothing is heard of the peer, or nothing is acknowledged.
fn is_silent<P: Protocol>(hub: &Hub<P>, peer: &Peer, began: Instant) -> bool {
    let is_stuck = |since: Instant| since.elapsed() > hub.limits.stall / 2;
    let had_time = began.elapsed() > hub.detector.at_least / 2 && !hub.is_out_of_pace();
    had_time && (!peer.pulse().is_fresh(hub.now()) || peer.outbox.waiting_since().is_some_and(is_stuck))
}

/// Tries the straight way until it works.
async fn find_straight_way<P: Protocol>(hub: &Hub<P>, peer: &Peer) -> Introduced {
    let mut wait = STRAIGHT_AGAIN;
    loop {
        let is_cut = peer.is_cut();
        tokio::select! {
            () = sleep(wait) => {}
            () = peer.until_cut(false), if is_cut => {}
        }
        wait = (wait * 2).min(STRAIGHT_AT_LAST);
        if peer.is_cut() {
            continue;
        }
        if let Ok(Ok(introduced)) = timeout(hub.limits.handshake, introduce(hub, peer, &Way::Straight)).await
        {
            return introduced;
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
            | Frame::Bye
            | Frame::Onward
            | Frame::Hears(_) => return Err(Refusal::Garbage.into()),
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
