//! The application of one process in a search: it goes in and out.

use alloc::vec;
use alloc::vec::Vec;

use crate::application::{App, Ask, AskBudget};

use super::machine::{Event, Machine, Request};

/// An application that wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Visits {
    left: AskBudget,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Outside,
    Waiting,
    Inside,
    Leaving,
}

impl App<Machine> for Visits {
    fn new(budget: AskBudget) -> Self {
        Self { left: budget, stage: Stage::Outside }
    }

    fn asks(&self) -> Vec<Ask<Request>> {
        let ask = |request, is_fair| vec![Ask { request, is_fair, is_cancel: false }];
        match self.stage {
            // Who may ask forever need not: it may stay away after any entry.
            Stage::Outside if !self.left.is_over() => ask(Request::Acquire, false),
            // Whoever is inside goes out eventually.
            Stage::Inside => ask(Request::Release, true),
            Stage::Outside | Stage::Waiting | Stage::Leaving => Vec::new(),
        }
    }

    fn asked(&mut self, request: &Request) {
        match request {
            Request::Acquire => *self = Self { left: self.left.less(), stage: Stage::Waiting },
            Request::Release => self.stage = Stage::Leaving,
        }
    }

    fn refill(&mut self, budget: AskBudget) {
        self.left = budget;
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Entered => self.stage = Stage::Inside,
            Event::Exited => self.stage = Stage::Outside,
            Event::Refused(_) => {}
        }
    }

    fn crashed(&mut self) {
        self.stage = Stage::Outside;
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
