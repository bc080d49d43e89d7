//! A process that stands still (SIGSTOP) for longer than the others wait, and then goes on.

use std::time::Instant;

use crate::group::Group;
use crate::judge::{judge, play};
use crate::load::{Holder, Load, suspect};

/// The holder is stopped while inside: it is suspected, another gets in, and when it wakes it is out.
fn pause_the_holder(algorithm: &str, words: &str) -> Group {
    const ASLEEP: u32 = 2;
    let group = Group::start(algorithm, 4, words);
    let load = Load::on(group.places());
    load.serves(&group.ids);
    let mut holder = Holder::new(&load, &group.place(ASLEEP), "backup");
    let paused = Instant::now();
    group.order(&format!("pause {ASLEEP}"));
    load.serves(&group.but(ASLEEP));
    println!("{algorithm:<22} {:<10} {:>6} ms", "paused", load.resource.outage(paused).as_millis());
    assert!(!holder.write(), "somebody else has been inside since");
    group.order(&format!("resume {ASLEEP}"));
    assert!(holder.is_told_lost(), "nobody tells it that it is out");
    drop(holder);
    load.finds_one_group(&group.places());
    let resource = load.end();
    resource.never_went_back();
    resource.one_at_a_time_in_each_epoch();
    assert!(resource.refused() > 0);
    group
}

#[test]
fn a_holder_that_was_stopped_has_lost_the_lock_when_it_wakes() {
    assert!(judge(&pause_the_holder("ricart-agrawala", "").stop()).is_misled);
}

#[test]
fn a_token_that_was_stopped_with_its_holder_no_longer_counts() {
    assert!(judge(&pause_the_holder("suzuki-kasami", "").stop()).is_misled);
}

/// The lease is over before anybody else is in; but who stands still cannot look at a clock, and its record shows it inside
/// until it wakes. What runs inside is another matter: see `programs.rs`.
#[test]
fn the_record_of_a_holder_that_was_stopped_shows_it_inside() {
    let played = play(&pause_the_holder("majority", "--set mode=view").stop());
    let broken: Vec<_> = played.violation.iter().map(|violation| violation.property).collect();
    assert_eq!(broken, ["ME1"]);
}

/// Whoever sleeps outside is left out, and taken in again.
#[test]
fn a_leader_that_was_stopped_takes_part_again() {
    let group = Group::start("central", 3, "");
    let load = Load::on(group.places());
    load.serves(&group.ids);
    group.order("pause 3");
    suspect(&[group.place(1), group.place(2)], &[3]);
    load.serves(&[1, 2]);
    group.order("resume 3");
    load.finds_one_group(&group.places());
    let resource = load.end();
    judge(&group.stop());
    resource.never_went_back();
}
