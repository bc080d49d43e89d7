//! `kill -9` of every kind of process, under every algorithm for mutual exclusion.

use std::time::{Duration, Instant};

use conclave_algorithms::registry;
use conclave_algorithms::{About, mutex};

use crate::group::{Group, Place};
use crate::judge::judge;
use crate::load::{Holder, Load, Waiter, suspect};

const N: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The highest: who leads and coordinates.
    Leader,
    /// Who is inside, and has the token where there is one.
    Holder,
    /// Who has asked, and waits.
    Waiter,
    /// A neighbour of the lowest, on a ring.
    Neighbour,
}

use Victim::{Holder as Inside, Leader, Neighbour, Waiter as Waiting};

impl Victim {
    const ALL: [Self; 4] = [Leader, Inside, Waiting, Neighbour];

    fn id(self) -> u32 {
        match self {
            Leader => N,
            Inside => 3,
            Waiting => 1,
            Neighbour => 2,
        }
    }
}

/// Kills a process while it is what it is, and says for how long nobody got in.
fn kill(group: &Group, load: &Load, victim: Victim) -> Duration {
    let place = group.place(victim.id());
    let order = format!("kill {}", victim.id());
    let killed = match victim {
        Leader | Neighbour => {
            group.order(&order);
            Instant::now()
        }
        Inside => {
            let _holder = Holder::new(load, &place, "backup");
            group.order(&order);
            Instant::now()
        }
        Waiting => {
            let holder = Holder::new(load, &group.place(2), "backup");
            let _waiter = Waiter::new(&place, "backup");
            group.order(&order);
            assert!(holder.write(), "who is inside stays inside");
            drop(holder);
            Instant::now()
        }
    };
    let living = group.but(victim.id());
    // Some go on until they notice; all have to go on when they do.
    let places: Vec<Place> = living.iter().map(|id| group.place(*id)).collect();
    suspect(&places, &[victim.id()]);
    load.serves(&living);
    load.resource.outage(killed)
}

fn endure(algorithm: &str, victims: &[Victim]) {
    let group = Group::start(algorithm, N, "");
    let load = Load::on(group.places());
    load.serves(&group.ids);
    println!("{:<22} {:<10} {:>9} {:>9}", "algorithm", "killed", "outage", "back in");
    for victim in victims {
        let outage = kill(&group, &load, *victim);
        group.order(&format!("restart {}", victim.id()));
        let back = load.serves(&group.ids);
        let (outage, back) = (outage.as_millis(), back.as_millis());
        println!("{algorithm:<22} {:<10} {outage:>6} ms {back:>6} ms", format!("{victim:?}"));
    }
    conclude(algorithm, &group, load);
}

/// Nobody met anybody, and what was written down keeps the promises. If somebody was called dead who lived, another
/// epoch may have let somebody in beside it; within an epoch nobody met anybody even then.
fn conclude(algorithm: &str, group: &Group, load: Load) {
    let resource = load.end();
    let judged = judge(&group.stop());
    resource.never_went_back();
    resource.one_at_a_time_in_each_epoch();
    if judged.is_misled {
        println!("{algorithm:<22} somebody was called dead who lived; refused: {}", resource.refused());
    } else {
        resource.one_at_a_time();
    }
}

/// Who was inside is back before anybody has noticed that it was gone, and has forgotten that it was inside.
fn restart_at_once(algorithm: &str) {
    let group = Group::start(algorithm, N, "--suspect-after 20s");
    let load = Load::on(group.places());
    for id in [N, 2] {
        load.serves(&group.ids);
        let holder = Holder::new(&load, &group.place(id), "backup");
        group.order(&format!("kill {id}"));
        drop(holder);
        group.order(&format!("restart {id}"));
        let back = load.serves(&group.ids).as_millis();
        println!("{algorithm:<22} {:<10} {:>9} {back:>6} ms", "at once", "");
    }
    conclude(algorithm, &group, load);
}

#[test]
fn a_coordinator_that_is_back_at_once_goes_on() {
    restart_at_once("central");
}

#[test]
fn permissions_of_who_is_back_at_once_are_given_again() {
    restart_at_once("ricart-agrawala");
}

#[test]
fn a_token_that_died_with_who_is_back_at_once_is_made_again() {
    restart_at_once("suzuki-kasami");
}

/// All victims, or in an ordinary run only one.
fn some(one: Victim) -> Vec<Victim> {
    let is_soak = std::env::var_os("CONCLAVE_SOAK").is_some_and(|value| value == "1");
    if is_soak { Victim::ALL.to_vec() } else { vec![one] }
}

/// A test per algorithm, and one that none was forgotten.
macro_rules! algorithms {
    ($($test:ident: $name:literal, $victims:expr;)+) => {
        $(#[test]
        fn $test() {
            endure($name, &$victims);
        })+

        #[test]
        fn every_algorithm_for_mutual_exclusion_is_put_to_the_test() {
            let is_mutex = |about: &&&About| about.family == mutex::FAMILY;
            let all: Vec<&str> = registry::all().iter().filter(is_mutex).map(|about| about.name).collect();
            let tried = [$($name),+];
            assert_eq!(all, tried, "each needs a line in `algorithms!` of this file, in the order of the registry");
        }
    };
}

algorithms! {
    central_goes_on: "central", Victim::ALL;
    lamport_goes_on: "lamport", some(Inside);
    ricart_agrawala_goes_on: "ricart-agrawala", Victim::ALL;
    carvalho_roucairol_goes_on: "carvalho-roucairol", some(Leader);
    lodha_kshemkalyani_goes_on: "lodha-kshemkalyani", some(Waiting);
    maekawa_goes_on: "maekawa", Victim::ALL;
    majority_goes_on: "majority", some(Waiting);
    ricart_agrawala_token_goes_on: "ricart-agrawala-token", some(Inside);
    suzuki_kasami_goes_on: "suzuki-kasami", some(Inside);
    token_ring_goes_on: "token-ring", Victim::ALL;
    raymond_goes_on: "raymond", some(Neighbour);
    singhal_goes_on: "singhal", some(Leader);
    total_order_goes_on: "total-order", some(Inside);
}
