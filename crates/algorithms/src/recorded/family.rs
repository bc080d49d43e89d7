//! Any algorithm together with the layer that records it, as a family: its words are those of the algorithm, and `snapshot`.
//!
//! | property | claim |
//! |---|---|
//! | CUT | every snapshot is a state that the group could have been in |
//!
//! It is built around [`Erased`], so that it is compiled once for all algorithms.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem::{swap, take};

use conclave_core::{
    Counter, Disturbance, Incarnation, Input, Moment, NodeId, Observer, Process, Shown, Transit,
};

use super::{Cut, Cuts, Mode, Recorded, RecordedConfig, RecordedMessage, Telling, Token, Wanting};
use crate::application::{App, Ask, AskBudget};
use crate::demand::PlannedAsk;
use crate::desk::{Client, Deed, Desk, Standing, Wish, Word};
use crate::erased::{
    self, Erased, ErasedApp, ErasedConfig, ErasedDurable, ErasedJudge, ErasedLedger, ErasedMessage,
    ErasedMeter, ErasedRequest,
};
use crate::family::{Endless, EventText, Family, Meter, Prepared, Wanted};
use crate::measure::{Figure, List, Measured, Part, Piece, Ran, Row, Value};
use crate::mutex::{Boxed, Epoch, Locking};
use crate::referee::{Claim, Referee};
use crate::span::Draw;
use crate::workload::{Agenda, Item, Workload};
use crate::{
    Breach, Channels, Ending, Judge, Judgement, Ledger, PropertyKind, Setting, SettingError, Values,
    Violation,
};

/// What such processes say to each other.
type Said = RecordedMessage<ErasedMessage>;
/// What such a process may be asked.
type Asked = Wanting<ErasedRequest>;
/// What such a process tells.
type Told = Telling<Erased>;

/// What begins a snapshot.
pub const SNAPSHOT: &str = "snapshot";

/// The setting that every algorithm has.
pub const SETTING: Setting = Setting {
    key: "snapshots",
    values: Values::OneOf(&["off", "on", "naive"]),
    default: "off",
    unsafe_values: &["naive"],
    help: "whether global snapshots can be taken; naive: everyone is told to record itself, without markers",
};

/// Whether these settings ask for the layer.
#[must_use]
pub fn is_wanted(settings: &BTreeMap<String, String>) -> bool {
    settings.get(SETTING.key).is_some_and(|value| value != SETTING.default)
}

/// The layer that is wanted around an algorithm.
pub struct Layer {
    mode: Mode,
}

impl Layer {
    /// What the settings say; nothing if they ask for no layer. The algorithm checks their values when it is prepared.
    ///
    /// # Errors
    /// If the group is to change.
    pub fn of(wanted: &Wanted<'_>) -> Result<Option<Self>, SettingError> {
        let Some(value) = wanted.settings.get(SETTING.key).filter(|_| is_wanted(wanted.settings)) else {
            return Ok(None);
        };
        if !wanted.newcomers.is_empty() || wanted.leaves {
            let why = "snapshots are taken of a group that does not change: nobody can join or leave";
            return Err(SettingError::Unfit(why.into()));
        }
        Ok(Some(Self { mode: if value == "naive" { Mode::Naive } else { Mode::Markers } }))
    }

    /// The algorithm as `prepare` prepares it, with this layer around it.
    ///
    /// # Errors
    /// If it cannot be set up so.
    pub fn around(
        self,
        wanted: &mut Wanted<'_>,
        prepare: impl FnOnce(&mut Wanted<'_>) -> Result<erased::Prepared, SettingError>,
    ) -> Result<Prepared<Recording>, SettingError> {
        let asks = take(&mut wanted.demand.asks);
        let (snapshots, asks): (Vec<_>, _) = asks.into_iter().partition(|ask| ask.words == SNAPSHOT);
        wanted.demand.asks = asks;
        let inner = prepare(wanted)?;
        if inner.about.family == crate::memory::FAMILY {
            return Err(SettingError::Unfit("a shared memory has no channels to record".into()));
        }
        Ok(self.wrap(inner, &snapshots, wanted.channels))
    }

    fn wrap(
        self,
        inner: erased::Prepared,
        snapshots: &[PlannedAsk],
        channels: Option<Channels>,
    ) -> Prepared<Recording> {
        let members = inner.members;
        let places = |ask: &PlannedAsk| {
            ask.who.places(&members).into_iter().map({
                let at = ask.at;
                move |place| (at, place)
            })
        };
        let planned: Vec<(u64, usize)> = snapshots.iter().flat_map(places).collect();
        let cuts = Cuts::new(&members);
        let config = RecordedConfig {
            inner: inner.config,
            mode: self.mode,
            moves_token: inner.is_token_based,
            beginners: planned.iter().map(|(_, place)| members.at(*place)).collect(),
        };
        Prepared {
            about: inner.about,
            newcomers: inner.newcomers,
            settings: inner.settings,
            locks: inner.locks,
            // Markers need it, also where the algorithm does not.
            fifo: channels.unwrap_or(Channels::Fifo) == Channels::Fifo,
            restless: inner.restless,
            normalises: false,
            can_normalise: false,
            changes_group: false,
            overtaking: inner.overtaking,
            expected_messages: inner.expected_messages,
            judge: RecordingJudge {
                inner: Looking::new(inner.judge),
                cuts: Referee::new(cuts.clone(), CLAIMS, members.len()),
            },
            ledger: RecordingLedger { inner: inner.ledger, cuts, is_inner: false },
            users: RecordingUsers {
                inner: inner.users,
                agenda: Agenda::new(Nowhere),
                planned,
                expected: BTreeMap::new(),
                down: BTreeSet::new(),
            },
            meter: RecordingMeter { inner: Looking::new(inner.meter), cuts: Vec::new(), markers: 0 },
            desk: RecordingDesk { inner: inner.desk, askers: VecDeque::new(), answered: 0 },
            members,
            config,
        }
    }
}

const CLAIMS: &[Claim] =
    &[Claim { property: "CUT", kind: PropertyKind::Safety, claim: "snapshots are consistent" }];

/// Any algorithm that can be recorded, seen from a driver.
pub struct Recording;

impl Family for Recording {
    type Protocol = Recorded<Erased>;
    type Judge = RecordingJudge;
    type Ledger = RecordingLedger;
    type App = RecordingApp;
    type Users = RecordingUsers;
    type Meter = RecordingMeter;
    type Desk = RecordingDesk;

    /// That of the algorithm counts.
    const ENDLESS: Endless = Endless::Never("END");
    const LOOKS_AT_STATES: bool = true;

    fn parse(words: &str, _lock: usize) -> Option<Asked> {
        (words == SNAPSHOT).then_some(Wanting::Snapshot)
    }

    fn parse_with(config: &RecordedConfig<ErasedConfig>, words: &str, lock: usize) -> Option<Asked> {
        Self::parse(words, lock).or_else(|| config.inner.parse(words, lock).map(Wanting::Algorithm))
    }

    fn show(request: &Asked) -> (String, usize) {
        match request {
            Wanting::Algorithm(request) => request.show(),
            Wanting::Snapshot => (SNAPSHOT.into(), 0),
        }
    }

    fn told(event: &Told) -> EventText {
        match event {
            Telling::Algorithm(event) => event.told(),
            Telling::Saved { snapshot, .. } => EventText::plain(alloc::format!("recorded {snapshot}")),
            Telling::Closed { snapshot, channels } => {
                let list = |(from, messages): (&NodeId, &Vec<ErasedMessage>)| {
                    let kinds: Vec<_> = messages.iter().map(conclave_core::Message::kind).collect();
                    alloc::format!(" {from} [{}]", kinds.join(", "))
                };
                let channels = channels.iter().filter(|(_, messages)| !messages.is_empty()).map(list);
                EventText::plain(alloc::format!("closed {snapshot}{}", channels.collect::<String>()))
            }
            Telling::Complete(cut) => {
                EventText::plain(alloc::format!("snapshot {}: {}", cut.snapshot, cut.verdict()))
            }
        }
    }

    fn lock_asked(request: &Asked) -> Option<String> {
        match request {
            Wanting::Algorithm(request) => request.lock(),
            Wanting::Snapshot => None,
        }
    }

    fn lock_told(event: &Told) -> Option<String> {
        match event {
            Telling::Algorithm(event) => event.lock(),
            Telling::Saved { .. } | Telling::Closed { .. } | Telling::Complete(_) => None,
        }
    }

    fn endless(config: &RecordedConfig<ErasedConfig>) -> Endless {
        config.inner.endless()
    }

    fn app(config: &RecordedConfig<ErasedConfig>, process: NodeId, budget: AskBudget) -> RecordingApp {
        let snapshots = config.beginners.iter().filter(|beginner| **beginner == process).count();
        RecordingApp { inner: Some(config.inner.app(budget)), snapshots }
    }

    fn has_left(event: &Told) -> bool {
        matches!(event, Telling::Algorithm(event) if event.has_left())
    }

    fn begins_waiting(input: &Input<Self::Protocol>) -> bool {
        matches!(input, Input::Request(Wanting::Algorithm(request)) if request.begins_waiting())
    }

    fn gives_up(input: &Input<Self::Protocol>) -> bool {
        matches!(input, Input::Request(Wanting::Algorithm(request)) if request.gives_up())
    }

    fn ends_waiting(event: &Told) -> bool {
        matches!(event, Telling::Algorithm(event) if event.ends_waiting())
    }

    fn read_message(config: &RecordedConfig<ErasedConfig>, bytes: &[u8]) -> Option<Said> {
        // What the algorithm says comes last: all that the envelope leaves.
        match postcard::take_from_bytes(bytes).ok()? {
            (RecordedMessage::<()>::Algorithm { message: () }, rest) => {
                config.inner.read_message(rest).map(|message| RecordedMessage::Algorithm { message })
            }
            (RecordedMessage::Marker { snapshot }, []) => Some(RecordedMessage::Marker { snapshot }),
            (RecordedMessage::Report { snapshot, part }, []) => {
                Some(RecordedMessage::Report { snapshot, part })
            }
            (RecordedMessage::Marker { .. } | RecordedMessage::Report { .. }, _) => None,
        }
    }

    fn read_durable(config: &RecordedConfig<ErasedConfig>, bytes: &[u8]) -> Option<ErasedDurable> {
        config.inner.read_durable(bytes)
    }

    fn is_token_based(config: &RecordedConfig<ErasedConfig>) -> bool {
        config.moves_token
    }

    fn token(state: &Self::Protocol) -> Option<Epoch> {
        state.inner().token()
    }

    /// Only locks have tokens.
    fn too_many(tokens: &[Epoch]) -> Option<Breach> {
        Locking::<Boxed>::too_many(tokens)
    }

    fn token_in(message: &Said) -> Option<Epoch> {
        match message {
            RecordedMessage::Algorithm { message } => message.token(),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => None,
        }
    }

    fn tokens(state: &Self::Protocol) -> Vec<Token> {
        super::Recordable::tokens(state.inner())
    }

    fn named_token_in(message: &Said) -> Option<Token> {
        match message {
            RecordedMessage::Algorithm { message } => <Erased as super::Recordable>::token_in(message),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => None,
        }
    }
}

/// The input of the algorithm, if it is one.
fn inner_input(input: &Input<Recorded<Erased>>) -> Option<Input<Erased>> {
    Some(match input {
        Input::Start => Input::Start,
        Input::Receive { from, message: RecordedMessage::Algorithm { message } } => {
            Input::Receive { from: *from, message: message.clone() }
        }
        Input::Receive { .. } | Input::Request(Wanting::Snapshot) => return None,
        Input::Expire(timer) => Input::Expire(timer.clone()),
        Input::Request(Wanting::Algorithm(request)) => Input::Request(request.clone()),
        Input::PeerDown { peer, life } => Input::PeerDown { peer: *peer, life: *life },
        Input::PeerUp { peer, life } => Input::PeerUp { peer: *peer, life: *life },
    })
}

/// The application of a process that may also begin snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordingApp {
    /// That of the algorithm, where it is known.
    inner: Option<ErasedApp>,
    /// How many snapshots it may still begin.
    snapshots: usize,
}

impl App<Recorded<Erased>> for RecordingApp {
    /// One of no algorithm asks for nothing; see [`Family::app`].
    fn new(_budget: AskBudget) -> Self {
        Self { inner: None, snapshots: 0 }
    }

    fn asks(&self) -> Vec<Ask<Asked>> {
        let inner = self.inner.iter().flat_map(ErasedApp::asks);
        let inner = inner.map(|Ask { request, is_fair, is_cancel }| Ask {
            request: Wanting::Algorithm(request),
            is_fair,
            is_cancel,
        });
        let snapshot = Ask { request: Wanting::Snapshot, is_fair: false, is_cancel: false };
        inner.chain((self.snapshots > 0).then_some(snapshot)).collect()
    }

    fn asked(&mut self, request: &Asked) {
        match (request, &mut self.inner) {
            (Wanting::Algorithm(request), Some(inner)) => inner.asked(request),
            (Wanting::Snapshot, _) => self.snapshots -= 1,
            (Wanting::Algorithm(_), None) => {}
        }
    }

    fn refill(&mut self, budget: AskBudget) {
        self.inner.iter_mut().for_each(|inner| inner.refill(budget));
    }

    fn hear(&mut self, event: &Told) {
        if let (Telling::Algorithm(event), Some(inner)) = (event, &mut self.inner) {
            inner.hear(event);
        }
    }

    fn crashed(&mut self) {
        self.inner.iter_mut().for_each(ErasedApp::crashed);
    }

    fn phase(&self) -> u8 {
        self.inner.as_ref().map_or(0, ErasedApp::phase)
    }

    fn is_waiting(&self) -> bool {
        self.inner.as_ref().is_some_and(ErasedApp::is_waiting)
    }

    fn is_inside(&self) -> bool {
        self.inner.as_ref().is_some_and(ErasedApp::is_inside)
    }
}

/// What a checker judges by: the ledger of the algorithm, and the snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordingLedger {
    inner: ErasedLedger,
    cuts: Cuts<Erased>,
    /// Whether the input that is being handled is one of the algorithm.
    is_inner: bool,
}

impl Ledger<Recorded<Erased>> for RecordingLedger {
    fn process(&self, place: usize) -> NodeId {
        self.inner.process(place)
    }

    fn clock(&mut self, place: usize, shown: Shown) {
        self.inner.clock(place, shown);
    }

    fn promises(&self, property: &str) -> bool {
        self.inner.promises(property) && self.cuts.promises(property)
    }

    fn input(&mut self, place: usize, input: &Input<Recorded<Erased>>) {
        self.cuts.input(place, input);
        let inner = inner_input(input);
        self.is_inner = inner.is_some();
        inner.iter().for_each(|input| self.inner.input(place, input));
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &Said) {
        if let RecordedMessage::Algorithm { message } = message {
            self.inner.announce(place, from, message);
        }
    }

    fn sent(&mut self, from: usize, to: usize, message: &Said) {
        self.cuts.sent(from, to, message);
        if let RecordedMessage::Algorithm { message } = message {
            self.inner.sent(from, to, message);
        }
    }

    fn known(&mut self, place: usize) {
        self.inner.known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.inner.follows(place, others);
    }

    fn emit(&mut self, place: usize, event: &Told, breaches: &mut Vec<Breach>) {
        self.cuts.emit(place, event, breaches);
        if let Telling::Algorithm(event) = event {
            self.inner.emit(place, event, breaches);
        }
    }

    fn handled(&mut self, place: usize, state: &Recorded<Erased>, breaches: &mut Vec<Breach>) {
        self.cuts.handled(place, state, breaches);
        if take(&mut self.is_inner) {
            self.inner.handled(place, state.inner(), breaches);
        }
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        self.inner.reject(place, from, why, breaches);
    }

    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        self.inner.invariant(place, why, breaches);
    }

    fn crash(&mut self, place: usize) {
        self.cuts.crash(place);
        self.inner.crash(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.inner.restart(place, life);
    }

    fn forget(&mut self, place: usize) {
        self.inner.forget(place);
    }

    fn disturb(&mut self) {
        self.cuts.disturb();
        self.inner.disturb();
    }

    fn unheard(&mut self) {
        self.cuts.unheard();
        self.inner.unheard();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.inner.quiet(breaches);
    }

    fn excuses(&self) -> bool {
        self.inner.excuses()
    }

    fn overtaking(&self) -> u64 {
        self.inner.overtaking()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.inner.visit_counters(visit);
    }
}

/// An observer of the algorithm that sees no more of a recorded run than the algorithm does.
#[derive(Clone)]
pub struct Looking<O> {
    inner: O,
    /// Whether the input that is being handled is one of the algorithm.
    is_inner: bool,
    /// The markers and reports in flight.
    ours: BTreeSet<u64>,
}

impl<O> Looking<O> {
    fn new(inner: O) -> Self {
        Self { inner, is_inner: false, ours: BTreeSet::new() }
    }
}

impl<O: Observer<Erased>> Observer<Recorded<Erased>> for Looking<O> {
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        self.inner.clock(at, process, shown);
    }

    fn input(&mut self, at: &Moment, process: Process, input: &Input<Recorded<Erased>>) {
        let inner = inner_input(input);
        self.is_inner = inner.is_some();
        inner.iter().for_each(|input| self.inner.input(at, process, input));
    }

    fn send(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        match message {
            RecordedMessage::Algorithm { message } => self.inner.send(at, transit, message),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => {
                self.ours.insert(transit.serial);
            }
        }
    }

    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        match message {
            RecordedMessage::Algorithm { message } => self.inner.deliver(at, transit, message),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => {
                self.ours.remove(&transit.serial);
            }
        }
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        match message {
            RecordedMessage::Algorithm { message } => self.inner.drop(at, transit, message),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => {
                self.ours.remove(&transit.serial);
            }
        }
    }

    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        if self.ours.contains(&transit.serial) {
            self.ours.insert(copy.serial);
        } else {
            self.inner.duplicate(at, transit, copy);
        }
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &Told) {
        if let Telling::Algorithm(event) = event {
            self.inner.emit(at, process, event);
        }
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.inner.reject(at, process, from, why);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        self.inner.invariant(at, process, why);
    }

    fn handled(&mut self, at: &Moment, process: Process, state: &Recorded<Erased>) {
        if take(&mut self.is_inner) {
            self.inner.handled(at, process, state.inner());
        }
    }

    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        self.inner.interrupt(at, process, after);
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        self.inner.crash(at, process);
    }

    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.inner.restart(at, process, life, durable);
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        self.inner.disturb(at, what);
    }
}

/// Judges a run: what the algorithm promises, and its snapshots.
#[derive(Clone)]
pub struct RecordingJudge {
    inner: Looking<Box<dyn ErasedJudge>>,
    cuts: Referee<Recorded<Erased>, Cuts<Erased>>,
}

/// Calls both observers of a pair of fields.
macro_rules! both {
    ($($name:ident($($arg:ident: $type:ty),*);)+) => {$(
        fn $name(&mut self, $($arg: $type),*) {
            self.cuts.$name($($arg),*);
            self.inner.$name($($arg),*);
        }
    )+};
}

impl Observer<Recorded<Erased>> for RecordingJudge {
    both! {
        clock(at: &Moment, process: Process, shown: Shown);
        input(at: &Moment, process: Process, input: &Input<Recorded<Erased>>);
        send(at: &Moment, transit: &Transit, message: &Said);
        deliver(at: &Moment, transit: &Transit, message: &Said);
        drop(at: &Moment, transit: &Transit, message: &Said);
        duplicate(at: &Moment, transit: &Transit, copy: &Transit);
        emit(at: &Moment, process: Process, event: &Told);
        reject(at: &Moment, process: Process, from: NodeId, why: &'static str);
        invariant(at: &Moment, process: Process, why: &str);
        handled(at: &Moment, process: Process, state: &Recorded<Erased>);
        interrupt(at: &Moment, process: Process, after: u32);
        crash(at: &Moment, process: Process);
        restart(at: &Moment, process: Process, life: Incarnation, durable: bool);
        disturb(at: &Moment, what: &Disturbance);
    }
}

impl Judge<Recorded<Erased>> for RecordingJudge {
    fn violation(&self) -> Option<&Violation> {
        self.inner.inner.violation().or_else(|| self.cuts.violation())
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.inner.inner.end(step, ending);
        // Whether it comes to rest is a matter of the algorithm.
        self.cuts.end(step, if ending == Ending::Quiet { Ending::Quiet } else { Ending::Stopped });
    }

    fn judgements(&self) -> Vec<Judgement> {
        let mut judgements = self.inner.inner.judgements();
        judgements.extend(self.cuts.judgements());
        judgements
    }
}

/// Measures a run, and keeps its snapshots.
pub struct RecordingMeter {
    inner: Looking<Box<dyn ErasedMeter>>,
    /// When each was complete, and what it shows.
    cuts: Vec<(u64, Cut)>,
    markers: u64,
}

impl Observer<Recorded<Erased>> for RecordingMeter {
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        self.inner.clock(at, process, shown);
    }

    fn input(&mut self, at: &Moment, process: Process, input: &Input<Recorded<Erased>>) {
        self.inner.input(at, process, input);
    }

    fn send(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        self.markers += u64::from(matches!(message, RecordedMessage::Marker { .. }));
        self.inner.send(at, transit, message);
    }

    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        self.inner.deliver(at, transit, message);
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &Said) {
        self.inner.drop(at, transit, message);
    }

    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        self.inner.duplicate(at, transit, copy);
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &Told) {
        if let Telling::Complete(cut) = event {
            self.cuts.push((at.time, cut.clone()));
        }
        self.inner.emit(at, process, event);
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.inner.reject(at, process, from, why);
    }

    fn handled(&mut self, at: &Moment, process: Process, state: &Recorded<Erased>) {
        self.inner.handled(at, process, state);
    }

    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        self.inner.interrupt(at, process, after);
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        self.inner.crash(at, process);
    }

    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.inner.restart(at, process, life, durable);
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        self.inner.disturb(at, what);
    }
}

impl Meter<Recording> for RecordingMeter {
    fn measured(&self, judge: &RecordingJudge, ran: &Ran<'_>) -> Measured {
        let measured = self.inner.inner.measured(&*judge.inner.inner, ran);
        let part = Snapshots { inner: measured.part, cuts: self.cuts.clone(), markers: self.markers };
        Measured { part: Box::new(part), ..measured }
    }
}

/// What the algorithm measured, and the snapshots that were taken.
#[derive(Debug)]
pub struct Snapshots {
    inner: Box<dyn Part>,
    /// When each was complete, in microseconds, and what it shows.
    pub cuts: Vec<(u64, Cut)>,
    /// How many markers were sent.
    pub markers: u64,
}

impl Part for Snapshots {
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.inner.rows();
        rows.push(Row::new("markers", [Piece::Count(self.markers)]));
        rows.extend(self.cuts.iter().map(|(at, cut)| {
            let time = Piece::Number(*at as f64 / 1e3);
            let verdict = Piece::Text(alloc::format!(" ms: {}", cut.verdict()));
            Row::new("snapshot", [Piece::Text(alloc::format!("{} at ", cut.snapshot)), time, verdict])
        }));
        rows
    }

    fn list(&self) -> Option<List> {
        self.inner.list()
    }

    fn figures(&self) -> Vec<Figure> {
        self.inner.figures()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = self.inner.fields();
        fields.push(("markers", self.markers.into()));
        let snapshot = |(at, cut): &(u64, Cut)| {
            let lines: Vec<Value> = cut.lines().into_iter().map(Value::from).collect();
            Value::Map(alloc::vec![
                ("snapshot", cut.snapshot.to_string().into()),
                ("at", (*at as f64 / 1e3).into()),
                ("verdict", cut.verdict().into()),
                ("tokens", Value::Count(cut.tokens().values().sum::<usize>() as u64)),
                ("token_lost", cut.has_lost_token().into()),
                ("deadlocked", cut.deadlocked().into()),
                ("missing", cut.missing().into()),
                ("cut", Value::List(lines)),
            ])
        };
        fields.push(("snapshots", Value::List(self.cuts.iter().map(snapshot).collect())));
        fields
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(Self { inner: self.inner.boxed(), cuts: self.cuts.clone(), markers: self.markers })
    }
}

/// The users of the algorithm, and whoever takes snapshots.
pub struct RecordingUsers {
    inner: Box<dyn Workload<Erased>>,
    /// What the users of the algorithm write on; emptied after every call.
    agenda: Agenda<Erased>,
    /// When which process begins a snapshot, by place.
    planned: Vec<(u64, usize)>,
    /// How many snapshots of each process are to come or under way, by place.
    expected: BTreeMap<usize, usize>,
    /// Who is down, by place.
    down: BTreeSet<usize>,
}

/// Stands where the randomness of a run is while nobody draws.
struct Nowhere;

impl Draw for Nowhere {
    fn any(&mut self) -> u64 {
        0
    }
}

impl RecordingUsers {
    /// Lets the users of the algorithm write on their agenda, and copies what they wrote.
    fn lend(
        &mut self,
        agenda: &mut Agenda<Recorded<Erased>>,
        write: impl FnOnce(&mut dyn Workload<Erased>, &mut Agenda<Erased>),
    ) {
        self.agenda.now = agenda.now;
        swap(&mut self.agenda.rng, &mut agenda.rng);
        write(&mut *self.inner, &mut self.agenda);
        swap(&mut self.agenda.rng, &mut agenda.rng);
        agenda.items.extend(self.agenda.items.drain(..).map(|item| match item {
            Item::Ask { time, process, request, ticket } => {
                Item::Ask { time, process, request: Wanting::Algorithm(request), ticket }
            }
            Item::Call { time, process, request } => {
                Item::Call { time, process, request: Wanting::Algorithm(request) }
            }
            Item::Depart(process) => Item::Depart(process),
        }));
    }

    fn is_over(&mut self, place: usize) {
        if let Some(expected) = self.expected.get_mut(&place) {
            *expected = expected.saturating_sub(1);
        }
    }
}

impl Workload<Recorded<Erased>> for RecordingUsers {
    fn begin(&mut self, agenda: &mut Agenda<Recorded<Erased>>) {
        self.lend(agenda, |users, agenda| users.begin(agenda));
        for (at, place) in self.planned.clone() {
            agenda.ask_after(at, place, Wanting::Snapshot, 0);
            if !self.down.contains(&place) {
                *self.expected.entry(place).or_default() += 1;
            }
        }
    }

    fn told(&mut self, process: Process, event: &Told, agenda: &mut Agenda<Recorded<Erased>>) {
        match event {
            Telling::Algorithm(event) => {
                self.lend(agenda, |users, agenda| users.told(process, event, agenda));
            }
            Telling::Complete(_) => self.is_over(process.index()),
            Telling::Saved { .. } | Telling::Closed { .. } => {}
        }
    }

    fn stands(&self, process: Process, request: &Asked, ticket: u64) -> bool {
        match request {
            Wanting::Algorithm(request) => self.inner.stands(process, request, ticket),
            Wanting::Snapshot => true,
        }
    }

    fn handled(&mut self, process: Process, request: &Asked, agenda: &mut Agenda<Recorded<Erased>>) {
        if let Wanting::Algorithm(request) = request {
            self.lend(agenda, |users, agenda| users.handled(process, request, agenda));
        }
    }

    fn quiet(&mut self, agenda: &mut Agenda<Recorded<Erased>>) {
        self.lend(agenda, |users, agenda| users.quiet(agenda));
    }

    /// What it had begun is gone with it, and what it was to begin is not begun.
    fn crashed(&mut self, process: Process) {
        self.expected.remove(&process.index());
        self.down.insert(process.index());
        self.inner.crashed(process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.down.remove(&process.index());
        self.lend(agenda, |users, agenda| users.restarted(process, agenda));
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.lend(agenda, |users, agenda| users.joined(process, agenda));
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.lend(agenda, |users, agenda| users.leave(process, agenda));
    }

    fn is_done(&self) -> bool {
        self.inner.is_done() && self.expected.values().all(|expected| *expected == 0)
    }

    fn is_waiting(&self) -> bool {
        self.inner.is_waiting()
    }
}

/// Serves the clients of the algorithm, and those who want a snapshot.
pub struct RecordingDesk {
    inner: Box<dyn Desk<Erased>>,
    /// Who asked for a snapshot and has not got it, the oldest first.
    askers: VecDeque<Client>,
    /// How many snapshots were answered.
    answered: u64,
}

impl RecordingDesk {
    /// Copies what the desk of the algorithm decided.
    fn lend(
        &mut self,
        out: &mut Vec<Deed<Recorded<Erased>>>,
        decide: impl FnOnce(&mut dyn Desk<Erased>, &mut Vec<Deed<Erased>>),
    ) {
        let mut deeds = Vec::new();
        decide(&mut *self.inner, &mut deeds);
        out.extend(deeds.into_iter().map(|deed| match deed {
            Deed::Ask(request) => Deed::Ask(Wanting::Algorithm(request)),
            Deed::Tell(client, word) => Deed::Tell(client, word),
        }));
    }
}

impl Desk<Recorded<Erased>> for RecordingDesk {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<Recorded<Erased>>>) {
        match wish {
            Wish::Ask { words } if words == SNAPSHOT => {
                self.askers.push_back(client);
                out.extend([Deed::Ask(Wanting::Snapshot), Deed::Tell(client, Word::Asked)]);
            }
            wish => self.lend(out, |desk, deeds| desk.wish(client, wish, deeds)),
        }
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<Recorded<Erased>>>) {
        self.lend(out, |desk, deeds| desk.gone(client, deeds));
    }

    /// Snapshots of one process are complete in the order in which they were begun.
    fn told(&mut self, event: Told, out: &mut Vec<Deed<Recorded<Erased>>>) {
        match event {
            Telling::Algorithm(event) => self.lend(out, |desk, deeds| desk.told(event, deeds)),
            Telling::Complete(cut) => {
                self.answered += 1;
                if let Some(client) = self.askers.pop_front() {
                    let head = alloc::format!("snapshot {}: {}", cut.snapshot, cut.verdict());
                    let text = core::iter::once(head).chain(cut.lines()).collect::<Vec<_>>().join("\n");
                    out.push(Deed::Tell(client, Word::Event { text }));
                }
            }
            Telling::Saved { .. } | Telling::Closed { .. } => {}
        }
    }

    fn standing(&self) -> Standing {
        let inner = self.inner.standing();
        Standing { served: inner.served + self.answered, ..inner }
    }
}
