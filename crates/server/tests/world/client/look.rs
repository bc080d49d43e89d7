//! Looking at what others hold, and taking it from them.

use std::rc::Rc;
use std::time::Duration;

use conclave_client::v1::check_response::Standing;
use conclave_client::{Client, Session};
use tokio::time::{sleep, timeout};

use super::{Actor, ELECTION, LOCKS, PERMITS};
use crate::checks::watchers::View;
use crate::faults::guest;
use crate::history::{Force, Found, Read, Seen};
use crate::stage::Stage;

impl Actor {
    pub async fn force(&mut self, session: &Session) {
        let name = (*self.dice.pick(LOCKS)).to_owned();
        let began = self.now();
        self.note(format!("forces {name}"));
        let number = {
            let mut history = self.stage.history.borrow_mut();
            history.forces.push(Force { name: name.clone(), began, ended: None, is_refused: false });
            history.forces.len() - 1
        };
        let result = session.force(name.clone(), None, "the operator says so").await;
        self.note(format!("forced {name}: {:?}", result.as_ref().map_err(ToString::to_string)));
        let now = self.now();
        let force = &mut self.stage.history.borrow_mut().forces[number];
        match result {
            Ok(()) => force.ended = Some(now),
            Err(error) => force.is_refused = error.code().is_some(),
        }
    }

    /// Reads something.
    pub async fn look(&mut self) {
        let names = [LOCKS[0], LOCKS[1], LOCKS[2], PERMITS.0, ELECTION];
        let name = (*self.dice.pick(&names)).to_owned();
        let began = self.now();
        let token = self.stage.history.borrow().holds_of(&name).last().map(|hold| hold.token);
        let found = match (self.dice.within(0..=9), token) {
            (0..=2, Some(token)) => self.check(&name, token).await,
            (3, _) => {
                let listed = self.client.list("").await;
                self.note(format!(
                    "lists {:?}",
                    listed.map(|names| names.len()).map_err(|error| error.to_string())
                ));
                return;
            }
            _ => self.show(&name).await,
        };
        self.note(format!("looked at {name} since {began}: {found:?}"));
        let Ok(found) = found else { return };
        let read = Read { name, began, ended: self.now(), found };
        self.stage.history.borrow_mut().reads.push(read);
    }

    async fn show(&self, name: &str) -> Result<Found, String> {
        let shown = self.client.show(name).await.map_err(|error| error.to_string())?.unwrap_or_default();
        let newest = shown.summary.map_or(0, |summary| summary.newest);
        Ok(Found::Holders { tokens: shown.holders.iter().map(|holder| holder.token).collect(), newest })
    }

    async fn check(&self, name: &str, token: u64) -> Result<Found, String> {
        let answer = self.client.check(name, token).await.map_err(|error| error.to_string())?;
        let standing = answer.standing();
        let (is_held, is_known) = (standing == Standing::Held, standing != Standing::Unknown);
        Ok(Found::Standing { token, is_held, is_known })
    }
}

/// Whoever stops listening for a moment misses nothing.
const LISTENS_FOR: Duration = Duration::from_millis(100);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Follows the election, to the end.
pub async fn observe(stage: Rc<Stage>, client: Client, observer: usize) {
    let mut following = client.observe(ELECTION);
    loop {
        let observed = match timeout(LISTENS_FOR, following.next()).await {
            Err(_) => continue,
            Ok(Err(_)) => {
                sleep(PAUSE).await;
                continue;
            }
            Ok(Ok(observed)) => observed,
        };
        let term = observed.leader.map(|leader| leader.term);
        stage.note(guest(observer), format!("observes {term:?}"));
        let seen = Seen { observer, name: ELECTION.to_owned(), at: stage.now(), term };
        stage.history.borrow_mut().seen.push(seen);
        stage.views.borrow_mut().entry(observer).or_default().term = Some(term);
    }
}

/// Follows all names, to the end.
pub async fn watch(stage: Rc<Stage>, client: Client, watcher: usize) {
    let mut watching = client.watch("");
    stage.views.borrow_mut().insert(watcher, View::default());
    loop {
        let told = match timeout(LISTENS_FOR, watching.next()).await {
            Err(_) => continue,
            Ok(Err(error)) => {
                stage.note(guest(watcher), format!("cannot watch: {error}"));
                sleep(PAUSE).await;
                continue;
            }
            Ok(Ok(told)) => told,
        };
        let mut views = stage.views.borrow_mut();
        let view = views.entry(watcher).or_default();
        let Some(told) = told else {
            stage.note(guest(watcher), "watches from now on");
            view.begin();
            continue;
        };
        if let Some(wrong) = view.take(told) {
            let what = format!("client{watcher} was told {wrong}");
            stage.history.borrow_mut().misled.push((stage.now(), what));
        }
    }
}
