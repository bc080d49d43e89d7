//! What an election must keep: E1 to E5.
//!
//! | property | claim |
//! |---|---|
//! | E1 | safety: in one election nobody is told of two different leaders |
//! | E2 | liveness: in the end everyone alive knows a leader |
//! | E3 | uniqueness: in the end just those who are elected believe that they lead, however many started |
//! | E4 | agreement: in the end all who are alive name the same leaders |
//! | E5 | maximality: they are those with the highest priority among the living |
//! | END | the run comes to rest: no message goes round for ever |
//!
//! E2 to E5 are judged when nothing moves any more. E1 is judged per term where the algorithm numbers its elections; where
//! it does not, every leader that anyone was ever told of must be the one of the end, as long as nobody crashed, came
//! back or retired in the meantime.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, Moment, NodeId, Observer, Process, Transit};

use super::{Election, Event, Request};
use crate::judge::{Ending, Finding, Judge, Judgement, Violation};

/// The observer that judges all properties of an election.
#[derive(Clone, Debug)]
pub struct Properties<A: Election> {
    config: A::Config,
    members: Members,
    /// By process.
    beliefs: Vec<Belief>,
    /// Leaders that somebody was told of first, by term, and who that was.
    told: BTreeMap<u64, (NodeId, Vec<NodeId>)>,
    /// Without terms: leaders that somebody was told of and that were not the first of whom anyone was told.
    others_told: Option<(NodeId, Vec<NodeId>)>,
    /// Somebody was asked to start, or began to take part.
    began: bool,
    /// Somebody crashed after that, or came back or retired at any time.
    changed: bool,
    quarrel: Quarrel,
    ending: Option<Ending>,
    violation: Option<Violation>,
    /// What was found at the end, by property.
    found: Vec<(&'static str, String)>,
}

/// What is known of a process.
#[derive(Clone, Debug)]
struct Belief {
    up: bool,
    retired: bool,
    leaders: Vec<NodeId>,
}

/// How long two living processes believed in different leaders.
#[derive(Clone, Debug, Default)]
struct Quarrel {
    /// How many living processes believe in each set of leaders.
    camps: BTreeMap<Vec<NodeId>, u64>,
    since: u64,
    total: u64,
}

impl Quarrel {
    /// One process gives up one belief and takes on another.
    fn change(&mut self, time: u64, from: &[NodeId], to: &[NodeId]) {
        if self.camps.len() > 1 {
            self.total += time - self.since;
        }
        self.since = time;
        if !from.is_empty()
            && let Some(count) = self.camps.get_mut(from)
        {
            *count -= 1;
            if *count == 0 {
                self.camps.remove(from);
            }
        }
        if !to.is_empty() {
            match self.camps.get_mut(to) {
                Some(count) => *count += 1,
                None => {
                    self.camps.insert(to.to_vec(), 1);
                }
            }
        }
    }
}

impl<A: Election> Properties<A> {
    /// Judges a run of `A` among these members.
    #[must_use]
    pub fn new(config: &A::Config, members: &Members) -> Self {
        let belief = Belief { up: true, retired: false, leaders: Vec::new() };
        Self {
            config: config.clone(),
            members: members.clone(),
            beliefs: vec![belief; members.len()],
            told: BTreeMap::new(),
            others_told: None,
            began: false,
            changed: false,
            quarrel: Quarrel::default(),
            ending: None,
            violation: None,
            found: Vec::new(),
        }
    }

    /// Whom the living name, if they all name the same.
    #[must_use]
    pub fn agreed(&self) -> Option<&[NodeId]> {
        let mut living = self.beliefs.iter().filter(|belief| belief.up);
        let first = living.next()?;
        let same = !first.leaders.is_empty() && living.all(|belief| belief.leaders == first.leaders);
        same.then_some(first.leaders.as_slice())
    }

    /// How long, in microseconds, two living processes believed in different leaders.
    #[must_use]
    pub fn disagreement(&self) -> u64 {
        self.quarrel.total
    }

    fn broken(&mut self, property: &'static str, step: u64, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { property, detail, step });
        }
    }

    fn believe(&mut self, time: u64, place: usize, leaders: &[NodeId]) {
        let belief = &mut self.beliefs[place];
        if belief.leaders != leaders {
            self.quarrel.change(time, &belief.leaders, leaders);
            belief.leaders.clear();
            belief.leaders.extend_from_slice(leaders);
        }
    }

    fn hear(&mut self, at: &Moment, process: Process, leaders: &[NodeId], term: u64) {
        let Some((_, first)) = self.told.get(&term) else {
            self.told.insert(term, (process.id, leaders.to_vec()));
            return;
        };
        if first == leaders {
            return;
        }
        if term > 0 {
            let detail =
                format!("in term {term} {} was told of {leaders:?}, others of {first:?}", process.id);
            self.broken("E1", at.step, detail);
        } else if self.others_told.is_none() {
            self.others_told = Some((process.id, leaders.to_vec()));
        }
    }

    /// What is wrong now that nothing moves any more, by property.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let living = || self.beliefs.iter().zip(self.members.iter()).filter(|(belief, _)| belief.up);
        let eligible: Vec<_> = living().filter(|(belief, _)| !belief.retired).map(|(_, id)| id).collect();
        let winners = A::winners(&self.config, &self.members, &eligible);
        let mut found = Vec::new();
        if let (false, Some((first, leaders))) = (self.changed, self.told.get(&0)) {
            let wrong = (*leaders != winners).then_some((first, leaders));
            let other = self.others_told.as_ref().map(|(process, leaders)| (process, leaders));
            if let Some((process, leaders)) = wrong.or(other) {
                found.push(("E1", format!("{process} was told of {leaders:?}, the end has {winners:?}")));
            }
        }
        if winners.is_empty() {
            return found;
        }
        if let Some((_, id)) = living().find(|(belief, _)| belief.leaders.is_empty()) {
            found.push(("E2", format!("{id} knows of no leader")));
        }
        let leading: Vec<_> = living().filter(|(b, id)| b.leaders.contains(id)).map(|(_, id)| id).collect();
        if leading.len() != winners.len() {
            found.push(("E3", format!("{leading:?} believe that they lead, where {} should", winners.len())));
        }
        let mut named = living().filter(|(belief, _)| !belief.leaders.is_empty());
        if let Some((first, one)) = named.next()
            && let Some((other, two)) = named.find(|(belief, _)| belief.leaders != first.leaders)
        {
            found.push(("E4", format!("{one} names {:?}, {two} names {:?}", first.leaders, other.leaders)));
        }
        let wrong = |(belief, _): &(&Belief, NodeId)| !belief.leaders.is_empty() && belief.leaders != winners;
        if let Some((belief, id)) = living().find(wrong) {
            found.push(("E5", format!("{id} names {:?}, not {winners:?}", belief.leaders)));
        }
        found
    }
}

impl<A: Election> Observer<A> for Properties<A> {
    #[inline]
    fn input(&mut self, _at: &Moment, process: Process, input: &Input<A>) {
        match input {
            Input::Request(Request::Start) => self.began = true,
            Input::Request(Request::Retire) => {
                self.changed = true;
                self.beliefs[process.index()].retired = true;
            }
            Input::Start
            | Input::Receive { .. }
            | Input::Expire(_)
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &A::Message) {
        // A message to someone who is down from the beginning is part of the game.
        if self.beliefs[transit.to.index()].up {
            self.changed = true;
        }
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &A::Event) {
        let Event::Elected { leaders, term } = event;
        self.hear(at, process, leaders, *term);
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.broken("PROTOCOL", at.step, format!("{} rejected a message of {from}: {why}", process.id));
    }

    #[inline]
    fn handled(&mut self, at: &Moment, process: Process, state: &A) {
        self.began |= state.is_participant();
        self.believe(at.time, process.index(), state.leaders());
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        // Who was never there does not count.
        self.changed |= self.began;
        self.believe(at.time, process.index(), &[]);
        self.beliefs[process.index()] = Belief { up: false, retired: false, leaders: Vec::new() };
    }

    fn restart(&mut self, _at: &Moment, process: Process, _life: Incarnation, _durable: bool) {
        self.changed = true;
        self.beliefs[process.index()].up = true;
    }
}

impl<A: Election> Judge<A> for Properties<A> {
    fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.ending = Some(ending);
        match ending {
            Ending::Quiet if self.began => {
                self.found = self.problems();
                if let Some((property, detail)) = self.found.first().cloned() {
                    self.broken(property, step, detail);
                }
            }
            Ending::OutOfTime => {
                self.broken("END", step, "messages still go round, and nobody learns anything".into());
            }
            Ending::Quiet | Ending::Stopped => {}
        }
    }

    fn judgements(&self) -> Vec<Judgement> {
        let finding = |property: &str| {
            let found =
                self.found.iter().find(|(name, _)| *name == property).map(|(_, detail)| detail.clone());
            let at_once =
                self.violation.as_ref().filter(|v| v.property == property).map(|v| v.detail.clone());
            match (found.or(at_once), self.ending) {
                (Some(detail), _) => Finding::Broken(detail),
                (None, _) if !self.began => Finding::Open("nobody started an election".into()),
                (None, Some(Ending::Quiet)) => Finding::Held(String::new()),
                (None, Some(Ending::OutOfTime)) => Finding::Open("the run did not come to rest".into()),
                (None, Some(Ending::Stopped) | None) => Finding::Open("the run was stopped early".into()),
            }
        };
        let claims = [
            ("E1", "nobody is told of two leaders"),
            ("E2", "everyone alive knows a leader"),
            ("E3", "only the elected lead"),
            ("E4", "all who are alive agree"),
            ("E5", "the highest priority leads"),
            ("END", "the run comes to rest"),
        ];
        let judge =
            |(property, claim)| Judgement { property, claim, promised: true, finding: finding(property) };
        claims.map(judge).to_vec()
    }
}
