//! Refusals have a reason: who is told that a name is busy met somebody who may have held it or waited for it, and who is
//! told that its time is over has waited for so long.

use conclave_client::Code;

use super::{Case, Violation, samples};
use crate::history::{Asked, History, Micros, Outcome};

const NAME: &str = "refusals have reasons";
/// Clocks of nodes may be this much too fast, in thousandths, and time comes in milliseconds.
const TOO_FAST: Micros = 10;
const GRAIN: Micros = 2_000;

pub fn check(history: &History) -> Vec<Violation> {
    let refused = history.asked.iter().enumerate().filter_map(|(index, asked)| match asked.outcome {
        Some(Outcome::Refused(Code::Busy)) => busy(history, index, asked),
        Some(Outcome::Refused(Code::TimedOut)) => late(asked),
        _ => None,
    });
    refused.collect()
}

fn busy(history: &History, index: usize, asked: &Asked) -> Option<Violation> {
    let ended = asked.ended.unwrap_or(Micros::MAX);
    let mut others = history.asked.iter().enumerate().filter(|(other, _)| *other != index);
    let is_met = others.any(|(other, met)| {
        met.began < ended && shares(asked, met) && last_trace(history, other, met) >= asked.began
    });
    (!is_met).then(|| Violation::new(NAME, ended, format!("nobody was in the way of {asked:?}")))
}

fn shares(one: &Asked, other: &Asked) -> bool {
    one.wants.iter().any(|(name, _)| other.wants.iter().any(|(wanted, _)| wanted == name))
}

/// Until when a request may have been in anybody's way.
fn last_trace(history: &History, index: usize, asked: &Asked) -> Micros {
    match &asked.outcome {
        Some(Outcome::Refused(_)) => asked.ended.unwrap_or(Micros::MAX),
        Some(Outcome::Granted(_)) => {
            let holds = history.holds.iter().filter(|hold| hold.request == index);
            holds.map(|hold| hold.gone.unwrap_or(Micros::MAX)).max().unwrap_or(Micros::MAX)
        }
        Some(Outcome::Unknown(_)) | None => Micros::MAX,
    }
}

fn late(asked: &Asked) -> Option<Violation> {
    let waited = asked.ended? - asked.began;
    let limit = asked.limit?;
    let is_early = waited + GRAIN + limit * TOO_FAST / 1000 < limit;
    is_early.then(|| {
        Violation::new(NAME, asked.began + waited, format!("{waited} us were too few for {asked:?}"))
    })
}

pub const CASES: &[Case] = &[
    ("reasons_refuse_busy_where_nobody_is", || {
        let refused = samples::asked(1, 10, None, Outcome::Refused(Code::Busy));
        let mut history = History { asked: vec![refused], ..History::default() };
        assert_eq!(check(&history).len(), 1);
        history.asked.push(samples::asked(2, 5, None, Outcome::Granted(1)));
        history.holds.push(samples::exclusive(2, 1, 6, 30));
        history.holds[0].request = 1;
        assert!(check(&history).is_empty());
        history.holds[0].gone = Some(8);
        assert_eq!(check(&history).len(), 1, "it was gone before");
    }),
    ("reasons_refuse_to_give_up_early", || {
        let mut asked = samples::asked(1, 10, None, Outcome::Refused(Code::TimedOut));
        asked.limit = Some(100_000);
        asked.ended = Some(90_000);
        let mut history = History { asked: vec![asked], ..History::default() };
        assert_eq!(check(&history).len(), 1);
        history.asked[0].ended = Some(100_000);
        assert!(check(&history).is_empty());
    }),
];
