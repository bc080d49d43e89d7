//! Mutual exclusion: what clients believe to hold at one time goes together.
//!
//! A belief begins when the grant is answered, and ends when its client begins to release it or is told that it is lost.
//! What an operator takes by force may be believed in for longer, and so may what a session holds that ends with its
//! connection: then the one who got it next has the greater token, and whoever looks at tokens is not misled.

use std::collections::BTreeMap;

use conclave_client::Mode;

use super::{Case, Violation, samples};
use crate::history::{Force, History, Hold};

const NAME: &str = "mutual exclusion";

pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in history.names() {
        let mut holds: Vec<&Hold> = history.holds_of(&name).collect();
        holds.sort_by_key(|hold| hold.since);
        for (index, later) in holds.iter().enumerate() {
            let present: Vec<&Hold> =
                holds[..index].iter().copied().filter(|earlier| overlap(earlier, later)).collect();
            found.extend(judge(&present, later, &history.forces));
        }
    }
    found
}

fn overlap(earlier: &Hold, later: &Hold) -> bool {
    later.since < earlier.last() && later.since < later.last() && earlier.since < earlier.last()
}

/// One that is given while others are held.
fn judge(present: &[&Hold], later: &Hold, forces: &[Force]) -> Option<Violation> {
    let in_the_way: Vec<&&Hold> = present
        .iter()
        .filter(|earlier| earlier.token != later.token)
        .filter(|earlier| !(earlier.may_be_taken(forces, later.since) && earlier.token < later.token))
        .filter(|earlier| !(later.may_be_taken(forces, later.since) && later.token < earlier.token))
        .collect();
    let is_wrong = match later.mode {
        Mode::Permits { count, limit } => permits_of(&in_the_way, limit) + count > limit,
        Mode::Shared => in_the_way.iter().any(|earlier| earlier.mode != Mode::Shared),
        Mode::Exclusive => !in_the_way.is_empty(),
    };
    is_wrong.then(|| {
        let others: Vec<String> = in_the_way.iter().map(|hold| describe(hold)).collect();
        let what = format!("{} while {}", describe(later), others.join(" and "));
        Violation::new(NAME, later.since, what)
    })
}

/// How many permits they have together. A grant that was made twice has its permits once.
fn permits_of(holds: &[&&Hold], limit: u32) -> u32 {
    let mut by_token = BTreeMap::new();
    for hold in holds {
        let permits = match hold.mode {
            Mode::Permits { count, .. } => count,
            Mode::Exclusive | Mode::Shared => limit,
        };
        by_token.insert(hold.token, permits);
    }
    by_token.values().sum()
}

fn describe(hold: &Hold) -> String {
    let Hold { client, name, mode, token, since, .. } = hold;
    format!("client{client} holds {name} ({mode:?}, token {token}, since {since})")
}

pub const CASES: &[Case] = &[
    ("exclusion_refuses_two_at_a_time", || {
        let history = samples::held(vec![samples::exclusive(1, 1, 10, 30), samples::exclusive(2, 2, 20, 40)]);
        assert_eq!(check(&history).len(), 1);
    }),
    ("exclusion_allows_one_after_the_other", || {
        let history = samples::held(vec![samples::exclusive(1, 1, 10, 30), samples::exclusive(2, 2, 30, 40)]);
        assert!(check(&history).is_empty());
    }),
    ("exclusion_refuses_a_reader_beside_a_writer", || {
        let reader = samples::hold(2, 2, Mode::Shared, 20, 40);
        let history = samples::held(vec![samples::exclusive(1, 1, 10, 30), reader.clone()]);
        assert_eq!(check(&history).len(), 1);
        let history = samples::held(vec![samples::hold(1, 1, Mode::Shared, 10, 30), reader]);
        assert!(check(&history).is_empty());
    }),
    ("exclusion_counts_permits", || {
        let permits =
            |session, count| samples::hold(session, session, Mode::Permits { count, limit: 3 }, 10, 30);
        assert!(check(&samples::held(vec![permits(1, 1), permits(2, 2)])).is_empty());
        assert_eq!(check(&samples::held(vec![permits(1, 2), permits(2, 2)])).len(), 1);
    }),
    ("exclusion_goes_by_tokens_where_something_may_be_taken", || {
        let mut history =
            samples::held(vec![samples::exclusive(1, 1, 10, 30), samples::exclusive(2, 2, 20, 40)]);
        history.forces.push(samples::force(15, 18));
        assert!(check(&history).is_empty());
        history.forces[0] = samples::force(25, 28);
        assert_eq!(check(&history).len(), 1, "it came too late to explain that");
        history.forces.clear();
        history.holds[0].is_fragile = true;
        assert!(check(&history).is_empty(), "the service may have seen its connection end");
        history.holds[1].token = 0;
        assert_eq!(check(&history).len(), 1, "the later one must have the greater token");
    }),
];
