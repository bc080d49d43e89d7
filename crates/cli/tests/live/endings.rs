//! However a cluster ends, nobody is left behind; and two clusters have nothing to do with each other.

use std::time::{Duration, Instant};

use conclave_core::NodeId;
use conclave_live::cluster::Living;
use rustix::process::Signal;

use crate::cluster::{Home, Live, signal};
use crate::locking::{lock, unlock};

/// All processes end soon after the supervisor got a signal.
#[track_caller]
fn ends_with(live: &mut Live<'_>, signalled: Signal) {
    let living = live.living();
    signal(live.child.id(), signalled);
    let began = Instant::now();
    live.child.wait().expect("it ends");
    while living.iter().any(Living::is_alive) {
        assert!(began.elapsed() < Duration::from_secs(5), "somebody is left: {living:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn endings_by_signals_leave_nobody_behind() {
    let home = Home::new();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        // What the last one left is no obstacle to the next.
        let mut live = home.start("lamport -n 4 --suspect-after 20s");
        let mut holder = live.connect(NodeId(2));
        lock(&mut holder, "a");
        ends_with(&mut live, signal);
        assert!(home.run("cluster list").ends(0).out.contains("ended"));
        home.run("cluster status").refused("no cluster is running");
    }
}

/// A process that stands still cannot notice that its parent is gone. Where the operating system does not end it either,
/// the next start of the name does.
#[test]
fn endings_leave_what_stands_still_to_the_next_start() {
    let home = Home::new();
    let mut live = home.start("central -n 3 --suspect-after 20s");
    let frozen = live.manifest().processes[1].living.expect("it is up");
    live.run("pause 2").ends(0);
    signal(live.child.id(), Signal::KILL);
    live.child.wait().expect("it ends");
    drop(live);
    let live = home.start("central -n 3 --suspect-after 20s");
    crate::cluster::until("it is gone", || !frozen.is_alive());
    live.run("lock a --via 2 --wait 20s -- true").ends(0);
    live.stop();
}

#[test]
fn endings_of_one_cluster_do_not_touch_another() {
    let home = Home::new();
    let first = home.start("raymond -n 3 --suspect-after 20s");
    let second = home.start_with("other", home.command("cluster start raymond -n 3 --cluster other"));
    home.run("cluster start raymond --cluster other").refused("'other' is running already");
    home.run("cluster start raymond --cluster other --detach").refused("'other' is running already");
    home.run("cluster status").refused("several clusters are running: other, raymond");
    // Each has its own lock of the same name.
    let (mut here, mut there) = (first.connect(NodeId(1)), second.connect(NodeId(1)));
    lock(&mut here, "a");
    lock(&mut there, "a");
    unlock(&mut there, "a");
    second.stop();
    unlock(&mut here, "a");
    first.run("lock a --via 3 --wait 20s -- true").ends(0);
    assert!(first.statuses().iter().all(|status| status.complaints == 0));
    first.stop();
}

/// Of a cluster that was stopped, its record is left for who wants to look at it; a slip of the pen does not take it away.
#[test]
fn endings_leave_a_record_that_no_wrong_start_removes() {
    let home = Home::new();
    let live = home.start("central -n 3 --suspect-after 20s");
    live.run("lock a --via 2 --wait 20s -- true").ends(0);
    live.stop();
    let record = || std::fs::read(home.dir("central").join("node-2/record-1.jsonl"));
    let before = record().expect("it was recorded");
    for (options, why) in [
        ("--set nothing=1", "central has no setting 'nothing'"),
        ("--set watch=on --set watch=off", "watch is set twice"),
        ("--set watch=perhaps", "perhaps"),
        ("--ids 1,1", "process 1 is named twice"),
    ] {
        for more in ["", " --detach"] {
            home.run(&format!("cluster start central {options}{more}")).refused(why);
        }
    }
    assert_eq!(record().expect("it is still there"), before);
}

/// In the background, with a name that was free.
#[test]
fn endings_of_detached_clusters_are_ordered() {
    let home = Home::new();
    let started = home.run("cluster start maekawa -n 3 --detach").ends(0);
    assert!(started.out.contains("cluster maekawa"), "{}", started.out);
    let second = home.run("cluster start maekawa -n 3 --detach").ends(0);
    assert!(second.out.contains("cluster maekawa-2"), "{}", second.out);
    let living: Vec<Living> = ["maekawa", "maekawa-2"]
        .iter()
        .filter_map(|name| home.manifest(name))
        .flat_map(|manifest| {
            let members = manifest.processes.into_iter().filter_map(|member| member.living);
            members.chain([manifest.supervisor]).collect::<Vec<_>>()
        })
        .collect();
    assert!(living.len() == 8 && living.iter().all(Living::is_alive));
    for name in ["maekawa", "maekawa-2"] {
        home.run(&format!("cluster stop --cluster {name}")).ends(0);
    }
    crate::cluster::until("all have ended", || !living.iter().any(Living::is_alive));
}
