//! Nothing granted is lost, and nothing is held that nobody knows of: while everybody is idle, each session that lives
//! holds on every node just what its client thinks it holds.

use conclave_service::SessionId;

use super::{Case, Violation, samples};
use crate::history::{Micros, Quiet};

const NAME: &str = "grants are kept";

pub fn check(quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let mut found = Vec::new();
    for (node, state) in &quiet.states {
        for (session, believed) in &quiet.believed {
            let shown = state.session(SessionId(*session));
            let held: Vec<u64> =
                shown.iter().flat_map(|shown| shown.held.iter().map(|held| held.token.0)).collect();
            if held != *believed {
                let what = format!(
                    "session {session:016x} holds {held:?} on node {node}, and believes {believed:?}"
                );
                found.push(Violation::new(NAME, at, what));
            }
        }
    }
    found
}

pub const CASES: &[Case] = &[("kept_refuses_what_only_one_side_knows_of", || {
    let quiet = |believed| Quiet { believed: vec![(1, believed)], states: vec![(1, samples::state(&[1]))] };
    assert!(check(&quiet(vec![1]), 0).is_empty());
    assert_eq!(check(&quiet(vec![]), 0).len(), 1);
    assert_eq!(check(&quiet(vec![1, 2]), 0).len(), 1);
})];
