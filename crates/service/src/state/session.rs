//! Sessions: how long they live, and what they remember so that no request acts twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::names::Arrival;
use crate::command::{Millis, Owner, RequestId, Token};
use crate::reply::Reply;

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub ttl_ms: u32,
    pub owner: Arc<Owner>,
    pub ends_with_connection: bool,
    /// The run of the client that numbers the requests, and the run before it.
    pub life: u64,
    pub former_life: Option<u64>,
    pub deadline: Millis,
    /// Where it stands in the queue of deadlines: never later than its deadline. A renewal leaves it there; when its
    /// turn comes too early, it is queued again.
    pub queued_for: Millis,
    /// The client has the replies to all requests below.
    acked: RequestId,
    /// By ascending request: mostly a queue, since requests are mostly answered in order.
    replies: VecDeque<(RequestId, Reply)>,
    pub waits: BTreeMap<RequestId, Arrival>,
    /// The same waits by strand.
    pub strand_waits: BTreeSet<(u32, Arrival)>,
    /// What it holds, by strand.
    pub held: BTreeSet<(u32, Token)>,
}

/// What is known of a request's number.
pub(super) enum Recall {
    New,
    /// The client has the reply: this is an old copy that arrives late.
    Acknowledged,
    Answered(Reply),
    Waits(Arrival),
}

/// What a client says of itself when it opens a session.
pub(super) struct Opening<'a> {
    pub ttl_ms: u32,
    pub owner: &'a Owner,
    pub ends_with_connection: bool,
    pub life: u64,
}

impl Session {
    pub fn new(opening: &Opening<'_>, acked: RequestId) -> Self {
        Self {
            ttl_ms: opening.ttl_ms,
            owner: Arc::new(opening.owner.clone()),
            ends_with_connection: opening.ends_with_connection,
            life: opening.life,
            former_life: None,
            deadline: 0,
            queued_for: 0,
            acked,
            replies: VecDeque::new(),
            waits: BTreeMap::new(),
            strand_waits: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    /// Takes over what the client says of itself now.
    pub fn reopen(&mut self, opening: &Opening<'_>) {
        self.ttl_ms = opening.ttl_ms;
        if *self.owner != *opening.owner {
            self.owner = Arc::new(opening.owner.clone());
        }
        self.ends_with_connection = opening.ends_with_connection;
    }

    /// Another run of the client numbers its requests anew.
    pub fn begin_life(&mut self, life: u64, acked: RequestId) {
        self.former_life = Some(self.life);
        self.life = life;
        self.acked = acked;
        self.replies.clear();
    }

    pub fn renew(&mut self, now: Millis) {
        self.deadline = now.saturating_add(u64::from(self.ttl_ms));
    }

    pub fn acknowledge(&mut self, acked: RequestId) {
        self.acked = self.acked.max(acked);
        while self.replies.front().is_some_and(|(request, _)| *request < self.acked) {
            self.replies.pop_front();
        }
    }

    pub fn recall(&self, request: RequestId) -> Recall {
        if request < self.acked {
            return Recall::Acknowledged;
        }
        // New requests are the rule, and their numbers are beyond all that is remembered.
        if self.replies.back().is_some_and(|(last, _)| request <= *last)
            && let Ok(place) = self.replies.binary_search_by_key(&request, |(request, _)| *request)
        {
            return Recall::Answered(self.replies[place].1.clone());
        }
        self.waits.get(&request).map_or(Recall::New, |arrival| Recall::Waits(*arrival))
    }

    pub fn remember(&mut self, request: RequestId, reply: Reply) {
        if request < self.acked {
            return;
        }
        let place = self.replies.partition_point(|(other, _)| *other < request);
        self.replies.insert(place, (request, reply));
    }

    pub fn remembered(&self) -> usize {
        self.replies.len()
    }

    pub fn remembered_openings(&self) -> usize {
        self.replies.iter().filter(|(_, reply)| matches!(reply, Reply::Opened { .. })).count()
    }

    /// What it remembers, for whoever checks it.
    pub fn memory(&self) -> impl Iterator<Item = RequestId> {
        self.replies.iter().map(|(request, _)| *request)
    }
}
