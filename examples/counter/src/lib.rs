//! A counter that everyone may raise, as a family of its own.
//!
//! Each process counts what its own users have added and tells the others its count. The total that a process knows is the
//! sum of the largest counts that it has heard of: messages may be lost, doubled or overtake each other, and a later one
//! repairs what an earlier one missed.
//!
//! | property | claim |
//! |---|---|
//! | C1 | no total is larger than what was added |
//! | C2 | when nothing moves any more, everyone alive knows the same total |
//! | END | the run comes to rest |

use std::collections::BTreeMap;
use std::marker::PhantomData;

use conclave_algorithms::application::Caller;
use conclave_algorithms::demand::{Demand, PlannedAsk, Who};
use conclave_algorithms::desk::PlainDesk;
use conclave_algorithms::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use conclave_algorithms::measure::PlainMeter;
use conclave_algorithms::referee::{COMES_TO_REST, Claim, Referee};
use conclave_algorithms::workload::Calls;
use conclave_algorithms::{
    About, Algorithm, Breach, Formula, Ledger, Mutant, PropertyKind, SettingError, Settings, Trigger,
};
use conclave_core::{Boot, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    id: NodeId,
    members: Members,
    /// Whether it adds what it hears instead of keeping the largest: the mutant.
    adds_up: bool,
    /// The largest count of each that it has heard of, its own among them.
    counts: BTreeMap<NodeId, u64>,
}

/// My users have added this much in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Count(pub u64);

impl Message for Count {
    fn kind(&self) -> &'static str {
        "Count"
    }
}

/// Raise the counter by this much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Add(pub u64);

/// What everyone asks in a search: raise it by one.
impl Default for Add {
    fn default() -> Self {
        Self(1)
    }
}

/// The total that a process knows has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Total(pub u64);

impl Protocol for Counter {
    type Config = bool;
    type Message = Count;
    type Request = Add;
    type Event = Total;
    type Timer = ();
    type Durable = u64;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let counts = boot.saved.map(|own| (boot.id, own)).into_iter().collect();
        Self { id: boot.id, members: boot.members.clone(), adds_up: *boot.config, counts }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(Add(amount)) => {
                let own = self.counts.get(&self.id).copied().unwrap_or(0).saturating_add(amount);
                out.save(own);
                self.counts.insert(self.id, own);
                out.send_all(self.members.others(self.id), &Count(own));
                out.emit(Total(self.total()));
            }
            Input::Receive { from, .. } if from == self.id || !self.members.contains(from) => {
                out.reject(from, "only the other members may send");
            }
            Input::Receive { from, message: Count(count) } => {
                let known = self.counts.get(&from).copied().unwrap_or(0);
                let larger = if self.adds_up { known.saturating_add(count) } else { known.max(count) };
                if larger > known {
                    self.counts.insert(from, larger);
                    out.emit(Total(self.total()));
                }
            }
            // Whoever comes back has missed what was said meanwhile.
            Input::PeerUp { peer, .. } => {
                if let Some(own) = self.counts.get(&self.id) {
                    out.send(peer, Count(*own));
                }
            }
            // And tells the others what it had saved: they may have missed it.
            Input::Start => {
                if let Some(own) = self.counts.get(&self.id) {
                    out.send_all(self.members.others(self.id), &Count(*own));
                }
            }
            Input::Expire(()) | Input::PeerDown { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }
}

impl Counter {
    fn total(&self) -> u64 {
        self.counts.values().fold(0, |total, count| total.saturating_add(*count))
    }
}

impl Algorithm for Counter {
    const ABOUT: About = About {
        idea: "everyone counts for itself and tells the others",
        cost: "n − 1 per request",
        faults: "lost, doubled and overtaking messages, once a later one arrives; crashes with what was saved",
        mutants: &[Mutant {
            name: "adds-up",
            breaks: "C1",
            nodes: 2,
            trigger: Trigger::Schedule,
            change: "what is heard is added, although each message tells the whole count",
        }],
        ..About::of("counter", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<bool, SettingError> {
        Ok(settings.mutant() == Some("adds-up"))
    }
}

/// A counter that everyone may raise.
pub const FAMILY: Kind = Kind {
    name: "counter",
    title: "shared counters",
    settings: &[],
    requests: &[Usage::new("add", "N")],
    options: &[],
    always_detects: true,
    provokes_mutants: false,
    chance_ends: true,
    describe,
    counted: ("request", "requests"),
    searches: Searches { cancels: false, order: false, forever: false, first: false, recovers: false },
};

fn describe(demand: &Demand, _members: &Members, _locks: usize) -> Vec<String> {
    vec![format!("{} requests", asks(demand).len())]
}

/// Everyone adds one, unless something else is planned.
fn asks(demand: &Demand) -> Vec<PlannedAsk> {
    if demand.asks.is_empty() {
        return vec![PlannedAsk { at: 0, who: Who::All, words: "add 1".into() }];
    }
    demand.asks.clone()
}

/// The family, seen from a driver.
pub struct Counting;

impl Family for Counting {
    type Protocol = Counter;
    type Judge = Referee<Counter, Tally>;
    type Ledger = Tally;
    type App = Caller<Add>;
    type Users = Calls<Add>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = true;

    fn parse(words: &str, _lock: usize) -> Option<Add> {
        words.strip_prefix("add ")?.parse().ok().map(Add)
    }

    fn show(Add(amount): &Add) -> (String, usize) {
        (format!("add {amount}"), 0)
    }

    fn told(Total(total): &Total) -> EventText {
        EventText::plain(format!("total {total}"))
    }
}

/// The counter, ready for any driver.
pub struct Of(PhantomData<()>);

impl Registered for Of {
    const ABOUT: &'static About = &Counter::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let members = Members::listed(wanted.nodes.to_vec());
        let config = Counter::configure(&wanted.settings::<Counter>(false)?, &members)?;
        wanted.demand.asks = asks(&wanted.demand);
        let requests: usize = wanted.demand.asks.iter().map(|ask| ask.who.places(&members).len()).sum();
        let messages = requests as u64 * (members.len() as u64 - 1);
        let ledger =
            Tally { members: members.clone(), asked: 0, known: vec![Some(0); members.len()], missed: false };
        let plain = Plain {
            about: Self::ABOUT,
            config,
            judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
            ledger,
            formula: Formula::exactly("n − 1 per request", messages),
            members,
        };
        Ok(user.with(Prepared::<Counting>::plain(wanted, plain)?))
    }
}

const CLAIMS: &[Claim] = &[
    Claim { property: "C1", kind: PropertyKind::Safety, claim: "no total is too large" },
    Claim { property: "C2", kind: PropertyKind::Safety, claim: "all know the same total in the end" },
    COMES_TO_REST,
];

/// What was added in all, and what everyone knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tally {
    members: Members,
    asked: u64,
    /// By place; nothing of those who are down.
    known: Vec<Option<u64>>,
    /// A message was lost, and perhaps no later one told what it told.
    missed: bool,
}

impl Ledger<Counter> for Tally {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, _place: usize, input: &Input<Counter>) {
        if let Input::Request(Add(amount)) = input {
            self.asked = self.asked.saturating_add(*amount);
        }
    }

    fn emit(&mut self, place: usize, Total(total): &Total, breaches: &mut Vec<Breach>) {
        if *total > self.asked {
            let detail =
                format!("{} knows of {total}, and {} were added", self.members.at(place), self.asked);
            breaches.push(Breach { property: "C1", detail, promised: true });
        }
    }

    fn handled(&mut self, place: usize, state: &Counter, _breaches: &mut Vec<Breach>) {
        self.known[place] = Some(state.total());
    }

    fn crash(&mut self, place: usize) {
        self.known[place] = None;
    }

    fn restart(&mut self, place: usize, _life: Incarnation) {
        self.known[place] = Some(0);
    }

    fn disturb(&mut self) {
        self.missed = true;
    }

    /// Some have heard of its last count and some have not, and it is not there to repeat it.
    fn unheard(&mut self) {
        self.missed = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        let mut alive = self.known.iter().enumerate().filter_map(|(place, known)| Some((place, (*known)?)));
        let Some((first, total)) = alive.next() else { return };
        if let Some((place, other)) = alive.find(|(_, other)| *other != total) {
            let (one, two) = (self.members.at(first), self.members.at(place));
            let detail = format!("{one} knows of {total}, and {two} of {other}");
            breaches.push(Breach { property: "C2", detail, promised: !self.missed });
        }
    }
}
