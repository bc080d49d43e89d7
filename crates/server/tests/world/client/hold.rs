//! What is held, and what is done with it.

use std::time::Duration;

use conclave_client::{Code, Error, Guard, Leadership, Mode};
use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{Actor, ELECTION};
use crate::history::{Conversion, End, Handed, Micros};
use crate::stage::Stage;

/// Something held, and where it stands in the history.
pub struct Holding {
    pub thing: Thing,
    pub holds: Vec<usize>,
    pub name: String,
    pub mode: Mode,
    pub is_single: bool,
    pub strand: u32,
}

/// What the library gave for it.
pub enum Thing {
    Lock(Guard),
    Lead(Leadership),
}

impl Thing {
    pub fn guard(&self) -> &Guard {
        match self {
            Self::Lock(guard) => guard,
            Self::Lead(leadership) => leadership.guard(),
        }
    }

    async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Lead(leadership) => leadership.resign().await,
        }
    }
}

/// Ends a hold, unless it has ended; says whether it did.
pub fn end_hold(stage: &Stage, hold: usize, end: End) -> bool {
    let now = stage.now();
    let hold = &mut stage.history.borrow_mut().holds[hold];
    let is_open = hold.until.is_none();
    if is_open {
        hold.until = Some(now);
        hold.end = Some(end);
    }
    is_open
}

impl Actor {
    pub async fn release(&mut self, holding: Holding, waits: bool) {
        let Holding { thing, holds, .. } = holding;
        let token = thing.guard().token();
        self.note_alarm(thing.guard(), &holds);
        for hold in &holds {
            end_hold(&self.stage, *hold, End::Released);
        }
        self.note(format!("releases {token}"));
        if !waits {
            drop(thing);
            return;
        }
        let result = thing.release().await;
        self.note(format!("released {token}: {:?}", result.as_ref().map_err(ToString::to_string)));
        let now = self.now();
        let refused = result.as_ref().err().filter(|error| error.code() == Some(Code::NotHeld));
        for hold in holds {
            let hold = &mut self.stage.history.borrow_mut().holds[hold];
            if result.is_ok() {
                hold.gone = Some(now);
            }
            if let Some(refused) = refused {
                hold.why_lost = Some(refused.to_string());
            }
        }
    }

    /// Holds the newest grant in another mode from now on.
    pub async fn convert(&mut self) {
        let Some(mut holding) = self.held.pop() else { return };
        let mode = match holding.mode {
            Mode::Exclusive => Mode::Shared,
            Mode::Shared => Mode::Exclusive,
            Mode::Permits { count, limit } => Mode::Permits { count: if count == 1 { 2 } else { 1 }, limit },
        };
        // A grant that was made twice has two guards, and a conversion is a matter of both.
        if !holding.is_single || holding.name == ELECTION || self.is_held_twice(&holding) {
            self.held.push(holding);
            return;
        }
        let is_weaker = matches!(mode, Mode::Shared) || matches!(mode, Mode::Permits { count: 1, .. });
        // Whoever holds something else as well may be in its own way.
        let is_patient = self.held.is_empty() && self.dice.chance(50);
        let wait = (!is_patient).then(|| self.dice.millis(0..=800));
        let (old, began) = (holding.thing.guard().token(), self.now());
        self.note(format!("converts {old} to {mode:?}"));
        let number = {
            let mut history = self.stage.history.borrow_mut();
            let (is_answered, is_refused) = (false, false);
            history.conversions.push(Conversion { token: old, is_answered, is_refused, is_weaker });
            history.conversions.len() - 1
        };
        let request = self.stage.history.borrow().holds[holding.holds[0]].request;
        if is_weaker {
            // What it lets go of it does not count on from here. The token stays, and with it when it was asked for.
            let asked = self.stage.history.borrow().holds[holding.holds[0]].asked;
            self.exchange(&mut holding, request, mode, old, asked);
        }
        // Some lose patience: the future is dropped, and nobody knows what becomes of it.
        let give_up =
            if self.dice.chance(20) { self.dice.millis(1..=200) } else { Duration::from_secs(3600) };
        let converting = holding.thing.guard().convert(&holding.name, mode, wait);
        let Ok(result) = timeout(give_up, converting).await else {
            self.note(format!("no longer waits to convert {old}"));
            self.held.push(holding);
            return;
        };
        let token = holding.thing.guard().token();
        self.note(format!("converted {old} to {token}: {:?}", result.as_ref().map_err(ToString::to_string)));
        let is_refused = result.as_ref().is_err_and(|error| error.code().is_some());
        if !is_weaker && result.is_ok() {
            self.exchange(&mut holding, request, mode, token, began);
        }
        let is_answered = result.is_ok() || is_refused;
        self.stage.history.borrow_mut().conversions[number] =
            Conversion { token: old, is_answered, is_refused, is_weaker };
        self.held.push(holding);
    }

    fn is_held_twice(&self, holding: &Holding) -> bool {
        self.held.iter().any(|other| other.thing.guard().token() == holding.thing.guard().token())
    }

    /// Notes whether somebody was told by now that another one waits for what it holds.
    fn note_alarm(&self, guard: &Guard, holds: &[usize]) {
        if guard.contended().now_or_never().is_some() {
            let now = self.now();
            self.stage.history.borrow_mut().alarms.extend(holds.iter().map(|hold| (*hold, now)));
        }
    }

    /// One hold ends and another begins in its place, unless it is lost already.
    fn exchange(&self, holding: &mut Holding, request: usize, mode: Mode, token: u64, asked: Micros) {
        self.note_alarm(holding.thing.guard(), &holding.holds);
        let is_open = holding.holds.iter().all(|hold| end_hold(&self.stage, *hold, End::Converted));
        if is_open && !holding.thing.guard().is_lost() {
            let hold = self.hold(request, &holding.name, mode, token, asked);
            self.watch(holding.thing.guard(), hold);
            holding.holds = vec![hold];
            holding.mode = mode;
        }
    }

    /// Shows another value as leader, or hands the lead over to somebody who waits for it.
    pub async fn lead(&mut self) {
        let Some(Holding { thing: Thing::Lead(leadership), holds, name, mode, is_single, strand }) =
            self.held.pop()
        else {
            return;
        };
        let term = leadership.term();
        // Short ones, and some as long as they may be.
        let length = if self.dice.chance(20) { self.dice.within(1..=16 << 10) as usize } else { 8 };
        let value = format!("{term:0>length$}");
        let shown = leadership.proclaim(value.as_str()).await;
        self.note(format!("proclaims in {term}: {:?}", shown.as_ref().map_err(ToString::to_string)));
        if shown.is_ok() {
            self.sees_value(&leadership, &value).await;
        }
        let heir =
            self.stage.candidates.borrow().iter().find(|(index, _)| **index != self.index).map(|(_, id)| *id);
        let (Some(heir), true) = (heir, self.dice.chance(50)) else {
            let thing = Thing::Lead(leadership);
            self.held.push(Holding { thing, holds, name, mode, is_single, strand });
            return;
        };
        self.note_alarm(leadership.guard(), &holds);
        for hold in &holds {
            end_hold(&self.stage, *hold, End::Released);
        }
        self.note(format!("transfers {term} to {heir:016x}"));
        self.stage.history.borrow_mut().heirs.push(heir);
        match leadership.transfer(heir).await {
            Ok(()) => {
                self.note(format!("transferred {term}"));
                let handed = Handed { name: ELECTION.to_owned(), term, heir, at: self.now() };
                self.stage.history.borrow_mut().handed.push(handed);
            }
            Err((leadership, error)) => {
                self.note(format!("could not transfer {term}: {error}"));
                drop(leadership);
            }
        }
    }
}

impl Actor {
    /// Whoever reads after a leader has been told that its value is shown sees it, if it still leads.
    async fn sees_value(&self, leadership: &Leadership, value: &str) {
        let Ok(Some(shown)) = self.client.show(ELECTION).await else { return };
        let is_read = shown.holders.iter().any(|holder| holder.token == leadership.term());
        let is_right = shown.value.as_deref() == Some(value.as_bytes());
        if is_read && !is_right {
            let seen = shown.value.map_or(0, |value| value.len());
            let what = format!("term {} shows another value, of {seen} bytes", leadership.term());
            self.stage.history.borrow_mut().wrong_values.push((self.now(), what));
        }
    }
}
