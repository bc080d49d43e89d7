//! What is lost is lost for a reason: it was taken by force, its session could not be renewed, it ended with its connection,
//! or another run of the client took the session over. A session that was renewed lives for its time to live.

use super::{Case, Violation, samples};
use crate::history::{End, History, Hold};

const NAME: &str = "losses have reasons";
const EARLY: &str = "renewed sessions live";

/// What the client itself knows, or did.
const KNOWN: &[&str] =
    &["could not be renewed", "taken up again", "another run", "taken over", "closed", "no such session"];

pub fn check(history: &History) -> Vec<Violation> {
    let lost = history.holds.iter().filter_map(|hold| groundless(history, hold));
    let early = history.ended_early.iter().map(|(at, what)| Violation::new(EARLY, *at, what.clone()));
    lost.chain(early).collect()
}

fn groundless(history: &History, hold: &Hold) -> Option<Violation> {
    let why = hold.why_lost.as_ref()?;
    let at = hold.until.unwrap_or(hold.since);
    let is_known = KNOWN.iter().any(|known| why.contains(known));
    // A refused release is told a moment after it was asked for.
    let is_taken = hold.may_be_taken(&history.forces, at.saturating_add(60_000_000));
    let is_resumed = history.resumed.contains(&hold.session);
    let is_in_doubt = history.conversions.iter().any(|made| made.token == hold.token && !made.is_answered);
    // What was released once more than it was held.
    let is_twice = hold.end != Some(End::Lost)
        && history.holds.iter().filter(|other| other.token == hold.token && other.name == hold.name).count()
            > 1;
    let is_expired = why.contains("expired") && history.ended_early.is_empty();
    let has_reason = is_known || is_taken || is_resumed || is_in_doubt || is_twice || is_expired;
    (!has_reason).then(|| {
        let what = format!("client{} lost {} under token {}: {why}", hold.client, hold.name, hold.token);
        Violation::new(NAME, at, what)
    })
}

pub const CASES: &[Case] = &[
    ("losses_refuse_what_nobody_took", || {
        let mut history = samples::held(vec![samples::exclusive(1, 1, 10, 30)]);
        assert!(check(&history).is_empty());
        history.holds[0].end = Some(End::Lost);
        history.holds[0].why_lost = Some("it was taken while there was no connection".to_owned());
        assert_eq!(check(&history).len(), 1);
        history.forces.push(samples::force(15, 18));
        assert!(check(&history).is_empty(), "it was taken by force");
        history.forces.clear();
        history.holds[0].why_lost = Some("it could not be renewed in time".to_owned());
        assert!(check(&history).is_empty(), "the client knows");
        history.holds[0].end = Some(End::Released);
        history.holds[0].why_lost = Some("nothing is held under token 1".to_owned());
        assert_eq!(check(&history).len(), 1, "it was neither lost nor taken");
    }),
    ("losses_refuse_sessions_that_end_early", || {
        let mut history = History::default();
        history.ended_early.push((7, "it was safe".to_owned()));
        assert_eq!(check(&history).len(), 1);
    }),
];
