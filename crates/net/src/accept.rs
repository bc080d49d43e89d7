//! The way from the peers: accepts connections, finds out who speaks, and hands on what it says, in order and once.
//!
//! **Strangers.** Who has not said yet who it is has a place among few. Where there are too many, the oldest from where most come
//! from has to go: whoever opens connections without end pushes out its own, and nobody from elsewhere.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use conclave_core::{Incarnation, Protocol};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::frame::{Frame, Stamp, decode};
use crate::hello::{HELLO_LIMIT, Hello, Refusal};
use crate::peer::{Arrival, Hub, Inbound, Peer, Stage, lock};
use crate::relay::carry;
use crate::secret::{Nonce, Secret, Side};
use crate::stream::{Broken, Carrier, Connection, Stream};

/// An acknowledgement is due after so many messages; with fewer, at the next beat.
const ACK_EVERY: u64 = 64;

/// Accepts connections until the node stops.
pub(crate) async fn run<P: Protocol>(hub: Arc<Hub<P>>, listener: TcpListener) {
    let strangers = Arc::new(Strangers::new(hub.limits.strangers));
    let mut tasks = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    number += 1;
                    // It must be known as a stranger before it can say who it is.
                    let (open, gate) = oneshot::channel();
                    let task = welcome(Arc::clone(&hub), Arc::clone(&strangers), number, stream, address);
                    let handle = tasks.spawn(async move {
                        if gate.await.is_ok() {
                            task.await;
                        }
                    });
                    strangers.admit(number, address.ip(), handle);
                    let _ = open.send(());
                }
                // Out of file descriptors, perhaps: others must give some back first.
                Err(error) => {
                    hub.complaints.about(&"accepting connections", &error);
                    sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = tasks.join_next() => {}
            () = hub.until(Stage::Stopped) => return,
        }
    }
}

/// Connections that have not said yet who they are.
struct Strangers {
    most: usize,
    waiting: Mutex<Waiting>,
}

/// From where they come, and by age.
type Waiting = BTreeMap<Source, BTreeMap<u64, AbortHandle>>;

/// Who can be told apart by an address: a host, or with IPv6 a network, of which one host may have all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Host(Ipv4Addr),
    Network([u16; 4]),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(host) => Self::Host(host),
            IpAddr::V6(host) => {
                let [a, b, c, d, ..] = host.segments();
                Self::Network([a, b, c, d])
            }
        }
    }
}

impl Strangers {
    fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::new(Waiting::new()) }
    }

    /// Lets one in. If there are too many, the oldest from where most come from has to go: an honest peer says at once who it
    /// is.
    fn admit(&self, number: u64, from: IpAddr, handle: AbortHandle) {
        let mut waiting = lock(&self.waiting);
        waiting.entry(from.into()).or_default().insert(number, handle);
        let total: usize = waiting.values().map(BTreeMap::len).sum();
        if total > self.most
            && let Some(crowd) = waiting.values_mut().max_by_key(|crowd| crowd.len())
            && let Some((_, oldest)) = crowd.pop_first()
        {
            oldest.abort();
        }
    }

    /// It said who it is, or went away.
    fn leave(&self, number: u64, from: IpAddr) {
        let mut waiting = lock(&self.waiting);
        if let Some(crowd) = waiting.get_mut(&from.into()) {
            crowd.remove(&number);
        }
        waiting.retain(|_, crowd| !crowd.is_empty());
    }
}

/// One connection from its beginning to its end.
async fn welcome<P: Protocol>(
    hub: Arc<Hub<P>>,
    strangers: Arc<Strangers>,
    number: u64,
    stream: TcpStream,
    address: SocketAddr,
) {
    let greeted = timeout(hub.limits.handshake, greet(&hub, stream)).await;
    strangers.leave(number, address.ip());
    let (mut connection, hello) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(broken)) => return hub.complaints.about(&address.ip(), &broken),
        Err(_) => return hub.complaints.about(&address.ip(), &Refusal::NoHello),
    };
    let peer = match judge(&hub, &connection, &hello) {
        Ok(peer) => peer,
        Err(why) => {
            if let Some(peer) = hub.peers.get(&hello.from) {
                *lock(&peer.counts.refused_by_us) = Some(why);
            }
            hub.complaints.about(&format_args!("{} at {}", hello.from, address.ip()), &why);
            return connection.refuse(why).await;
        }
    };
    if let Some(to) = hello.onward {
        return carry(&hub, &peer, to, connection).await;
    }
    let link = hello.via.and_then(|carrier| hub.peers.get(&carrier)).unwrap_or(&peer);
    let broken = tokio::select! {
        ended = serve(&hub, &peer, &hello, &mut connection) => ended.err().unwrap_or(Broken::Closed),
        () = link.until_cut(true) => Broken::Refused(Refusal::Cut),
    };
    tracing::debug!("connection from {}: {broken}", peer.id);
    let refusal = match broken {
        Broken::Refused(why) => why,
        Broken::Frame(_) => Refusal::Garbage,
        _ => return,
    };
    if refusal != Refusal::Cut {
        *lock(&peer.counts.refused_by_us) = Some(refusal);
        hub.complaints.about(&peer.id, &broken);
    }
    connection.refuse(refusal).await;
}

async fn greet<P: Protocol>(hub: &Hub<P>, stream: TcpStream) -> Result<(Connection, Hello), Broken> {
    stream.set_nodelay(true)?;
    let stream = match &hub.tls {
        Some(tls) => tls.accept(Carrier::Tcp(stream)).await?,
        None => Stream::Plain(Carrier::Tcp(stream)),
    };
    let mut connection = Connection::new(stream, HELLO_LIMIT, hub.limits.stall);
    let first = match connection.receive().await {
        Err(broken @ Broken::Frame(_)) => {
            connection.refuse(Refusal::NoHello).await;
            return Err(broken);
        }
        first => first?,
    };
    let Ok(Frame::Hello(hello)) = decode(&first) else {
        connection.refuse(Refusal::NoHello).await;
        return Err(Refusal::NoHello.into());
    };
    if let Some(secret) = &hub.identity.secret {
        challenge(&mut connection, secret, &hello).await?;
    }
    Ok((connection, hello))
}

/// Both sides show that they know the secret; nothing else that a stranger says counts.
async fn challenge(connection: &mut Connection, secret: &Secret, hello: &Hello) -> Result<(), Broken> {
    let nonce = Nonce::random();
    let proof = secret.prove(Side::Accepts, hello, nonce);
    connection.send(&Frame::Challenge { nonce, proof }).await?;
    let answer = connection.receive().await?;
    match decode(&answer) {
        Ok(Frame::Proof(proof)) if secret.is_proof(Side::Connects, hello, nonce, &proof) => Ok(()),
        Ok(Frame::Refusal(why)) => Err(Broken::RefusedByPeer(why)),
        _ => {
            connection.refuse(Refusal::Secret).await;
            Err(Refusal::Secret.into())
        }
    }
}

fn judge<P: Protocol>(hub: &Hub<P>, connection: &Connection, hello: &Hello) -> Result<Arc<Peer>, Refusal> {
    let peer = hub.peers.get(&hello.from);
    hub.identity.judge(hello, peer.map(|peer| peer.known()))?;
    let peer = peer.ok_or(Refusal::Stranger)?;
    if hub.tls.as_ref().is_some_and(|tls| !tls.names(connection.stream(), hello.from)) {
        return Err(Refusal::Certificate);
    }
    let link = match hello.via {
        Some(carrier) => hub.peers.get(&carrier).ok_or(Refusal::Garbage)?,
        None => peer,
    };
    if link.is_cut() {
        return Err(Refusal::Cut);
    }
    if !hub.is_running() {
        return Err(Refusal::Stopping);
    }
    Ok(Arc::clone(peer))
}

/// Takes the place of an older connection, if there is one, and reads until it has to give way itself.
async fn serve<P: Protocol>(
    hub: &Hub<P>,
    peer: &Peer,
    hello: &Hello,
    connection: &mut Connection,
) -> Result<(), Broken> {
    let mut turn = peer.turn.subscribe();
    let mut ticket = 0;
    peer.turn.send_modify(|turn| {
        *turn += 1;
        ticket = *turn;
    });
    // At most one waits for its turn: who is waiting when the next one comes gives up.
    let mut inbound = tokio::select! {
        biased;
        _ = turn.wait_for(|turn| *turn != ticket) => return Err(Broken::Superseded),
        inbound = peer.inbound.lock() => inbound,
    };
    let generation = peer.outbox.meet(hello.life)?;
    *lock(&peer.directory) = Some(hello.directory);
    if inbound.life != Some(hello.life) {
        *inbound = Inbound { life: Some(hello.life), received: 0 };
    }
    let gap = hello.gap == Some(hub.identity.life);
    connection.send(&Frame::Welcome(hub.identity.welcome(inbound.received))).await?;
    connection.limit = hub.limits.frame;
    peer.pulse().reconnect();
    let contact = Arrival::Contact { peer: peer.id, life: hello.life, generation, gap };
    let ended = read(hub, peer, contact, connection, &mut inbound, &mut turn).await;
    peer.counts.connected_from.store(false, Ordering::Relaxed);
    ended
}

async fn read<P: Protocol>(
    hub: &Hub<P>,
    peer: &Peer,
    contact: Arrival<P>,
    connection: &mut Connection,
    inbound: &mut Inbound,
    turn: &mut watch::Receiver<u64>,
) -> Result<(), Broken> {
    let life = inbound.life.unwrap_or(Incarnation::FIRST);
    // Whoever finds our welcome wrong says nothing more than why: only what else comes after it is a sign of life.
    let mut contact = Some(contact);
    let mut acknowledged = inbound.received;
    // One timer for the whole connection, set again only when it runs out.
    let silence = hub.silence();
    let mut last_heard = Instant::now();
    let mut alarm = core::pin::pin!(sleep_until(last_heard + silence));
    loop {
        let Batch { letters, beat, bye } = batch(hub, peer, connection, inbound.received)?;
        let has_spoken = beat || bye || !letters.is_empty();
        if let Some(contact) = contact.take_if(|_| has_spoken) {
            if !hub.tell(contact).await {
                return Err(Refusal::Stopping.into());
            }
            peer.counts.connected_from.store(true, Ordering::Relaxed);
            lock(&peer.counts.refused_by_us).take();
            // If we are waiting to connect to it: now it is there.
            peer.nudge.notify_one();
        }
        if !letters.is_empty() {
            let count = letters.len() as u64;
            let arrival = Arrival::Letters { peer: peer.id, life, letters };
            // Nothing is read while the state machine is busy: that is what makes the sender wait.
            if let Err(TrySendError::Full(arrival) | TrySendError::Closed(arrival)) =
                hub.inbox.try_send(arrival)
            {
                let _deaf = Deaf::to(hub, peer);
                tokio::select! {
                    permit = hub.inbox.reserve() => permit.map_err(|_| Refusal::Stopping)?.send(arrival),
                    _ = turn.changed() => return Err(Broken::Superseded),
                }
            }
            inbound.received += count;
            peer.counts.received.fetch_add(count, Ordering::Relaxed);
        }
        if bye {
            hub.tell(Arrival::Bye { peer: peer.id, life }).await;
            return Err(Broken::Bye);
        }
        let unacknowledged = inbound.received - acknowledged;
        // A beat is always answered: whoever beats hears that it is heard.
        if unacknowledged >= ACK_EVERY || beat {
            connection.send(&Frame::Ack { upto: inbound.received }).await?;
            acknowledged = inbound.received;
        }
        tokio::select! {
            biased;
            filled = connection.fill() => {
                filled?;
                last_heard = Instant::now();
            }
            _ = turn.changed() => return Err(Broken::Superseded),
            () = &mut alarm => {
                if last_heard.elapsed() >= silence {
                    return Err(Broken::TooSlow);
                }
                alarm.as_mut().reset(last_heard + silence);
            }
        }
    }
}

/// While nothing that a peer says is read, it is not silent.
struct Deaf<'a, P: Protocol> {
    hub: &'a Hub<P>,
    peer: &'a Peer,
}

impl<'a, P: Protocol> Deaf<'a, P> {
    fn to(hub: &'a Hub<P>, peer: &'a Peer) -> Self {
        peer.pulse().stop_listening(hub.now());
        Self { hub, peer }
    }
}

impl<P: Protocol> Drop for Deaf<'_, P> {
    fn drop(&mut self) {
        self.peer.pulse().listen(self.hub.now());
    }
}

/// What one read brought.
struct Batch<M> {
    letters: Vec<(Option<Stamp>, M)>,
    beat: bool,
    bye: bool,
}

/// Takes all frames that have arrived whole. `received` is the number of the last message that was handed on.
fn batch<P: Protocol>(
    hub: &Hub<P>,
    peer: &Peer,
    connection: &mut Connection,
    mut received: u64,
) -> Result<Batch<P::Message>, Broken> {
    let mut batch = Batch { letters: Vec::new(), beat: false, bye: false };
    while let Some(bytes) = connection.next()? {
        match decode(&bytes)? {
            // It was in flight twice: sent again before our acknowledgement arrived.
            Frame::Data { seq, .. } if seq <= received => {
                peer.counts.duplicates.fetch_add(1, Ordering::Relaxed);
            }
            Frame::Data { seq, stamp, body } if seq == received + 1 => {
                batch
                    .letters
                    .push((checked(stamp, hub.size)?, (hub.codec.message)(body).ok_or(Refusal::Garbage)?));
                received = seq;
            }
            Frame::Data { .. } => return Err(Refusal::Missing.into()),
            Frame::Beat => batch.beat = true,
            Frame::Bye => batch.bye = true,
            Frame::Hears(heard) if heard.len() <= hub.size => {
                *lock(&peer.hears) = heard.into_iter().collect();
            }
            Frame::Refusal(why) => return Err(Broken::RefusedByPeer(why)),
            Frame::Hello(_)
            | Frame::Challenge { .. }
            | Frame::Proof(_)
            | Frame::Welcome(_)
            | Frame::Ack { .. }
            | Frame::Onward
            | Frame::Hears(_) => return Err(Refusal::Garbage.into()),
        }
    }
    let (now, mut pulse) = (hub.now(), peer.pulse());
    if batch.beat {
        pulse.beat(now);
    } else if !batch.letters.is_empty() {
        pulse.heard(now);
    }
    Ok(batch)
}

/// No process has lived through more; a larger number would let the clocks overflow.
const MOST_EVENTS: u64 = 1 << 60;

fn checked(stamp: Option<Stamp>, size: usize) -> Result<Option<Stamp>, Refusal> {
    let is_sound = |stamp: &Stamp| {
        let entries = stamp.vector.entries();
        entries.len() <= size && entries.iter().chain([&stamp.lamport]).all(|count| *count < MOST_EVENTS)
    };
    if stamp.as_ref().is_none_or(is_sound) { Ok(stamp) } else { Err(Refusal::Garbage) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_that_would_spoil_the_clocks_are_refused() {
        let stamp = |lamport, vector: &[u64]| Some(Stamp { lamport, vector: vector.to_vec().into() });
        assert!(checked(None, 2).is_ok());
        assert!(checked(stamp(3, &[1, 2]), 2).is_ok());
        for bad in [stamp(3, &[1, 2, 3]), stamp(3, &[u64::MAX]), stamp(u64::MAX, &[1])] {
            assert_eq!(checked(bad, 2), Err(Refusal::Garbage));
        }
    }

    /// Whoever opens connections without end pushes out its own.
    #[tokio::test]
    async fn a_crowd_pushes_out_nobody_from_elsewhere() {
        let strangers = Strangers::new(8);
        let waits = || tokio::spawn(core::future::pending::<()>()).abort_handle();
        let (honest, crowd) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 66]));
        let peer = waits();
        strangers.admit(0, honest, peer.clone());
        let pushed: Vec<AbortHandle> = (1..=1_000)
            .map(|number| {
                let handle = waits();
                strangers.admit(number, crowd, handle.clone());
                handle
            })
            .collect();
        let left = || pushed.iter().filter(|handle| !handle.is_finished()).count();
        for _ in 0..10_000 {
            if left() == 7 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(left(), 7, "of the crowd");
        assert!(!peer.is_finished(), "it came from elsewhere");
        strangers.leave(0, honest);
        (994..=1_000).for_each(|number| strangers.leave(number, crowd));
        assert!(lock(&strangers.waiting).is_empty());
    }

    #[test]
    fn a_network_of_one_host_is_one_source() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.2"), source("10.0.0.1"));
    }
}
