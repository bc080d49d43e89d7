//! A request acts once, however often it is sent: there were no more grants than were told, than may have been made to those
//! who do not know, and than conversions to a stronger mode that were not refused. A grant that is made once more keeps its
//! token, and a weaker mode takes none: neither leaves room for another grant.

use std::collections::BTreeSet;

use conclave_client::Code;

use super::{Case, Violation, samples};
use crate::history::{Conversion, History, Micros, Outcome, Quiet};

const NAME: &str = "requests act once";

pub fn check(history: &History, quiet: &Quiet, at: Micros) -> Vec<Violation> {
    let told = history.asked.iter().filter_map(|asked| match asked.outcome {
        Some(Outcome::Granted(token)) => Some(token),
        _ => None,
    });
    let told: BTreeSet<u64> = told.collect();
    let unknown = history
        .asked
        .iter()
        .filter(|asked| matches!(asked.outcome, None | Some(Outcome::Unknown(_))))
        .count();
    let stronger = history.conversions.iter().filter(|made| !made.is_refused && !made.is_weaker).count();
    let most = (told.len() + unknown + stronger) as u64;
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
    let weaker = Conversion { token: 1, is_answered: true, is_refused: false, is_weaker: true };
    let history = History { conversions: vec![weaker.clone()], ..History::default() };
    assert_eq!(check(&history, &quiet, 0).len(), 1, "a weaker mode is no grant");
    let stronger = Conversion { is_weaker: false, ..weaker };
    assert!(check(&History { conversions: vec![stronger], ..History::default() }, &quiet, 0).is_empty());
    let refused = samples::asked(1, 1, None, Outcome::Refused(Code::Busy));
    assert_eq!(check(&History { asked: vec![refused], ..History::default() }, &quiet, 0).len(), 1);
})];
