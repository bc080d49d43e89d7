//! When everybody is gone, nothing is left: no holder, nobody who waits, no session.

use super::{Case, Violation, samples};
use crate::history::{Micros, Quiet};

const NAME: &str = "no ghosts";

pub fn check(quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let left = quiet.states.iter().filter_map(|(node, state)| {
        let totals = state.totals();
        let is_empty = totals.held == 0 && totals.waiting == 0 && totals.sessions == 0;
        (!is_empty).then(|| Violation::new(NAME, at, format!("node {node} still has {totals:?}")))
    });
    left.collect()
}

pub const CASES: &[Case] = &[("ghosts_refuses_who_is_left_behind", || {
    let quiet = |sessions| Quiet { believed: Vec::new(), states: vec![(1, samples::state(sessions))] };
    assert!(check(&quiet(&[]), 0).is_empty());
    assert_eq!(check(&quiet(&[1, 2]), 0).len(), 1);
})];
