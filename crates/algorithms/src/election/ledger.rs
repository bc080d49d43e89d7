//! What has to be remembered of elections in order to judge them.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Counter, Incarnation, Input, Members, NodeId};

use super::{Election, Event, Request, TERM};
use crate::judge::{self, Breach};

/// What has to be remembered of elections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<A: Election> {
    config: A::Config,
    members: Members,
    /// By place.
    beliefs: Vec<Belief>,
    /// The leaders that somebody was told of first, by term, in ascending order; term 0 where there are no terms.
    told: Vec<(u64, Vec<NodeId>)>,
    /// Without terms: leaders that somebody was told of and that were not those of whom anyone was told first.
    others_told: Option<Vec<NodeId>>,
    /// Somebody was asked to start, or began to take part.
    began: bool,
    /// All who had begun crashed, and perhaps nobody has heard of it: for the others no election has begun unless they
    /// take part in one or are told of a leader.
    unheard: bool,
    /// Somebody crashed after that, or came back or retired at any time: then the leaders of the end may be others
    /// than those before, and without terms it is not remembered who was told of whom.
    changed: bool,
}

/// What is known of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Belief {
    up: bool,
    participates: bool,
    retired: bool,
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
            told: Vec::new(),
            others_told: None,
            began: false,
            unheard: false,
            changed: false,
        }
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

    fn change(&mut self) {
        self.changed = true;
        self.told.retain(|(term, _)| *term > 0);
        self.others_told = None;
    }

    /// A process is told of leaders; says of whom others were told in the same term, if that was somebody else.
    fn hear(&mut self, leaders: &[NodeId], term: u64) -> Option<&[NodeId]> {
        if term == 0 && self.changed {
            return None;
        }
        match self.told.binary_search_by_key(&term, |(term, _)| *term) {
            Err(at) => {
                self.told.insert(at, (term, leaders.to_vec()));
                None
            }
            Ok(at) if self.told[at].1 == leaders => None,
            Ok(at) if term > 0 => Some(&self.told[at].1),
            Ok(_) => {
                self.others_told.get_or_insert_with(|| leaders.to_vec());
                None
            }
        }
    }

    fn living(&self) -> impl Iterator<Item = (&Belief, NodeId)> {
        self.beliefs.iter().zip(self.members.iter()).filter(|(belief, _)| belief.up)
    }

    /// What is wrong now that nothing moves any more, by property.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let eligible: Vec<_> =
            self.living().filter(|(belief, _)| !belief.retired).map(|(_, id)| id).collect();
        let winners = A::winners(&self.config, &self.members, &eligible);
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
            found.push(("E3", format!("{leading:?} believe that they lead, where {} should", winners.len())));
        }
        let mut named = self.living().filter(|(belief, _)| !belief.leaders.is_empty());
        if let Some((first, one)) = named.next()
            && let Some((other, two)) = named.find(|(belief, _)| belief.leaders != first.leaders)
        {
            found.push(("E4", format!("{one} names {:?}, {two} names {:?}", first.leaders, other.leaders)));
        }
        let wrong = |(belief, _): &(&Belief, NodeId)| !belief.leaders.is_empty() && belief.leaders != winners;
        if let Some((belief, id)) = self.living().find(wrong) {
            found.push(("E5", format!("{id} names {:?}, not {winners:?}", belief.leaders)));
        }
        found
    }

    /// Without terms: whether somebody was told of other leaders than those of the end.
    fn wrongly_told(&self, winners: &[NodeId]) -> Option<String> {
        let (_, first) = self.told.first().filter(|(term, _)| *term == 0)?;
        let wrong = if first == winners { self.others_told.as_ref()? } else { first };
        Some(format!("somebody was told of {wrong:?}, the end has {winners:?}"))
    }
}

impl<A: Election> judge::Ledger<A> for Ledger<A> {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    #[inline]
    fn input(&mut self, place: usize, input: &Input<A>) {
        match input {
            Input::Request(Request::Start) => self.began = true,
            Input::Request(Request::Retire) => {
                self.change();
                self.beliefs[place].retired = true;
            }
            Input::Start
            | Input::Receive { .. }
            | Input::Expire(_)
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn emit(&mut self, place: usize, event: &A::Event, breaches: &mut Vec<Breach>) {
        let Event::Elected { leaders, term } = event;
        let process = self.members.at(place);
        if let Some(others) = self.hear(leaders, *term) {
            let detail = format!("in term {term} {process} was told of {leaders:?}, others of {others:?}");
            breaches.push(Breach { property: "E1", detail, promised: true });
        }
    }

    #[inline]
    fn handled(&mut self, place: usize, state: &A) {
        let participates = state.is_participant();
        self.began |= participates || (self.unheard && !state.leaders().is_empty());
        self.beliefs[place].participates = participates;
        let belief = &mut self.beliefs[place].leaders;
        if belief != state.leaders() {
            belief.clear();
            belief.extend_from_slice(state.leaders());
        }
    }

    fn crash(&mut self, place: usize) {
        // Who was never there does not count.
        if self.began {
            self.change();
        }
        self.beliefs[place] = Belief::default();
    }

    fn restart(&mut self, place: usize, _life: Incarnation) {
        self.change();
        self.beliefs[place].up = true;
    }

    fn disturb(&mut self) {
        self.change();
    }

    fn unheard(&mut self) {
        if !self.living().any(|(belief, _)| belief.participates || !belief.leaders.is_empty()) {
            self.began = false;
            self.unheard = true;
        }
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        if self.began {
            let found = self.problems().into_iter();
            breaches.extend(found.map(|(property, detail)| Breach { property, detail, promised: true }));
        }
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
