//! A small family whose processes say what their clocks show: when they are asked, when they are told to by the next one,
//! and when a timer of ten milliseconds runs out.

use std::marker::PhantomData;
use std::time::Duration;

use conclave_algorithms::application::Caller;
use conclave_algorithms::demand::{Demand, PlannedAsk, Who};
use conclave_algorithms::desk::PlainDesk;
use conclave_algorithms::family::{
    Endless, EventText, Family, Kind, Plain, Prepared, Registered, Searches, Usage, Use, Wanted,
};
use conclave_algorithms::measure::PlainMeter;
use conclave_algorithms::referee::{COMES_TO_REST, Claim, Referee};
use conclave_algorithms::workload::Calls;
use conclave_algorithms::{About, Algorithm, Breach, Formula, Ledger, PropertyKind, SettingError, Settings};
use conclave_core::{
    After, Boot, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Reading,
};
use serde::{Deserialize, Serialize};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Teller {
    next: NodeId,
}

/// Tell me.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tell;

impl Message for Tell {
    fn kind(&self) -> &'static str {
        "Tell"
    }
}

/// What does your clock show?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Now;

impl Protocol for Teller {
    type Config = ();
    type Message = Tell;
    type Request = Now;
    type Event = Reading;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let place = boot.members.position(boot.id).expect("a process is one of the members");
        Self { next: boot.members.at((place + 1) % boot.members.len()) }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(Now) => {
                out.send(self.next, Tell);
                out.arm((), After::exactly(Duration::from_millis(10)));
            }
            Input::Receive { .. } | Input::Expire(()) => {}
            Input::Start | Input::PeerDown { .. } | Input::PeerUp { .. } => return,
        }
        let now = out.now();
        out.emit(now);
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }
}

impl Algorithm for Teller {
    const ABOUT: About = About { idea: "says what its clock shows", ..About::of("teller", FAMILY) };

    fn configure(_settings: &Settings, _members: &Members) -> Result<(), SettingError> {
        Ok(())
    }
}

const FAMILY: Kind = Kind {
    name: "teller",
    title: "speaking clocks",
    settings: &[],
    requests: &[Usage::new("now", "")],
    options: &[],
    always_detects: false,
    provokes_mutants: false,
    chance_ends: true,
    describe: |_: &Demand, _: &Members, _| Vec::new(),
    counted: ("request", "requests"),
    searches: Searches { cancels: false, order: false, forever: false, first: false, recovers: false },
};

/// The family, seen from a driver.
pub struct Telling;

impl Family for Telling {
    type Protocol = Teller;
    type Judge = Referee<Teller, Behind>;
    type Ledger = Behind;
    type App = Caller<Now>;
    type Users = Calls<Now>;
    type Meter = PlainMeter<Self>;
    type Desk = PlainDesk<Self>;

    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = false;

    fn parse(words: &str, _lock: usize) -> Option<Now> {
        (words == "now").then_some(Now)
    }

    fn show(_: &Now) -> (String, usize) {
        ("now".into(), 0)
    }

    fn told(Reading(nanos): &Reading) -> EventText {
        EventText::plain(format!("{}us", nanos / 1_000))
    }
}

/// Ready for any driver.
pub struct Of(PhantomData<()>);

impl Registered for Of {
    const ABOUT: &'static About = &Teller::ABOUT;

    fn prepare<U: Use>(wanted: &mut Wanted<'_>, user: U) -> Result<U::Output, SettingError> {
        let members = Members::listed(wanted.nodes.to_vec());
        if wanted.demand.asks.is_empty() {
            wanted.demand.asks = vec![PlannedAsk { at: 0, who: Who::Lowest, words: "now".into() }];
        }
        let ledger = Behind(members.clone());
        let plain = Plain {
            about: Self::ABOUT,
            config: (),
            judge: Referee::new(ledger.clone(), CLAIMS, members.len()),
            ledger,
            formula: Formula::exactly("one per request", wanted.demand.asks.len() as u64),
            members,
        };
        Ok(user.with(Prepared::<Telling>::plain(wanted, plain)?))
    }
}

const CLAIMS: &[Claim] = &[
    Claim { property: "T1", kind: PropertyKind::Safety, claim: "no clock shows less than zero" },
    COMES_TO_REST,
];

/// Remembers nothing, and objects to clocks that are behind the beginning of time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Behind(Members);

impl Ledger<Teller> for Behind {
    fn process(&self, place: usize) -> NodeId {
        self.0.at(place)
    }

    fn input(&mut self, _place: usize, _input: &Input<Teller>) {}

    fn emit(&mut self, place: usize, Reading(nanos): &Reading, breaches: &mut Vec<Breach>) {
        if *nanos < 0 {
            let detail = format!("{} says {nanos}", self.0.at(place));
            breaches.push(Breach { property: "T1", detail, promised: true });
        }
    }

    fn crash(&mut self, _place: usize) {}
    fn restart(&mut self, _place: usize, _life: Incarnation) {}
    fn disturb(&mut self) {}
    fn quiet(&self, _breaches: &mut Vec<Breach>) {}
}
