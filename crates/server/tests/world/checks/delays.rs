//! Lock delays: when a holder is lost, nobody is granted its names for as long as it asked for.
//!
//! A session that cannot be renewed is given up by its client before the service ends it. So whoever is granted the name next
//! is granted it no sooner than the delay after that. Clocks of nodes may be half a percent too fast, and this clock is right.

use conclave_client::Mode;

use super::{Case, Violation, samples};
use crate::history::{End, History, Hold};

const NAME: &str = "lock delays";
/// What the clock of a leader may be too fast, in thousandths, and what rounding may take.
const TOO_FAST: u64 = 10;
const GRAIN: u64 = 2_000;

pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for lost in history.holds.iter().filter(|hold| ran_out(history, hold)) {
        let delay = history.asked[lost.request].lock_delay;
        let open = lost.last() + (delay - delay * TOO_FAST / 1000).saturating_sub(GRAIN);
        let early = history.holds_of(&lost.name).find(|next| {
            next.token > lost.token
                && next.session != lost.session
                && lost.last() < next.since
                && next.since < open
                && excludes(lost.mode, next.mode)
                && !is_older(history, next)
        });
        found.extend(early.map(|next| {
            let what = format!(
                "client{} got {} at {}, in the delay of {delay} us of client{} that was lost at {}",
                next.client,
                next.name,
                next.since,
                lost.client,
                lost.last()
            );
            Violation::new(NAME, next.since, what)
        }));
    }
    found
}

/// Whether two cannot hold a name together. Where they can, one may be granted it before the service ends the session of the
/// other, and so before the delay begins.
fn excludes(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared, Mode::Shared) => false,
        (Mode::Permits { count, limit }, Mode::Permits { count: more, .. }) => count + more > limit,
        _ => true,
    }
}

/// Whether a hold ended because its session could not be renewed, and by nothing else.
fn ran_out(history: &History, hold: &Hold) -> bool {
    let asked = &history.asked[hold.request];
    let is_late = hold.why_lost.as_ref().is_some_and(|why| why.contains("could not be renewed"));
    hold.end == Some(End::Lost)
        && is_late
        && asked.lock_delay > 0
        && !hold.is_fragile
        && !history.resumed.contains(&hold.session)
        && !hold.may_be_taken(&history.forces, u64::MAX)
        && !history.conversions.iter().any(|made| made.token == hold.token && !made.is_answered)
}

/// Whether a hold goes on under a token that its session had before.
fn is_older(history: &History, hold: &Hold) -> bool {
    history.holds_of(&hold.name).any(|other| other.token == hold.token && other.since < hold.since)
}

pub const CASES: &[Case] = &[("delays_refuse_who_gets_it_too_soon", || {
    let mut asked = samples::asked(1, 10, None, crate::history::Outcome::Granted(1));
    asked.lock_delay = 100_000;
    let mut lost = samples::exclusive(1, 1, 10, 1_000);
    lost.end = Some(End::Lost);
    lost.why_lost = Some("it could not be renewed in time".to_owned());
    let next = samples::exclusive(2, 2, 50_000, 60_000);
    let mut history = History { asked: vec![asked], holds: vec![lost, next], ..History::default() };
    assert_eq!(check(&history).len(), 1);
    history.holds[1].since = 101_000;
    assert!(check(&history).is_empty());
    history.holds[1].since = 50_000;
    history.forces.push(samples::force(20, 30));
    assert!(check(&history).is_empty(), "force begins no delay");
    history.forces.clear();
    history.holds.iter_mut().for_each(|hold| hold.mode = Mode::Shared);
    assert!(check(&history).is_empty(), "they may hold it together");
})];
