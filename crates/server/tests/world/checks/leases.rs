//! What is held is given up before anybody else can get it: from the moment until which a session is safe, by the clock of
//! its client, nothing of it is held any more, whatever timers have not gone off yet.

use super::{Case, Violation};
use crate::history::History;

const NAME: &str = "leases are given up in time";

pub fn check(history: &History) -> Vec<Violation> {
    history.outlived.iter().map(|(at, what)| Violation::new(NAME, *at, what.clone())).collect()
}

pub const CASES: &[Case] = &[("leases_refuse_what_is_held_for_too_long", || {
    let mut history = History::default();
    assert!(check(&history).is_empty());
    history.outlived.push((7, "a lock".to_owned()));
    assert_eq!(check(&history).len(), 1);
})];
