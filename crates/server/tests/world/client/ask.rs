//! Asking for names, and the record of it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use conclave_client::{Campaign, Clock as _, Error, Guard, Leadership, Mode, Request, Session};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::hold::{Holding, Thing, end_hold};
use super::{Actor, ELECTION, Kind, LOCKS, PERMITS};
use crate::history::{Asked, End, Hold, Micros, Outcome};

/// How something is asked for.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    pub limit: Option<Duration>,
    pub give_up: Option<Duration>,
    pub priority: i32,
    pub is_reentrant: bool,
    pub is_campaign: bool,
    pub strand: u32,
    pub lock_delay: Option<Duration>,
}

impl Manner {
    fn request(&self, wants: &[(String, Mode)]) -> Request {
        let names = wants.iter().map(|(name, _)| name.clone());
        let mut request = if self.is_campaign {
            Campaign::new(ELECTION, "me").into()
        } else {
            Request::locks(names).mode(wants[0].1)
        };
        if let Some(limit) = self.limit {
            request = request.wait(limit);
        }
        if self.is_reentrant {
            request = request.reentrant();
        }
        if let Some(delay) = self.lock_delay {
            request = request.lock_delay(delay);
        }
        request.priority(self.priority).strand(self.strand)
    }
}

/// Waits for a lock, or for the lead.
async fn hold_of(session: &Session, request: Request, is_campaign: bool) -> Result<Thing, Error> {
    if is_campaign {
        return session.acquire(request).await.map(|guard| Thing::Lead(Leadership::of(guard)));
    }
    session.acquire(request).await.map(Thing::Lock)
}

impl Actor {
    /// What to ask for, and how.
    pub fn draw(&mut self) -> (Vec<(String, Mode)>, Manner) {
        let wants = if self.kind == Kind::Candidate {
            vec![(ELECTION.to_owned(), Mode::Exclusive)]
        } else if self.dice.chance(15) {
            let count = self.dice.within(1..=2) as u32;
            vec![(PERMITS.0.to_owned(), Mode::Permits { count, limit: PERMITS.1 })]
        } else {
            self.draw_locks()
        };
        let limit = match self.dice.within(0..=9) {
            0 | 1 => Some(Duration::ZERO),
            2..=4 => Some(self.dice.millis(50..=1500)),
            _ => None,
        };
        let give_up = if self.dice.chance(15) { Some(self.dice.millis(1..=600)) } else { None };
        let is_campaign = self.kind == Kind::Candidate;
        let is_reentrant = !is_campaign && self.dice.chance(15);
        let priority = if self.dice.chance(10) { 1 } else { 0 };
        let strand = if self.dice.chance(30) { self.dice.within(1..=2) as u32 } else { 0 };
        // To wait forever while holding something under another strand may be to wait for oneself, which nobody notices.
        let is_risky = self.is_resumed || self.held.iter().any(|holding| holding.strand != strand);
        let limit = if is_risky { limit.or(Some(Duration::from_millis(700))) } else { limit };
        let lock_delay = if self.dice.chance(10) { Some(self.dice.millis(1..=400)) } else { None };
        (wants, Manner { limit, give_up, priority, is_reentrant, is_campaign, strand, lock_delay })
    }

    fn draw_locks(&mut self) -> Vec<(String, Mode)> {
        let count = if self.dice.chance(80) { 1 } else { 2 };
        let first = self.dice.within(0..=LOCKS.len() as u64 - 1) as usize;
        let mode = if self.dice.chance(60) { Mode::Exclusive } else { Mode::Shared };
        (0..count).map(|step| (LOCKS[(first + step) % LOCKS.len()].to_owned(), mode)).collect()
    }

    pub async fn acquire(&mut self, session: &Session, wants: Vec<(String, Mode)>, manner: Manner) -> bool {
        let (told, mut queued) = mpsc::unbounded_channel();
        let request = manner.request(&wants).tell_queued(told);
        let id = self.ask(session, &wants, &manner);
        let mut acquiring = pin!(hold_of(session, request, manner.is_campaign));
        let mut give_up = pin!(sleep(manner.give_up.unwrap_or(Duration::from_secs(3600))));
        let mut is_queued = false;
        let result = loop {
            tokio::select! {
                biased;
                result = &mut acquiring => break Some(result),
                Some(_) = queued.recv(), if !is_queued => {
                    is_queued = true;
                    self.note(format!("#{id} is queued"));
                    self.stage.history.borrow_mut().asked[id].queued = Some(self.now());
                }
                () = &mut give_up => break None,
            }
        };
        match result {
            Some(Ok(thing)) => {
                self.granted(id, thing, manner.strand);
                true
            }
            Some(Err(error)) => {
                self.note(format!("#{id} fails: {error}"));
                let outcome = error.code().map_or(Outcome::Unknown("no answer"), Outcome::Refused);
                self.finish(id, outcome);
                false
            }
            None => {
                self.note(format!("#{id} is given up"));
                self.finish(id, Outcome::Unknown("it was given up"));
                false
            }
        }
    }

    fn ask(&self, session: &Session, wants: &[(String, Mode)], manner: &Manner) -> usize {
        let asked = Asked {
            client: self.index,
            session: session.id(),
            wants: wants.to_vec(),
            priority: manner.priority,
            is_reentrant: manner.is_reentrant,
            limit: manner.limit.map(|limit| limit.as_micros() as Micros),
            lock_delay: manner.lock_delay.map_or(0, |delay| delay.as_micros() as Micros),
            began: self.now(),
            queued: None,
            ended: None,
            outcome: None,
        };
        let id = {
            let mut history = self.stage.history.borrow_mut();
            history.asked.push(asked);
            history.asked.len() - 1
        };
        self.note(format!("#{id} asks for {wants:?} {manner:?}"));
        id
    }

    fn finish(&self, id: usize, outcome: Outcome) {
        let now = self.now();
        let asked = &mut self.stage.history.borrow_mut().asked[id];
        asked.ended = Some(now);
        asked.outcome = Some(outcome);
    }

    fn granted(&mut self, id: usize, thing: Thing, strand: u32) {
        let token = thing.guard().token();
        self.note(format!("#{id} is granted {token}"));
        self.finish(id, Outcome::Granted(token));
        let asked = self.stage.history.borrow().asked[id].clone();
        let hold = |(name, mode): &(String, Mode)| {
            let since = self.stage.history.borrow().asked_first(id, name);
            self.hold(id, name, *mode, token, since)
        };
        let holds: Vec<usize> = asked.wants.iter().map(hold).collect();
        for hold in &holds {
            self.watch(thing.guard(), *hold);
        }
        let (name, mode) = asked.wants[0].clone();
        self.held.push(Holding { thing, holds, name, mode, is_single: asked.wants.len() == 1, strand });
    }

    pub fn hold(&self, request: usize, name: &str, mode: Mode, token: u64, asked: Micros) -> usize {
        let (session, together) = {
            let asked = &self.stage.history.borrow().asked[request];
            (asked.session, asked.wants.iter().map(|(name, _)| name.clone()).collect())
        };
        let hold = Hold {
            request,
            client: self.index,
            session,
            name: name.to_owned(),
            together,
            mode,
            token,
            is_fragile: self.ends_with_connection,
            asked,
            since: self.now(),
            until: None,
            end: None,
            why_lost: None,
            gone: None,
        };
        let mut history = self.stage.history.borrow_mut();
        history.holds.push(hold);
        history.holds.len() - 1
    }

    /// Notes when the client is told that a hold is lost, and for some whether they would know it in time.
    pub fn watch(&self, guard: &Guard, hold: usize) {
        if self.index % 2 == 1 {
            self.probe(guard);
        }
        let (stage, who, lost, fence) =
            (Rc::clone(&self.stage), self.who(), guard.cancellation(), guard.fence());
        tokio::task::spawn_local(async move {
            lost.cancelled().await;
            if end_hold(&stage, hold, End::Lost) {
                stage.history.borrow_mut().holds[hold].why_lost = fence.why_lost();
                let token = stage.history.borrow().holds[hold].token;
                stage.note(who, format!("lost {token}"));
            }
        });
    }

    /// Looks again and again whether something is still held after the time until which it is safe.
    fn probe(&self, guard: &Guard) {
        let Some(session) = &self.session else { return };
        let (stage, clock, safety) = (Rc::clone(&self.stage), self.clock.clone(), session.watch_safety());
        let (who, fence) = (self.who(), guard.fence());
        tokio::task::spawn_local(async move {
            // The sender goes with the session.
            while safety.has_changed().is_ok() {
                let is_safe = clock.now() < *safety.borrow();
                if fence.is_lost() {
                    return;
                }
                if !is_safe {
                    let what = format!("{who} still holds {}, and is not safe any more", fence.token());
                    let now = stage.now();
                    stage.history.borrow_mut().outlived.push((now, what));
                    return;
                }
                sleep(Duration::from_millis(7)).await;
            }
        });
    }
}
