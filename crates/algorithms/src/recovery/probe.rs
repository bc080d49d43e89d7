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

use conclave_core::{After, Effects, NodeId};

use super::{Assembly, Found, Monitor, Msg, Mutation, Timer};
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

impl<A: Mutex> Assembly<A> {
    /// A request waits; if it waits for too long, the token is looked for, and whether we are still a member.
    pub(super) fn arm_patience(&self, out: &mut impl Effects<Self>) {
        let laps = if self.config.mutation == Some(Mutation::SingleProbe) { 0 } else { 4 };
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
        if A::moves_token(&self.config.algorithm) && self.probe.is_none() && self.is_active() {
            self.ask_where(false, out);
        }
    }

    fn ask_where(&mut self, again: bool, out: &mut impl Effects<Self>) {
        // One of ours is enough to end the search.
        if self.found(self.id, again) != Found::Nowhere {
            self.probe = None;
            return;
        }
        let others: BTreeSet<_> =
            self.group.others(self.id).filter(|member| !self.down.contains_key(member)).collect();
        out.send_all(others.iter().copied(), &Msg::Where { epoch: self.epoch, again });
        if self.config.silence_is_death && !others.is_empty() {
            out.arm(Timer::Probe, After::exactly(self.timing.answer_timeout()));
        }
        self.probe = Some(Probe { again, missing: others, is_found: false });
        self.maybe_proven(out);
    }

    /// Whether the token is here, or was since `asker` asked for the first time. While a roll is called there is nothing
    /// to look for.
    fn found(&mut self, asker: NodeId, again: bool) -> Found {
        match &self.part {
            Some(part) if self.is_active() && part.token().is_none() => {}
            _ => return Found::Here,
        }
        if !again {
            self.asked_where.insert(asker);
        }
        if self.asked_where.contains(&asker) { Found::Nowhere } else { Found::PassedBy }
    }

    pub(super) fn on_where(&mut self, from: NodeId, epoch: Epoch, again: bool, out: &mut impl Effects<Self>) {
        let found = if epoch == self.epoch { self.found(from, again) } else { Found::Here };
        out.send(from, Msg::Here { epoch, again, found });
    }

    pub(super) fn on_here(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        again: bool,
        found: Found,
        out: &mut impl Effects<Self>,
    ) {
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.again == again && epoch == self.epoch)
        else {
            return;
        };
        probe.missing.remove(&from);
        probe.is_found |= found != Found::Nowhere;
        self.maybe_proven(out);
    }

    /// Who is dead has no token that counts.
    pub(super) fn on_probe_timeout(&mut self, out: &mut impl Effects<Self>) {
        let Some(probe) = &mut self.probe else { return };
        for silent in core::mem::take(&mut probe.missing) {
            self.give_up(silent, self.life_of(silent));
        }
        self.maybe_proven(out);
    }

    pub(super) fn maybe_proven(&mut self, out: &mut impl Effects<Self>) {
        let Some(probe) = self.probe.take_if(|probe| probe.missing.is_empty()) else { return };
        out.disarm(Timer::Probe);
        match probe.again {
            _ if probe.is_found => {}
            _ if self.config.mutation == Some(Mutation::SingleProbe) => self.gather(out),
            false => self.ask_where(true, out),
            true => self.report_loss(out),
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
            self.maybe_proven(out);
        }
    }
}
