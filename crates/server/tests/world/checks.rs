//! What must be true of every history. Each check is a pure function, and comes with histories that it must refuse.

mod contended;
mod damage;
mod delays;
mod equal;
mod exclusion;
mod fifo;
mod ghosts;
mod heirs;
mod kept;
mod leases;
mod losses;
mod once;
mod order;
mod priority;
mod reads;
mod reasons;
mod samples;
mod values;
pub mod watchers;

use crate::history::{History, Micros, Quiet};

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    pub check: &'static str,
    pub at: Micros,
    pub what: String,
}

impl Violation {
    pub fn new(check: &'static str, at: Micros, what: impl Into<String>) -> Self {
        Self { check, at, what: what.into() }
    }
}

/// A case of a check: a name, and a function that panics if the check does not do what it should.
pub type Case = (&'static str, fn());

/// Everything that can be said of what clients saw.
pub fn of_history(history: &History) -> Vec<Violation> {
    let checks = [
        exclusion::check,
        order::check,
        fifo::check,
        priority::check,
        reads::check,
        reasons::check,
        losses::check,
        delays::check,
        values::check,
        heirs::check,
        damage::check,
        watchers::check,
        contended::check,
        leases::check,
    ];
    checks.iter().flat_map(|check| check(history)).collect()
}

/// Everything that can be said while clients are idle, and each holds one thing.
pub fn of_quiet(history: &History, quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let mut found = kept::check(quiet, at);
    found.extend(once::check(history, quiet, at));
    found
}

/// Everything that can be said when nobody is left.
pub fn of_end(quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let mut found = ghosts::check(quiet, at);
    found.extend(equal::check(quiet, at));
    found
}

/// The cases of all checks.
pub fn cases() -> Vec<Case> {
    let all: [&[Case]; 18] = [
        exclusion::CASES,
        order::CASES,
        fifo::CASES,
        priority::CASES,
        losses::CASES,
        delays::CASES,
        values::CASES,
        heirs::CASES,
        damage::CASES,
        watchers::CASES,
        contended::CASES,
        leases::CASES,
        reads::CASES,
        reasons::CASES,
        kept::CASES,
        once::CASES,
        ghosts::CASES,
        equal::CASES,
    ];
    all.concat()
}
