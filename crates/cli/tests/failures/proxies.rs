//! A network between the processes that stops to carry anything: connections stay, and say nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use conclave_live::config::PeerAddress;

use crate::cuts::{FEW, MANY, both_go_on, the_few_stand_still};
use crate::judge::judge;
use crate::nodes::{Nodes, binary, free_addresses};
use crate::wires::Wire;

/// Five processes, each of which reaches each other one by a wire of its own.
struct Wired {
    nodes: Nodes,
    wires: BTreeMap<(u32, u32), Wire>,
}

impl Wired {
    fn start(algorithm: &str, setting: &str) -> Self {
        let addresses: BTreeMap<u32, SocketAddr> = (1..=5).zip(free_addresses(5)).collect();
        let mut wired = Self { nodes: Nodes::new(), wires: BTreeMap::new() };
        for id in 1..=5 {
            let mut peers = Vec::new();
            for (peer, address) in &addresses {
                let mut address = *address;
                if *peer != id {
                    let wire = Wire::to(address);
                    address = wire.address;
                    wired.wires.insert((id, *peer), wire);
                }
                peers.push(PeerAddress { id: *peer, address, control: None });
            }
            let config = wired.nodes.config(algorithm, setting, id, peers);
            wired.nodes.start(&config, binary());
        }
        wired.nodes.are_up();
        wired
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
