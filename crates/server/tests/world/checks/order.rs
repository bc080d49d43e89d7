//! Tokens grow: who was granted a name before another asked for it has the smaller token, and no token is given twice.

use std::collections::BTreeSet;

use super::{Case, Violation, samples};
use crate::history::{Asked, History, Hold, Outcome};

const NAME: &str = "order of tokens";

pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in history.names() {
        // A grant that is made once more to its holder keeps its token, and so does one that is weakened.
        let mut seen = BTreeSet::new();
        let firsts: Vec<&Hold> = history.holds_of(&name).filter(|hold| seen.insert(hold.token)).collect();
        for earlier in &firsts {
            found.extend(firsts.iter().filter_map(|later| went_back(earlier, later)));
        }
    }
    for (index, one) in history.holds.iter().enumerate() {
        let again = history.holds[..index]
            .iter()
            .find(|other| other.token == one.token && other.session != one.session);
        found.extend(again.map(|other| {
            let what = format!("token {} for client{} and client{}", one.token, other.client, one.client);
            Violation::new(NAME, one.since, what)
        }));
    }
    found
}

fn went_back(earlier: &Hold, later: &Hold) -> Option<Violation> {
    let is_wrong = earlier.since < later.asked && later.token < earlier.token;
    is_wrong.then(|| {
        let what = format!(
            "token {} of {} was given at {}, and token {} was asked for at {} and given at {}",
            earlier.token, earlier.name, earlier.since, later.token, later.asked, later.since
        );
        Violation::new(NAME, later.since, what)
    })
}

pub const CASES: &[Case] = &[
    ("order_refuses_a_token_that_goes_back", || {
        let history = samples::held(vec![samples::exclusive(1, 7, 10, 20), samples::exclusive(2, 6, 40, 50)]);
        assert_eq!(check(&history).len(), 1);
    }),
    ("order_refuses_a_token_twice", || {
        let history = samples::held(vec![samples::exclusive(1, 7, 10, 20), samples::exclusive(2, 7, 40, 50)]);
        assert_eq!(check(&history).len(), 1);
    }),
    ("order_allows_tokens_of_requests_at_one_time_to_be_answered_in_any_order", || {
        let mut history =
            samples::held(vec![samples::exclusive(1, 7, 10, 20), samples::exclusive(2, 6, 40, 50)]);
        history.holds[1].asked = 8;
        assert!(check(&history).is_empty());
    }),
    ("order_knows_that_a_grant_made_once_more_may_be_an_older_one", || {
        let unheard = samples::asked(2, 5, Some(8), Outcome::Unknown("it vanished"));
        let once_more = Asked { is_reentrant: true, ..samples::asked(2, 35, None, Outcome::Granted(6)) };
        let mut history = History { asked: vec![unheard, once_more], ..History::default() };
        assert_eq!(history.asked_first(1, "a"), 5);
        assert_eq!(history.asked_first(1, "b"), 35, "it was not asked for before");
        history.asked[1].session = 3;
        assert_eq!(history.asked_first(1, "a"), 35, "nor by this session");
        history.asked[1].session = 2;
        history.asked[0].outcome = Some(Outcome::Granted(5));
        assert_eq!(history.asked_first(1, "a"), 35, "its client has heard of it");
    }),
];
