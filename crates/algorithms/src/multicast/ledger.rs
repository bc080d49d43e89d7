//! What has to hold when something is sent to a group.
//!
//! | property | claim |
//! |---|---|
//! | INTEGRITY | a member delivers a post once, as it was sent |
//! | VALIDITY | a post of a sender that stays up is delivered: by itself, if it is a member |
//! | AGREEMENT | if a member that stays up delivers a post, all members that stay do |
//! | FIFO | posts of one sender are delivered in the order in which they were sent |
//! | CAUSAL | a post is delivered after all that its sender had sent or delivered before |
//! | TOTAL | all members deliver in the same order |
//! | VIEW | who goes from one view to the next delivers the same posts between them as the others who do |
//! | END | the run comes to rest |
//!
//! Members that crash are judged up to then and no longer compared with; posts are owed to those who were members when they
//! were sent and stay members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId, NodeSet};

use super::{AnyMulticast, Event, Id, Post, Request, Source};
use crate::judge::{Breach, Ledger, PropertyKind};
use crate::referee::{COMES_TO_REST, Claim};

/// What is judged.
const CLAIMS: &[Claim] = &[
    safety("INTEGRITY", "a post is delivered once, as it was sent"),
    safety("VALIDITY", "who sends and stays up delivers it"),
    safety("AGREEMENT", "if one delivers, all who stay do"),
    safety("FIFO", "in the order of its sender"),
    safety("CAUSAL", "after all that its sender knew"),
    safety("TOTAL", "in the same order everywhere"),
    COMES_TO_REST,
    safety("VIEW", "the same posts from view to view"),
];

impl Promises {
    /// What is judged: views only where there are some.
    pub(super) fn claims(&self) -> &'static [Claim] {
        if self.view { CLAIMS } else { CLAIMS.split_last().map_or(CLAIMS, |(_, others)| others) }
    }
}

const fn safety(property: &'static str, claim: &'static str) -> Claim {
    Claim { property, kind: PropertyKind::Safety, claim }
}

/// What an algorithm promises beyond delivering what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promises {
    /// What may happen, and all who stay still deliver the same.
    pub survives: Survives,
    /// Copies that the network makes are told from posts.
    pub once: bool,
    /// FIFO.
    pub fifo: bool,
    /// CAUSAL.
    pub causal: bool,
    /// TOTAL.
    pub total: bool,
    /// VIEW.
    pub view: bool,
    /// It relies on what its failure detector says.
    pub trusts: bool,
}

impl Promises {
    /// No order; delivery in these circumstances.
    #[must_use]
    pub const fn plain(survives: Survives) -> Self {
        Self { survives, once: true, fifo: false, causal: false, total: false, view: false, trusts: false }
    }
}

/// What may happen, and all who stay still deliver the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Survives {
    /// No crash at all.
    Nothing,
    /// Crashes of processes that have sent nothing.
    SilentCrashes,
    /// Crashes between two steps: what was sent arrives.
    WholeSteps,
    /// Any crashes.
    Crashes,
}

/// Who sent and delivered what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delivery {
    members: Members,
    promises: Promises,
    /// Whether what is not promised is judged, too: not in a search, whose states would be more.
    all: bool,
    /// By place.
    processes: Vec<Standing>,
    posts: BTreeMap<Id, Sent>,
    events: Events,
}

/// What happened that takes promises away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Events {
    /// A message was lost or doubled.
    disturbed: bool,
    /// Somebody crashed inside a step, or with messages in its outbox.
    halfway: bool,
    crashed: bool,
    /// Somebody crashed who had sent something.
    sender_crashed: bool,
    /// Somebody alive was called dead.
    suspected: bool,
    /// Somebody asked to join.
    changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Standing {
    life: Incarnation,
    is_up: bool,
    is_in: bool,
    /// How much it has sent in this life.
    sent: u64,
    /// What it has delivered in this life, from one change of its membership to the next.
    rounds: Vec<Round>,
    /// Whom its failure detector calls dead.
    suspects: NodeSet,
}

/// What a process delivered in one view, in order where the order is judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    /// The number of the view, if it was in one for all that time.
    view: Option<u64>,
    group: Vec<NodeId>,
    posts: Vec<Id>,
}

/// A post, and what is known of it from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    text: String,
    /// The places of those to whom it is owed.
    due: BTreeSet<usize>,
    /// What its sender had sent or delivered before, and what came before that.
    past: BTreeSet<Id>,
}

impl Standing {
    fn new(life: Incarnation, is_in: bool) -> Self {
        let first = Round { view: is_in.then_some(1), group: Vec::new(), posts: Vec::new() };
        Self { life, is_up: true, is_in, sent: 0, rounds: vec![first], suspects: NodeSet::new() }
    }

    fn delivered(&self) -> impl Iterator<Item = Id> + '_ {
        self.rounds.iter().flat_map(|round| round.posts.iter().copied())
    }

    fn has(&self, id: Id) -> bool {
        self.delivered().any(|other| other == id)
    }
}

impl Delivery {
    /// Nothing was sent yet; everyone is a member, or nobody.
    #[must_use]
    pub fn new(members: &Members, promises: Promises, everyone: bool) -> Self {
        let processes = vec![Standing::new(Incarnation::FIRST, everyone); members.len()];
        let (posts, events) = (BTreeMap::new(), Events::default());
        Self { members: members.clone(), promises, all: false, processes, posts, events }
    }

    /// The same, which judges what is not promised, too.
    #[must_use]
    pub fn judging_all(self) -> Self {
        Self { all: true, ..self }
    }

    fn breach(&self, property: &'static str, detail: String) -> Breach {
        Breach { property, detail, promised: self.is_promised(property) }
    }

    /// Whether a property is promised after all that has happened.
    fn is_promised(&self, property: &str) -> bool {
        let Promises { survives, once, fifo, causal, total, view, trusts } = self.promises;
        let Events { disturbed, halfway, crashed, sender_crashed, suspected, changed } = self.events;
        let misled = disturbed || (suspected && (trusts || changed));
        match property {
            "INTEGRITY" => once || !disturbed,
            "FIFO" => fifo,
            "CAUSAL" => causal,
            "TOTAL" => total && !misled,
            "VIEW" => view && !misled,
            "VALIDITY" | "AGREEMENT" => {
                !misled
                    && match survives {
                        Survives::Nothing => !crashed,
                        Survives::SilentCrashes => !sender_crashed && !self.is_kept_in_the_dark(),
                        Survives::WholeSteps => !halfway,
                        Survives::Crashes => !trusts || !self.is_kept_in_the_dark(),
                    }
            }
            _ => true,
        }
    }

    /// Somebody is dead, and somebody who is up was not told.
    fn is_kept_in_the_dark(&self) -> bool {
        let dead = || self.processes.iter().enumerate().filter(|(_, process)| !process.is_up);
        let knows =
            |process: &Standing| dead().all(|(place, _)| process.suspects.contains(self.members.at(place)));
        self.processes.iter().any(|process| process.is_up && !knows(process))
    }

    fn judges(&self, promised: bool) -> bool {
        self.all || promised
    }

    fn source(&self, place: usize) -> Source {
        Source { process: self.members.at(place), life: self.processes[place].life }
    }

    fn on_send(&mut self, place: usize, text: &str) {
        self.processes[place].sent += 1;
        let source = self.source(place);
        let id = source.post(self.processes[place].sent);
        let due = |(place, process): (usize, &Standing)| (process.is_up && process.is_in).then_some(place);
        let due = self.processes.iter().enumerate().filter_map(due).collect();
        let past = self.past(place, source);
        self.posts.insert(id, Sent { text: text.into(), due, past });
    }

    /// All that came before the next post of a process.
    fn past(&self, place: usize, source: Source) -> BTreeSet<Id> {
        let mut past = BTreeSet::new();
        if !self.judges(self.promises.causal) {
            return past;
        }
        let own = (1..self.processes[place].sent).map(|number| source.post(number));
        for id in own.chain(self.processes[place].delivered()) {
            past.insert(id);
            past.extend(self.posts.get(&id).into_iter().flat_map(|sent| &sent.past));
        }
        past
    }

    /// From now on nothing is owed to a process that was sent before.
    fn release(&mut self, place: usize) {
        for sent in self.posts.values_mut() {
            sent.due.remove(&place);
        }
    }

    fn is_due(&self, place: usize, id: Id) -> bool {
        self.posts.get(&id).is_some_and(|sent| sent.due.contains(&place))
    }

    /// Everyone else who is up.
    fn others(&self, place: usize) -> impl Iterator<Item = (usize, &Standing)> {
        self.processes.iter().enumerate().filter(move |(other, process)| *other != place && process.is_up)
    }

    fn on_delivered(&mut self, place: usize, post: &Post, breaches: &mut Vec<Breach>) {
        let who = self.members.at(place);
        if let Some(why) = self.foreign(place, post) {
            return breaches.push(self.breach("INTEGRITY", format!("{who} delivered {}, {why}", post.id)));
        }
        if self.judges(self.promises.fifo) {
            let before = |id: &Id| id.source == post.id.source && id.number < post.id.number;
            let after = |id: &Id| id.source == post.id.source && id.number > post.id.number;
            self.judge_past("FIFO", place, post.id, before, after, breaches);
        }
        if self.judges(self.promises.causal) {
            let past = &self.posts[&post.id].past;
            let after = |id: &Id| self.posts.get(id).is_some_and(|sent| sent.past.contains(&post.id));
            self.judge_past("CAUSAL", place, post.id, |id| past.contains(id), after, breaches);
        }
        if self.judges(self.promises.total) {
            self.judge_total(place, post.id, breaches);
        }
        self.remember(place, post.id);
    }

    /// Why a process must not deliver a post.
    fn foreign(&self, place: usize, post: &Post) -> Option<&'static str> {
        let process = &self.processes[place];
        match self.posts.get(&post.id) {
            None => Some("which nobody has sent"),
            Some(sent) if sent.text != post.text => Some("which says something else"),
            Some(_) if !process.is_in => Some("and is no member"),
            Some(_) if process.has(post.id) => Some("and had delivered it already"),
            Some(_) => None,
        }
    }

    fn remember(&mut self, place: usize, id: Id) {
        let keeps_order = self.judges(self.promises.total);
        if let Some(round) = self.processes[place].rounds.last_mut() {
            round.posts.push(id);
            if !keeps_order {
                round.posts.sort_unstable();
            }
        }
    }

    /// A post is delivered: all that belongs before it and is owed must be there, and nothing that belongs behind it.
    fn judge_past(
        &self,
        property: &'static str,
        place: usize,
        id: Id,
        before: impl Fn(&Id) -> bool,
        after: impl Fn(&Id) -> bool,
        breaches: &mut Vec<Breach>,
    ) {
        let (who, process) = (self.members.at(place), &self.processes[place]);
        let missing = self
            .posts
            .keys()
            .find(|other| before(other) && self.is_due(place, **other) && !process.has(**other));
        if let Some(missing) = missing {
            breaches.push(self.breach(property, format!("{who} delivered {id} before {missing}")));
        } else if let Some(later) = process.delivered().find(after) {
            breaches.push(self.breach(property, format!("{who} delivered {later} before {id}")));
        }
    }

    /// A post is delivered: nobody else may have delivered it on the other side of something that both have, or of something
    /// that is owed here and missing.
    fn judge_total(&self, place: usize, id: Id, breaches: &mut Vec<Breach>) {
        let (who, process) = (self.members.at(place), &self.processes[place]);
        for (other, peer) in self.others(place) {
            let Some(at) = peer.delivered().position(|known| known == id) else { continue };
            let peer_id = self.members.at(other);
            let behind = peer.delivered().skip(at).find(|later| *later != id && process.has(*later));
            let missing =
                peer.delivered().take(at).find(|early| self.is_due(place, *early) && !process.has(*early));
            if let Some(first) = behind {
                let detail =
                    format!("{who} delivered {first} before {id}, and {peer_id} {id} before {first}");
                return breaches.push(self.breach("TOTAL", detail));
            }
            if let Some(first) = missing {
                let detail =
                    format!("{who} delivered {id} without {first}, and {peer_id} {first} before {id}");
                return breaches.push(self.breach("TOTAL", detail));
            }
        }
    }

    fn on_view(&mut self, place: usize, number: u64, group: &[NodeId], breaches: &mut Vec<Breach>) {
        let (who, process) = (self.members.at(place), &self.processes[place]);
        let last = process.rounds.iter().rev().find_map(|round| round.view);
        let other_group = self.others(place).find(|(_, peer)| {
            peer.rounds
                .iter()
                .any(|round| round.view == Some(number) && !round.group.is_empty() && round.group != group)
        });
        if last >= Some(number) {
            breaches.push(self.breach("VIEW", format!("{who} entered view {number} late")));
        } else if !group.contains(&who) {
            breaches.push(self.breach("VIEW", format!("{who} entered view {number} and is not in it")));
        } else if let Some((other, _)) = other_group {
            let detail =
                format!("{who} and {} have different members in view {number}", self.members.at(other));
            breaches.push(self.breach("VIEW", detail));
        } else if let Some(detail) = self.difference(place, number) {
            breaches.push(self.breach("VIEW", detail));
        }
        let process = &mut self.processes[place];
        process.is_in = true;
        process.rounds.push(Round { view: Some(number), group: group.to_vec(), posts: Vec::new() });
    }

    /// Somebody who went the same way from view to view, and delivered something else on it.
    fn difference(&self, place: usize, number: u64) -> Option<String> {
        let mine = self.processes[place].rounds.last()?;
        let from = mine.view?;
        let posts: BTreeSet<Id> = mine.posts.iter().copied().collect();
        self.others(place).find_map(|(other, peer)| {
            let went = peer
                .rounds
                .windows(2)
                .find(|pair| pair[0].view == Some(from) && pair[1].view == Some(number))?;
            let theirs: BTreeSet<Id> = went[0].posts.iter().copied().collect();
            let odd = posts.symmetric_difference(&theirs).next()?;
            let (with, without) = if posts.contains(odd) { (place, other) } else { (other, place) };
            let (with, without) = (self.members.at(with), self.members.at(without));
            Some(format!("between views {from} and {number}, {with} delivered {odd}, and {without} did not"))
        })
    }

    fn judge_validity(&self, breaches: &mut Vec<Breach>) {
        for (id, sent) in &self.posts {
            let Some(place) = self.members.position(id.source.process) else { continue };
            let sender = &self.processes[place];
            if !sender.is_up || sender.life != id.source.life {
                continue;
            }
            let has = |place: &usize| self.processes[*place].has(*id);
            if sent.due.contains(&place) && !has(&place) {
                let detail = format!("{} sent {id} and did not deliver it", id.source.process);
                return breaches.push(self.breach("VALIDITY", detail));
            }
            if !sent.due.is_empty() && !sent.due.iter().any(has) {
                return breaches.push(self.breach("VALIDITY", format!("nobody delivered {id}")));
            }
        }
    }

    fn judge_agreement(&self, breaches: &mut Vec<Breach>) {
        let up = || self.processes.iter().enumerate().filter(|(_, process)| process.is_up);
        for (id, sent) in &self.posts {
            let Some((with, _)) = up().find(|(_, process)| process.has(*id)) else { continue };
            let without = sent.due.iter().find(|place| !self.processes[**place].has(*id));
            if let Some(without) = without {
                let (with, without) = (self.members.at(with), self.members.at(*without));
                let detail = format!("{with} delivered {id}, and {without} did not");
                return breaches.push(self.breach("AGREEMENT", detail));
            }
        }
    }
}

impl Ledger<AnyMulticast> for Delivery {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn promises(&self, property: &str) -> bool {
        self.is_promised(property)
    }

    fn leaves_out(&self, property: &str) -> bool {
        let Promises { fifo, causal, total, .. } = self.promises;
        match property {
            "FIFO" => !self.judges(fifo),
            "CAUSAL" => !self.judges(causal),
            "TOTAL" => !self.judges(total),
            _ => false,
        }
    }

    fn input(&mut self, place: usize, input: &Input<AnyMulticast>) {
        match input {
            Input::Request(Request::Send(text)) => self.on_send(place, text),
            Input::Request(Request::Join) => self.events.changed = true,
            Input::Request(Request::Leave) => {
                self.processes[place].is_in = false;
                self.processes[place].rounds.push(Round { view: None, group: Vec::new(), posts: Vec::new() });
                self.release(place);
            }
            Input::PeerDown { peer, life } => {
                let Some(at) = self.members.position(*peer) else { return };
                let lives = self.processes[at].is_up && self.processes[at].life == *life;
                self.events.suspected |= lives;
                self.processes[place].suspects.insert(*peer);
            }
            Input::PeerUp { peer, .. } => {
                self.processes[place].suspects.remove(*peer);
            }
            Input::Start | Input::Receive { .. } | Input::Expire(_) => {}
        }
    }

    fn emit(&mut self, place: usize, event: &Event, breaches: &mut Vec<Breach>) {
        match event {
            Event::Joined => self.processes[place].is_in = true,
            Event::Delivered(post) => self.on_delivered(place, post, breaches),
            Event::View { number, group } => self.on_view(place, *number, group, breaches),
        }
    }

    fn crash(&mut self, place: usize) {
        self.events.crashed = true;
        self.events.sender_crashed |= self.processes[place].sent > 0;
        let standing = Standing::new(self.processes[place].life, false);
        self.processes[place] = Standing { is_up: false, ..standing };
        self.release(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.processes[place] = Standing::new(life, false);
    }

    fn disturb(&mut self) {
        self.events.disturbed = true;
    }

    fn unheard(&mut self) {
        self.events.halfway = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.judge_validity(breaches);
        self.judge_agreement(breaches);
    }
}
