//! No node goes on with a disk on which a bit is not as it was written.

use super::{Case, Violation};
use crate::history::History;

const NAME: &str = "damage is found";

pub fn check(history: &History) -> Vec<Violation> {
    history.overlooked.iter().map(|(at, what)| Violation::new(NAME, *at, what.clone())).collect()
}

pub const CASES: &[Case] = &[("damage_refuses_a_node_that_goes_on", || {
    let mut history = History::default();
    assert!(check(&history).is_empty());
    history.overlooked.push((7, "a bit".to_owned()));
    assert_eq!(check(&history).len(), 1);
})];
