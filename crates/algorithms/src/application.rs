//! The application of one process, as a checker explores it: what it may ask at every moment.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomData;

use conclave_core::Protocol;

/// How often each process asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskBudget {
    /// At most this many times.
    Times(u8),
    /// At most once, and not after it has heard of a result: all requests belong to the first round.
    First,
    /// Any number of times: again and again, or never again after some entry.
    Forever,
}

impl core::fmt::Display for AskBudget {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}"),
            Self::First => f.write_str("first"),
            Self::Forever => f.write_str("forever"),
        }
    }
}

impl serde::Serialize for AskBudget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(times) => serializer.serialize_u8(*times),
            Self::First | Self::Forever => serializer.collect_str(self),
        }
    }
}

impl AskBudget {
    /// Whether nothing may be asked any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        self == Self::Times(0)
    }

    /// None, one, two, or more: a number below 4.
    #[must_use]
    pub fn roughly(self) -> u8 {
        match self {
            Self::Times(left) => left.min(3),
            Self::First => 1,
            Self::Forever => 3,
        }
    }

    /// What is left after one more request.
    #[must_use]
    pub fn less(self) -> Self {
        match self {
            Self::Times(left) => Self::Times(left.saturating_sub(1)),
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
    /// Whether it eventually does so if it can all the time; else it may never do it.
    pub is_fair: bool,
    /// Whether it gives up what it asked for, which has a budget of its own.
    pub is_cancel: bool,
}

/// How many phases of an application are told apart where a rough idea is enough.
pub const PHASES: usize = 16;

/// The application of one process, seen from a checker.
pub trait App<P: Protocol>: Clone + Eq + Hash + Debug + Send + Sync {
    /// One that has done nothing yet.
    fn new(budget: AskBudget) -> Self;
    /// What it may ask now.
    fn asks(&self) -> Vec<Ask<P::Request>>;
    /// It has asked.
    fn asked(&mut self, request: &P::Request);
    /// From now on it has this budget.
    fn refill(&mut self, budget: AskBudget);
    /// It was told something.
    fn hear(&mut self, event: &P::Event);
    /// Its process crashed.
    fn crashed(&mut self) {}
    /// What it is doing, roughly: a number below [`PHASES`].
    fn phase(&self) -> u8;
    /// Whether it waits for its turn.
    fn is_waiting(&self) -> bool {
        false
    }
    /// Whether it has what only one may have.
    fn is_inside(&self) -> bool {
        false
    }
}

/// An application that makes its family's first request, a number of times, and waits for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller<R> {
    left: AskBudget,
    request: PhantomData<fn() -> R>,
}

impl<P: Protocol> App<P> for Caller<P::Request>
where
    P::Request: Default + 'static,
{
    fn new(budget: AskBudget) -> Self {
        Self { left: budget, request: PhantomData }
    }

    fn asks(&self) -> Vec<Ask<P::Request>> {
        if self.left.is_over() {
            return Vec::new();
        }
        alloc::vec![Ask { request: P::Request::default(), is_fair: false, is_cancel: false }]
    }

    fn asked(&mut self, _request: &P::Request) {
        self.left = self.left.less();
    }

    fn refill(&mut self, budget: AskBudget) {
        self.left = budget;
    }

    /// One that asks only before the first result asks no more.
    fn hear(&mut self, _event: &P::Event) {
        if self.left == AskBudget::First {
            self.left = AskBudget::Times(0);
        }
    }

    fn phase(&self) -> u8 {
        self.left.roughly()
    }
}
