//! What a global state consists of, and what one process does in one step.
//!
//! ```text
//!   state = (cell of each process, world) × (contents of each channel)
//!   cell  = process, its application, its armed timers, what its failure detector is yet to tell
//!   world = budgets for failures, the ledger of the properties, who has heard of which request
//! ```

use core::fmt::Debug;
use core::hash::Hash;

use conclave_algorithms::family::MessageOf;
use conclave_core::{
    After, Boot, Effect, Effects, Incarnation, Input, Members, NodeId, Protocol, Reading, Timing,
};
use conclave_trace::{Command, broken_invariant};

use conclave_algorithms::application::{App as _, Ask, AskBudget};
use conclave_algorithms::family::Family;

/// The protocol of a subject.
pub type ProtocolOf<F> = <F as Family>::Protocol;
type TimerOf<F> = <ProtocolOf<F> as Protocol>::Timer;
type DurableOf<F> = <ProtocolOf<F> as Protocol>::Durable;
type EventOf<F> = <ProtocolOf<F> as Protocol>::Event;

/// How many failures may happen, of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budgets {
    /// Crashes.
    pub crashes: u8,
    /// Restarts of crashed processes.
    pub restarts: u8,
    /// Whether a restarted process has lost what it had saved.
    pub amnesia: bool,
    /// Messages that are lost.
    pub drops: u8,
    /// Messages that arrive twice.
    pub duplicates: u8,
    /// Living processes that are called dead, and found alive later.
    pub suspicions: u8,
    /// Requests that are given up.
    pub cancels: u8,
}

impl Budgets {
    /// Whether nothing goes wrong.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        *self == Self { cancels: self.cancels, ..Self::default() }
    }
}

/// Everything that is fixed during a search.
#[derive(Debug)]
pub struct Model<F: Family> {
    /// What has nothing to do with the types of the algorithm.
    pub terms: Terms,
    /// The settings of the algorithm.
    pub config: <ProtocolOf<F> as Protocol>::Config,
    /// The ledger of a run in which nothing has happened.
    pub ledger: F::Ledger,
}

/// What is fixed during a search, but for the algorithm.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who takes part.
    pub members: Members,
    /// Whether channels keep their order.
    pub fifo: bool,
    /// How many ticks a message travels at most, where the algorithm relies on time.
    pub ticks: Option<u16>,
    /// How often each process asks, by place.
    pub entries: Vec<AskBudget>,
    /// What may go wrong.
    pub budgets: Budgets,
    /// Who may crash, by place.
    pub mortal: Vec<bool>,
    /// Whether a crash may fall inside a step, and lose what the process had sent; where processes crash at all.
    pub cuts_steps: bool,
    /// What the clock of each process shows, by place. It stands still.
    pub clocks: Vec<Reading>,
    /// Whether failure detectors report crashes.
    pub detector: bool,
    /// Whether the order of grants is judged, which needs to know who has heard of which request.
    pub order: bool,
    /// Whether numbers that only grow are moved down.
    pub normalise: bool,
    /// Whether tokens are counted: not if the search begins after the network has made copies.
    pub counts_tokens: bool,
    /// What happens before the search begins.
    pub lead: Vec<Command>,
    /// Whether the invariants of a process are asserted after each of its steps.
    pub paranoid: bool,
}

impl Terms {
    /// How many processes there are.
    pub fn n(&self) -> usize {
        self.members.len()
    }
}

impl<F: Family> Clone for Model<F> {
    fn clone(&self) -> Self {
        Self { terms: self.terms.clone(), config: self.config.clone(), ledger: self.ledger.clone() }
    }
}

impl<F: Family> core::ops::Deref for Model<F> {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

/// One process as the checker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell<P: Protocol, A> {
    /// The process itself; nothing while it is down.
    pub state: Option<P>,
    pub life: Incarnation,
    pub durable: Option<P::Durable>,
    /// In their order, so that equal sets are equal.
    pub timers: Vec<Armed<P::Timer>>,
    pub app: A,
    /// What its failure detector has told it, by peer.
    pub heard: Vec<Heard>,
}

/// A process of a subject.
pub type CellOf<F> = Cell<ProtocolOf<F>, <F as Family>::App>;

/// A timer that is armed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Armed<T> {
    pub timer: T,
    /// Ticks until it may run out, and until it must; both 0 where time means nothing.
    pub min: u16,
    pub max: u16,
}

/// What a process has last been told of the life of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Heard {
    /// The latest life that it knows of.
    pub life: Incarnation,
    /// Whether that has ended, as far as it was told.
    pub is_down: bool,
}

impl Heard {
    /// Everyone is up in its first life.
    pub const FIRST: Self = Self { life: Incarnation::FIRST, is_down: false };

    /// What the failure detector has to tell next, if a peer is in this life, and up or not.
    pub fn due(self, life: Incarnation, is_up: bool, detector: bool) -> Option<Self> {
        if !self.is_down {
            let has_ended = self.life < life || (!is_up && detector);
            return has_ended.then_some(Self { is_down: true, ..self });
        }
        match is_up {
            true => Some(Self { life, is_down: false }),
            false => (self.life < life && detector).then_some(Self { life, is_down: true }),
        }
    }

    /// Whether a message of this life may be handed over: nothing of a new life comes before the end of the old one.
    pub fn admits(self, life: Incarnation) -> bool {
        life <= self.life || self.is_down
    }
}

/// What no process owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World<L> {
    pub budgets: Budgets,
    pub ledger: L,
    pub knowledge: Knowledge,
}

/// Who has heard of which request; empty unless the order of grants is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Knowledge {
    /// Of each process: whose present requests it knows of.
    pub knows: Vec<u16>,
    /// Of each process: how many of the messages that announce its request still travel.
    pub announcing: Vec<u8>,
}

impl Knowledge {
    /// A message arrived that tells of these requests. Says whether its sender's request is known to all from now on.
    pub fn hear(&mut self, place: usize, from: usize, tag: u16) -> bool {
        self.knows[place] |= tag & !ANNOUNCES;
        if tag & ANNOUNCES == 0 {
            return false;
        }
        self.announcing[from] -= 1;
        self.announcing[from] == 0
    }

    /// A process has a new request: of which others does it know, and nobody knows of it yet.
    pub fn ask(&mut self, place: usize) -> u16 {
        for knows in &mut self.knows {
            *knows &= !(1 << place);
        }
        let others = self.knows[place];
        self.knows[place] |= 1 << place;
        others
    }

    /// A new life knows nothing.
    pub fn forget(&mut self, place: usize) {
        if let (Some(knows), Some(announcing)) = (self.knows.get_mut(place), self.announcing.get_mut(place)) {
            (*knows, *announcing) = (0, 0);
        }
    }
}

/// A message in flight, packed: its number, what it tells of requests, the life of its sender, the ticks it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter(pub u64);

/// The bit of a letter's tag that says that it announces its sender's present request.
pub const ANNOUNCES: u16 = 1 << 15;

impl Letter {
    pub fn new(message: u32, tag: u16, life: Incarnation, left: u16) -> Self {
        assert!(life.0 < 256 && left < 256, "lives and ticks are few");
        Self(u64::from(message) << 32 | u64::from(tag) << 16 | u64::from(life.0) << 8 | u64::from(left))
    }
    #[inline(always)]
    pub fn message(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline(always)]
    pub fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }
    #[inline(always)]
    pub fn life(self) -> Incarnation {
        Incarnation((self.0 >> 8) as u32 & 0xFF)
    }
    #[inline(always)]
    pub fn left(self) -> u16 {
        self.0 as u16 & 0xFF
    }
    pub fn with_message(self, message: u32) -> Self {
        Self(self.0 & 0xFFFF_FFFF | u64::from(message) << 32)
    }
    pub fn with_tag(self, tag: u16) -> Self {
        Self(self.0 & !0xFFFF_0000 | u64::from(tag) << 16)
    }
    pub fn aged(self) -> Self {
        Self(self.0 - 1)
    }
}

/// What came of one step of one process.
#[derive(Clone, Debug)]
pub struct Stepped<F: Family> {
    pub cell: CellOf<F>,
    pub sends: Vec<(usize, MessageOf<F>)>,
    pub events: Vec<Said<EventOf<F>>>,
    pub cuts: Vec<Cut<CellOf<F>>>,
}

/// A crash inside a step.
///
/// It may fall between any two effects, but two crashes with nothing but messages between them differ only in what is
/// sent; and whatever was sent, a crash may lose. So the last moment before something is saved or said is enough, and
/// the end of the step is a crash after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<C> {
    /// The crashed process.
    pub cell: C,
    /// How many messages were sent.
    pub sends: usize,
    /// How many things were said.
    pub events: usize,
    /// How many effects were carried out, timers aside.
    pub effects: u32,
}

/// What a process says to the outside in a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Said<E> {
    /// To its application.
    Event(E),
    /// About a peer that broke the protocol.
    Reject(NodeId, &'static str),
    /// That it is in a state in which it must never be.
    Invariant(String),
}

impl<F: Family> Model<F> {
    /// What the processes are told of the speed of the network: one tick is a microsecond.
    pub fn timing(&self) -> Timing {
        match self.ticks {
            Some(ticks) => Timing {
                transmission: core::time::Duration::from_micros(u64::from(ticks)),
                processing: core::time::Duration::ZERO,
            },
            None => Timing::default(),
        }
    }

    /// A process that is yet to handle its start.
    pub fn boot(
        &self,
        place: usize,
        life: Incarnation,
        saved: Option<DurableOf<F>>,
        app: F::App,
    ) -> CellOf<F> {
        let state = ProtocolOf::<F>::boot(Boot {
            id: self.members.at(place),
            members: &self.members,
            config: &self.config,
            timing: self.timing(),
            life,
            saved: saved.clone(),
        });
        Cell { state: Some(state), life, durable: saved, timers: Vec::new(), app, heard: Vec::new() }
    }

    /// The world before anything has happened.
    pub fn world(&self) -> World<F::Ledger> {
        let n = if self.order { self.n() } else { 0 };
        let knowledge = Knowledge { knows: vec![0; n], announcing: vec![0; n] };
        World { budgets: self.budgets, ledger: self.ledger.clone(), knowledge }
    }

    /// A process handles an input.
    ///
    /// # Panics
    /// If it is down, or sends to itself or to a stranger.
    pub fn step(&self, cell: &CellOf<F>, place: usize, input: Input<ProtocolOf<F>>) -> Stepped<F> {
        let mut cell = cell.clone();
        let mut state = cell.state.take().expect("a process that is down handles nothing");
        let mut outbox = Outbox::<F> {
            model: self,
            place,
            cell,
            sends: Vec::new(),
            events: Vec::new(),
            effects: 0,
            cuts: Vec::new(),
        };
        state.handle(input, &mut outbox);
        let Outbox { mut cell, sends, mut events, cuts, .. } = outbox;
        if self.paranoid {
            events.extend(broken_invariant(&state).map(Said::Invariant));
        }
        cell.state = Some(state);
        Stepped { cell, sends, events, cuts }
    }

    fn ticks_of(&self, after: After) -> (u16, u16) {
        if self.ticks.is_none() {
            return (0, 0);
        }
        let ticks = |span: core::time::Duration| u16::try_from(span.as_micros()).unwrap_or(u16::MAX);
        (ticks(after.min), ticks(after.max))
    }
}

/// What the application of a process may ask.
pub fn asks<F: Family>(cell: &CellOf<F>) -> Vec<Ask<<ProtocolOf<F> as Protocol>::Request>> {
    if cell.state.is_some() { cell.app.asks() } else { Vec::new() }
}

/// A process is gone; its application, what it saved and the number of its life remain.
pub fn crash<F: Family>(cell: &mut CellOf<F>) {
    cell.state = None;
    cell.timers.clear();
    cell.heard.clear();
    cell.app.crashed();
}

/// Carries out the effects of one process while it handles one input.
struct Outbox<'a, F: Family> {
    model: &'a Model<F>,
    place: usize,
    cell: CellOf<F>,
    sends: Vec<(usize, MessageOf<F>)>,
    events: Vec<Said<EventOf<F>>>,
    /// How many effects were carried out, timers aside.
    effects: u32,
    cuts: Vec<Cut<CellOf<F>>>,
}

impl<F: Family> Outbox<'_, F> {
    /// The process may crash before it saves or says the next thing.
    fn may_crash_here(&mut self) {
        if self.model.cuts_steps {
            let mut cell = self.cell.clone();
            crash::<F>(&mut cell);
            let (sends, events) = (self.sends.len(), self.events.len());
            let is_same = |cut: &Cut<CellOf<F>>| (&cut.cell, cut.sends, cut.events) == (&cell, sends, events);
            if !self.cuts.last().is_some_and(is_same) {
                self.cuts.push(Cut { cell, sends, events, effects: self.effects });
            }
        }
        self.effects += 1;
    }

    fn disarm_one(&mut self, timer: &TimerOf<F>) {
        self.cell.timers.retain(|armed| armed.timer != *timer);
    }
}

impl<F: Family> Effects<ProtocolOf<F>> for Outbox<'_, F> {
    fn push(&mut self, effect: Effect<ProtocolOf<F>>) {
        match effect {
            Effect::Send { to, message } => {
                let place = self.model.members.position(to);
                let place = place.unwrap_or_else(|| panic!("a message is sent to the stranger {to}"));
                assert!(place != self.place, "{to} sends a message to itself");
                self.effects += 1;
                self.sends.push((place, message));
            }
            Effect::Save(durable) => {
                self.may_crash_here();
                self.cell.durable = Some(durable);
            }
            Effect::Arm { timer, after } => {
                self.disarm_one(&timer);
                let (min, max) = self.model.ticks_of(after);
                self.cell.timers.push(Armed { timer, min, max });
                self.cell.timers.sort();
            }
            Effect::Disarm(timer) => self.disarm_one(&timer),
            Effect::Emit(event) => {
                self.may_crash_here();
                self.cell.app.hear(&event);
                self.events.push(Said::Event(event));
            }
            Effect::Reject { from, why } => {
                self.may_crash_here();
                self.events.push(Said::Reject(from, why));
            }
        }
    }

    fn now(&self) -> Reading {
        self.model.clocks[self.place]
    }
}
