//! The search for a token that may be lost.
//!
//! How long a process stays inside is not bounded, so waiting alone proves nothing: one must ask. And one round of questions
//! is not enough, because a token that moves can dodge it. The token is lost if in two rounds, the second begun when the
//! first was over, nobody had it, and nobody was sent one in between.
//!
//! A token that is slow on its way is taken for lost all the same. That does no harm, because a new epoch voids it.

use alloc::collections::{BTreeMap, BTreeSet};

use conclave_core::{After, Effects, Incarnation, NodeId};

use super::{Assembly, Broken, Found, Monitor, Msg, Timer};
use crate::mutex::{Epoch, Mutex, Standing};

/// A search for the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    /// The number of the question.
    round: u64,
    /// Who has not answered it.
    missing: BTreeSet<NodeId>,
    /// How many tokens each has been sent, by the answers so far.
    seen: BTreeMap<NodeId, u64>,
    /// The answers of the first round, once it is over.
    first: Option<BTreeMap<NodeId, u64>>,
}

impl<A: Mutex> Assembly<A> {
    /// A request waits; if it waits for too long, the token is looked for, and whether we are still a member.
    pub(super) fn arm_patience(&self, out: &mut impl Effects<Self>) {
        let laps = if self.config.broken == Some(Broken::SingleProbe) { 0 } else { 4 };
        let laps = 1 + laps * u32::try_from(self.group.len()).unwrap_or(u32::MAX);
        out.arm(Timer::Patience, After::exactly(self.timing.answer_timeout().saturating_mul(laps)));
    }

    pub(super) fn on_patience(&mut self, out: &mut impl Effects<Self>) {
        if !matches!(self.standing, Standing::Waiting { .. }) {
            return;
        }
        self.arm_patience(out);
        if self.is_active() {
            out.send_all(self.group.others(self.id), &Msg::Missing { epoch: self.epoch });
            if self.config.monitor == Monitor::All || self.leads() {
                self.search(out);
            }
        }
    }

    pub(super) fn search(&mut self, out: &mut impl Effects<Self>) {
        if A::MOVES_TOKEN && self.probe.is_none() && self.is_active() {
            self.ask_where(None, out);
        }
    }

    fn ask_where(&mut self, first: Option<BTreeMap<NodeId, u64>>, out: &mut impl Effects<Self>) {
        // One of ours is enough to end the search.
        let Found::Elsewhere { seen } = self.found() else {
            self.probe = None;
            return;
        };
        let round = self.clock.tick();
        let others: BTreeSet<_> =
            self.group.others(self.id).filter(|member| !self.down.contains_key(member)).collect();
        out.send_all(others.iter().copied(), &Msg::Where { epoch: self.epoch, round });
        if self.config.silence_is_death && !others.is_empty() {
            out.arm(Timer::Probe, After::exactly(self.timing.answer_timeout()));
        }
        self.probe = Some(Probe { round, missing: others, seen: BTreeMap::from([(self.id, seen)]), first });
        self.maybe_proven(out);
    }

    /// Whether the token is here; while a roll is called there is nothing to look for.
    fn found(&self) -> Found {
        match &self.part {
            Some(part) if self.is_active() && part.token().is_none() => {
                Found::Elsewhere { seen: self.tokens_seen }
            }
            _ => Found::Here,
        }
    }

    pub(super) fn on_where(&mut self, from: NodeId, epoch: Epoch, round: u64, out: &mut impl Effects<Self>) {
        let found = if epoch == self.epoch { self.found() } else { Found::Here };
        out.send(from, Msg::Here { epoch, round, found });
    }

    pub(super) fn on_here(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        round: u64,
        found: Found,
        out: &mut impl Effects<Self>,
    ) {
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.round == round && epoch == self.epoch)
        else {
            return;
        };
        match found {
            Found::Here => self.end_probe(out),
            Found::Elsewhere { seen } => {
                probe.missing.remove(&from);
                probe.seen.insert(from, seen);
                self.maybe_proven(out);
            }
        }
    }

    /// Who is dead has no token that counts.
    pub(super) fn on_probe_timeout(&mut self, out: &mut impl Effects<Self>) {
        let Some(probe) = &mut self.probe else { return };
        for silent in core::mem::take(&mut probe.missing) {
            self.give_up(silent, Incarnation::FIRST);
        }
        self.maybe_proven(out);
    }

    pub(super) fn maybe_proven(&mut self, out: &mut impl Effects<Self>) {
        let Some(probe) = self.probe.take_if(|probe| probe.missing.is_empty()) else { return };
        out.disarm(Timer::Probe);
        match probe.first {
            _ if self.config.broken == Some(Broken::SingleProbe) => self.gather(out),
            None => self.ask_where(Some(probe.seen), out),
            // Nobody was sent one, so that it has not moved.
            Some(first) if first == probe.seen => self.report_loss(out),
            Some(_) => {}
        }
    }

    fn report_loss(&mut self, out: &mut impl Effects<Self>) {
        match self.leader() {
            Some(leader) if leader != self.id => out.send(leader, Msg::Lost { epoch: self.epoch }),
            Some(_) => self.gather(out),
            None => {}
        }
    }

    pub(super) fn on_lost(&mut self, epoch: Epoch, out: &mut impl Effects<Self>) {
        if epoch == self.epoch && self.leads() && self.is_active() {
            self.gather(out);
        }
    }

    pub(super) fn end_probe(&mut self, out: &mut impl Effects<Self>) {
        if self.probe.take().is_some() {
            out.disarm(Timer::Probe);
        }
    }

    pub(super) fn drop_from_probe(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if let Some(probe) = &mut self.probe {
            probe.missing.remove(&peer);
            probe.seen.remove(&peer);
            if let Some(first) = &mut probe.first {
                first.remove(&peer);
            }
            self.maybe_proven(out);
        }
    }
}
