//! Holders are told that somebody waits: soon after somebody does, and only then.
//!
//! The news is lost with a connection that breaks. So that it comes is demanded only of what happened before anything went
//! wrong.

use conclave_client::Mode;

use super::{Case, Violation, samples};
use crate::history::{Asked, Conversion, End, History, Hold, Micros, Outcome};

const NAME: &str = "holders hear of waiters";
/// How long the news may take.
const SOON: Micros = 200_000;

pub fn check(history: &History) -> Vec<Violation> {
    let untold = (0..history.holds.len()).filter_map(|index| unaware(history, index));
    let alarmed =
        history.alarms.iter().filter_map(|(hold, at)| groundless(history, &history.holds[*hold], *at));
    untold.chain(alarmed).collect()
}

/// Somebody who was not told, though it held a name while another one stood in its queue.
fn unaware(history: &History, index: usize) -> Option<Violation> {
    let hold = &history.holds[index];
    let is_plain = hold.mode == Mode::Exclusive && hold.together.len() == 1;
    if !is_plain || hold.end != Some(End::Released) || is_told(history, index) {
        return None;
    }
    let waiter = history.asked.iter().find(|asked| {
        let Some(queued) = asked.queued else { return false };
        let soon = queued.max(hold.since) + SOON;
        asked.session != hold.session
            && is_for(asked, &hold.name)
            && queued > hold.since
            && soon < hold.last()
            && soon < history.calm_until
            && asked.ended.is_none_or(|ended| ended > soon)
    })?;
    let what = format!(
        "client{} was not told that client{} waits for {} since {:?}",
        hold.client, waiter.client, hold.name, waiter.queued
    );
    Some(Violation::new(NAME, hold.last().min(history.calm_until), what))
}

/// Whether it was told of this grant, be it as another hold.
fn is_told(history: &History, index: usize) -> bool {
    let token = history.holds[index].token;
    history.alarms.iter().any(|(hold, _)| history.holds[*hold].token == token)
}

/// Somebody who was told though nobody can have waited.
fn groundless(history: &History, hold: &Hold, at: Micros) -> Option<Violation> {
    let granted = hold.asked;
    // Another strand of the same session waits like anybody else.
    let may_wait = |(index, asked): (usize, &Asked)| {
        index != hold.request
            && asked.wants.iter().any(|(name, _)| hold.together.contains(name))
            && asked.began < at
            && last_wait(asked) > granted
    };
    // A conversion waits in the queue as well.
    let may_convert = |made: &Conversion| {
        let is_of = |other: &Hold| other.token == made.token && hold.together.contains(&other.name);
        history.holds.iter().any(|other| other.session != hold.session && is_of(other))
    };
    let is_met =
        history.asked.iter().enumerate().any(may_wait) || history.conversions.iter().any(may_convert);
    (!is_met).then(|| {
        let what = format!("client{} was told that somebody waits for {}", hold.client, hold.name);
        Violation::new(NAME, at, what)
    })
}

/// Until when a request may have stood in a queue.
fn last_wait(asked: &Asked) -> Micros {
    match asked.outcome {
        Some(Outcome::Granted(_) | Outcome::Refused(_)) => asked.ended.unwrap_or(Micros::MAX),
        Some(Outcome::Unknown(_)) | None => Micros::MAX,
    }
}

fn is_for(asked: &Asked, name: &str) -> bool {
    matches!(asked.wants.as_slice(), [(wanted, _)] if wanted == name)
}

pub const CASES: &[Case] = &[("contended_refuses_silence_and_false_alarms", || {
    let mut hold = samples::exclusive(1, 1, 10, 900_000);
    hold.end = Some(End::Released);
    hold.request = 1;
    let mut waiter = samples::asked(2, 100, Some(110), Outcome::Granted(2));
    waiter.ended = Some(900_010);
    let mut history =
        History { asked: vec![waiter], holds: vec![hold], calm_until: 500_000, ..History::default() };
    assert_eq!(check(&history).len(), 1);
    history.calm_until = 100_000;
    assert!(check(&history).is_empty(), "the news may have been lost");
    history.calm_until = 500_000;
    history.alarms.push((0, 5_000));
    assert!(check(&history).is_empty());
    history.asked[0].began = 6_000;
    assert_eq!(check(&history).len(), 1, "nobody waited yet");
    history.asked.clear();
    assert_eq!(check(&history).len(), 1, "nobody waited");
})];
