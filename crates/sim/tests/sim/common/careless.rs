//! A lock for a single process whose invariant fails: it says that nobody enters more than once, and does not see to it.

use conclave_algorithms::mutex::{Epoch, Event, FenceCounter, Mutex, Request, Roll};
use conclave_algorithms::{About, Algorithm, SettingError, Settings, mutex};
use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// The process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Careless {
    id: NodeId,
    phase: Phase,
    entries: u32,
    fence: FenceCounter,
}

/// Nothing is ever said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Nothing {}

impl Message for Nothing {
    fn kind(&self) -> &'static str {
        match *self {}
    }
}

impl Protocol for Careless {
    type Config = ();
    type Message = Nothing;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self { id: boot.id, phase: Phase::IDLE, entries: 0, fence: FenceCounter::default() }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(Request::Acquire) => {
                self.phase = Phase::HOLDING;
                self.entries += 1;
                out.emit(Event::Granted { fence: self.fence.enter(Epoch::FIRST, self.id) });
            }
            Input::Request(Request::Release) => self.phase = Phase::IDLE,
            Input::Request(request) => out.emit(Event::Refused(request)),
            Input::Receive { message, .. } => match message {},
            Input::Start | Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn assert_invariants(&self) {
        assert!(self.entries <= 1, "nobody enters more than once");
    }
}

impl Algorithm for Careless {
    const ABOUT: About = About::of("careless", mutex::FAMILY);

    fn configure(_settings: &Settings, _members: &Members) -> Result<(), SettingError> {
        Ok(())
    }
}

impl Mutex for Careless {
    fn rebuild(boot: Boot<'_, Self>, _roll: &Roll, _out: &mut impl Effects<Self>) -> Self {
        Self::boot(boot)
    }
}
