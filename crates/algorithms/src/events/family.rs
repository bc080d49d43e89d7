//! Plain events as a family: words, laws, and how it is prepared.
//!
//! | property | claim |
//! |---|---|
//! | LC | an event that happened before another has the smaller Lamport stamp |
//! | VC | the vector of an event counts exactly the events that happened before it, and itself |
//! | END | the run comes to rest |
//!
//! VC is the law of vector clocks: one event happened before another exactly if its vector is smaller. Neither law is promised
//! once a process has crashed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{Incarnation, Input, Members, NodeId, Protocol};

use super::{Events, Request, Stamped, What};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::desk::PlainDesk;
use crate::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use crate::judge::{Breach, Ledger, PropertyKind};
use crate::measure::PlainMeter;
use crate::referee::{COMES_TO_REST, Claim, Referee};
use crate::workload::Calls;
use crate::{About, Algorithm, Formula, SettingError};

/// Plain events.
pub const FAMILY: Kind = Kind {
    name: "order",
    title: "the order of events",
    settings: &[],
    requests: &[Usage::new("local", ""), Usage::new("send", "[TO]")],
    options: &[],
    always_detects: false,
    provokes_mutants: true,
    chance_ends: true,
    describe,
    counted: ("event", "events"),
    searches: Searches { cancels: false, order: false, forever: false, first: false, recovers: false },
};

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let asks = asks(demand);
    let events: usize = asks.iter().map(|ask| ask.who.places(members).len()).sum();
    vec![format!("{events} events are asked for")]
}

/// What is asked for. If nothing is said, everyone sends to the next one and does something alone, three times; one is ahead of
/// the others from the beginning.
fn asks(demand: &Demand) -> Vec<PlannedAsk> {
    if !demand.asks.is_empty() {
        return demand.asks.clone();
    }
    let all = |at, words: &str| PlannedAsk { at, who: Who::All, words: words.into() };
    let rounds = (0..3).map(|round| round * demand.longest_delay);
    let rounds = rounds.flat_map(|at| [all(at, "send"), all(at + demand.longest_delay / 2, "local")]);
    let alone = PlannedAsk { at: 0, who: Who::Lowest, words: "local".into() };
    core::iter::repeat_n(alone, 3).chain(rounds).collect()
}

/// Whose order of events is looked at.
pub trait Happening: Algorithm + Protocol<Request = Request, Event = Stamped> {}

impl Happening for Events {}

crate::registry::family! {
    /// Plain events, given to whoever learnt their name at run time.
    Happening {
        Events,
    }
}

/// Plain events, seen from a driver.
pub struct Stamping<A>(PhantomData<A>);

impl<A: Happening> Family for Stamping<A> {
    type Protocol = A;
    type Judge = Referee<A, Causes>;
    type Ledger = Causes;
    type App = Caller<Request>;
    type Users = Calls<Request>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        match words {
            "local" => Some(Request::Local),
            "send" => Some(Request::Send(None)),
            _ => words.strip_prefix("send ")?.parse().ok().map(|to| Request::Send(Some(to))),
        }
    }

    fn show(request: &Request) -> (String, usize) {
        let words = match request {
            Request::Local => "local".to_string(),
            Request::Send(None) => "send".to_string(),
            Request::Send(Some(to)) => format!("send {}", to.0),
        };
        (words, 0)
    }

    fn told(Stamped { what, lamport, vector }: &Stamped) -> EventText {
        let entries: Vec<String> = vector.iter().map(ToString::to_string).collect();
        let what = match what {
            What::Local => "local".to_string(),
            What::Sent(to, _) => format!("sent to {to}"),
            What::Received(from, _) => format!("received from {from}"),
        };
        EventText::plain(format!("{what} {lamport} ({})", entries.join(",")))
    }
}

/// Plain events, ready to be registered.
pub struct Of<A>(PhantomData<A>);

impl<A: Happening> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let about = const { &A::ABOUT };
        let members = Members::listed(wanted.nodes.to_vec());
        let config = A::configure(&wanted.settings::<A>(false)?, &members)?;
        wanted.demand.asks = asks(&wanted.demand);
        let sends = wanted.demand.asks.iter().filter(|ask| ask.words.starts_with("send"));
        let messages: usize = sends.map(|ask| ask.who.places(&members).len()).sum();
        let messages = if members.len() > 1 { messages as u64 } else { 0 };
        let ledger = Causes::new(&members);
        let plain = Plain {
            about,
            config,
            judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
            ledger,
            formula: Formula::exactly("1 per send", messages),
            members,
        };
        Ok(user.with(Prepared::<Stamping<A>>::plain(wanted, plain)?))
    }
}

/// What must hold.
const CLAIMS: &[Claim] = &[
    Claim { property: "LC", kind: PropertyKind::Safety, claim: "Lamport stamps follow causes" },
    Claim { property: "VC", kind: PropertyKind::Safety, claim: "vectors count causes" },
    COMES_TO_REST,
];

/// What really happened before what, worked out from what the driver saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Causes {
    members: Members,
    /// The last event of each process, by place.
    last: Vec<Past>,
    /// The events of the messages that were sent, by sender and number.
    sent: BTreeMap<(NodeId, u64), Past>,
    has_crashed: bool,
}

/// An event as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Past {
    /// Its Lamport stamp, as it was told.
    lamport: u64,
    /// How many events of each process happened before it, itself among them.
    causes: Vec<u64>,
}

impl Causes {
    /// Nothing has happened.
    #[must_use]
    pub fn new(members: &Members) -> Self {
        let none = Past { lamport: 0, causes: vec![0; members.len()] };
        let last = vec![none; members.len()];
        Self { members: members.clone(), last, sent: BTreeMap::new(), has_crashed: false }
    }

    /// The events right before one of the process at this place: its last one, and the send that it received.
    fn before(&self, place: usize, what: What) -> Vec<Past> {
        let send = match what {
            What::Received(from, number) => self.sent.get(&(from, number)),
            What::Local | What::Sent(..) => None,
        };
        core::iter::once(&self.last[place]).chain(send).cloned().collect()
    }
}

impl<A: Happening> Ledger<A> for Causes {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn input(&mut self, _place: usize, _input: &Input<A>) {}

    fn emit(&mut self, place: usize, event: &Stamped, breaches: &mut Vec<Breach>) {
        let who = self.members.at(place);
        let mut breach = |property, detail| {
            breaches.push(Breach { property, detail, promised: !self.has_crashed });
        };
        let before = self.before(place, event.what);
        if let Some(later) = before.iter().find(|past| past.lamport >= event.lamport) {
            let detail = format!(
                "an event of {who} is stamped {}, and {} happened before it",
                event.lamport, later.lamport
            );
            breach("LC", detail);
        }
        let count = |at: usize| before.iter().map(|past| past.causes[at]).max().unwrap_or(0);
        let causes: Vec<u64> = (0..self.members.len()).map(|at| count(at) + u64::from(at == place)).collect();
        if causes != event.vector {
            let detail =
                format!("an event of {who} has the vector {:?}, and {causes:?} happened", event.vector);
            breach("VC", detail);
        }
        let past = Past { lamport: event.lamport, causes };
        if let What::Sent(_, number) = event.what {
            self.sent.insert((who, number), past.clone());
        }
        self.last[place] = past;
    }

    fn crash(&mut self, _place: usize) {
        self.has_crashed = true;
    }

    fn restart(&mut self, _place: usize, _life: Incarnation) {}

    fn disturb(&mut self) {}

    fn quiet(&self, _breaches: &mut Vec<Breach>) {}
}
