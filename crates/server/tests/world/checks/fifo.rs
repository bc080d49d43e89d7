//! First come, first served: whoever was told that it stands in a queue goes before all who ask later, at the same
//! priority.
//!
//! Whoever is named by a leader as its heir goes before all others. Only those who were both granted are compared. One that was not may have left the queue before the other's turn came,
//! and nobody but the service knows when; one that should have been granted and never was is caught by the demand that
//! every request ends.

use super::{Case, Violation, samples};
use crate::history::{Asked, History, Outcome};

const NAME: &str = "first come, first served";

pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for first in &history.asked {
        let (Some(queued), Some(Outcome::Granted(token))) = (first.queued, &first.outcome) else { continue };
        let after = history.asked.iter().filter(|second| {
            queued < second.began && competes(first, second) && !history.heirs.contains(&second.session)
        });
        for second in after {
            let Some(Outcome::Granted(other)) = &second.outcome else { continue };
            if other < token {
                found.push(overtaken(first, second, *token, *other));
            }
        }
    }
    found
}

/// Whether a request has to wait for another that is in a queue before it.
fn competes(first: &Asked, second: &Asked) -> bool {
    let is_common = second.wants.iter().any(|(name, _)| first.wants.iter().any(|(other, _)| other == name));
    // One that is covered by what its session holds already need not wait at all.
    is_common && second.priority <= first.priority && !second.is_reentrant
}

fn overtaken(first: &Asked, second: &Asked, token: u64, other: u64) -> Violation {
    let what = format!(
        "client{} was queued at {:?} and got token {token}; client{} asked at {} and got token {other}",
        first.client, first.queued, second.client, second.began
    );
    Violation::new(NAME, second.ended.unwrap_or(second.began), what)
}

pub const CASES: &[Case] = &[
    ("fifo_refuses_to_be_overtaken", || {
        let first = samples::asked(1, 10, Some(15), Outcome::Granted(9));
        let second = samples::asked(2, 20, None, Outcome::Granted(8));
        let mut history = History { asked: vec![first, second], ..History::default() };
        assert_eq!(check(&history).len(), 1);
        history.heirs.push(2);
        assert!(check(&history).is_empty(), "an heir goes first");
        history.heirs.clear();
        history.asked[1].priority = 1;
        assert!(check(&history).is_empty(), "greater priority goes first");
    }),
    ("fifo_allows_who_asked_before_the_other_was_queued", || {
        let first = samples::asked(1, 10, Some(25), Outcome::Granted(9));
        let second = samples::asked(2, 20, None, Outcome::Granted(8));
        assert!(check(&History { asked: vec![first, second], ..History::default() }).is_empty());
    }),
];
