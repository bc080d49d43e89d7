//! Any algorithm together with the layer that records it, as a family: its words are those of the algorithm, and `snapshot`.
//!
//! | property | claim |
//! |---|---|
//! | CUT | every snapshot is a state that the group could have been in |
//!
//! It is built around [`Erased`], so that it is compiled once for all algorithms.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::take;

use conclave_core::{Input, NodeId};

use super::judging::{CLAIMS, RecordingJudge, RecordingLedger};
use super::metering::{Noted, RecordingMeter};
use super::using::{RecordingApp, RecordingDesk, RecordingUsers};
use super::{Cuts, Mode, Recorded, RecordedConfig, RecordedMessage, Telling, Token, Wanting};
use crate::application::AskBudget;
use crate::demand::PlannedAsk;
use crate::erased::{self, Erased, ErasedConfig, ErasedDurable, ErasedEvent, ErasedMessage, ErasedRequest};
use crate::family::{Endless, EventText, Family, Prepared, Wanted};
use crate::lens::{Kept, Lens, Seen};
use crate::mutex::{Boxed, Epoch, Locking};
use crate::referee::Referee;
use crate::{Breach, Channels, Setting, SettingError, Values};

/// What such processes say to each other.
pub(super) type Said = RecordedMessage<ErasedMessage>;
/// What such a process may be asked.
pub(super) type Asked = Wanting<ErasedRequest>;
/// What such a process tells.
pub(super) type Told = Telling<Erased>;

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
            judge: (Referee::new(cuts.clone(), CLAIMS, members.len()), Seen::new(inner.judge)),
            ledger: (cuts, Kept::new(inner.ledger)),
            users: RecordingUsers::new(inner.users, planned),
            meter: (Noted::default(), Seen::new(inner.meter)),
            desk: RecordingDesk::new(inner.desk),
            members,
            config,
        }
    }
}

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
        RecordingApp::around(config.inner.app(budget), snapshots)
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

/// The algorithm, in a run in which it is recorded.
pub enum Unrecorded {}

impl Lens for Unrecorded {
    type Outer = Recorded<Erased>;
    type Inner = Erased;

    fn input(input: &Input<Recorded<Erased>>) -> Option<Input<Erased>> {
        Some(match input {
            Input::Start => Input::Start,
            Input::Receive { from, message } => {
                Input::Receive { from: *from, message: Self::message(message)?.clone() }
            }
            Input::Expire(timer) => Input::Expire(timer.clone()),
            Input::Request(request) => Input::Request(Self::asked(request)?.clone()),
            Input::PeerDown { peer, life } => Input::PeerDown { peer: *peer, life: *life },
            Input::PeerUp { peer, life } => Input::PeerUp { peer: *peer, life: *life },
        })
    }

    fn message(message: &Said) -> Option<&ErasedMessage> {
        match message {
            RecordedMessage::Algorithm { message } => Some(message),
            RecordedMessage::Marker { .. } | RecordedMessage::Report { .. } => None,
        }
    }

    fn event(event: &Told) -> Option<&ErasedEvent> {
        match event {
            Telling::Algorithm(event) => Some(event),
            Telling::Saved { .. } | Telling::Closed { .. } | Telling::Complete(_) => None,
        }
    }

    fn state(state: &Recorded<Erased>) -> &Erased {
        state.inner()
    }

    fn asked(request: &Asked) -> Option<&ErasedRequest> {
        match request {
            Wanting::Algorithm(request) => Some(request),
            Wanting::Snapshot => None,
        }
    }

    fn ask(request: ErasedRequest) -> Asked {
        Wanting::Algorithm(request)
    }
}
