//! Clocks under test, by hand: the numbers of the literature.

use super::*;

const MS: i64 = 1_000_000;

fn exchange(asked: i64, answered: i64, told: i64) -> Exchange {
    let reading = |ms: i64| Reading(ms * MS);
    Exchange { asked: reading(asked), answered: reading(answered), told: reading(told) }
}

/// TV-C1, and the same where the server is known to take 4 ms.
#[test]
fn book_tv_c1_half_the_round_trip_is_the_age_of_an_answer() {
    let terms = Terms { least: 8 * MS, ..Terms::default() };
    let asked = exchange(1_000, 1_020, 5_000);
    let estimate = asked.estimate(&terms);
    assert_eq!((asked.answered.0 + estimate.ahead, estimate.bound), (5_010 * MS, 2 * MS));
    let handled = asked.estimate(&Terms { handling: 4 * MS, ..terms });
    assert_eq!((asked.answered.0 + handled.ahead, handled.bound), (5_008 * MS, 0));
}

#[test]
fn book_v_c7_the_shortest_round_trip_is_the_best() {
    let terms = Terms { least: 3 * MS, ..Terms::default() };
    let samples = [(0, 20, 1_012), (100, 108, 1_107), (200, 230, 1_220)];
    let samples = samples.map(|(asked, answered, told)| exchange(asked, answered, told));
    let best = samples.into_iter().min_by_key(Exchange::round_trip).expect("there are some");
    let estimate = best.estimate(&terms);
    assert_eq!((best.answered.0, best.answered.0 + estimate.ahead), (108 * MS, 1_111 * MS));
    assert_eq!(estimate.bound, MS);
}

#[test]
fn spans_are_written_as_people_do() {
    let cases =
        [(0, "0"), (-5 * MS, "-5ms"), (1, "0.000001ms"), (90_000 * MS, "90s"), (300_000 * MS, "5min")];
    for (nanos, text) in cases {
        assert_eq!(show_span(nanos), text);
    }
}

/// A reading of a hostile peer can be anything.
#[test]
fn no_reading_is_too_large() {
    for told in [i64::MIN, i64::MAX] {
        let estimate = Exchange { asked: Reading(0), answered: Reading(9), told: Reading(told) };
        let _ = estimate.estimate(&Terms { least: i64::MAX, ..Terms::default() });
    }
}
