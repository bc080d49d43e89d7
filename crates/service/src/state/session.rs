//! Sessions: how long they live, and what they remember so that no request acts twice.
//!
//! A number below `acked` is known to be old, one that waits stands in `waits`, and a reply that the client may not have
//! is in `replies` or `late`. Everything else is new, but for what was refused because too much was remembered: that is
//! known by the highest such number. So a late copy of a request never acts again, and what is remembered is limited by
//! what the client has open, however long one of its requests waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::names::Arrival;
use crate::command::{Life, Millis, Owner, RequestId, Token};
use crate::limits::{MAX_REMEMBERED_BYTES, MAX_REMEMBERED_REPLIES};
use crate::reply::Reply;

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub ttl_ms: u32,
    pub owner: Arc<Owner>,
    pub ends_with_connection: bool,
    /// The run of the client that numbers the requests.
    pub life: Life,
    pub deadline: Millis,
    /// Where it stands in the queue of deadlines: never later than its deadline. A renewal leaves it there; when its
    /// turn comes too early, it is queued again.
    pub queued_for: Millis,
    /// The client has a reply to every request below: the final one, or the news that it waits.
    acked: RequestId,
    /// Replies to requests that did not wait, none below `acked`. By ascending request: mostly a queue, since requests
    /// are mostly answered in order.
    replies: VecDeque<(RequestId, Reply)>,
    /// Replies to requests that waited. `acked` says nothing about them: each is acknowledged by its number.
    late: BTreeMap<RequestId, Reply>,
    /// Up to here there may be requests that were refused because too much was remembered. They have no reply in memory,
    /// and must not act when a copy arrives later. Requests arrive in order, so none of these is new.
    refused: RequestId,
    pub waits: BTreeMap<RequestId, Arrival>,
    /// The same waits by strand.
    pub strand_waits: BTreeSet<(u32, Arrival)>,
    /// What it holds, by strand.
    pub held: BTreeSet<(u32, Token)>,
    /// Tokens that were exchanged for others when a grant was strengthened: the last one of each grant that it holds.
    pub exchanged: BTreeMap<Token, Token>,
    /// How often it holds all of that together: a grant that was made again to the same strand counts twice.
    pub depth: usize,
    /// How many bytes it accounts for.
    pub bytes: usize,
    /// How many of them are in `replies`.
    reply_bytes: usize,
}

/// What is known of a request's number.
pub(super) enum Recall {
    New,
    /// The client has the reply: this is an old copy that arrives late.
    Acknowledged,
    Answered {
        reply: Reply,
        waited: bool,
    },
    Waits(Arrival),
}

/// What a client says of itself when it opens a session.
pub(super) struct Opening<'a> {
    pub ttl_ms: u32,
    pub owner: &'a Owner,
    pub ends_with_connection: bool,
    pub reopens: bool,
}

impl Session {
    pub fn new(opening: &Opening<'_>, life: Life, acked: RequestId) -> Self {
        Self {
            ttl_ms: opening.ttl_ms,
            owner: Arc::new(opening.owner.clone()),
            ends_with_connection: opening.ends_with_connection,
            life,
            deadline: 0,
            queued_for: 0,
            acked,
            replies: VecDeque::new(),
            late: BTreeMap::new(),
            refused: RequestId(0),
            waits: BTreeMap::new(),
            strand_waits: BTreeSet::new(),
            held: BTreeSet::new(),
            exchanged: BTreeMap::new(),
            depth: 0,
            bytes: opening.owner.bytes(),
            reply_bytes: 0,
        }
    }

    /// Takes over what the client says of itself now.
    pub fn reopen(&mut self, opening: &Opening<'_>) {
        self.ttl_ms = opening.ttl_ms;
        if *self.owner != *opening.owner {
            self.bytes = self.bytes - self.owner.bytes() + opening.owner.bytes();
            self.owner = Arc::new(opening.owner.clone());
        }
        self.ends_with_connection = opening.ends_with_connection;
    }

    /// Another run of the client numbers its requests again.
    pub fn begin_life(&mut self, life: Life, acked: RequestId) {
        self.life = life;
        self.acked = acked;
        self.refused = RequestId(0);
        self.bytes -= std::mem::take(&mut self.reply_bytes);
        self.replies.clear();
        self.late.clear();
    }

    pub fn renew(&mut self, now: Millis) {
        self.deadline = now.saturating_add(u64::from(self.ttl_ms));
    }

    /// Forgets replies that did not wait and are below `acked`.
    pub fn acknowledge(&mut self, acked: RequestId) {
        self.acked = self.acked.max(acked);
        while self.replies.front().is_some_and(|(request, _)| *request < self.acked)
            && let Some((_, reply)) = self.replies.pop_front()
        {
            self.reply_bytes -= reply.bytes();
            self.bytes -= reply.bytes();
        }
    }

    /// Forgets replies that waited, by their numbers: those below `acked`, which alone are known to be old without them.
    pub fn settle(&mut self, settled: &[RequestId]) {
        for request in settled.iter().filter(|request| **request < self.acked) {
            self.late.remove(request);
        }
    }

    /// The oldest request that waits.
    pub fn oldest_wait(&self) -> Option<RequestId> {
        self.waits.first_key_value().map(|(request, _)| *request)
    }

    pub fn recall(&self, request: RequestId) -> Recall {
        if let Some(arrival) = self.waits.get(&request) {
            return Recall::Waits(*arrival);
        }
        if let Some(reply) = self.late.get(&request) {
            return Recall::Answered { reply: reply.clone(), waited: true };
        }
        if request < self.acked {
            return Recall::Acknowledged;
        }
        // New requests are the rule, and their numbers are beyond all that is remembered.
        if self.replies.back().is_some_and(|(last, _)| request <= *last)
            && let Ok(place) = self.replies.binary_search_by_key(&request, |(request, _)| *request)
        {
            return Recall::Answered { reply: self.replies[place].1.clone(), waited: false };
        }
        Recall::New
    }

    /// Remembers the reply to a request that did not wait.
    pub fn remember(&mut self, request: RequestId, reply: Reply) {
        let place = self.replies.partition_point(|(other, _)| *other < request);
        self.reply_bytes += reply.bytes();
        self.bytes += reply.bytes();
        self.replies.insert(place, (request, reply));
    }

    /// Remembers the reply to a request that waited.
    pub fn remember_late(&mut self, request: RequestId, reply: Reply) {
        self.late.insert(request, reply);
    }

    /// How many replies it remembers to requests that did not wait.
    pub fn remembered(&self) -> usize {
        self.replies.len()
    }

    /// Whether one more reply may be remembered.
    pub fn has_room(&self) -> bool {
        self.replies.len() < MAX_REMEMBERED_REPLIES && self.reply_bytes < MAX_REMEMBERED_BYTES
    }

    /// Whether a new request that needs a reply in memory has to be refused. If so, it is refused for good.
    pub fn refuses(&mut self, request: RequestId) -> bool {
        if !self.has_room() {
            self.refused = self.refused.max(request);
        }
        request <= self.refused
    }

    /// How many requests wait, or waited and are not settled.
    pub fn unsettled(&self) -> usize {
        self.waits.len() + self.late.len()
    }

    /// How many bytes its owner and its replies have, for whoever checks them.
    pub fn own_bytes(&self) -> usize {
        let replies: usize = self.replies.iter().map(|(_, reply)| reply.bytes()).sum();
        assert_eq!(replies, self.reply_bytes, "the bytes of replies are counted");
        self.owner.bytes() + replies
    }

    /// What it remembers, for whoever checks it: requests that did not wait, and those that did.
    pub fn memory(&self) -> (impl Iterator<Item = RequestId>, impl Iterator<Item = RequestId>) {
        (self.replies.iter().map(|(request, _)| *request), self.late.keys().copied())
    }
}
