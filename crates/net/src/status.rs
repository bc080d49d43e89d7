//! How a node stands, for whoever operates it.

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;

use conclave_core::{Group, Incarnation, NodeId};

use crate::hello::Refusal;
use crate::node::Sent;
use crate::peer::{Peer, lock};

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its life.
    pub life: Incarnation,
    /// How it stands with each peer.
    pub peers: BTreeMap<NodeId, PeerStatus>,
    /// Messages that the state machine sent, by kind.
    pub sent: BTreeMap<&'static str, Sent>,
    /// How often somebody did what is not allowed; each kind of it is logged once.
    pub complaints: u64,
    /// How the state machine sees its group, if it keeps a roll.
    pub group: Option<Group>,
}

/// How a node stands with a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The newest life that was seen of it.
    pub life: Option<Incarnation>,
    /// Whether we have a connection to it.
    pub connected_to: bool,
    /// Whether it has a connection to us.
    pub connected_from: bool,
    /// Whether it is suspected.
    pub suspected: bool,
    /// Whether links with it are cut.
    pub cut: bool,
    /// Who carries our connection to it, if it has no way of its own.
    pub via: Option<NodeId>,
    /// Why its name cannot be looked up, if it has one.
    pub unnamed: Option<String>,
    /// Messages to it that are queued or not acknowledged.
    pub waiting: usize,
    /// Messages written to it.
    pub sent: u64,
    /// Messages written to it again.
    pub resent: u64,
    /// Messages to it that were dropped.
    pub dropped: u64,
    /// Messages from it.
    pub received: u64,
    /// Messages from it that had come before.
    pub duplicates: u64,
    /// How often we connected to it.
    pub connections: u64,
    /// Why we last refused to talk to it.
    pub refused_by_us: Option<Refusal>,
    /// Why it refuses to talk to us.
    pub refused_by_it: Option<Refusal>,
}

pub(crate) fn peer_status(peer: &Peer) -> PeerStatus {
    let (outbox, counts) = (peer.outbox.status(), &peer.counts);
    PeerStatus {
        life: peer.outbox.life(),
        connected_to: counts.connected_to.load(Ordering::Relaxed),
        connected_from: counts.connected_from.load(Ordering::Relaxed),
        suspected: counts.suspected.load(Ordering::Relaxed),
        cut: peer.is_cut(),
        via: *lock(&counts.via),
        unnamed: lock(&counts.unnamed).clone(),
        waiting: outbox.waiting,
        sent: outbox.sent,
        resent: outbox.resent,
        dropped: outbox.dropped,
        received: counts.received.load(Ordering::Relaxed),
        duplicates: counts.duplicates.load(Ordering::Relaxed),
        connections: counts.connections.load(Ordering::Relaxed),
        refused_by_us: *lock(&counts.refused_by_us),
        refused_by_it: *lock(&counts.refused_by_it),
    }
}
