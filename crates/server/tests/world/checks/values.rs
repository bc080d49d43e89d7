//! A value that a leader was told is shown is what others read, as long as it leads.

use super::{Case, Violation};
use crate::history::History;

const NAME: &str = "values are shown";

pub fn check(history: &History) -> Vec<Violation> {
    history.wrong_values.iter().map(|(at, what)| Violation::new(NAME, *at, what.clone())).collect()
}

pub const CASES: &[Case] = &[("values_refuse_what_was_replaced", || {
    let mut history = History::default();
    assert!(check(&history).is_empty());
    history.wrong_values.push((7, "an old one".to_owned()));
    assert_eq!(check(&history).len(), 1);
})];
