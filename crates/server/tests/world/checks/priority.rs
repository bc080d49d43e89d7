//! Greater priority goes first: of two who wait for one name the one with more is granted it before the other, if it was told
//! that it waits before the name was given back.

use conclave_client::Mode;

use super::{Case, Violation, samples};
use crate::history::{Asked, History, Hold, Outcome};

const NAME: &str = "greater priority goes first";

pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for second in &history.asked {
        let (Some(name), Some(token)) = (sole_name(second), granted(second)) else { continue };
        let Some(opened) = given_back(history, name, token) else { continue };
        let first = history.asked.iter().find(|first| {
            first.priority > second.priority
                && sole_name(first) == Some(name)
                && first.queued.is_some_and(|queued| queued < opened)
                && granted(first).is_some_and(|other| other > token)
        });
        if let Some(first) = first.filter(|_| !history.heirs.contains(&second.session)) {
            let what = format!(
                "client{} waited for {name} with priority {} since {:?}, and client{} with {} got token {token} at {opened}",
                first.client, first.priority, first.queued, second.client, second.priority
            );
            found.push(Violation::new(NAME, opened, what));
        }
    }
    found
}

/// The one name that is asked for alone, by a request that can be granted only in its turn.
fn sole_name(asked: &Asked) -> Option<&str> {
    match asked.wants.as_slice() {
        [(name, Mode::Exclusive)] if !asked.is_reentrant => Some(name),
        _ => None,
    }
}

fn granted(asked: &Asked) -> Option<u64> {
    match asked.outcome {
        Some(Outcome::Granted(token)) => Some(token),
        _ => None,
    }
}

/// When the one who held a name before began to give it back, at the earliest; nothing if that is not known for certain.
fn given_back(history: &History, name: &str, token: u64) -> Option<u64> {
    let before = history.holds_of(name).filter(|hold| hold.token < token).max_by_key(|hold| hold.token)?;
    let is_plain = |hold: &Hold| {
        hold.mode == Mode::Exclusive && !hold.is_fragile && !hold.may_be_taken(&history.forces, u64::MAX)
    };
    is_plain(before).then(|| before.last())
}

pub const CASES: &[Case] = &[("priority_refuses_who_goes_before_one_with_more", || {
    let mut first = samples::asked(1, 10, Some(15), Outcome::Granted(9));
    first.priority = 1;
    let second = samples::asked(2, 12, Some(16), Outcome::Granted(8));
    let holds = vec![samples::exclusive(3, 7, 5, 30)];
    let mut history = History { asked: vec![first, second], holds, ..History::default() };
    assert_eq!(check(&history).len(), 1);
    history.asked[0].queued = Some(31);
    assert!(check(&history).is_empty(), "it came too late");
    history.asked[0].queued = Some(15);
    history.asked[0].priority = 0;
    assert!(check(&history).is_empty());
})];
