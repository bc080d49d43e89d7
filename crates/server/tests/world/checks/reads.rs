//! Reads are of the present: they show what is held throughout, and nothing that ended before they began or began after
//! they ended.

use conclave_client::Mode;

use super::{Case, Violation, samples};
use crate::history::{Conversion, End, Found, History, Hold, Read};

const NAME: &str = "reads of the present";

pub fn check(history: &History) -> Vec<Violation> {
    let reads = history.reads.iter().flat_map(|read| judge(history, read));
    reads.chain(observers(history)).collect()
}

fn judge(history: &History, read: &Read) -> Vec<Violation> {
    let holds: Vec<&Hold> = history.holds_of(&read.name).collect();
    let mut wrong = Vec::new();
    let mut refuse = |what: String| wrong.push(Violation::new(NAME, read.ended, format!("{read:?}: {what}")));
    match &read.found {
        Found::Holders { tokens, newest } => {
            for token in tokens {
                holds
                    .iter()
                    .filter(|hold| hold.token == *token)
                    .filter_map(|hold| excess(&holds, hold, read))
                    .for_each(&mut refuse);
            }
            for hold in
                holds.iter().filter(|hold| spans(history, hold, read) && !tokens.contains(&hold.token))
            {
                refuse(format!("token {} was held all the time", hold.token));
            }
            for hold in holds.iter().filter(|hold| hold.since < read.began && hold.token > *newest) {
                refuse(format!("token {} was given before, and is greater than the newest", hold.token));
            }
        }
        Found::Standing { token, is_held, is_known } => {
            for hold in holds.iter().filter(|hold| hold.token == *token) {
                if !is_known && hold.since < read.began {
                    refuse("that token was given before".to_owned());
                }
                if *is_held {
                    excess(&holds, hold, read).into_iter().for_each(&mut refuse);
                } else if spans(history, hold, read) {
                    refuse("that token was held all the time".to_owned());
                }
            }
        }
    }
    wrong
}

/// Whether it is certain that something was held from the beginning to the end of a read.
fn spans(history: &History, hold: &Hold, read: &Read) -> bool {
    // A conversion may have given it another token before its client knew, if it ever did.
    let is_in_doubt = history.conversions.iter().any(|made| made.token == hold.token && !made.is_answered);
    let is_lasting = hold.end != Some(End::Converted) && !is_in_doubt;
    let is_taken = hold.may_be_taken(&history.forces, read.ended);
    is_lasting && !is_taken && hold.since <= read.began && read.ended <= hold.last()
}

/// Why something cannot have been held during a read. A grant may have several records: it was made once more, or
/// weakened.
fn excess(holds: &[&Hold], hold: &Hold, read: &Read) -> Option<String> {
    let same: Vec<&&Hold> = holds.iter().filter(|other| other.token == hold.token).collect();
    if same.iter().all(|other| other.asked > read.ended) {
        return Some(format!("token {} was asked for only later", hold.token));
    }
    if same.iter().all(|other| other.gone.is_some_and(|gone| gone < read.began)) {
        return Some(format!("token {} was released before", hold.token));
    }
    let excludes = |next: &Hold| same.iter().all(|other| conflict(next, other));
    let next = holds.iter().find(|next| next.token > hold.token && next.since < read.began && excludes(next));
    next.map(|next| format!("token {} had been followed by {}", hold.token, next.token))
}

/// Whether one of them must have ended for the other to be given.
fn conflict(next: &Hold, hold: &Hold) -> bool {
    next.session != hold.session && (next.mode == Mode::Exclusive || hold.mode == Mode::Exclusive)
}

/// Whoever follows an election never sees an earlier term after a later one.
fn observers(history: &History) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for (index, seen) in history.seen.iter().enumerate() {
        let Some(term) = seen.term else { continue };
        let before = history.seen[..index]
            .iter()
            .filter(|other| other.observer == seen.observer && other.name == seen.name);
        if let Some(last) = before.filter_map(|other| other.term).max().filter(|last| *last > term) {
            let what = format!("client{} saw term {term} after term {last}", seen.observer);
            wrong.push(Violation::new(NAME, seen.at, what));
        }
        let early = history.holds.iter().find(|hold| hold.token == term && hold.asked > seen.at);
        wrong.extend(
            early.map(|_| {
                Violation::new(NAME, seen.at, format!("term {term} was seen before it was asked for"))
            }),
        );
    }
    wrong
}

pub const CASES: &[Case] = &[
    ("reads_refuse_to_miss_what_is_held", || {
        let mut history = samples::held(vec![samples::exclusive(1, 3, 10, 50)]);
        history.reads.push(samples::shown(20, 30, vec![], 3));
        assert_eq!(check(&history).len(), 1);
        history.reads[0] = samples::shown(20, 30, vec![3], 3);
        assert!(check(&history).is_empty());
        history.reads[0] = samples::shown(20, 60, vec![], 3);
        assert!(check(&history).is_empty(), "it may have been released meanwhile");
        history.reads[0] = samples::shown(20, 30, vec![4], 4);
        history.conversions.push(Conversion {
            token: 3,
            is_answered: true,
            is_refused: true,
            is_weaker: false,
        });
        assert_eq!(check(&history).len(), 1);
        history.conversions.push(Conversion {
            token: 3,
            is_answered: false,
            is_refused: false,
            is_weaker: false,
        });
        assert!(check(&history).is_empty(), "it may have another token by now");
    }),
    ("reads_refuse_to_show_what_is_gone", || {
        let mut history = samples::held(vec![samples::exclusive(1, 3, 10, 50)]);
        history.reads.push(samples::shown(60, 70, vec![3], 3));
        assert_eq!(check(&history).len(), 1);
        history.holds[0].gone = None;
        assert!(check(&history).is_empty(), "nobody said that it was released");
        history.holds.push(samples::exclusive(2, 4, 55, 56));
        assert_eq!(check(&history).len(), 2, "a greater token was given since, and is not the newest here");
    }),
    ("reads_refuse_to_show_what_is_to_come", || {
        let mut history = samples::held(vec![samples::exclusive(1, 3, 100, 150)]);
        history.reads.push(samples::shown(20, 30, vec![3], 3));
        assert_eq!(check(&history).len(), 1);
    }),
    ("reads_refuse_a_token_that_is_not_held_though_it_is", || {
        let mut history = samples::held(vec![samples::exclusive(1, 3, 10, 50)]);
        let found = Found::Standing { token: 3, is_held: false, is_known: true };
        history.reads.push(Read { name: "a".to_owned(), began: 20, ended: 30, found });
        assert_eq!(check(&history).len(), 1);
    }),
];
