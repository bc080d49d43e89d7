//! Calling the roll: a leader gathers how everyone stands, and begins a new epoch.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use conclave_core::{
    After, Counter, Effects, Incarnation, Input, LamportClock, Members, NodeId, Phase, Reading,
};

use super::ballot::{Proposal, is_majority};
use super::{
    Assembly, AssemblyDurable, AssemblyMessage, Cargo, Consent, Early, GroupRoll, Key, Monitor, Msg,
    Mutation, Opening, Report, SINCE, Standings, Timer, is_listed,
};
use super::{visit_roll, visit_standings};
use crate::led::Told;
use crate::mutex::{Epoch, Event, Fence, Mutex, Request, Standing};

/// A gathering that we lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round<K: Key> {
    ballot: Epoch,
    /// Who shall be in the roll, in the order of the ring.
    members: Vec<NodeId>,
    /// In which life everyone was called.
    lives: BTreeMap<NodeId, Incarnation>,
    /// The answers so far, our own among them.
    reports: BTreeMap<NodeId, Report<K>>,
    stage: Stage<K>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage<K: Key> {
    /// Not enough have answered.
    Gathering,
    /// All who are there have answered, but they may all have missed that others went on: more have to come back.
    Alone,
    /// Enough have, but somebody who is left out may have a lease.
    Quarantine,
    /// The roll is put to the vote.
    Proposing(Proposal<GroupRoll<K>>),
}

impl<K: Key> Round<K> {
    pub fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for report in self.reports.values_mut() {
            visit(Counter::exact(SINCE, &mut report.time));
            visit_standings(&mut report.standings, visit);
            if let Some((_, roll)) = &mut report.accepted {
                visit_roll(roll, visit);
            }
        }
        if let Stage::Proposing(proposal) = &mut self.stage {
            visit_roll(&mut proposal.value, visit);
        }
    }

    pub fn assert_invariants(&self, convener: NodeId, promised: Epoch) {
        assert!(self.ballot.creator == convener, "who calls a roll numbers it with its own name");
        assert!(self.ballot <= promised, "who calls a roll answers no earlier one");
        assert!(is_listed(&self.members) || self.members.is_empty(), "a roll names each member once");
        assert!(self.reports.contains_key(&convener), "who calls a roll has answered it");
    }

    /// The latest epoch that any of the answers comes from, and who is in its roll.
    fn base(&self) -> (Epoch, BTreeSet<NodeId>) {
        let latest = self.reports.values().max_by_key(|report| report.epoch);
        latest.map_or_else(Default::default, |report| (report.epoch, report.group.iter().copied().collect()))
    }

    /// Whether somebody in the last roll will not be in the next and may have a lease, whether it has answered or not, or has
    /// come back since and knows nothing of the lease that it had. If a member of both says that it is inside the only lock,
    /// nobody else of the last roll is.
    fn may_leave_out_a_holder(&self, mutation: Option<Mutation>) -> bool {
        let (epoch, base) = self.base();
        let is_inside = |member: &NodeId| {
            let report = self.reports.get(member).filter(|report| report.epoch == epoch);
            let standing = report.and_then(|report| Some(report.standings.of(K::ONLY.as_ref()?)));
            matches!(standing, Some(Standing::Inside { .. }))
        };
        let goes_on = |member: &NodeId| {
            (self.members.contains(member) || mutation == Some(Mutation::TrustAnswer))
                && self.reports.get(member).is_some_and(|report| report.member)
        };
        !base.iter().all(goes_on) && !self.members.iter().any(is_inside)
    }

    /// Whether one of those who have answered must have heard of the last roll.
    ///
    /// A member that has not been away has: as long as it lives, no roll is made without its answer. If all have been away,
    /// others may have gone on alone. Nobody can have done so without one of those who were called with the latest of us: if
    /// they are all here, and nobody else was called that any of them knows of, there was no later roll.
    fn is_grounded(&self, left: &BTreeSet<NodeId>) -> bool {
        let latest = self.base().0;
        let is_here = |peer: &NodeId| self.reports.contains_key(peer) || left.contains(peer);
        // What an older answer tells of rolls before the latest is no news.
        let is_news = |report: &&Report<K>| report.epoch == latest || report.promised > latest;
        self.reports.values().any(|report| report.member)
            || self.reports.values().filter(is_news).all(|report| report.called.iter().all(is_here))
    }

    /// In which life a process was called.
    fn called_life(&self, peer: NodeId) -> Incarnation {
        self.lives.get(&peer).copied().unwrap_or(Incarnation::FIRST)
    }

    /// Who has not answered what this stage asks: the call itself, or the roll.
    fn owing(&self, asked: BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        match &self.stage {
            Stage::Gathering => asked.into_iter().filter(|peer| !self.reports.contains_key(peer)).collect(),
            Stage::Alone | Stage::Quarantine => BTreeSet::new(),
            Stage::Proposing(proposal) => proposal.missing(&self.base().1),
        }
    }
}

/// Whether and when a roll is called.
impl<A: Mutex, K: Key> Assembly<A, K> {
    fn presence(&self) -> AssemblyMessage<A::Message, K> {
        Msg::CheckIn { life: self.life }
    }

    /// A process that speaks to us, or of which others know, in a later life than the one that has ended is alive.
    pub(super) fn meet(&mut self, peer: NodeId, life: Incarnation) {
        if peer != self.id && life > self.life_of(peer) {
            self.lives.insert(peer, life);
            if self.group.contains(peer) {
                self.ended.insert(peer);
            }
        }
        if self.down.get(&peer).is_some_and(|ended| *ended < life) {
            self.down.remove(&peer);
        }
    }

    /// The latest life of a process that we have heard of.
    pub(super) fn life_of(&self, peer: NodeId) -> Incarnation {
        self.lives.get(&peer).copied().unwrap_or(Incarnation::FIRST)
    }

    /// Takes note of the lives of which somebody else knows.
    pub(super) fn learn(&mut self, lives: &BTreeMap<NodeId, Incarnation>) {
        for (peer, life) in lives {
            self.meet(*peer, *life);
        }
    }

    /// Whether a member was called in a life that has ended: those who have answered know only of that one.
    fn is_outdated(&self, round: &Round<K>) -> bool {
        round.members.iter().any(|peer| self.life_of(*peer) > round.called_life(*peer))
    }

    /// Asks to be let in: whoever keeps the roll, if that is known, else everyone.
    pub(super) fn check_in(&self, out: &mut impl Effects<Self>) {
        match self.config.monitor {
            Monitor::Node(node) if node != self.id && !self.newcomers.contains(&self.id) => {
                out.send(node, self.presence());
            }
            _ => out.send_all(self.group.others(self.id), &self.presence()),
        }
        self.arm_check_in(out);
    }

    /// Whether we are back and wait to be asked for.
    pub(super) fn awaits_poll(&self) -> bool {
        self.config.poll.is_some() && !self.is_member && self.life > Incarnation::FIRST
    }

    /// Who else belongs to the group and is not in its roll.
    fn missing(&self) -> impl Iterator<Item = NodeId> {
        let is_other = |peer: &NodeId| *peer != self.id && !self.left.contains(peer);
        let absent = move |peer: &NodeId| is_other(peer) && !self.group.contains(*peer);
        self.known.iter().copied().filter(absent)
    }

    /// If anybody is missing, the leader asks for it at the next full period of its clock.
    pub(super) fn arm_poll(&self, out: &mut impl Effects<Self>) {
        let Some(every) = self
            .config
            .poll
            .filter(|_| self.leads() && self.missing().next().is_some() && !self.is_mutant(Mutation::NoPoll))
        else {
            return;
        };
        let every = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX);
        let rest = every - out.now().0.rem_euclid(every);
        out.arm(Timer::Poll, After::exactly(Duration::from_nanos(rest.unsigned_abs())));
    }

    pub(super) fn on_poll(&self, out: &mut impl Effects<Self>) {
        if self.leads() {
            out.send_all(self.missing(), &Msg::AreYouUp);
            self.arm_poll(out);
        }
    }

    /// Nobody has led before: the first epoch begins under the highest if it was elected, and takes up what was asked for.
    pub(super) fn maybe_begin(&mut self, out: &mut impl Effects<Self>) {
        // Nobody else may: two leaders of one epoch would count the same fences. Any other calls the roll for its own.
        let highest = self.group.max();
        if !self.unled || self.elected.is_none() || self.elected != highest {
            return;
        }
        self.unled = false;
        self.is_member = true;
        if let Some(lock) = K::ONLY {
            self.open(&lock, out);
        }
        let waiting = self.standings.iter().filter_map(|(lock, standing)| match standing {
            Standing::Waiting { since, .. } => Some((lock.clone(), since.time)),
            Standing::Idle | Standing::Inside { .. } => None,
        });
        for (lock, since) in waiting.collect::<Vec<_>>() {
            self.pass_on(&lock, Request::Acquire, out);
            self.maybe_queued(&lock, since);
        }
        self.replay(out);
    }

    /// If we have no part in any epoch for too long, we ask once more.
    fn arm_check_in(&self, out: &mut impl Effects<Self>) {
        out.arm(Timer::CheckIn, After::exactly(self.timing.answer_timeout() * 4));
    }

    pub(super) fn on_check_in_timeout(&mut self, out: &mut impl Effects<Self>) {
        if core::mem::take(&mut self.awaits_election) {
            self.maybe_gather(out);
        }
        // Who calls the roll itself waits for the others, not for a leader.
        if self.round.is_some() {
            return self.maybe_call_again(out);
        }
        if self.leavers.contains(&self.id) {
            return self.ask_to_leave_again(out);
        }
        if self.is_active() || self.is_mutant(Mutation::CheckInOnce) {
            return;
        }
        self.newcomers.insert(self.id);
        self.check_in(out);
        self.maybe_gather(out);
    }

    /// Our call, or the roll that we put to the vote, was sent to a life that has ended since: its next life knows of neither.
    fn maybe_call_again(&mut self, out: &mut impl Effects<Self>) {
        let asked = self.asked();
        let owing = self.round.as_ref().map(|round| round.owing(asked)).unwrap_or_default();
        // A majority can do without whoever is silent, and a later ballot does no harm. All the living wait for the detector.
        let is_lost = |peer: &NodeId| {
            let called = self.round.as_ref().map(|round| round.called_life(*peer));
            self.config.consent == Consent::Majority || called.is_some_and(|life| self.life_of(*peer) > life)
        };
        let is_there = |peer: &&NodeId| !self.down.contains_key(*peer);
        if !self.is_mutant(Mutation::VoteOnce) && self.leads() && owing.iter().filter(is_there).any(is_lost) {
            self.gather_again(out);
        } else {
            self.arm_check_in(out);
        }
    }

    pub(super) fn on_check_in(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        let again = !self.newcomers.insert(from);
        self.left.remove(&from);
        // Nobody has let it in: perhaps everyone takes somebody else for the leader.
        if again && self.is_active() && !self.leads() && !self.down.contains_key(&from) {
            out.emit(Told::Elect);
        }
        self.maybe_gather(out);
    }

    /// Nobody has let us go: perhaps whom we take for the leader takes somebody else for it. So we tell everyone.
    fn ask_to_leave_again(&self, out: &mut impl Effects<Self>) {
        if !self.is_member || self.is_mutant(Mutation::LeaveOnce) {
            return;
        }
        // While a roll is called it is not known yet whether we are in it.
        if self.is_active() {
            out.send_all(self.group.others(self.id), &Msg::Leave);
        }
        self.arm_check_in(out);
    }

    pub(super) fn on_leave(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        let again = !self.leavers.insert(from);
        // Nobody has let it go: perhaps everyone takes somebody else for the leader.
        if again && self.is_active() && self.group.contains(from) && !self.leads() {
            out.emit(Told::Elect);
        }
        self.maybe_gather(out);
    }

    /// There is a leader, perhaps a new one: tell it what we want of it.
    pub(super) fn follow(&mut self, out: &mut impl Effects<Self>) {
        match self.leader() {
            Some(leader) if leader != self.id => {
                if !self.is_member && !self.leavers.contains(&self.id) && !self.awaits_poll() {
                    out.send(leader, self.presence());
                } else if self.is_member && self.leavers.contains(&self.id) {
                    out.send(leader, Msg::Leave);
                    self.arm_check_in(out);
                }
            }
            Some(_) => self.maybe_gather(out),
            None => {}
        }
    }

    pub(super) fn on_peer_down(&mut self, peer: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        self.pieces.forget(peer);
        self.give_up(peer, life);
        self.drop_from_probes(peer, out);
        // It has held us up and will not let us go: whoever leads must call the roll again.
        if self.gathered_by == Some(peer) && self.elected != Some(peer) {
            match self.leader() {
                Some(leader) if leader != self.id => out.send(leader, self.presence()),
                _ => {
                    self.newcomers.insert(self.id);
                }
            }
        }
        if self.elected == Some(peer) {
            self.elected = None;
            out.emit(Told::Elect);
        } else if self.config.elects_always && self.group.contains(peer) {
            // Nobody puts the group together again before it is elected to do so. If the same one is elected again, we
            // may not be told.
            self.awaits_election = true;
            self.arm_check_in(out);
            out.emit(Told::Elect);
        } else if !self.is_member && self.leader().is_none() && !self.unled {
            // Whoever was to let us in is dead.
            out.emit(Told::Elect);
        }
        self.report_death(peer, life, out);
        self.maybe_finish(out);
        self.maybe_gather(out);
    }

    /// Tells the monitor of the death of our neighbour on the ring.
    fn report_death(&self, peer: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        let Monitor::Node(node) = self.config.monitor else { return };
        let living = |member: &NodeId| *member == peer || !self.down.contains_key(member);
        let neighbour = self.group.after(self.id).find(living);
        if neighbour == Some(peer) && node != self.id && self.leader() == Some(node) {
            out.send(node, Msg::Dead { peer, life });
        }
    }

    /// Tells a process that has missed a roll in which it is not; only those who were not there still use an old one.
    pub(super) fn set_right(&self, peer: NodeId, epoch: Epoch, out: &mut impl Effects<Self>) {
        let tells = self.is_active() && !self.is_mutant(Mutation::TellNobody);
        if tells && !self.group.contains(peer) && epoch <= self.epoch {
            out.send(peer, Msg::Expelled { epoch: self.epoch, group: self.group.iter().collect() });
        }
    }

    pub(super) fn on_expelled(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        group: Vec<NodeId>,
        out: &mut impl Effects<Self>,
    ) {
        // Two groups that have each taken the other for dead: the earlier joins the later.
        if epoch < self.epoch {
            return self.set_right(from, epoch, out);
        }
        if epoch > self.epoch && self.is_active() {
            self.group = Members::listed(group);
            self.become_outsider(out);
        }
    }

    /// Takes a process for dead.
    pub(super) fn give_up(&mut self, peer: NodeId, life: Incarnation) {
        if self.group.contains(peer) && !self.is_mutant(Mutation::IgnoreDeath) {
            self.ended.insert(peer);
        }
        // The end of a life is no news of the next one.
        if life < self.life_of(peer) {
            return;
        }
        self.down.insert(peer, life);
        self.newcomers.remove(&peer);
        // If it comes back, the next life was not asked: it is taken in by the next roll.
        if let Some(round) = &mut self.round {
            round.reports.remove(&peer);
            round.members.retain(|member| *member != peer);
        }
    }

    pub(super) fn maybe_gather(&mut self, out: &mut impl Effects<Self>) {
        let left = !self.is_member && self.leavers.contains(&self.id);
        let waits = self.is_alone() && self.has_more_to_ask();
        let may = self.leads() && (self.round.is_none() || waits) && !self.awaits_election;
        if may && !left && self.has_reason() {
            self.gather_again(out);
        }
    }

    /// Calls the roll once more, with a later number.
    fn gather_again(&mut self, out: &mut impl Effects<Self>) {
        self.abandon(out);
        self.gather(out);
    }

    /// Whether we have called a roll and wait for more to come back.
    pub(super) fn is_alone(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.stage == Stage::Alone)
    }

    /// Whether somebody is there whom we have not called.
    fn has_more_to_ask(&self) -> bool {
        let is_new = |peer: &NodeId| self.round.as_ref().is_some_and(|round| !round.members.contains(peer));
        self.next_members().iter().any(is_new)
    }

    /// Whether the roll is no longer that of those who are there.
    fn has_reason(&self) -> bool {
        let wanted = |peer: &NodeId| !self.down.contains_key(peer) && !self.leavers.contains(peer);
        let arrivals = self.newcomers.iter().any(wanted);
        let departures = self.leavers.iter().chain(&self.ended).any(|peer| self.group.contains(*peer));
        // One that has come back and leads a group in which it has no part yet is a reason by itself.
        arrivals || departures || !self.is_member
    }

    /// Who shall be in the next roll: the members and newcomers who are alive and want to stay.
    fn next_members(&self) -> Vec<NodeId> {
        // Also those who have no part in the last epoch: they may be about to get one by somebody else's roll.
        let mut members: Vec<_> = self.group.iter().filter(|peer| self.stays(*peer)).collect();
        let outsiders = self.known.iter().filter(|_| !self.is_mutant(Mutation::MembersOnly));
        for peer in outsiders.chain(&self.newcomers).copied().chain([self.id]) {
            if self.stays(peer) {
                add_member(&mut members, peer);
            }
        }
        members
    }

    /// Whether a process is alive and wants to belong to the group.
    fn stays(&self, peer: NodeId) -> bool {
        let alive = peer == self.id || !self.down.contains_key(&peer);
        alive && !self.leavers.contains(&peer) && !self.left.contains(&peer)
    }

    /// Calls the roll.
    pub(super) fn gather(&mut self, out: &mut impl Effects<Self>) {
        let heard = self.heard().max(self.acceptor.promised);
        let ballot = heard.next(self.id);
        let report = self.report(out.now());
        if !self.acceptor.promise(ballot) {
            return;
        }
        self.end_probes(out);
        self.gathered_by = Some(self.id);
        let members = self.next_members();
        let called: BTreeSet<_> = members.iter().copied().collect();
        self.called.extend(&called);
        self.save(out);
        let reports = BTreeMap::from([(self.id, report)]);
        let lives = self.lives.clone();
        self.round = Some(Round { ballot, members, lives, reports, stage: Stage::Gathering });
        if matches!(self.config.mutation, Some(Mutation::RegenerateUnasked | Mutation::SingleProbe)) {
            return self.install_unasked(ballot, out);
        }
        let asked = self.asked();
        let (called, lives) = (called, self.lives.clone());
        out.send_all(asked.iter().copied(), &Msg::Gather { ballot, called, lives });
        if self.config.silence_is_death && !asked.is_empty() {
            out.arm(Timer::Gather, After::exactly(self.timing.answer_timeout()));
        }
        self.arm_check_in(out);
        self.maybe_finish(out);
    }

    /// Whom we ask: all who shall be in the roll, and all whose consent we need.
    fn asked(&self) -> BTreeSet<NodeId> {
        let Some(round) = &self.round else { return BTreeSet::new() };
        let mut asked: BTreeSet<_> = round.members.iter().copied().collect();
        if self.config.consent == Consent::Majority {
            asked.extend(self.group.iter());
        }
        asked.remove(&self.id);
        asked
    }

    /// How we stand.
    fn report(&self, now: Reading) -> Report<K> {
        Report {
            standings: self.standings.clone(),
            time: self.clock.time(),
            epoch: self.epoch,
            heard: self.heard(),
            group: self.group.iter().collect(),
            left: self.left.clone(),
            member: self.is_member || self.unled || self.is_past_former_leases(now),
            promised: self.acceptor.promised,
            called: self.called.clone(),
            lives: self.lives.clone(),
            accepted: self.acceptor.accepted.clone(),
        }
    }

    fn heard(&self) -> Epoch {
        self.places.values().map(|place| place.part.epoch_seen()).fold(self.epoch, Epoch::max)
    }

    pub(super) fn on_gather(
        &mut self,
        from: NodeId,
        ballot: Epoch,
        called: BTreeSet<NodeId>,
        out: &mut impl Effects<Self>,
    ) {
        let report = self.report(out.now());
        if !self.acceptor.promise(ballot) {
            return out.send(from, Msg::Outranked { ballot, promised: self.acceptor.promised });
        }
        self.abandon(out);
        self.end_probes(out);
        self.gathered_by = Some(from);
        self.called.extend(called);
        self.save(out);
        self.send_whole([from], Cargo::Report { ballot, report }, out);
        self.arm_check_in(out);
    }

    /// Somebody else calls the roll.
    fn abandon(&mut self, out: &mut impl Effects<Self>) {
        if self.round.take().is_some() {
            out.disarm(Timer::Gather);
            out.disarm(Timer::Quarantine);
        }
    }

    pub(super) fn on_outranked(&mut self, ballot: Epoch, promised: Epoch, out: &mut impl Effects<Self>) {
        if promised.number == u64::MAX || self.round.as_ref().is_none_or(|round| round.ballot != ballot) {
            return;
        }
        // Whoever outranks us may be gone. If we still lead, we try again with a later number.
        self.abandon(out);
        self.acceptor.promise(promised);
        if self.leads() {
            self.gather(out);
        }
    }

    pub(super) fn on_report(
        &mut self,
        from: NodeId,
        ballot: Epoch,
        report: Report<K>,
        out: &mut impl Effects<Self>,
    ) {
        // Whoever has accepted a roll has not seen it installed.
        let is_next = |roll: &GroupRoll<K>| roll.is_sound() && roll.epoch > report.epoch;
        let sound =
            is_listed(&report.group) && report.accepted.as_ref().is_none_or(|(_, roll)| is_next(roll));
        let Some(round) = self.round.as_mut().filter(|round| round.ballot == ballot && sound) else { return };
        if round.stage != Stage::Gathering {
            return;
        }
        // Where the algorithm begins epochs of its own, ours must be later than all of them.
        if report.heard >= ballot && self.config.mutation != Some(Mutation::OwnEpochs) {
            return self.on_outranked(ballot, report.heard, out);
        }
        // It may know of members of whom we do not, and of some who are none any more.
        self.left.extend(report.left.iter().copied());
        round.members.retain(|member| !self.left.contains(member));
        self.known.extend(report.group.iter().chain(&report.called).filter(|peer| !self.left.contains(peer)));
        self.learn(&report.lives);
        let Some(round) = &mut self.round else { return };
        round.reports.insert(from, report);
        self.maybe_finish(out);
    }

    pub(super) fn on_gather_timeout(&mut self, out: &mut impl Effects<Self>) {
        let Some(round) = &self.round else { return };
        let silent: Vec<_> =
            self.asked().into_iter().filter(|member| !round.reports.contains_key(member)).collect();
        for member in silent {
            self.give_up(member, self.life_of(member));
        }
        self.maybe_finish(out);
    }

    /// Goes on if enough have answered.
    pub(super) fn maybe_finish(&mut self, out: &mut impl Effects<Self>) {
        let Some(round) = self.round.as_ref().filter(|round| round.stage == Stage::Gathering) else { return };
        let answered = |member: &NodeId| round.reports.contains_key(member);
        if !round.members.iter().filter(|member| !self.down.contains_key(member)).all(answered) {
            return;
        }
        if self.config.consent == Consent::Majority {
            let (_, base) = round.base();
            let promised = round.reports.keys().copied().collect();
            if !is_majority(&promised, &base) {
                return;
            }
        }
        if self.config.consent == Consent::Living {
            let calls_again = !self.is_mutant(Mutation::CallOnce);
            // They may have a part already in a roll that has not reached us, and all who answer are to know in which life.
            if calls_again && (self.has_more_to_ask() || self.is_outdated(round)) {
                return self.gather_again(out);
            }
            let goes_on = self.is_mutant(Mutation::GoOnAlone);
            if !goes_on && !round.is_grounded(&self.left) {
                return self.set_stage(Stage::Alone);
            }
        }
        out.disarm(Timer::Gather);
        let waits = self.config.consent == Consent::Majority && !self.is_mutant(Mutation::NoQuarantine);
        if waits && round.may_leave_out_a_holder(self.config.mutation) {
            self.set_stage(Stage::Quarantine);
            return out.arm(Timer::Quarantine, self.quarantine());
        }
        self.propose(out);
    }

    fn set_stage(&mut self, stage: Stage<K>) {
        if let Some(round) = &mut self.round {
            round.stage = stage;
        }
    }

    pub(super) fn on_quarantine_over(&mut self, out: &mut impl Effects<Self>) {
        if self.round.as_ref().is_some_and(|round| round.stage == Stage::Quarantine) {
            self.propose(out);
        }
    }

    fn propose(&mut self, out: &mut impl Effects<Self>) {
        let Some(round) = &self.round else { return };
        let (ballot, (base, acceptors)) = (round.ballot, round.base());
        if self.config.consent == Consent::Living {
            let roll = call(round, self.id, self.config.mutation);
            return self.decide(ballot, &roll, out);
        }
        let last = round.reports.values().filter(|report| report.epoch == base);
        let binding = last.filter(|_| !self.is_mutant(Mutation::ProposeAnew));
        let accepted = binding.filter_map(|report| report.accepted.clone());
        let proposal = Proposal::new(accepted, || call(round, self.id, self.config.mutation));
        let roll = proposal.value.clone();
        self.set_stage(Stage::Proposing(proposal));
        let others = acceptors.iter().copied().filter(|acceptor| *acceptor != self.id);
        self.send_whole(others, Cargo::Accept { ballot, roll: roll.clone() }, out);
        self.arm_check_in(out);
        self.acceptor.accept(ballot, roll);
        self.save(out);
        self.on_accepted(self.id, ballot, out);
    }

    pub(super) fn on_accept(
        &mut self,
        from: NodeId,
        ballot: Epoch,
        roll: GroupRoll<K>,
        out: &mut impl Effects<Self>,
    ) {
        if self.is_mutant(Mutation::AcceptAny) {
            self.acceptor.promised = ballot;
        }
        // What was chosen before is over: an old roll comes too late.
        if roll.epoch <= self.epoch || !self.acceptor.accept(ballot, roll) {
            return out.send(from, Msg::Outranked { ballot, promised: self.acceptor.promised });
        }
        self.save(out);
        out.send(from, Msg::Accepted { ballot });
    }

    pub(super) fn on_accepted(&mut self, from: NodeId, ballot: Epoch, out: &mut impl Effects<Self>) {
        let Some(round) = self.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        let (_, acceptors) = round.base();
        if let Stage::Proposing(proposal) = &mut round.stage
            && proposal.accepted(from, &acceptors)
        {
            let roll = proposal.value.clone();
            self.decide(ballot, &roll, out);
        }
    }

    /// The roll stands: tell all who are in it, and all who were in the last.
    fn decide(&mut self, ballot: Epoch, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        let mut told: BTreeSet<_> = self.group.iter().collect();
        told.extend(roll.members());
        told.extend(self.newcomers.iter().copied());
        told.remove(&self.id);
        // Who wanted to leave and is not in the roll has left.
        let member = |peer: &NodeId| roll.members().any(|id| id == *peer);
        let gone: Vec<_> = self.leavers.iter().copied().filter(|peer| !member(peer)).collect();
        self.left.extend(gone);
        self.send_whole(told, Cargo::Install { ballot, roll: roll.clone(), left: self.left.clone() }, out);
        self.install(roll, out);
    }

    /// A mutant: as if nobody else wanted anything.
    fn install_unasked(&mut self, ballot: Epoch, out: &mut impl Effects<Self>) {
        let Some(round) = &mut self.round else { return };
        let idle = Report { standings: Standings::default(), ..round.reports[&self.id].clone() };
        for member in round.members.clone() {
            round.reports.entry(member).or_insert_with(|| idle.clone());
        }
        let roll = call(round, self.id, None);
        self.decide(ballot, &roll, out);
    }

    pub(super) fn on_install(&mut self, ballot: Epoch, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        // A roll that all the living have agreed to is void once one of them has answered a later call. One that a
        // majority has chosen stands, whatever came after.
        let void = self.config.consent == Consent::Living && ballot < self.acceptor.promised;
        if (void && !self.is_mutant(Mutation::LateInstall)) || roll.epoch <= self.epoch {
            return;
        }
        self.acceptor.promise(ballot);
        self.install(roll, out);
    }
}

/// Makes the roll from the answers.
fn call<K: Key>(round: &Round<K>, convener: NodeId, mutation: Option<Mutation>) -> GroupRoll<K> {
    // Of two who are inside, one was taken for dead when the other was let in.
    let mut last: BTreeMap<&K, Fence> = BTreeMap::new();
    for report in round.members.iter().filter_map(|id| round.reports.get(id)) {
        for (lock, standing) in report.standings.iter() {
            if let Standing::Inside { fence } = standing {
                let known = last.entry(lock).or_insert(fence);
                *known = fence.max(*known);
            }
        }
    }
    let standings = |report: &Report<K>| {
        let mut standings = report.standings.clone();
        standings.retain(|lock, standing| match standing {
            Standing::Inside { fence } => last.get(lock) == Some(&fence),
            Standing::Idle | Standing::Waiting { .. } => true,
        });
        standings
    };
    let mut clock = LamportClock::default();
    for report in round.reports.values().filter(|_| mutation != Some(Mutation::ClockBehind)) {
        clock.witness(report.time);
    }
    clock.tick();
    let standings = round.members.iter().filter_map(|id| Some((*id, standings(round.reports.get(id)?))));
    let standings: Vec<_> = standings.collect();
    // One that calls the roll in order to leave is not in it.
    let stays = standings.iter().any(|(id, _)| *id == convener);
    let heir = standings
        .iter()
        .map(|(id, _)| *id)
        .max()
        .filter(|_| !stays && mutation != Some(Mutation::AbsentConvener));
    GroupRoll { epoch: round.ballot, convener: heir.unwrap_or(convener), standings, clock }
}

/// A newcomer stands before the first whose id is larger, if the others stand in order.
fn add_member(members: &mut Vec<NodeId>, newcomer: NodeId) {
    if !members.contains(&newcomer) {
        let place = members.iter().position(|member| *member > newcomer).unwrap_or(members.len());
        members.insert(place, newcomer);
    }
}

/// The new epoch.
impl<A: Mutex, K: Key> Assembly<A, K> {
    fn install(&mut self, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        assert!(roll.epoch > self.epoch, "epochs follow each other");
        self.abandon(out);
        self.end_probes(out);
        self.epoch = roll.epoch;
        self.unled = false;
        self.acceptor.accepted = None;
        self.gathered_by = None;
        self.clock.witness(roll.clock.time());
        let before = self.group.clone();
        self.group = Members::listed(roll.members().collect::<Vec<_>>());
        self.known.extend(self.group.iter());
        self.called = self.group.iter().collect();
        self.ended.retain(|peer| self.down.contains_key(peer));
        let group = &self.group;
        self.newcomers.retain(|peer| !group.contains(*peer));
        self.convener = Some(roll.convener);
        // Whoever was elected and is no longer a member has left.
        if self.elected.is_some_and(|elected| before.contains(elected) && !self.group.contains(elected))
            && self.elected != Some(self.id)
        {
            self.elected = None;
        }
        self.save(out);
        self.end_parts(out);
        if self.group.contains(self.id) {
            self.become_member(roll, out);
            self.tell_left_out(&before, out);
        } else {
            self.become_outsider(out);
        }
        // Whoever has left is gone for good; its name may be used again.
        let group = &self.group;
        self.leavers.retain(|peer| *peer == self.id || group.contains(*peer));
        if self.leader().is_none() && self.is_member {
            out.emit(Told::Elect);
        }
        self.follow(out);
        self.arm_poll(out);
    }

    /// Who is left out although we hear it may not hear whoever called the roll: it learns it from us.
    fn tell_left_out(&self, before: &Members, out: &mut impl Effects<Self>) {
        let is_lost = |peer: &NodeId| !self.down.contains_key(peer) && !self.left.contains(peer);
        for peer in before.iter().filter(is_lost) {
            self.set_right(peer, Epoch::FIRST, out);
        }
    }

    /// Nothing of an epoch is left when it is over.
    fn end_parts(&mut self, out: &mut impl Effects<Self>) {
        self.is_member = false;
        for (lock, place) in core::mem::take(&mut self.places) {
            for timer in place.armed {
                out.disarm(Timer::Part(lock.clone(), timer));
            }
        }
    }

    fn become_member(&mut self, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        out.disarm(Timer::CheckIn);
        if !self.is_mutant(Mutation::NarrowElectorate) {
            out.emit(Told::Members(self.group.iter().collect()));
        }
        for lock in self.held() {
            if roll.of(&lock).inside().is_none_or(|(inside, _)| inside != self.id) {
                self.lose(&lock, out);
            }
        }
        self.void_grants();
        self.is_member = true;
        // Of a lock that is not among them everyone knows that nobody wanted it.
        let wanted = self.standings.iter().map(|(lock, _)| lock);
        let locks: BTreeSet<K> = roll.locks().chain(wanted).cloned().chain(K::ONLY).collect();
        if K::ONLY.is_none() {
            self.opening = Opening { locks: locks.len(), clock: roll.clock };
        }
        for lock in locks {
            self.rebuild(&lock, roll, out);
            self.catch_up(&lock, roll, out);
            if A::tells_queue(&self.config.algorithm) {
                self.take_place(&lock, roll);
            }
            if let Standing::Waiting { .. } = self.standing(&lock) {
                self.arm_patience(&lock, out);
            }
        }
        self.replay(out);
    }

    /// What was granted in an old epoch and not confirmed is void.
    fn void_grants(&mut self) {
        if self.is_mutant(Mutation::KeepOldGrant) {
            return;
        }
        for lease in self.leases.values_mut() {
            lease.granted_no_more();
        }
    }

    /// The queue of the new coordinator is that of the roll: whoever waits stands there from now on, before all who come.
    fn take_place(&mut self, lock: &K, roll: &GroupRoll<K>) {
        let roll = roll.of(lock);
        let (queue, clock) = (roll.queue(), roll.clock.time());
        let time = |place: usize| clock.saturating_add(place as u64);
        self.clock.witness(time(queue.len()));
        let is_same = roll.standing(self.id) == Some(self.standing(lock));
        if let Some(Standing::Waiting { since, queued }) = self.standings.of_mut(lock)
            && let Some(place) = queue.iter().position(|id| *id == self.id).filter(|_| is_same)
        {
            (since.time, *queued) = (time(place), true);
        }
    }

    /// What our application has done since we reported how we stand.
    fn catch_up(&mut self, lock: &K, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        if self.is_mutant(Mutation::NoCatchUp) {
            return;
        }
        let own = roll.standings.iter().find(|(id, _)| *id == self.id);
        let reported = own.map(|(_, standings)| standings.of(lock));
        let holds = self.part(lock).is_some_and(|part| part.phase() == Phase::HOLDING);
        match (reported, self.standing(lock)) {
            (Some(Standing::Waiting { since, .. }), Standing::Waiting { since: now, .. }) if since == now => {
            }
            // Let in by the roll itself, or inside all the time.
            (Some(Standing::Waiting { .. } | Standing::Inside { .. }), Standing::Inside { .. }) => {}
            (Some(Standing::Waiting { .. } | Standing::Inside { .. }), wish) => {
                // What the roll has just granted goes back: it must not be confirmed any more.
                if !self.is_mutant(Mutation::KeepGrant) {
                    self.end_lease(lock, out);
                }
                let over = if holds { Request::Release } else { Request::Cancel };
                self.play(lock, Input::Request(over), out);
                if let Standing::Waiting { .. } = wish {
                    self.play(lock, Input::Request(Request::Acquire), out);
                }
            }
            (Some(Standing::Idle) | None, Standing::Waiting { .. }) => {
                self.play(lock, Input::Request(Request::Acquire), out);
            }
            (Some(Standing::Idle) | None, Standing::Idle | Standing::Inside { .. }) => {}
        }
    }

    /// Hands our part what came before its epoch.
    fn replay(&mut self, out: &mut impl Effects<Self>) {
        let epoch = self.epoch;
        let (now, later): (Vec<_>, Vec<_>) = core::mem::take(&mut self.early)
            .into_iter()
            .filter(|early| early.epoch >= epoch)
            .partition(|early| early.epoch == epoch);
        self.early = later;
        for Early { epoch, lock, from, message } in now {
            self.on_part(from, epoch, 0, lock, message, out);
        }
    }

    /// We are not in the roll: because we wanted to leave, or because we were taken for dead.
    pub(super) fn become_outsider(&mut self, out: &mut impl Effects<Self>) {
        self.end_parts(out);
        for lock in self.held() {
            self.lose(&lock, out);
        }
        self.void_grants();
        if self.leavers.contains(&self.id) {
            out.emit(Told::Retire);
            if let Some(lock) = K::ONLY {
                out.emit(Told::App(lock.told(Event::Left)));
            }
        } else {
            self.check_in(out);
        }
    }

    fn save(&self, out: &mut impl Effects<Self>) {
        out.save(AssemblyDurable {
            acceptor: self.acceptor.clone(),
            epoch: self.epoch,
            group: self.group.iter().collect(),
            known: self.known.clone(),
            left: self.left.clone(),
            called: self.called.clone(),
        });
    }
}
