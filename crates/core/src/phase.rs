//! What a process is doing, as anyone outside may see it.

/// The phase of a process, in the words of its family.
///
/// Drivers record it, diagrams draw it as a band; nobody outside the family reads more into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phase {
    /// Its name: `"idle"`, `"waiting"`, `"holding"`, `"leader"`.
    pub name: &'static str,
    /// How much it asks for attention.
    pub band: Band,
}

/// How a phase is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// A thin line: nothing is going on.
    Quiet,
    /// A hatched band: the process waits for others.
    Waiting,
    /// A full band: the process has what all may want.
    Holding,
}

impl Phase {
    /// Nothing is going on.
    pub const IDLE: Self = Self { name: "idle", band: Band::Quiet };
    /// The process has asked for the critical section.
    pub const WAITING: Self = Self { name: "waiting", band: Band::Waiting };
    /// The process is inside the critical section.
    pub const HOLDING: Self = Self { name: "holding", band: Band::Holding };
    /// The process takes part in an election.
    pub const ELECTING: Self = Self { name: "electing", band: Band::Waiting };
    /// The process knows who leads.
    pub const FOLLOWING: Self = Self { name: "following", band: Band::Quiet };
    /// The process leads.
    pub const LEADING: Self = Self { name: "leading", band: Band::Holding };

    /// The phase of this name; a record of a run has only the name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::IDLE, Self::WAITING, Self::HOLDING, Self::ELECTING, Self::FOLLOWING, Self::LEADING];
        all.into_iter().find(|phase| phase.name == name)
    }
}
