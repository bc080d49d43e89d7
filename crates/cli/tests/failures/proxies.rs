//! A network between the processes that stops to carry anything: connections stay, and say nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use conclave_core::NodeId;
use conclave_live::config::{PeerAddress, ProcessConfig, TlsFiles};
use conclave_live::control::Status;

use crate::cuts::{FEW, MANY, both_go_on, the_few_stand_still};
use crate::judge::judge;
use crate::load::{Load, status};
use crate::nodes::{Nodes, binary, certificates_of, free_addresses};
use crate::until;
use crate::wires::Wire;

/// Five processes, each of which reaches each other one by a wire of its own.
struct Wired {
    nodes: Nodes,
    wires: BTreeMap<(u32, u32), Wire>,
}

impl Wired {
    fn start(algorithm: &str, setting: &str) -> Self {
        Self::start_with(algorithm, setting, |_| None)
    }

    /// The same with certificates.
    fn start_with_certificates(algorithm: &str, setting: &str) -> Self {
        Self::start_with(algorithm, setting, |id| Some(certificates_of(id)))
    }

    fn start_with(algorithm: &str, setting: &str, tls: fn(u32) -> Option<TlsFiles>) -> Self {
        let addresses: BTreeMap<u32, SocketAddr> = (1..=5).zip(free_addresses(5)).collect();
        let mut wired = Self { nodes: Nodes::new(), wires: BTreeMap::new() };
        if tls(1).is_some() {
            wired.nodes.certify("1,2,3,4,5");
        }
        for id in 1..=5 {
            let mut peers = Vec::new();
            for (peer, address) in &addresses {
                let mut address = *address;
                if *peer != id {
                    let wire = Wire::to(address);
                    address = wire.address;
                    wired.wires.insert((id, *peer), wire);
                }
                peers.push(PeerAddress { id: *peer, address: address.into(), control: None });
            }
            let config = ProcessConfig { tls: tls(id), ..wired.nodes.config(algorithm, setting, id, peers) };
            wired.nodes.start(&config, binary());
        }
        wired.nodes.are_up();
        wired
    }

    /// What one process says no longer reaches another, whichever of the two has made the connection; or does again.
    fn silence(wires: &BTreeMap<(u32, u32), Wire>, from: u32, to: u32, is_silent: bool) {
        wires[&(from, to)].hold_there(is_silent);
        wires[&(to, from)].hold_back(is_silent);
    }

    /// Cuts or heals all wires between the two sides.
    fn part(wires: &BTreeMap<(u32, u32), Wire>, is_cut: bool) {
        for ((from, to), wire) in wires {
            if FEW.contains(from) == MANY.contains(to) {
                wire.cut(is_cut);
            }
        }
    }
}

#[test]
fn both_sides_of_a_silent_network_go_on_and_become_one_group_again() {
    let Wired { mut nodes, wires } = Wired::start("lamport", "");
    both_go_on(&nodes.places(), || Wired::part(&wires, true), || Wired::part(&wires, false));
    judge(&nodes.stop());
}

#[test]
fn a_minority_on_a_silent_network_stands_still() {
    let Wired { mut nodes, wires } = Wired::start("majority", "mode=view");
    the_few_stand_still(&nodes.places(), || Wired::part(&wires, true), || Wired::part(&wires, false));
    assert!(!judge(&nodes.stop()).is_misled, "a view needs no good detector");
}

#[test]
fn a_minority_with_certificates_on_a_silent_network_stands_still() {
    let Wired { mut nodes, wires } = Wired::start_with_certificates("majority", "mode=view");
    the_few_stand_still(&nodes.places(), || Wired::part(&wires, true), || Wired::part(&wires, false));
    assert!(!judge(&nodes.stop()).is_misled, "a view needs no good detector");
}

/// One direction of one link carries nothing: others do.
#[test]
fn a_link_that_is_silent_one_way_parts_nobody() {
    let Wired { mut nodes, wires } = Wired::start("ricart-agrawala", "");
    let places = nodes.places();
    let load = Load::on(places.clone());
    let all: Vec<u32> = places.iter().map(|(id, _)| *id).collect();
    load.serves(&all);
    Wired::silence(&wires, 4, 5, true);
    for _ in 0..5 {
        load.serves(&all);
    }
    let is_carried = |status: Status| status.peers[&NodeId(5)].via.is_some();
    until("others carry what it says", || status(&places[3]).is_some_and(is_carried));
    Wired::silence(&wires, 4, 5, false);
    load.finds_one_group(&places);
    let resource = load.end();
    resource.never_went_back();
    let judged = judge(&nodes.stop());
    assert!(!judged.is_misled, "nobody was called dead");
    resource.one_at_a_time();
}
