//! What may happen next in a global state.

/// One thing that may happen. Processes are named by their place, and what is one of several by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An application asks for something.
    Ask {
        /// Whose.
        place: u8,
        /// Which of the things that it may ask.
        nth: u8,
    },
    /// A timer expires.
    Timer {
        /// Whose.
        place: u8,
        /// Which of the armed ones.
        nth: u8,
    },
    /// A failure detector tells what is due about a peer.
    Notice {
        /// Whose.
        place: u8,
        /// About whom.
        peer: u8,
    },
    /// A message arrives.
    Deliver(Place),
    /// A message is lost.
    Drop(Place),
    /// The network makes a copy of a message.
    Duplicate(Place),
    /// A process crashes.
    Crash {
        /// Which.
        place: u8,
        /// What it loses of what it had sent: one of the ways to do so, counted over all its channels. 0 is nothing.
        loss: u16,
    },
    /// A process crashes inside a step.
    Interrupt {
        /// Which.
        place: u8,
        /// The number, among what may happen in this state, of what makes it take that step.
        step: u16,
        /// Which of the cuts of that step.
        cut: u8,
        /// As above, with what it sent in that step before the cut.
        loss: u16,
    },
    /// It starts again.
    Restart {
        /// Which.
        place: u8,
    },
    /// A failure detector is wrong.
    Suspect {
        /// Whose.
        place: u8,
        /// About whom.
        peer: u8,
    },
    /// Time passes.
    Tick,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The sender.
    pub from: u8,
    /// The receiver.
    pub to: u8,
    /// Which of those between the two.
    pub nth: u8,
}

impl Action {
    /// Whether a process crashes in it.
    pub fn is_crash(self) -> bool {
        matches!(self, Self::Crash { .. } | Self::Interrupt { .. })
    }

    /// The process at which it happens, if it happens at one.
    pub fn process(self) -> Option<usize> {
        match self {
            Self::Ask { place, .. }
            | Self::Timer { place, .. }
            | Self::Notice { place, .. }
            | Self::Crash { place, .. }
            | Self::Interrupt { place, .. }
            | Self::Restart { place }
            | Self::Suspect { place, .. } => Some(usize::from(place)),
            Self::Deliver(at) | Self::Drop(at) | Self::Duplicate(at) => Some(usize::from(at.to)),
            Self::Tick => None,
        }
    }
}

/// What must happen at last if it can happen all the time: the unit of weak fairness.
///
/// Two steps belong to the same task if either of them fulfils it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// The world need not do it: a request, a failure.
    Optional,
    /// A channel that keeps its order delivers its oldest message.
    Channel {
        /// The sender.
        from: u8,
        /// The receiver.
        to: u8,
    },
    /// A channel of any order delivers this message.
    ///
    /// Where numbers are moved down, a message that stays in flight may become another one: the floor rises, and its own
    /// numbers fall with it. It still arrives at last. Floors never fall, so that in a circle of states, gone round again and again,
    /// the numbers of one message fall only so often; from then on it is the same message in every state, and must arrive.
    Message {
        /// The sender.
        from: u8,
        /// The receiver.
        to: u8,
        /// The number of the message.
        message: u32,
    },
    /// A timer expires.
    Timer {
        /// Whose.
        place: u8,
        /// Its number among all timers.
        timer: u32,
    },
    /// An application goes on: it leaves the critical section, or asks once more.
    Application {
        /// Whose.
        place: u8,
    },
    /// A failure detector tells what is due.
    Detector {
        /// Whose.
        place: u8,
        /// About whom.
        peer: u8,
    },
    /// Time passes.
    Time,
}
