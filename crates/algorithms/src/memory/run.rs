//! A process in its program: one access after the other.

use conclave_core::NodeId;
use serde::{Deserialize, Serialize};

use super::access::Access;

/// What a process has in its registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registers {
    /// The line of the program that takes what the last access has returned.
    pub line: u8,
    /// A place in the list of all competitors, where a program goes through them.
    pub j: usize,
    /// What it needs until it is out again: its number, its ticket, its level.
    pub own: u32,
}

/// A process that executes a section of its program.
///
/// A section is a function that is called after every access, and in the beginning. It looks at its line and at what the
/// access has returned, computes what needs no memory, and returns the next access; or nothing, if the section is over.
#[derive(Debug)]
pub struct Run<'a> {
    /// The process.
    pub me: NodeId,
    /// All who compete, in the order of their ids.
    pub all: &'a [NodeId],
    /// What it has in its registers.
    pub registers: &'a mut Registers,
    /// What the last access has returned.
    pub got: u32,
}

impl Run<'_> {
    /// The present line.
    pub fn line(&self) -> u8 {
        self.registers.line
    }

    /// The next access; what it returns is for this line.
    pub fn then(&mut self, line: u8, access: Access) -> Option<Access> {
        self.registers.line = line;
        Some(access)
    }

    /// A section of a single access.
    pub fn only(&mut self, access: Access) -> Option<Access> {
        if self.line() == 0 { self.then(1, access) } else { None }
    }

    /// The first of the others, of a loop over them.
    pub fn first_other(&mut self) -> Option<NodeId> {
        self.other_from(0)
    }

    /// The one after that.
    pub fn next_other(&mut self) -> Option<NodeId> {
        self.other_from(self.registers.j + 1)
    }

    fn other_from(&mut self, start: usize) -> Option<NodeId> {
        let place = (start..self.all.len()).find(|place| self.all[*place] != self.me)?;
        self.registers.j = place;
        Some(self.all[place])
    }

    /// The one that the loop is at.
    pub fn other(&self) -> NodeId {
        self.all[self.registers.j]
    }

    /// How many compete.
    pub fn n(&self) -> u32 {
        self.all.len() as u32
    }
}
