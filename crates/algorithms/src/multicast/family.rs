//! Multicast as a family: its words, its algorithms, and how they are prepared.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::Members;

use super::ledger::{Delivery, Promises, Survives};
use super::meter::MulticastMeter;
use super::{AnyConfig, AnyMulticast, Event, Request, quoted, unquoted};
use crate::application::Caller;
use crate::demand::{Demand, PlannedAsk, Who};
use crate::desk::PlainDesk;
use crate::family::{
    Endless, EventText, Family, Kind, Prepared, Registered, Searches, Usage, Use, Wanted, parse_words,
};
use crate::referee::Referee;
use crate::workload::Calls;
use crate::{About, Formula, Setting, SettingError, Settings, Values};

/// One operation that reaches a group of processes.
pub const FAMILY: Kind = Kind {
    name: "multicast",
    title: "multicast to a group",
    settings: &[],
    requests: &[Usage::new("join", ""), Usage::new("leave", ""), Usage::new("send", "TEXT")],
    options: &[],
    always_detects: true,
    provokes_mutants: true,
    chance_ends: true,
    describe,
    counted: ("post", "posts"),
    searches: Searches { cancels: false, order: false, forever: false, first: false, recovers: false },
};

fn describe(demand: &Demand, members: &Members, _locks: usize) -> Vec<String> {
    let words: Vec<String> = asks(demand).iter().map(|ask| ask.in_words(members)).collect();
    vec![format!("asked by {}", words.join(", "))]
}

/// Everyone sends once, unless something else is planned.
fn asks(demand: &Demand) -> Vec<PlannedAsk> {
    match demand.asks.is_empty() {
        true => vec![PlannedAsk { at: 0, who: Who::All, words: "send m".into() }],
        false => demand.asks.clone(),
    }
}

/// A multicast algorithm of the registry.
pub trait Multicast {
    /// What it says of itself.
    const ABOUT: About;

    /// Turns settings into the configuration of the protocol.
    ///
    /// # Errors
    /// If a setting cannot be had with these members.
    fn configure(settings: &Settings, members: &Members) -> Result<AnyConfig, SettingError>;

    /// What it promises.
    fn promises(settings: &Settings) -> Promises;

    /// The messages of one post in a group of n.
    fn formula(settings: &Settings, n: u64) -> Formula;
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $algorithm:ident),+ $(,)?) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug)] pub enum $algorithm {})+

        /// Something that is done with any multicast.
        pub trait Visitor {
            /// What comes of it.
            type Output;

            /// Called with the algorithm.
            fn visit<A: Multicast>(self) -> Self::Output;
        }

        /// Every algorithm of the family.
        #[must_use]
        pub fn all() -> Vec<&'static About> {
            vec![$(const { &<$algorithm as Multicast>::ABOUT },)+]
        }

        /// Calls the visitor with the algorithm of this name, if the family has it.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == $algorithm::ABOUT.name {
                return Some(visitor.visit::<$algorithm>());
            })+
            None
        }

        /// Calls a visitor that takes algorithms of any family.
        pub(crate) fn visit_any<V: crate::registry::Visitor>(name: &str, visitor: V) -> Result<V::Output, V> {
            $(if name == $algorithm::ABOUT.name {
                return Ok(visitor.visit::<Of<$algorithm>>());
            })+
            Err(visitor)
        }
    };
}

algorithms! {
    /// See [`basic`](super::basic).
    Basic,
    /// See [`reliable`](super::reliable).
    Reliable,
    /// See [`fifo`](super::fifo).
    Fifo,
    /// See [`causal`](super::causal).
    Causal,
    /// See [`sequencer`](super::sequencer).
    Sequencer,
    /// See [`isis`](super::isis).
    Isis,
    /// See [`lamport_stamps`](super::lamport_stamps).
    LamportStamps,
    /// See [`views`](super::views).
    Views,
}

/// Who is a member at first.
pub(super) const EVERYONE: Setting = Setting {
    key: "group",
    values: Values::OneOf(&["everyone", "nobody"]),
    default: "everyone",
    unsafe_values: &[],
    help: "who is a member at first; others join",
};

/// Whether everyone is a member at first.
pub(super) fn everyone(settings: &Settings) -> bool {
    settings.get(EVERYONE.key) == "everyone"
}

/// What an order is put on top of.
pub(super) const OVER: Setting = Setting {
    key: "over",
    values: Values::OneOf(&["reliable", "basic"]),
    default: "reliable",
    unsafe_values: &[],
    help: "the layer below: members pass on what they receive, or do not",
};

/// A layer that carries posts without an order.
pub(super) struct Layer {
    pub relays: bool,
    pub survives: Survives,
}

/// The layer that the settings ask for.
pub(super) fn layer_below(settings: &Settings) -> Layer {
    match settings.get(OVER.key) == "reliable" {
        true => Layer { relays: true, survives: Survives::Crashes },
        false => Layer { relays: false, survives: Survives::WholeSteps },
    }
}

impl Layer {
    pub fn formula(&self, n: u64) -> Formula {
        match self.relays {
            true => Formula::exactly("n(n − 1)", n * (n - 1)),
            false => Formula::exactly("n − 1", n - 1),
        }
    }
}

/// Multicast, seen from a driver.
pub struct Multicasting;

impl Family for Multicasting {
    type Protocol = AnyMulticast;
    type Judge = Referee<AnyMulticast, Delivery>;
    type Ledger = Delivery;
    type App = Caller<Request>;
    type Users = Calls<Request>;
    type Meter = MulticastMeter;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, _lock: usize) -> Option<Request> {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("join", "") => Some(Request::Join),
            ("leave", "") => Some(Request::Leave),
            ("send", text) => unquoted(text.trim()).map(Request::Send),
            _ => None,
        }
    }

    fn show(request: &Request) -> (String, usize) {
        let words = match request {
            Request::Join => "join".into(),
            Request::Leave => "leave".into(),
            Request::Send(text) => format!("send {}", quoted(text)),
        };
        (words, 0)
    }

    fn told(event: &Event) -> EventText {
        EventText::plain(match event {
            Event::Joined => "joined".into(),
            Event::Delivered(post) => format!("delivered {} {}", post.id, quoted(&post.text)),
            Event::View { number, group } => {
                let group: Vec<String> = group.iter().map(|id| format!("{id}")).collect();
                format!("view {number} {}", group.join(","))
            }
        })
    }
}

/// A multicast, ready for any driver.
pub struct Of<A>(core::marker::PhantomData<A>);

impl<A: Multicast> Registered for Of<A> {
    const ABOUT: &'static About = &A::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let given = wanted.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings = Settings::new(const { &A::ABOUT }, wanted.arena, given, wanted.mutant)?;
        let members = Members::listed(wanted.nodes.to_vec());
        let how = How {
            about: const { &A::ABOUT },
            config: A::configure(&settings, &members)?,
            promises: A::promises(&settings),
            formula: everyone(&settings).then(|| A::formula(&settings, members.len() as u64)),
            members,
        };
        Ok(user.with(prepare(wanted, how)?))
    }
}

/// What is special to one of the algorithms.
struct How {
    about: &'static About,
    members: Members,
    config: AnyConfig,
    promises: Promises,
    /// The messages of one post; nothing if the group is not everyone.
    formula: Option<Formula>,
}

fn prepare(wanted: &mut Wanted<'_>, how: How) -> Result<Prepared<Multicasting>, SettingError> {
    let How { about, members, config, promises, formula } = how;
    let unfit = |why: String| Err(SettingError::Unfit(why));
    if wanted.locks != 1 {
        return unfit(format!("{} has no locks", about.name));
    }
    if !wanted.newcomers.is_empty() {
        return unfit(format!(
            "{}: processes are there from the beginning, and ask to join the group",
            about.name
        ));
    }
    wanted.demand.asks = asks(&wanted.demand);
    let calls = calls(&wanted.demand, &members)?;
    let posts = calls.iter().filter(|(_, _, request)| matches!(request, Request::Send(_))).count() as u64;
    let ledger = Delivery::new(&members, promises, formula.is_some());
    let full = Referee::new(ledger.clone().judging_all(), promises.claims(), members.len());
    Ok(Prepared {
        about,
        newcomers: Vec::new(),
        settings: wanted.settings.clone(),
        locks: 1,
        fifo: wanted.channels.unwrap_or(about.channels) == crate::Channels::Fifo,
        restless: false,
        normalises: false,
        can_normalise: false,
        changes_group: false,
        overtaking: None,
        expected_messages: formula.map_or(0, |formula| formula.low * posts),
        users: Calls::new(calls),
        meter: MulticastMeter::new(formula),
        desk: PlainDesk::default(),
        members,
        config,
        judge: full,
        ledger,
    })
}

/// The requests that are planned, by time and place.
fn calls(demand: &Demand, members: &Members) -> Result<Vec<(u64, usize, Request)>, SettingError> {
    let mut calls = Vec::new();
    for ask in &demand.asks {
        let request = parse_words::<Multicasting>(&ask.words, &FAMILY)?;
        calls.extend(ask.who.places(members).into_iter().map(|place| (ask.at, place, request.clone())));
    }
    Ok(calls)
}
