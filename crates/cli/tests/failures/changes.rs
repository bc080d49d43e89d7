//! A group whose configuration changes while its data directories stay.

use std::net::SocketAddr;

use conclave_live::config::PeerAddress;

use crate::load::{lock_once, status};
use crate::nodes::{Nodes, binary, free_addresses};
use crate::until;

fn peers(ids: &[u32], addresses: &[SocketAddr]) -> Vec<PeerAddress> {
    let peer = |id: &u32| PeerAddress { id: *id, address: addresses[*id as usize - 1].into(), control: None };
    ids.iter().map(peer).collect()
}

/// Starts processes with these peers.
fn start(nodes: &mut Nodes, algorithm: &str, setting: &str, ids: &[u32], addresses: &[SocketAddr]) {
    for id in ids {
        let config = nodes.config(algorithm, setting, *id, peers(ids, addresses));
        nodes.start(&config, binary());
    }
    nodes.are_up();
}

/// Three processes of which one is taken out, after a roll that it was in.
fn take_one_out(algorithm: &str, setting: &str) {
    let addresses = free_addresses(3);
    let mut nodes = Nodes::new();
    start(&mut nodes, algorithm, setting, &[1, 2, 3], &addresses);
    let places = nodes.places();
    let before = lock_once(&places[0], "a");
    // A life later everyone has been in a roll, and has it on its disk.
    nodes.stop();
    start(&mut nodes, algorithm, setting, &[1, 2, 3], &addresses);
    let amid = lock_once(&places[1], "a");
    assert!(before < amid, "{before} and {amid}");
    nodes.stop();
    nodes.forget(3);
    start(&mut nodes, algorithm, setting, &[1, 2], &addresses);
    for place in &places[..2] {
        let after = lock_once(place, "a");
        assert!(amid < after, "{amid} and {after}");
        lock_once(place, "another");
        let is_refused = |peer: &conclave_live::control::PeerStatus| peer.refused.is_some();
        assert!(!status(place).expect("it is up").peers.values().any(is_refused));
    }
    nodes.stop();
}

#[test]
fn a_process_is_taken_out_of_its_configuration() {
    take_one_out("ricart-agrawala", "");
}

#[test]
fn a_process_is_taken_out_of_a_view() {
    take_one_out("majority", "mode=view");
}

/// Whoever is not known to the others does not serve by itself, and says what is to be done.
#[test]
fn a_process_that_is_not_known_yet_stops() {
    let addresses = free_addresses(3);
    let mut nodes = Nodes::new();
    start(&mut nodes, "central", "", &[1, 2], &addresses);
    let config = nodes.config("central", "", 3, peers(&[1, 2, 3], &addresses));
    nodes.start(&config, binary());
    until("it has stopped", || nodes.has_ended(3));
    let words = nodes.log(3);
    assert!(words.contains("not among the processes") && words.contains("files of all others"), "{words}");
}

/// A directory that was lost is told apart, and its process stops with a word on how to go on.
#[test]
fn a_process_that_has_lost_its_directory_stops() {
    let addresses = free_addresses(3);
    let mut nodes = Nodes::new();
    start(&mut nodes, "ricart-agrawala", "", &[1, 2, 3], &addresses);
    let places = nodes.places();
    let before = lock_once(&places[2], "a");
    nodes.kill(3);
    std::fs::remove_dir_all(&places[2].1).expect("it is there");
    let mut config = nodes.config("ricart-agrawala", "", 3, peers(&[1, 2, 3], &addresses));
    nodes.start(&config, binary());
    until("it has stopped", || nodes.has_ended(3));
    let words = nodes.log(3);
    assert!(words.contains("another data directory") && words.contains("'life = 2'"), "{words}");
    config.life = Some(2);
    nodes.start(&config, binary());
    nodes.are_up();
    let after = lock_once(&places[2], "a");
    assert!(before < after, "{before} and {after}");
}
