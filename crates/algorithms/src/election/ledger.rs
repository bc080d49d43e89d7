//! What has to be remembered of elections in order to judge them.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Counter, Incarnation, Input, Members, NodeId, NodeSet};

use super::{Election, Event, Request, TERM, names};
use crate::judge::{self, Breach, Sight};

/// What has to be remembered of elections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<A: Election> {
    config: A::Config,
    members: Members,
    /// By place.
    beliefs: Vec<Belief>,
    /// By place.
    lives: Vec<Incarnation>,
    /// The leaders that somebody was told of first, by term, in ascending order. Term 0 stands for elections without
    /// numbers: for all of them while nothing has changed, then for the election that is open.
    told: Vec<(u64, Vec<NodeId>)>,
    /// Of the election that is open: who was right to be announced until a return, crash or retirement made others so.
    outdated: Vec<Vec<NodeId>>,
    /// Somebody was asked to start, or began to take part.
    began: bool,
    /// All who had begun crashed, and perhaps nobody has heard of it: for the others no election has begun unless they
    /// take part in one or are told of a leader.
    unheard: bool,
    /// Somebody crashed after that, or came back or retired at any time: from then on one election may elect another
    /// leader than the one before.
    changed: bool,
    /// Weights that count from the next election on.
    reweighed: Vec<(NodeId, u64)>,
    /// Somebody joined, left or changed its weight, and not all have agreed on a leader since: elections of the group as it
    /// was overlap with those of the group as it is.
    in_flux: bool,
    /// Two leaders were told of meanwhile, which is not held against anybody.
    unjudged: bool,
}

/// What is known of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Belief {
    up: bool,
    participates: bool,
    retired: bool,
    /// It knows of no leader, and in this life it was asked to start an election, has taken part in one or knew of a leader.
    involved: bool,
    /// Of whose end it has not heard: what it is told of these is about a life that is over, although they may be back.
    unaware: NodeSet,
    /// Of whose end it has heard, and not yet of their return: it goes on without them, although they may be back.
    missing: NodeSet,
    /// Joined after the last election began.
    is_new: bool,
    leaders: Vec<NodeId>,
}

impl<A: Election> Ledger<A> {
    /// For elections by `A` among these members.
    #[must_use]
    pub fn new(config: &A::Config, members: &Members) -> Self {
        let belief = Belief { up: true, ..Belief::default() };
        Self {
            config: config.clone(),
            members: members.clone(),
            beliefs: vec![belief; members.len()],
            lives: vec![Incarnation::FIRST; members.len()],
            told: Vec::new(),
            outdated: Vec::new(),
            began: false,
            unheard: false,
            changed: false,
            reweighed: Vec::new(),
            in_flux: false,
            unjudged: false,
        }
    }

    /// The same where the last of the members join later.
    #[must_use]
    pub fn with_newcomers(mut self, newcomers: usize) -> Self {
        let founders = self.beliefs.len() - newcomers;
        for belief in &mut self.beliefs[founders..] {
            belief.up = false;
        }
        self
    }

    /// A newcomer is there. It may be elected from the next election on.
    pub(super) fn join(&mut self, place: usize) {
        let newcomer = Belief { up: true, is_new: true, ..Belief::default() };
        self.reshape(|ledger| ledger.beliefs[place] = newcomer);
    }

    /// An election begins: whoever has joined takes part, and the weights are those of now.
    fn begin(&mut self) {
        if self.reweighed.is_empty() && !self.beliefs.iter().any(|belief| belief.is_new) {
            return;
        }
        self.change(|ledger| {
            for belief in &mut ledger.beliefs {
                belief.is_new = false;
            }
            for (id, weight) in core::mem::take(&mut ledger.reweighed) {
                A::reweigh(&mut ledger.config, id, weight);
            }
        });
    }

    /// The group changes, and its members do not hear of it at the same moment.
    fn reshape(&mut self, change: impl FnOnce(&mut Self)) {
        self.change(change);
        self.in_flux = true;
    }

    /// Whether two leaders were told of where that is not judged.
    pub(super) fn is_unjudged(&self) -> bool {
        self.unjudged
    }

    /// Whether an election has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.began
    }

    /// Whether a process is up.
    pub(super) fn is_up(&self, place: usize) -> bool {
        self.beliefs[place].up
    }

    /// Whom a process believes to lead.
    #[inline]
    pub(super) fn belief(&self, place: usize) -> &[NodeId] {
        &self.beliefs[place].leaders
    }

    /// Whom the living name, if they all name the same.
    pub(super) fn agreed(&self) -> Option<&[NodeId]> {
        let mut living = self.beliefs.iter().filter(|belief| belief.up);
        let first = living.next()?;
        let same = !first.leaders.is_empty() && living.all(|belief| belief.leaders == first.leaders);
        same.then_some(first.leaders.as_slice())
    }

    /// A process crashes, comes back or retires. If others should lead from now on, it was still right to announce the former.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let former = self.winners();
        change(self);
        self.changed = true;
        let winners = self.winners();
        let is_void = |told: &[NodeId]| !self.are_eligible(told) || (told == former && former != winners);
        if self.told_now().is_some_and(is_void) {
            self.told.retain(|(term, _)| *term > 0);
        }
        if former != winners && self.are_eligible(&former) && !self.outdated.contains(&former) {
            self.outdated.push(former);
        }
        self.outdated.retain(|outdated| *outdated != winners);
        self.close();
    }

    /// Ends the election that is open if nobody takes part any more and all name the same leaders. Elections that overlap
    /// are one: it is over only when all of them are.
    fn close(&mut self) {
        let is_over = |ledger: &Self| {
            !ledger.living().any(|(belief, _)| belief.participates) && ledger.agreed().is_some()
        };
        let is_open = self.told_now().is_some() || !self.outdated.is_empty();
        if self.changed && is_open && is_over(self) {
            self.in_flux = false;
            self.told.retain(|(term, _)| *term > 0);
            self.outdated.clear();
        }
    }

    /// Without terms: the leaders that somebody was told of in the election that is open.
    fn told_now(&self) -> Option<&[NodeId]> {
        self.told.first().filter(|(term, _)| *term == 0).map(|(_, leaders)| leaders.as_slice())
    }

    /// Whether all of these may lead: they are up and have not retired.
    fn are_eligible(&self, leaders: &[NodeId]) -> bool {
        let belief = |id: &NodeId| self.members.position(*id).map(|place| &self.beliefs[place]);
        leaders.iter().all(|id| belief(id).is_some_and(|belief| belief.up && !belief.retired))
    }

    /// A process is told of leaders; says of whom others were told in the same election, if that was somebody else.
    fn hear(&mut self, place: usize, leaders: &[NodeId], term: u64) -> Option<&[NodeId]> {
        if term == 0 && self.changed && self.is_old_news(place, leaders) {
            return None;
        }
        match self.told.binary_search_by_key(&term, |(term, _)| *term) {
            Err(at) => {
                self.told.insert(at, (term, leaders.to_vec()));
                None
            }
            Ok(at) if term == 0 && self.in_flux => {
                self.unjudged |= self.told[at].1 != leaders;
                None
            }
            Ok(at) => Some(self.told[at].1.as_slice()).filter(|others| *others != leaders),
        }
    }

    /// Whether what a process is told was right when it was said, and does no harm: the leaders have crashed or retired
    /// since, even if they have come back and it has not heard of that; or they lead without those of whose return it has
    /// not heard; or it knows of them, or it has not yet been told of those who lead instead. Whoever has, and is then told
    /// of the old ones, takes them for the new ones.
    fn is_old_news(&self, place: usize, leaders: &[NodeId]) -> bool {
        let Belief { leaders: belief, unaware, missing, .. } = &self.beliefs[place];
        let is_outdated = self.outdated.iter().any(|outdated| outdated == leaders);
        let is_of_former_life = leaders.iter().any(|id| unaware.contains(*id));
        let is_without_returned =
            || missing.iter().any(|id| self.are_eligible(&[id])) && self.winners_without(missing) == leaders;
        !self.are_eligible(leaders)
            || is_of_former_life
            || belief == leaders
            || (is_outdated && Some(belief.as_slice()) != self.told_now())
            || is_without_returned()
    }

    /// A process is told that a life of a peer is over. Of a life that goes on, that means nothing.
    fn hear_of_end(&mut self, place: usize, peer: NodeId, life: Incarnation) {
        let Some(at) = self.members.position(peer) else { return };
        if !self.beliefs[at].up || self.lives[at] != life {
            self.beliefs[place].missing.insert(peer);
        }
        self.beliefs[place].unaware.remove(peer);
    }

    /// Who must lead in the end, as things stand.
    fn winners(&self) -> Vec<NodeId> {
        self.winners_without(&NodeSet::new())
    }

    fn winners_without(&self, missing: &NodeSet) -> Vec<NodeId> {
        let is_eligible =
            |(belief, id): &(&Belief, NodeId)| !belief.retired && !belief.is_new && !missing.contains(*id);
        let eligible: Vec<_> = self.living().filter(is_eligible).map(|(_, id)| id).collect();
        A::winners(&self.config, &self.members, &eligible)
    }

    fn living(&self) -> impl Iterator<Item = (&Belief, NodeId)> {
        self.beliefs.iter().zip(self.members.iter()).filter(|(belief, _)| belief.up)
    }

    /// Whether there was an election for those who are alive: one of them has called it, has taken part in it, or knows of a
    /// leader. Whoever called it may have died with all to whom it meant anything.
    pub(super) fn concerns_the_living(&self) -> bool {
        self.living().any(|(belief, _)| belief.involved || !belief.leaders.is_empty())
    }

    /// What is wrong now that nothing moves any more, by property.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let winners = self.winners();
        let mut found: Vec<_> = self.wrongly_told(&winners).map(|text| ("E1", text)).into_iter().collect();
        if winners.is_empty() {
            return found;
        }
        if let Some((_, id)) = self.living().find(|(belief, _)| belief.leaders.is_empty()) {
            found.push(("E2", format!("{id} knows of no leader")));
        }
        let leading: Vec<_> =
            self.living().filter(|(belief, id)| belief.leaders.contains(id)).map(|(_, id)| id).collect();
        if leading.len() != winners.len() {
            let verb = if leading.len() > 1 { "believe that they lead" } else { "believes that it leads" };
            found.push(("E3", format!("{} {verb}, where {} should", names(&leading), winners.len())));
        }
        let mut named = self.living().filter(|(belief, _)| !belief.leaders.is_empty());
        if let Some((first, one)) = named.next()
            && let Some((other, two)) = named.find(|(belief, _)| belief.leaders != first.leaders)
        {
            let (theirs, others) = (names(&first.leaders), names(&other.leaders));
            found.push(("E4", format!("{one} names {theirs}, {two} names {others}")));
        }
        let wrong = |(belief, _): &(&Belief, NodeId)| !belief.leaders.is_empty() && belief.leaders != winners;
        if let Some((belief, id)) = self.living().find(wrong) {
            found.push(("E5", format!("{id} names {}, not {}", names(&belief.leaders), names(&winners))));
        }
        found
    }

    /// Without terms, where nothing has changed: whether somebody was told of other leaders than those of the end.
    fn wrongly_told(&self, winners: &[NodeId]) -> Option<String> {
        let told = self.told_now().filter(|told| !self.changed && *told != winners)?;
        let (told, winners) = (names(told), names(winners));
        Some(format!("somebody was told of {told}, and the election ended with {winners}"))
    }
}

impl<A: Election> judge::Ledger<A> for Ledger<A> {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    #[inline]
    fn input(&mut self, place: usize, input: &Input<A>) {
        match input {
            Input::Request(Request::Start) => {
                self.began = true;
                self.beliefs[place].involved = true;
            }
            Input::Request(Request::Retire) => self.change(|ledger| ledger.beliefs[place].retired = true),
            Input::Request(Request::Leave) if A::CHANGES => {
                self.reshape(|ledger| ledger.beliefs[place] = Belief::default());
            }
            Input::Request(Request::Reweigh(weight)) if A::CHANGES => {
                let process = self.members.at(place);
                self.reshape(|ledger| ledger.reweighed.push((process, *weight)));
            }
            Input::PeerDown { peer, life } => self.hear_of_end(place, *peer, *life),
            Input::PeerUp { peer, .. } => {
                self.beliefs[place].unaware.remove(*peer);
                self.beliefs[place].missing.remove(*peer);
            }
            Input::Request(Request::Leave | Request::Reweigh(_)) => {}
            Input::Start | Input::Receive { .. } | Input::Expire(_) => {}
        }
    }

    fn emit(&mut self, place: usize, event: &A::Event, breaches: &mut Vec<Breach>) {
        let Event::Elected { leaders, term } = event;
        let process = self.members.at(place);
        // Who wins without asking anybody has held an election, too.
        if A::CHANGES && leaders.contains(&process) {
            self.begin();
        }
        if let Some(others) = self.hear(place, leaders, *term) {
            let election = if *term > 0 { format!("term {term}") } else { "one election".into() };
            let (leaders, others) = (names(leaders), names(others));
            let detail = format!("in {election} {process} was told of {leaders}, others of {others}");
            breaches.push(Breach { property: "E1", detail, promised: true });
        }
    }

    #[inline]
    fn handled(&mut self, place: usize, state: &A, _breaches: &mut Vec<Breach>) {
        let participates = state.is_participant();
        self.began |= participates || (self.unheard && !state.leaders().is_empty());
        let began = participates && !core::mem::replace(&mut self.beliefs[place].participates, participates);
        self.beliefs[place].participates = participates;
        if began && A::CHANGES {
            self.begin();
        }
        let belief = &mut self.beliefs[place];
        let had_part = belief.involved || participates || !belief.leaders.is_empty();
        belief.involved = had_part && state.leaders().is_empty();
        if belief.leaders != state.leaders() {
            belief.leaders.clear();
            belief.leaders.extend_from_slice(state.leaders());
        }
        self.close();
    }

    fn crash(&mut self, place: usize) {
        let process = self.members.at(place);
        let crash = |ledger: &mut Self| {
            ledger.beliefs[place] = Belief::default();
            for belief in ledger.beliefs.iter_mut().filter(|belief| belief.up) {
                belief.unaware.insert(process);
            }
        };
        // Who was never there does not count.
        match self.began {
            true => self.change(crash),
            false => crash(self),
        }
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.changed = true;
        self.lives[place] = life;
        // Before it is there: an election that is over stays so, though the newcomer knows of no leader.
        self.close();
        self.change(|ledger| ledger.beliefs[place].up = true);
    }

    fn disturb(&mut self) {}

    fn unheard(&mut self) {
        if !self.living().any(|(belief, _)| belief.participates || !belief.leaders.is_empty()) {
            self.began = false;
            self.unheard = true;
        }
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        if self.began && self.concerns_the_living() {
            let found = self.problems().into_iter();
            breaches.extend(found.map(|(property, detail)| Breach { property, detail, promised: true }));
        }
    }

    fn sights(&self) -> &'static [Sight] {
        const SIGHTS: &[Sight] = &[
            Sight::always("an election has begun"),
            Sight::always("somebody knows of a leader"),
            Sight::always("all who are up name the same leaders"),
        ];
        SIGHTS
    }

    fn sees(&self) -> u16 {
        let is_known = self.living().any(|(belief, _)| !belief.leaders.is_empty());
        let sights = [self.began, is_known, self.agreed().is_some()];
        (0..).zip(sights).fold(0, |all, (bit, is_so)| all | u16::from(is_so) << bit)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for (term, _) in self.told.iter_mut().filter(|(term, _)| *term > 0) {
            // However far it is moved, a term must not become 0, which stands for none.
            let mut below = *term - 1;
            visit(Counter::exact(TERM, &mut below));
            *term = below + 1;
        }
    }
}

#[cfg(test)]
mod tests;
