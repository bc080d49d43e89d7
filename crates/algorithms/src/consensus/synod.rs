//! One decree of Paxos: an acceptor and a proposer in one process.
//!
//! Lamport: *The part-time parliament*, ACM TOCS 16(2), 1998; *Paxos made simple*, ACM SIGACT News 32(4), 2001. Which messages go
//! to whom, what is saved and when to try again belongs to the protocol around it.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Debug;
use core::hash::Hash;

use conclave_core::{Members, Message, NodeId};
use serde::{Deserialize, Serialize};

use crate::recovery::ballot::{Acceptor, Number, Proposal, is_majority};

/// What processes say to each other about one decree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SynodMessage<V> {
    /// Take part in no earlier ballot, and tell what you have accepted.
    Prepare {
        /// The ballot.
        ballot: Number,
    },
    /// That is promised.
    Promise {
        /// The ballot.
        ballot: Number,
        /// What the sender accepted last, and in which ballot.
        accepted: Option<(Number, V)>,
    },
    /// Accept this value.
    Accept {
        /// The ballot.
        ballot: Number,
        /// The value.
        value: V,
    },
    /// That is accepted.
    Accepted {
        /// The ballot.
        ballot: Number,
    },
    /// A later ballot was promised.
    Nack {
        /// The ballot that is refused.
        ballot: Number,
        /// The later one.
        promised: Number,
    },
    /// This value is decided.
    Decide {
        /// The value.
        value: V,
    },
}

use SynodMessage as Msg;

impl<V: Clone + Ord + Hash + Debug + Serialize + Send + Sync + 'static> Message for SynodMessage<V> {
    fn kind(&self) -> &'static str {
        kinds!(self, Prepare, Promise, Accept, Accepted, Nack, Decide)
    }
}

mutants! {
    pub enum Mutation {
        NoStableStorage {
            name: "no-stable-storage", breaks: "AGREEMENT", nodes: 3, trigger: Restart,
            change: "nothing is saved: an acceptor that comes back has forgotten what it promised and accepted",
        }
        OwnValue {
            name: "own-value", breaks: "AGREEMENT", nodes: 3, trigger: Schedule,
            change: "a proposer proposes its own value whatever the acceptors have accepted",
        }
        ForgetPromise {
            name: "forget-promise", breaks: "AGREEMENT", nodes: 3, trigger: Schedule,
            change: "an acceptor accepts in a ballot although it has promised a later one",
        }
    }
}

impl<V> SynodMessage<V> {
    /// The rule that a message breaks, if it breaks one.
    pub fn breach(&self, members: &Members) -> Option<&'static str> {
        let ballot = match self {
            Msg::Prepare { ballot } | Msg::Accept { ballot, .. } | Msg::Accepted { ballot } => ballot,
            Msg::Promise { ballot, accepted } => {
                accepted.as_ref().map_or(ballot, |(last, _)| last.max(ballot))
            }
            Msg::Nack { ballot, promised } => ballot.max(promised),
            Msg::Decide { .. } => return None,
        };
        let is_known = members.contains(ballot.creator) && ballot.number < u64::MAX;
        (!is_known).then_some("no honest group has such a ballot")
    }
}

/// One decree, as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Synod<V> {
    /// What must survive a crash.
    pub acceptor: Acceptor<V>,
    /// The latest ballot for which one of ours was refused.
    seen: Number,
    /// Our own ballot, if one is under way.
    ballot: Option<(Number, Stage<V>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage<V> {
    Preparing {
        /// What we propose if we are free to.
        own: V,
        /// Who has promised, and what it had accepted.
        promises: BTreeMap<NodeId, Option<(Number, V)>>,
    },
    Accepting(Proposal<V>),
}

/// What comes of an input. The acceptor must be saved before a message leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<V> {
    Nothing,
    /// Something to be said to the sender, by an acceptor that has changed.
    Yield(SynodMessage<V>),
    /// Something to be said to the sender, by one that has not.
    Refuse(SynodMessage<V>),
    /// Something to be said to all others, by an acceptor that has changed.
    Broadcast(SynodMessage<V>),
    /// A majority has accepted our value.
    Chosen(V),
    /// Somebody says that this value is decided.
    Told(V),
    /// Our ballot is over: somebody has promised a later one.
    Outbid,
}

/// Who takes part in a decree, and who we are.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub me: NodeId,
    pub members: &'a Members,
    pub mutation: Option<Mutation>,
}

impl Group<'_> {
    fn all(self) -> BTreeSet<NodeId> {
        self.members.iter().collect()
    }
}

impl<V: Clone> Synod<V> {
    /// One that remembers this.
    pub fn new(acceptor: Acceptor<V>) -> Self {
        Self { acceptor, seen: Number::FIRST, ballot: None }
    }

    /// Begins a ballot that is later than any that was heard of here; nothing, if there is none.
    pub fn begin(&mut self, own: V, group: Group<'_>) -> Step<V> {
        let ballot = self.acceptor.promised.max(self.seen).next(group.me);
        if !self.acceptor.promise(ballot) {
            return Step::Nothing;
        }
        let promises = [(group.me, self.acceptor.accepted.clone())].into();
        self.ballot = Some((ballot, Stage::Preparing { own, promises }));
        match self.maybe_propose(group) {
            Step::Nothing => Step::Broadcast(Msg::Prepare { ballot }),
            alone => alone,
        }
    }

    /// Whether a ballot of ours is under way.
    pub fn is_proposing(&self) -> bool {
        self.ballot.is_some()
    }

    /// Asserts what must be true of it between two inputs.
    pub fn assert_invariants(&self) {
        let Acceptor { promised, accepted } = &self.acceptor;
        assert!(
            accepted.as_ref().is_none_or(|(ballot, _)| ballot <= promised),
            "what is accepted in a ballot is a promise, too"
        );
        let Some((ours, _)) = &self.ballot else { return };
        assert!(ours <= promised, "our own acceptor has promised our ballot");
    }

    /// Ends our ballot without a result.
    pub fn abandon(&mut self) {
        self.ballot = None;
    }

    /// Handles what another process says about this decree.
    pub fn receive(&mut self, from: NodeId, message: SynodMessage<V>, group: Group<'_>) -> Step<V> {
        match message {
            Msg::Prepare { ballot } => match self.acceptor.promise(ballot) {
                true => Step::Yield(Msg::Promise { ballot, accepted: self.acceptor.accepted.clone() }),
                false => self.refuse(ballot),
            },
            Msg::Accept { ballot, value } => match self.accept(ballot, value, group.mutation) {
                true => Step::Yield(Msg::Accepted { ballot }),
                false => self.refuse(ballot),
            },
            Msg::Promise { ballot, accepted } => self.on_promise(from, ballot, accepted, group),
            Msg::Accepted { ballot } => self.on_accepted(from, ballot, group),
            Msg::Nack { ballot, promised } => self.on_nack(ballot, promised),
            Msg::Decide { value } => Step::Told(value),
        }
    }

    fn refuse(&self, ballot: Number) -> Step<V> {
        Step::Refuse(Msg::Nack { ballot, promised: self.acceptor.promised })
    }

    fn accept(&mut self, ballot: Number, value: V, mutation: Option<Mutation>) -> bool {
        if mutation == Some(Mutation::ForgetPromise) {
            self.acceptor.promised = self.acceptor.promised.max(ballot);
            self.acceptor.accepted = Some((ballot, value));
            return true;
        }
        self.acceptor.accept(ballot, value)
    }

    fn on_promise(
        &mut self,
        from: NodeId,
        ballot: Number,
        accepted: Option<(Number, V)>,
        group: Group<'_>,
    ) -> Step<V> {
        match &mut self.ballot {
            Some((ours, Stage::Preparing { promises, .. })) if *ours == ballot => {
                promises.insert(from, accepted);
                self.maybe_propose(group)
            }
            Some(_) | None => Step::Nothing,
        }
    }

    /// Proposes if a majority has promised.
    fn maybe_propose(&mut self, group: Group<'_>) -> Step<V> {
        let Some((ballot, Stage::Preparing { own, promises })) = &self.ballot else { return Step::Nothing };
        if !is_majority(&promises.keys().copied().collect(), &group.all()) {
            return Step::Nothing;
        }
        let is_free = group.mutation == Some(Mutation::OwnValue);
        let heard = promises.values().flatten().filter(|_| !is_free).cloned();
        let (ballot, mut proposal) = (*ballot, Proposal::new(heard, || own.clone()));
        let value = proposal.value.clone();
        // We may have promised a later ballot since then, and the others may not.
        let is_chosen =
            self.acceptor.accept(ballot, value.clone()) && proposal.accepted(group.me, &group.all());
        self.ballot = Some((ballot, Stage::Accepting(proposal)));
        if is_chosen { Step::Chosen(value) } else { Step::Broadcast(Msg::Accept { ballot, value }) }
    }

    fn on_accepted(&mut self, from: NodeId, ballot: Number, group: Group<'_>) -> Step<V> {
        match &mut self.ballot {
            Some((ours, Stage::Accepting(proposal))) if *ours == ballot => {
                let is_chosen = proposal.accepted(from, &group.all());
                if is_chosen { Step::Chosen(proposal.value.clone()) } else { Step::Nothing }
            }
            Some(_) | None => Step::Nothing,
        }
    }

    /// A ballot that was doubled on its way is refused the second time, by a promise to take part in it.
    fn on_nack(&mut self, ballot: Number, promised: Number) -> Step<V> {
        let is_ours = self.ballot.as_ref().is_some_and(|(ours, _)| *ours == ballot);
        if !is_ours || promised <= ballot {
            return Step::Nothing;
        }
        self.seen = self.seen.max(promised);
        self.ballot = None;
        Step::Outbid
    }
}
