//! A request acts once, however often it is sent: there were no more grants than requests that may have been granted.

use super::{Case, Violation, samples};
use crate::history::{History, Micros, Outcome, Quiet};

const NAME: &str = "requests act once";

pub fn check(history: &History, quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let may_be_granted =
        history.asked.iter().filter(|asked| !matches!(asked.outcome, Some(Outcome::Refused(_)))).count();
    let conversions = history.conversions.iter().filter(|conversion| !conversion.is_refused).count();
    let most = (may_be_granted + conversions) as u64;
    let too_many = quiet.states.iter().filter(|(_, state)| state.totals().grants > most);
    let found = too_many.map(|(node, state)| {
        let what = format!("node {node} counts {} grants for {most} requests", state.totals().grants);
        Violation::new(NAME, at, what)
    });
    found.collect()
}

pub const CASES: &[Case] = &[("once_refuses_more_grants_than_requests", || {
    let quiet = Quiet { believed: Vec::new(), states: vec![(1, samples::state(&[1]))] };
    assert_eq!(check(&History::default(), &quiet, 0).len(), 1);
    let asked = vec![samples::asked(1, 1, None, Outcome::Granted(1))];
    assert!(check(&History { asked, ..History::default() }, &quiet, 0).is_empty());
})];
