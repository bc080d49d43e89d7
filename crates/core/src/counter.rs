//! The numbers that only grow.

use crate::NodeId;

/// A number that only grows, reached by the visitor of a protocol or of a message.
///
/// Stamps, sequence numbers, request ids and fences make the set of states infinite although an algorithm only ever
/// compares and increments them. Whoever wants a finite set visits them all and moves each [`Space`] down.
#[derive(Debug)]
pub struct Counter<'a> {
    /// Which numbers it is compared with.
    pub space: Space,
    /// How it is used.
    pub role: Role,
    /// The number itself.
    pub value: &'a mut u64,
}

impl<'a> Counter<'a> {
    /// A number whose exact distance to the others of its space matters.
    pub fn exact(space: Space, value: &'a mut u64) -> Self {
        Self { space, role: Role::Exact, value }
    }

    /// A number that only ever serves as a lower bound.
    pub fn bound(space: Space, value: &'a mut u64) -> Self {
        Self { space, role: Role::Bound, value }
    }
}

/// A set of numbers that are compared with each other and with no others; all may be moved by the same amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space {
    /// What is numbered: `"clock"`, `"fence"`, `"request"`.
    pub name: &'static str,
    /// Whose, where each process numbers on its own.
    pub of: Option<NodeId>,
}

impl Space {
    /// A space that all processes share.
    #[must_use]
    pub const fn shared(name: &'static str) -> Self {
        Self { name, of: None }
    }

    /// A space that one process counts in.
    #[must_use]
    pub const fn of(name: &'static str, process: NodeId) -> Self {
        Self { name, of: Some(process) }
    }
}

/// How a counter is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It is incremented, sent and compared: all of its space must move together with it.
    Exact,
    /// It is only compared with exact ones ("the largest stamp seen from p3"). It may be raised to just below the
    /// smallest exact one, so that an entry that is still 0 does not hold the whole space down.
    Bound,
}
