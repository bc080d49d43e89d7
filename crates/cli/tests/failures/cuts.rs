//! Links that are cut and healed by `conclave cluster`.

use std::time::Instant;

use conclave_core::NodeId;

use crate::group::{Group, Place};
use crate::judge::judge;
use crate::load::{Holder, Load, Waiter, status, suspect};
use crate::until;

/// The two sides, for groups of five.
pub const FEW: [u32; 2] = [1, 2];
pub const MANY: [u32; 3] = [3, 4, 5];

fn sides(places: &[Place]) -> (Vec<Place>, Vec<Place>) {
    places.iter().cloned().partition(|(id, _)| FEW.contains(id))
}

/// Parts two sides and joins them again, and sees that both are served: the fence protects the resource.
pub fn both_go_on(places: &[Place], cut: impl FnOnce(), heal: impl FnOnce()) {
    let load = Load::on(places.to_vec());
    let all: Vec<u32> = places.iter().map(|(id, _)| *id).collect();
    load.serves(&all);
    let parted = Instant::now();
    cut();
    // Each side takes the other for dead, and then serves its own.
    let (few, many) = sides(places);
    suspect(&few, &MANY);
    suspect(&many, &FEW);
    load.serves(&all);
    println!("{:<22} {:<10} {:>6} ms", "both sides", "cut", load.resource.outage(parted).as_millis());
    let healing = Instant::now();
    heal();
    load.finds_one_group(places);
    println!("{:<22} {:<10} {:>6} ms", "both sides", "one group", healing.elapsed().as_millis());
    let resource = load.end();
    resource.never_went_back();
    resource.one_at_a_time_in_each_epoch();
}

/// The same where more than half must agree: the others stand still, and two are never inside.
pub fn the_few_stand_still(places: &[Place], cut: impl FnOnce(), heal: impl FnOnce()) {
    let load = Load::on(places.to_vec());
    let all: Vec<u32> = places.iter().map(|(id, _)| *id).collect();
    load.serves(&all);
    let parted = Instant::now();
    cut();
    let (few, many) = sides(places);
    suspect(&few, &MANY);
    suspect(&many, &FEW);
    load.serves(&MANY);
    let settled = Instant::now();
    println!("{:<22} {:<10} {:>6} ms", "the many", "cut", load.resource.outage(parted).as_millis());
    for _ in 0..10 {
        load.serves(&MANY);
    }
    assert_eq!(load.entries(&FEW, settled), 0, "the few were served");
    let healing = Instant::now();
    heal();
    load.finds_one_group(places);
    println!("{:<22} {:<10} {:>6} ms", "the few", "one group", healing.elapsed().as_millis());
    let resource = load.end();
    resource.never_went_back();
    resource.one_at_a_time();
}

/// One link of ten, and who is inside is on one side of it: others carry what the two have to say, nobody is left out.
#[test]
fn a_link_that_is_cut_parts_nobody() {
    let group = Group::start("ricart-agrawala", 5, "--suspect-after 2s");
    let load = Load::on(group.places());
    load.serves(&group.ids);
    let holder = Holder::new(&load, &group.place(5), "backup");
    group.order("cut 4/5");
    let is_carried = |id: u32, other: u32| {
        let peer = status(&group.place(id)).and_then(|status| status.peers.get(&NodeId(other)).cloned());
        peer.is_some_and(|peer| peer.connected && peer.via.is_some())
    };
    until("others carry their connections", || is_carried(4, 5) && is_carried(5, 4));
    let waiter = Waiter::new(&group.place(4), "backup");
    assert!(holder.write(), "it is still inside");
    drop(holder);
    drop(waiter);
    for _ in 0..3 {
        load.serves(&group.ids);
    }
    group.order("heal");
    load.finds_one_group(&group.places());
    let resource = load.end();
    resource.never_went_back();
    resource.one_at_a_time();
    assert!(!judge(&group.stop()).is_misled, "nobody was called dead");
}

#[test]
fn both_sides_of_a_cut_go_on_and_become_one_group_again() {
    let group = Group::start("ricart-agrawala", 5, "");
    let cut = || drop(group.order("cut 1,2/3,4,5"));
    both_go_on(&group.places(), cut, || drop(group.order("heal")));
    judge(&group.stop());
}

#[test]
fn a_minority_stands_still_until_the_cut_is_mended() {
    let group = Group::start("majority", 5, "--set mode=view");
    let cut = || drop(group.order("cut 1,2/3,4,5"));
    the_few_stand_still(&group.places(), cut, || drop(group.order("heal")));
    assert!(!judge(&group.stop()).is_misled, "a view needs no good detector");
}
