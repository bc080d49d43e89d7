//! Everything that a member tells, in order and each event once, however slowly it is read.
//!
//! A member lets go of a client that reads too slowly. What it told meanwhile stands in its record, from which it is read when the
//! client is back. The member counts what it tells, so that what stands in the record and what arrives fit together.

use std::time::Duration;

use conclave_algorithms::multicast::Event;
use conclave_live::control::{Answer, Ask, Control, ControlError, Status};
use conclave_live::desk::Word;
use conclave_net::record;

use super::output;
use crate::failure::Failure;

/// A member that takes longer to say how it stands stands still.
const PATIENCE: Duration = Duration::from_secs(5);

/// From where on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From what is told first in the present life.
    Beginning,
    /// From what is told next.
    Now,
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nobody wants to know more.
    Enough,
    /// The member has ended.
    Gone,
}

/// How to connect to the member.
pub type Connect<'a> = dyn Fn() -> Result<Control, Failure> + 'a;
/// What is done with an event; false if it was the last that is wanted.
pub type Each<'a> = dyn FnMut(&Event) -> Result<bool, Failure> + 'a;

/// Follows a member until it ends, or nobody wants to know more.
pub fn follow(connect: &Connect<'_>, start: Start, each: &mut Each<'_>) -> Result<Ended, Failure> {
    let mut control = connect()?;
    let mut reader = Reader { life: None, next: 0, start, each };
    loop {
        match reader.read(&mut control, connect) {
            Ok(()) => return Ok(Ended::Enough),
            Err(Broken::Failed(failure)) => return Err(failure),
            Err(Broken::Gone) => match connect() {
                Ok(again) => control = again,
                Err(_) => return Ok(Ended::Gone),
            },
        }
    }
}

/// Why no more is heard on a connection.
enum Broken {
    Gone,
    Failed(Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ControlError> for Broken {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Gone | ControlError::Silent { .. } => Self::Gone,
            other => Self::Failed(Failure::new(other)),
        }
    }
}

struct Reader<'a, 'b> {
    /// The life of which something was read.
    life: Option<u32>,
    /// How much of it.
    next: u64,
    start: Start,
    each: &'a mut Each<'b>,
}

impl Reader<'_, '_> {
    /// Reads until the connection ends, or until enough was read.
    fn read(&mut self, control: &mut Control, connect: &Connect<'_>) -> Result<(), Broken> {
        let (status, early) = begin(control)?;
        let told = status.desk.served.saturating_sub(early.len() as u64);
        match self.life {
            Some(life) if life == status.life => {}
            Some(_) => self.next = 0,
            None if self.start == Start::Now => self.next = told,
            None => {}
        }
        self.life = Some(status.life);
        for event in self.missed(told, status.life, connect)?.iter().chain(&early) {
            if !self.take(event)? {
                return Ok(());
            }
        }
        loop {
            let answer = control.answer(None)?;
            if let Some(event) = answer.and_then(event_of)
                && !self.take(&event)?
            {
                return Ok(());
            }
        }
    }

    fn take(&mut self, event: &Event) -> Result<bool, Failure> {
        self.next += 1;
        (self.each)(event)
    }

    /// What was told before the connection was made, and was not read.
    fn missed(&mut self, told: u64, life: u32, connect: &Connect<'_>) -> Result<Vec<Event>, Broken> {
        let count = told.saturating_sub(self.next);
        if count == 0 {
            return Ok(Vec::new());
        }
        let text = connect().map_err(|_| Broken::Gone)?.record(life)?.unwrap_or_default();
        let events = record::told(&text).into_iter().filter_map(|text| text.parse().ok());
        let missed: Vec<Event> = events.skip(self.next as usize).take(count as usize).collect();
        let lost = count - missed.len() as u64;
        if lost > 0 {
            self.next += lost;
            output::notice("note", &format!("{lost} earlier events are not in the record of the member"));
        }
        Ok(missed)
    }
}

/// Has the member tell everything from now on; what it tells before it has said how it stands is given, too.
fn begin(control: &mut Control) -> Result<(Status, Vec<Event>), Broken> {
    control.ask(&Ask::Tail)?;
    control.ask(&Ask::Status)?;
    let mut early = Vec::new();
    loop {
        match control.answer(Some(PATIENCE))? {
            Some(Answer::Status(status)) => return Ok((*status, early)),
            Some(answer) => early.extend(event_of(answer)),
            None => return Err(Failure::new("the member stands still").into()),
        }
    }
}

fn event_of(answer: Answer) -> Option<Event> {
    match answer {
        Answer::Word(Word::Event { text }) => text.parse().ok(),
        _ => None,
    }
}
