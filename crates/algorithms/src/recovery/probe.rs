//! The search for a token that may be lost.
//!
//! How long a process stays inside is not bounded, so waiting alone proves nothing: one must ask. And one round of questions
//! is not enough, because a token that moves can dodge it. The token is lost if in two rounds, the second begun when the
//! first was over, nobody had it, and nobody was sent one in between.
//!
//! Questions carry no numbers: a search is over only when everyone has answered, whatever the answers were, so that no
//! answer can be taken for one to a later question. Who is asked remembers who asks, until a token passes by.
//!
//! A token that is slow in flight is taken for lost all the same. That does no harm, because a new epoch voids it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use conclave_core::{After, Effects, NodeId};

use super::{Assembly, Found, Key, Monitor, Msg, Mutation, Place, Timer};
use crate::mutex::{Epoch, Mutex, Standing};

/// A search for the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    /// Whether everyone is being asked for the second time.
    again: bool,
    /// Who has not answered.
    missing: BTreeSet<NodeId>,
    /// Whether somebody has it, or was sent one since the first question.
    is_found: bool,
}

impl Probe {
    fn is_asked(&self, peer: NodeId) -> bool {
        self.missing.contains(&peer)
    }
}

impl<A: Mutex, K: Key> Assembly<A, K> {
    /// A request waits; if it waits for too long, the token is looked for, and whether we are still a member.
    pub(super) fn arm_patience(&self, lock: &K, out: &mut impl Effects<Self>) {
        let laps = if self.config.mutation == Some(Mutation::SingleProbe) { 0 } else { 4 };
        let laps = 1 + laps * u32::try_from(self.group.len()).unwrap_or(u32::MAX);
        let time = self.timing.answer_timeout().saturating_mul(laps);
        out.arm(Timer::Patience(lock.clone()), After::exactly(time));
    }

    pub(super) fn on_patience(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if !matches!(self.standing(lock), Standing::Waiting { .. }) {
            return;
        }
        self.arm_patience(lock, out);
        if self.is_active() {
            let (epoch, others) = (self.epoch, self.group.others(self.id));
            out.send_all(others, &Msg::Missing { epoch, lock: lock.clone() });
            if self.config.monitor == Monitor::All || self.leads() {
                self.search(lock, out);
            }
        }
    }

    pub(super) fn search(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        let searches = A::moves_token(&self.config.algorithm) && !self.is_mutant(Mutation::NoSearch);
        if !searches || !self.is_active() {
            return;
        }
        self.open(lock, out);
        if self.is_active() && self.places.get(lock).is_some_and(|place| place.probe.is_none()) {
            self.ask_where(false, lock, out);
        }
    }

    fn ask_where(&mut self, again: bool, lock: &K, out: &mut impl Effects<Self>) {
        // One of ours is enough to end the search.
        let is_here = self.found(self.id, again, lock) != Found::Nowhere;
        let others: BTreeSet<_> =
            self.group.others(self.id).filter(|member| !self.down.contains_key(member)).collect();
        let Some(place) = self.places.get_mut(lock) else { return };
        if is_here {
            place.probe = None;
            return;
        }
        place.probe = Some(Probe { again, missing: others.clone(), is_found: false });
        let epoch = self.epoch;
        out.send_all(others.iter().copied(), &Msg::Where { epoch, again, lock: lock.clone() });
        if self.config.silence_is_death && !others.is_empty() {
            out.arm(Timer::Probe(lock.clone()), After::exactly(self.timing.answer_timeout()));
        }
        self.maybe_proven(lock, out);
    }

    /// Whether the token is here, or was since `asker` asked for the first time. While a roll is called there is nothing
    /// to look for.
    fn found(&mut self, asker: NodeId, again: bool, lock: &K) -> Found {
        let is_active = self.is_active();
        let Some(place) = self.places.get_mut(lock).filter(|_| is_active) else { return Found::Here };
        if place.part.token().is_some() {
            return Found::Here;
        }
        if !again {
            place.asked_where.insert(asker);
        }
        if place.asked_where.contains(&asker) { Found::Nowhere } else { Found::PassedBy }
    }

    pub(super) fn on_where(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        again: bool,
        lock: K,
        out: &mut impl Effects<Self>,
    ) {
        let mut found = Found::Here;
        if epoch == self.epoch {
            if self.is_active() && self.group.contains(from) {
                self.open(&lock, out);
            }
            found = self.found(from, again, &lock);
        }
        out.send(from, Msg::Here { epoch, again, found, lock });
    }

    pub(super) fn on_here(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        again: bool,
        found: Found,
        lock: &K,
        out: &mut impl Effects<Self>,
    ) {
        let is_ours = epoch == self.epoch;
        let probe = self.places.get_mut(lock).and_then(|place| place.probe.as_mut());
        let Some(probe) = probe.filter(|probe| probe.again == again && is_ours) else { return };
        probe.missing.remove(&from);
        probe.is_found |= found != Found::Nowhere;
        self.maybe_proven(lock, out);
    }

    /// Who is dead has no token that counts.
    pub(super) fn on_probe_timeout(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        let probe = self.places.get_mut(lock).and_then(|place| place.probe.as_mut());
        let is_patient = self.config.mutation == Some(Mutation::ProbeSilent);
        let Some(probe) = probe.filter(|_| !is_patient) else { return };
        for silent in core::mem::take(&mut probe.missing) {
            self.give_up(silent, self.life_of(silent));
        }
        self.maybe_proven(lock, out);
    }

    fn maybe_proven(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        let Some(place) = self.places.get_mut(lock) else { return };
        let Some(probe) = place.probe.take_if(|probe| probe.missing.is_empty()) else { return };
        out.disarm(Timer::Probe(lock.clone()));
        match probe.again {
            _ if probe.is_found => {}
            _ if self.config.mutation == Some(Mutation::SingleProbe) => self.gather(out),
            false => self.ask_where(true, lock, out),
            true => self.report_loss(lock, out),
        }
    }

    fn report_loss(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        match self.leader() {
            Some(leader) if leader != self.id => {
                out.send(leader, Msg::Lost { epoch: self.epoch, lock: lock.clone() });
            }
            Some(_) => self.gather(out),
            None => {}
        }
    }

    pub(super) fn on_lost(&mut self, epoch: Epoch, out: &mut impl Effects<Self>) {
        if epoch == self.epoch && self.leads() && self.is_active() {
            self.gather(out);
        }
    }

    /// No token of this epoch is looked for any more.
    pub(super) fn end_probes(&mut self, out: &mut impl Effects<Self>) {
        for (lock, place) in &mut self.places {
            if place.probe.take().is_some() {
                out.disarm(Timer::Probe(lock.clone()));
            }
        }
    }

    pub(super) fn drop_from_probes(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let is_asked = |place: &Place<A>| place.probe.as_ref().is_some_and(|probe| probe.is_asked(peer));
        let asked = self.places.iter().filter(|(_, place)| is_asked(place)).map(|(lock, _)| lock.clone());
        for lock in asked.collect::<Vec<_>>() {
            if let Some(probe) = self.places.get_mut(&lock).and_then(|place| place.probe.as_mut()) {
                probe.missing.remove(&peer);
            }
            self.maybe_proven(&lock, out);
        }
    }
}
