//! A protocol that needs a leader, and the election that gives it one.
//!
//! Many services have one process that decides for all: who enters next, who works on what. [`Led`] holds an election and
//! such an application side by side in one process and lets them talk. Neither knows the other: any [`Election`](election::Election) will do,
//! and the application sees no more of it than its outcome.
//!
//! ```text
//!                          ┌───────────────── Led ─────────────────┐
//!   Election(message) ────▶│ election     ── Asked::Elected ──┐    │──▶ Send Election(message)
//!   PeerDown, PeerUp ─────▶│    ▲                             ▼    │
//!                     ────▶│    └── Told::Elect ──── application   │──▶ Emit V
//!   Request R, Application(message) ─────────────────▶             │──▶ Send Application(message)
//!                          └───────────────────────────────────────┘
//! ```
//!
//! An application is a [`Protocol`] whose requests are [`Asked<R>`] and whose events are [`Told<V>`]:
//!
//! - `Asked::Elected` arrives whenever the election has come to a result here. Whoever finds itself at the head of the
//!   leaders begins its reign: it asks the others for what they know, since whoever led before may be dead. Everyone
//!   else serves.
//! - `Told::Elect` calls an election, `Told::Retire` takes the process out of all that follow.
//! - `Asked::App` and `Told::App` are what the application has to do with the outside, which sees plain `R` and `V`.
//!
//! A leader that is suspected is the business of the election, which hears of every suspicion, too, and replaces it.
//!
//! **Order.** The start of a life, and what the failure detector says, go to the election first and then to the application;
//! only then does the application learn of a result that this has brought about, so that it knows who is down when it
//! begins to lead. Messages leave in the order in which either of the two sends them; nothing is stored but the rare word
//! between them.
//!
//! **Caveats**: results reach different processes at different times, and some processes may miss one. Until all agree
//! there can be two who were told that they lead, and a message of a leader can arrive where nobody has heard of its
//! election yet. An application therefore numbers its reigns, and goes by the largest number that it has seen. Terms
//! serve for that where the election counts them; where it does not, every term is 0, and the same leader may be told of
//! once although it has won twice. An application that answers every result with another election never comes to rest.
//!
//! **Counters** of both are visited. But a term that the application remembers has left the space in which the election
//! counts: moving the one without the other changes how they compare.
//!
//! Here a group of one elects itself, and goes to work:
//!
//! ```
//! use core::time::Duration;
//!
//! use conclave_algorithms::election::Bully;
//! use conclave_algorithms::workers::{Request, Task, Workers, WorkersConfig, WorkersTimer};
//! use conclave_algorithms::{Algorithm, Arena, Led, LedConfig, LedTimer, Settings};
//! use conclave_core::{After, Boot, Effect, Incarnation, Input, Members, NodeId, Protocol, Timing};
//!
//! let members = Members::numbered(1);
//! let settings = Settings::new(&Bully::ABOUT, Arena::Live, [], None)?;
//! let second = After::exactly(Duration::from_secs(1));
//! let config = LedConfig {
//!     election: Bully::configure(&settings, &members)?,
//!     application: WorkersConfig::new(Task::split(1..=100, 10), second),
//! };
//! let mut process = Led::<Bully, Workers>::boot(Boot {
//!     id: NodeId(1),
//!     members: &members,
//!     config: &config,
//!     timing: Timing::default(),
//!     life: Incarnation::FIRST,
//!     saved: None,
//! });
//!
//! let mut out = Vec::new();
//! process.handle(Input::Start, &mut out);
//! process.handle(Input::Request(Request::Begin), &mut out);
//! assert_eq!(out, [Effect::Arm { timer: LedTimer::Application(WorkersTimer::Work), after: second }]);
//! # Ok::<(), conclave_algorithms::SettingError>(())
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use conclave_core::{
    Boot, Counter, Effect, Effects, Group, Incarnation, Input, Lease, Members, Message, NodeId, Phase,
    Protocol, Through, Timing, erased,
};
use serde::{Deserialize, Serialize};

use crate::election;

/// An election `E` and the application `A` that is led by its winner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Led<E: Protocol, A: Protocol> {
    election: E,
    application: A,
    /// What each has saved last; saved whole whenever one of them saves.
    saved: LedDurable<E::Durable, A::Durable>,
    seat: Seat<E::Config>,
}

/// What an election needs to begin again when somebody joins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat<C> {
    id: NodeId,
    config: C,
    timing: Timing,
    life: Incarnation,
    /// Whom the election knows; ourselves always.
    electorate: Members,
    /// Who is suspected.
    down: BTreeMap<NodeId, Incarnation>,
}

/// What the application inside a [`Led`] is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Asked<R> {
    /// The election has come to a result.
    Elected {
        /// The leaders, the highest priority first; one, unless the election is for several.
        leaders: Vec<NodeId>,
        /// The number of the election, where it is numbered; else 0.
        term: u64,
    },
    /// The outside asks for this.
    App(R),
}

/// What the application inside a [`Led`] says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Told<V> {
    /// Hold an election. Nothing happens if one is under way here.
    Elect,
    /// This process shall not be elected again in this life.
    Retire,
    /// These belong to the group now. If somebody is among them whom the election does not know, it begins again among
    /// all whom it knows and these.
    Members(Vec<NodeId>),
    /// The outside is told this.
    App(V),
}

/// Settings of [`Led`]: those of both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedConfig<E, A> {
    /// Those of the election.
    pub election: E,
    /// Those of the application.
    pub application: A,
}

/// A message of one of the two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LedMessage<E, A> {
    /// From election to election.
    Election(E),
    /// From application to application.
    Application(A),
}

/// A timer of one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedTimer<E, A> {
    /// Of the election.
    Election(E),
    /// Of the application.
    Application(A),
}

/// What both have saved; nothing for one that has not saved yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedDurable<E, A> {
    /// By the election.
    pub election: Option<E>,
    /// By the application.
    pub application: Option<A>,
}

impl<E: Message, A: Message> Message for LedMessage<E, A> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Election(message) => message.kind(),
            Self::Application(message) => message.kind(),
        }
    }

    fn is_overhead(&self) -> bool {
        match self {
            Self::Election(message) => message.is_overhead(),
            Self::Application(message) => message.is_overhead(),
        }
    }

    fn envelopes(&self) -> u32 {
        1 + match self {
            Self::Election(message) => message.envelopes(),
            Self::Application(message) => message.envelopes(),
        }
    }

    fn postmark(&self) -> String {
        match self {
            Self::Election(message) => message.postmark(),
            Self::Application(message) => message.postmark(),
        }
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Self::Election(message) => message.visit_counters(from, members, visit),
            Self::Application(message) => message.visit_counters(from, members, visit),
        }
    }
}

/// A word from one of the two to the other. It waits until whoever is speaking has finished.
enum Word {
    News(election::Event),
    Wish(election::Request),
    Members(Vec<NodeId>),
}

type Words = VecDeque<Word>;

impl<E, A, R, V> Protocol for Led<E, A>
where
    E: Protocol<Request = election::Request, Event = election::Event>,
    A: Protocol<Request = Asked<R>, Event = Told<V>>,
    R: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    V: Clone + Eq + Hash + Debug + Send + Sync + 'static,
{
    type Config = LedConfig<E::Config, A::Config>;
    type Message = LedMessage<E::Message, A::Message>;
    type Request = R;
    type Event = V;
    type Timer = LedTimer<E::Timer, A::Timer>;
    type Durable = LedDurable<E::Durable, A::Durable>;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, saved } = boot;
        let saved = saved.unwrap_or(LedDurable { election: None, application: None });
        let electorate = with_all(members, [id]);
        let seat =
            Seat { id, config: config.election.clone(), timing, life, electorate, down: BTreeMap::new() };
        Self {
            election: seat.boot(saved.election.clone()),
            application: A::boot(Boot {
                id,
                members,
                config: &config.application,
                timing,
                life,
                saved: saved.application.clone(),
            }),
            saved,
            seat,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        let words = &mut Words::new();
        match input {
            Input::Start => {
                self.elect(Input::Start, words, out);
                self.apply(Input::Start, words, out);
            }
            // Of an election among members of whom we have not heard yet we know nothing.
            Input::Receive { from, message: LedMessage::Election(message) } => {
                if self.seat.electorate.contains(from) {
                    self.elect(Input::Receive { from, message }, words, out);
                }
            }
            Input::Receive { from, message: LedMessage::Application(message) } => {
                self.apply(Input::Receive { from, message }, words, out);
            }
            Input::Expire(LedTimer::Election(timer)) => self.elect(Input::Expire(timer), words, out),
            Input::Expire(LedTimer::Application(timer)) => self.apply(Input::Expire(timer), words, out),
            Input::Request(request) => self.apply(Input::Request(Asked::App(request)), words, out),
            Input::PeerDown { peer, life } => {
                self.seat.down.insert(peer, life);
                self.elect(Input::PeerDown { peer, life }, words, out);
                self.apply(Input::PeerDown { peer, life }, words, out);
            }
            Input::PeerUp { peer, life } => {
                self.seat.down.remove(&peer);
                self.elect(Input::PeerUp { peer, life }, words, out);
                self.apply(Input::PeerUp { peer, life }, words, out);
            }
        }
        self.converse(words, out);
    }

    /// That of the application.
    fn phase(&self) -> Phase {
        self.application.phase()
    }

    fn reads_clock(&self) -> bool {
        self.election.reads_clock() || self.application.reads_clock()
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool {
        self.application.visit_leases(visit)
    }

    fn group(&self) -> Option<Group> {
        self.application.group()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.election.visit_counters(visit);
        self.application.visit_counters(visit);
    }

    fn assert_invariants(&self) {
        assert!(self.seat.electorate.contains(self.seat.id), "who elects may be elected");
        self.election.assert_invariants();
        self.application.assert_invariants();
    }
}

impl<C> Seat<C> {
    fn boot<E: Protocol<Config = C>>(&self, saved: Option<E::Durable>) -> E {
        E::boot(Boot {
            id: self.id,
            members: &self.electorate,
            config: &self.config,
            timing: self.timing,
            life: self.life,
            saved,
        })
    }
}

/// The same members, and after them those of these who are not yet among them.
fn with_all(members: &Members, more: impl IntoIterator<Item = NodeId>) -> Members {
    let mut all: Vec<_> = members.iter().collect();
    for member in more {
        if !all.contains(&member) {
            all.push(member);
        }
    }
    if all.len() == members.len() { members.clone() } else { Members::listed(all) }
}

impl<E: Protocol, A: Protocol> Led<E, A> {
    /// The election.
    #[must_use]
    pub fn election(&self) -> &E {
        &self.election
    }

    /// The application.
    #[must_use]
    pub fn application(&self) -> &A {
        &self.application
    }
}

impl<E, A, R, V> Led<E, A>
where
    E: Protocol<Request = election::Request, Event = election::Event>,
    A: Protocol<Request = Asked<R>, Event = Told<V>>,
    R: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    V: Clone + Eq + Hash + Debug + Send + Sync + 'static,
{
    /// Hands each what the other has said, in the order in which it was said, until both are silent.
    fn converse(&mut self, words: &mut Words, out: &mut impl Effects<Self>) {
        while let Some(word) = words.pop_front() {
            match word {
                Word::News(election::Event::Elected { leaders, term }) => {
                    self.apply(Input::Request(Asked::Elected { leaders, term }), words, out);
                }
                Word::Wish(request) => self.elect(Input::Request(request), words, out),
                Word::Members(members) => self.widen(members, words, out),
            }
        }
    }

    /// Lets the election begin again if somebody belongs to the group whom it does not know.
    fn widen(&mut self, members: Vec<NodeId>, words: &mut Words, out: &mut impl Effects<Self>) {
        let known = |member: &NodeId| self.seat.electorate.contains(*member);
        if members.iter().all(known) {
            return;
        }
        self.seat.electorate = with_all(&self.seat.electorate, members);
        self.election = self.seat.boot(self.saved.election.clone());
        for (peer, life) in self.seat.down.clone() {
            self.elect(Input::PeerDown { peer, life }, words, out);
        }
    }

    /// Hands the election an input.
    fn elect(&mut self, input: Input<E>, words: &mut Words, out: &mut impl Effects<Self>) {
        let (saved, now) = (&mut self.saved, out.now());
        let lift = |effect: Effect<E>| match effect {
            Effect::Save(durable) => {
                saved.election = Some(durable);
                out.save(saved.clone());
            }
            Effect::Send { to, message } => out.send(to, LedMessage::Election(message)),
            Effect::Arm { timer, after } => out.arm(LedTimer::Election(timer), after),
            Effect::Disarm(timer) => out.disarm(LedTimer::Election(timer)),
            Effect::Emit(event) => words.push_back(Word::News(event)),
            Effect::Reject { from, why } => out.reject(from, why),
        };
        self.election.handle(input, &mut erased(&mut Through::new(now, lift)));
    }

    /// Hands the application an input.
    fn apply(&mut self, input: Input<A>, words: &mut Words, out: &mut impl Effects<Self>) {
        let (saved, now) = (&mut self.saved, out.now());
        let lift = |effect: Effect<A>| match effect {
            Effect::Save(durable) => {
                saved.application = Some(durable);
                out.save(saved.clone());
            }
            Effect::Send { to, message } => out.send(to, LedMessage::Application(message)),
            Effect::Arm { timer, after } => out.arm(LedTimer::Application(timer), after),
            Effect::Disarm(timer) => out.disarm(LedTimer::Application(timer)),
            Effect::Emit(Told::Elect) => words.push_back(Word::Wish(election::Request::Start)),
            Effect::Emit(Told::Retire) => words.push_back(Word::Wish(election::Request::Retire)),
            Effect::Emit(Told::Members(members)) => words.push_back(Word::Members(members)),
            Effect::Emit(Told::App(event)) => out.emit(event),
            Effect::Reject { from, why } => out.reject(from, why),
        };
        self.application.handle(input, &mut erased(&mut Through::new(now, lift)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    use crate::election::{Bully, ChangRoberts, Election};
    use crate::testing::World;
    use crate::{Arena, Settings};

    /// An application that writes down what it is given, saves it, and speaks when it is spoken to.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Diary {
        id: NodeId,
        pages: Vec<String>,
        term: u64,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    struct Note;

    impl Message for Note {
        fn kind(&self) -> &'static str {
            "Note"
        }
    }

    impl Protocol for Diary {
        type Config = ();
        type Message = Note;
        type Request = Asked<Told<u32>>;
        type Event = Told<u32>;
        type Timer = u32;
        type Durable = Vec<String>;

        fn boot(boot: Boot<'_, Self>) -> Self {
            Self { id: boot.id, pages: boot.saved.unwrap_or_default(), term: 0 }
        }

        fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
            self.pages.push(match input {
                Input::Start => "start".to_string(),
                Input::Receive { from, .. } => format!("note from {from}"),
                Input::Expire(timer) => format!("timer {timer}"),
                Input::Request(Asked::Elected { leaders, term }) => {
                    if leaders.first().is_some_and(|leader| *leader != self.id) {
                        out.send(leaders[0], Note);
                    }
                    self.term = term;
                    format!("{leaders:?} lead")
                }
                Input::Request(Asked::App(word)) => {
                    out.emit(word.clone());
                    out.save(self.pages.clone());
                    format!("{word:?}")
                }
                Input::PeerDown { peer, .. } => format!("{peer} down"),
                Input::PeerUp { peer, .. } => format!("{peer} up"),
            });
        }

        fn phase(&self) -> Phase {
            Phase::WAITING
        }
    }

    fn config<E: Election>(given: &[(&str, &str)], n: u32) -> LedConfig<E::Config, ()> {
        let settings = Settings::new(&E::ABOUT, Arena::Laboratory, given.iter().copied(), None);
        let election =
            E::configure(&settings.expect("declared settings"), &Members::numbered(n)).expect("they fit");
        LedConfig { election, application: () }
    }

    fn pages<E: Election>(world: &World<Led<E, Diary>>, id: u32) -> &[String] {
        &world.process(id).application().pages
    }

    #[test]
    fn the_application_calls_an_election_and_learns_the_result() {
        let mut world = World::<Led<ChangRoberts, Diary>>::numbered(3, &config::<ChangRoberts>(&[], 3));
        world.request(3, Told::Elect);
        world.drain();
        assert_eq!(pages(&world, 1), ["start", "[p3] lead"]);
        assert_eq!(pages(&world, 3), ["start", "Elect", "[p3] lead", "note from p1", "note from p2"]);
        let kinds = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
        assert_eq!((kinds("Election"), kinds("Elected"), kinds("Note")), (3, 3, 2));
        assert_eq!(world.process(3).election().leaders(), [NodeId(3)]);
        assert!(world.events.is_empty(), "what the two say to each other stays inside");
    }

    #[test]
    fn retirement_goes_to_the_election_and_events_to_the_outside() {
        let mut world = World::<Led<ChangRoberts, Diary>>::numbered(3, &config::<ChangRoberts>(&[], 3));
        world.request(3, Told::Retire);
        world.request(1, Told::Elect);
        world.drain();
        world.request(2, Told::App(7));
        assert_eq!(world.process(3).election().leaders(), [NodeId(2)]);
        assert_eq!(world.events, [(NodeId(2), 7)]);
    }

    /// The last one left wins while it hears of the suspicion; one that comes back alone, while it starts.
    #[test]
    fn the_application_hears_the_cause_before_the_result() {
        let mut world = World::<Led<ChangRoberts, Diary>>::numbered(2, &config::<ChangRoberts>(&[], 2));
        world.request(1, Told::Elect);
        world.drain();
        world.crash(2);
        world.report(2);
        assert_eq!(pages(&world, 1)[2..], ["[p2] lead", "p2 down", "[p1] lead"]);

        let config = config::<Bully>(&[], 2);
        let mut world = World::<Led<Bully, Diary>>::numbered(2, &config);
        world.crash(2);
        world.revive(2, &config, Incarnation::FIRST.next());
        assert_eq!(pages(&world, 2), ["start", "[p2] lead"]);
    }

    #[test]
    fn what_both_save_is_saved_together() {
        let members = Members::numbered(1);
        let config = config::<Bully>(&[("mode", "hardened")], 1);
        let boot = |saved| {
            let (id, timing, life) = (NodeId(1), Timing::default(), Incarnation::FIRST);
            Led::<Bully, Diary>::boot(Boot { id, members: &members, config: &config, timing, life, saved })
        };
        let (mut led, mut out) = (boot(None), Vec::new());
        led.handle(Input::Start, &mut out);
        led.handle(Input::Request(Told::Elect), &mut out);
        let timer = out.iter().find_map(|effect| match effect {
            Effect::Arm { timer, .. } => Some(*timer),
            _ => None,
        });
        led.handle(Input::Expire(timer.expect("the election asks for claims")), &mut out);
        let saves: Vec<_> = out
            .iter()
            .filter_map(|effect| match effect {
                Effect::Save(saved) => Some(saved.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(saves[0], LedDurable { election: None, application: Some(vec!["start".to_string()]) });
        let last = saves.last().expect("the winner has saved its claim");
        assert!(last.election.is_some() && last.application == saves[0].application);
        assert!(led.application().term > 0 && led.application().term == led.election().term());

        // The next life hands each its half.
        let next = boot(Some(last.clone()));
        assert_eq!(next.application().pages, ["start"]);
        assert_eq!(next.election().term(), led.election().term());
    }

    /// p2 is dead when p3 joins: the message of the next election goes round it.
    #[test]
    fn an_election_that_begins_again_among_more_knows_who_is_down() {
        let (members, config) = (Members::numbered(2), config::<ChangRoberts>(&[], 2));
        let (id, timing, life) = (NodeId(1), Timing::default(), Incarnation::FIRST);
        let boot = Boot { id, members: &members, config: &config, timing, life, saved: None };
        let (mut led, mut out) = (Led::<ChangRoberts, Diary>::boot(boot), Vec::new());
        led.handle(Input::Start, &mut out);
        led.handle(Input::PeerDown { peer: NodeId(2), life }, &mut out);
        led.handle(Input::Request(Told::Members([1, 2, 3].map(NodeId).to_vec())), &mut out);
        out.clear();
        led.handle(Input::Request(Told::Elect), &mut out);
        let sent = out.iter().filter_map(|effect| match effect {
            Effect::Send { to, .. } => Some(*to),
            _ => None,
        });
        assert_eq!(sent.collect::<Vec<_>>(), [NodeId(3)]);
    }

    #[test]
    fn timers_find_their_owner() {
        let mut world = World::<Led<Bully, Diary>>::numbered(1, &config::<Bully>(&[], 1));
        world.input(NodeId(1), Input::Expire(LedTimer::Application(9)));
        assert_eq!(pages(&world, 1), ["start", "timer 9"]);
        assert_eq!(world.process(1).phase(), Phase::WAITING);
    }
}
