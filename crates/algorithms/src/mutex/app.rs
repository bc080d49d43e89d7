//! The application of one process in a search: it wants into the critical section.

use alloc::vec;
use alloc::vec::Vec;

use super::{Event, Locks, Request};
use crate::application::{App, Ask, AskBudget};

/// An application that wants to enter a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entering {
    left: AskBudget,
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

impl<L: Locks> App<L> for Entering {
    fn new(budget: AskBudget) -> Self {
        Self { left: budget, stage: Stage::Idle }
    }

    fn asks(&self) -> Vec<Ask<L::Request>> {
        let ask = |request, is_fair| Ask {
            request: L::ask(0, request),
            is_fair,
            is_cancel: request == Request::Cancel,
        };
        match self.stage {
            Stage::Idle if self.left.is_over() => Vec::new(),
            // Who may ask forever need not: it may stay away after any entry.
            Stage::Idle => vec![ask(Request::Acquire, false)],
            Stage::Waiting => vec![ask(Request::Cancel, false)],
            Stage::Inside => vec![ask(Request::Release, true)],
            Stage::Gone => Vec::new(),
        }
    }

    fn asked(&mut self, request: &L::Request) {
        match L::asked(request).1 {
            Request::Acquire => *self = Self { left: self.left.less(), stage: Stage::Waiting },
            Request::Release | Request::Cancel => self.stage = Stage::Idle,
            Request::Leave => {}
        }
    }

    fn refill(&mut self, budget: AskBudget) {
        self.left = budget;
    }

    fn hear(&mut self, event: &L::Event) {
        match L::told(event).1 {
            Event::Granted { .. } => self.stage = Stage::Inside,
            Event::Lost { .. } => self.stage = Stage::Idle,
            Event::Left => self.stage = Stage::Gone,
            Event::Refused(_) => {}
        }
    }

    fn crashed(&mut self) {
        self.stage = Stage::Idle;
    }

    fn phase(&self) -> u8 {
        self.stage as u8 * 4 + self.left.roughly()
    }

    fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    fn is_inside(&self) -> bool {
        self.stage == Stage::Inside
    }
}
