//! Nodes that have applied the same have come to the same.

use super::{Case, Violation, samples};
use crate::history::{Micros, Quiet};

const NAME: &str = "nodes agree";

pub fn check(quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let differ = quiet.states.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let found = differ.map(|pair| {
        let what =
            format!("nodes {} and {} differ: {:?} and {:?}", pair[0].0, pair[1].0, pair[0].1, pair[1].1);
        Violation::new(NAME, at, what)
    });
    found.collect()
}

pub const CASES: &[Case] = &[("equal_refuses_states_that_differ", || {
    let quiet = |other| Quiet {
        believed: Vec::new(),
        states: vec![(1, samples::state(&[1])), (2, samples::state(other))],
    };
    assert!(check(&quiet(&[1]), 0).is_empty());
    assert_eq!(check(&quiet(&[2]), 0).len(), 1);
})];
