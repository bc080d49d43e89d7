//! What the checker must know of a family beyond what every driver knows: how its applications behave.

use core::fmt::Debug;
use core::hash::Hash;

use conclave_algorithms::election::{self, Election};
use conclave_algorithms::family::{Electing, EventOf, Family, Locking, RequestOf};
use conclave_algorithms::mutex::{self, Locks};
use conclave_core::Input;

/// How often each process asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entries {
    /// At most so many times.
    Times(u8),
    /// At most once, and not after it has heard of a leader: all calls belong to the first election.
    First,
    /// Again and again: whoever is out asks once more at last.
    Forever,
}

impl core::fmt::Display for Entries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}"),
            Self::First => f.write_str("first"),
            Self::Forever => f.write_str("forever"),
        }
    }
}

impl serde::Serialize for Entries {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(times) => serializer.serialize_u8(*times),
            Self::First | Self::Forever => serializer.collect_str(self),
        }
    }
}

impl Entries {
    fn is_over(self) -> bool {
        self == Self::Times(0)
    }

    /// None, one, two, or more.
    fn roughly(self) -> u8 {
        match self {
            Self::Times(left) => left.min(3),
            Self::First => 1,
            Self::Forever => 3,
        }
    }

    fn less(self) -> Self {
        match self {
            Self::Times(left) => Self::Times(left - 1),
            Self::First => Self::Times(0),
            Self::Forever => Self::Forever,
        }
    }
}

/// Something that an application may ask at a moment.
#[derive(Clone, Debug)]
pub struct Ask<R> {
    /// What.
    pub request: R,
    /// Whether it does so at last if it can all the time; else it may leave it.
    pub is_fair: bool,
    /// Whether it gives up what it asked for, which is rationed.
    pub is_cancel: bool,
}

/// What a family promises of runs that never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// They may go on, but everyone who waits gets its turn (ME3).
    NobodyStarves,
    /// There are none (END).
    Never,
}

/// How many phases of an application are told apart where a rough idea is enough.
pub const PHASES: usize = 16;

/// A family of algorithms, seen from the checker.
pub trait Subject: Family<Protocol: Send + Sync, Ledger: Send + Sync> {
    /// What one process's application is doing.
    type App: Clone + Eq + Hash + Debug + Send + Sync;

    /// What is promised of runs without end.
    const ENDLESS: Endless;
    /// Whether its properties look at the states of processes, and not only at what they say.
    const LOOKS_AT_STATES: bool;

    /// An application that has done nothing yet.
    fn app(entries: Entries) -> Self::App;
    /// What it may ask now.
    fn asks(app: &Self::App) -> Vec<Ask<RequestOf<Self>>>;
    /// Whether an input is a request to be let in.
    fn begins_waiting(_input: &Input<Self::Protocol>) -> bool {
        false
    }
    /// Whether an input takes such a request back.
    fn gives_up(_input: &Input<Self::Protocol>) -> bool {
        false
    }
    /// Whether such a request is over when the application is told this.
    fn ends_waiting(_event: &EventOf<Self>) -> bool {
        false
    }
    /// It has asked.
    fn asked(app: &mut Self::App, request: &RequestOf<Self>);
    /// From now on it may ask so many times.
    fn refill(app: &mut Self::App, entries: Entries);
    /// It was told something.
    fn hear(app: &mut Self::App, event: &EventOf<Self>);
    /// Its process crashed.
    fn crashed(app: &mut Self::App);
    /// What it is doing, roughly: a number below [`PHASES`].
    fn phase(app: &Self::App) -> u8;
    /// Whether it waits for its turn.
    fn is_waiting(app: &Self::App) -> bool;
    /// Whether it has it.
    fn is_inside(app: &Self::App) -> bool;
}

/// An application that wants to enter a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entering {
    left: Entries,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Waiting,
    Inside,
    /// It is no longer a member.
    Gone,
}

impl<L: Locks> Subject for Locking<L> {
    type App = Entering;

    const ENDLESS: Endless = Endless::NobodyStarves;
    const LOOKS_AT_STATES: bool = false;

    fn app(entries: Entries) -> Entering {
        Entering { left: entries, stage: Stage::Idle }
    }

    fn asks(app: &Entering) -> Vec<Ask<L::Request>> {
        let ask = |request, is_fair| Ask {
            request: L::ask(0, request),
            is_fair,
            is_cancel: request == mutex::Request::Cancel,
        };
        match app.stage {
            Stage::Idle if app.left.is_over() => Vec::new(),
            Stage::Idle => vec![ask(mutex::Request::Acquire, app.left == Entries::Forever)],
            Stage::Waiting => vec![ask(mutex::Request::Cancel, false)],
            Stage::Inside => vec![ask(mutex::Request::Release, true)],
            Stage::Gone => Vec::new(),
        }
    }

    fn begins_waiting(input: &Input<L>) -> bool {
        matches!(input, Input::Request(request) if L::asked(request).1 == mutex::Request::Acquire)
    }

    fn gives_up(input: &Input<L>) -> bool {
        matches!(input, Input::Request(request) if L::asked(request).1 == mutex::Request::Cancel)
    }

    fn ends_waiting(event: &L::Event) -> bool {
        matches!(L::told(event).1, mutex::Event::Granted { .. } | mutex::Event::Left)
    }

    fn asked(app: &mut Entering, request: &L::Request) {
        match L::asked(request).1 {
            mutex::Request::Acquire => *app = Entering { left: app.left.less(), stage: Stage::Waiting },
            mutex::Request::Release | mutex::Request::Cancel => app.stage = Stage::Idle,
            mutex::Request::Leave => {}
        }
    }

    fn refill(app: &mut Entering, entries: Entries) {
        app.left = entries;
    }

    fn hear(app: &mut Entering, event: &L::Event) {
        match L::told(event).1 {
            mutex::Event::Granted { .. } => app.stage = Stage::Inside,
            mutex::Event::Lost { .. } => app.stage = Stage::Idle,
            mutex::Event::Left => app.stage = Stage::Gone,
            mutex::Event::Refused(_) => {}
        }
    }

    fn crashed(app: &mut Entering) {
        app.stage = Stage::Idle;
    }

    fn phase(app: &Entering) -> u8 {
        app.stage as u8 * 4 + app.left.roughly()
    }

    fn is_waiting(app: &Entering) -> bool {
        app.stage == Stage::Waiting
    }

    fn is_inside(app: &Entering) -> bool {
        app.stage == Stage::Inside
    }
}

impl<A: Election + Send + Sync> Subject for Electing<A> {
    /// How often it may still call an election.
    type App = Entries;

    const ENDLESS: Endless = Endless::Never;
    const LOOKS_AT_STATES: bool = true;

    fn app(entries: Entries) -> Entries {
        entries
    }

    fn asks(left: &Entries) -> Vec<Ask<election::Request>> {
        if left.is_over() {
            return Vec::new();
        }
        vec![Ask { request: election::Request::Start, is_fair: false, is_cancel: false }]
    }

    fn asked(left: &mut Entries, _request: &election::Request) {
        *left = left.less();
    }

    fn refill(left: &mut Entries, entries: Entries) {
        *left = entries;
    }

    fn hear(left: &mut Entries, _event: &election::Event) {
        if *left == Entries::First {
            *left = Entries::Times(0);
        }
    }

    fn crashed(_left: &mut Entries) {}

    fn phase(left: &Entries) -> u8 {
        left.roughly()
    }

    fn is_waiting(_left: &Entries) -> bool {
        false
    }

    fn is_inside(_left: &Entries) -> bool {
        false
    }
}
