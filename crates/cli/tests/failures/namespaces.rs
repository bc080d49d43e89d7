//! Processes on networks of their own, with certificates, and cables that are pulled.
//!
//! ```text
//!   p1 ─┐                 ┌─ p3
//!       few ── trunk ── many ─ p4
//!   p2 ─┘                 └─ p5
//! ```
//!
//! Two bridges in a namespace of their own, one process per namespace. Where there can be none, `proxies.rs` cuts off processes
//! with certificates on a network that falls silent.

use std::net::SocketAddr;
use std::process::Command;

use conclave_live::config::{PeerAddress, ProcessConfig};

use crate::cuts::{FEW, both_go_on, the_few_stand_still};
use crate::judge::judge;
use crate::netns::Namespaces;
use crate::nodes::{Nodes, certificates_of};

const BINARY: &str = env!("CARGO_BIN_EXE_conclave");

/// Two bridges with a trunk between them.
struct Network(Namespaces);

impl Network {
    /// Nothing if it cannot be laid here.
    fn lay(name: &str) -> Option<Self> {
        let mut hub = Namespaces::new(name)?;
        for bridge in ["few", "many"] {
            hub.ip(&format!("-n HUB link add {bridge} type bridge"));
            hub.ip(&format!("-n HUB link set {bridge} up"));
        }
        hub.ip("-n HUB link add trunk-few type veth peer name trunk-many");
        for side in ["few", "many"] {
            hub.ip(&format!("-n HUB link set trunk-{side} master {side}"));
            hub.ip(&format!("-n HUB link set trunk-{side} up"));
        }
        for id in 1..=5 {
            let side = if FEW.contains(&id) { "few" } else { "many" };
            hub.plug(id, side, &address(id).ip().to_string());
        }
        Some(Self(hub))
    }

    fn trunk(&self, state: &str) {
        self.0.ip(&format!("-n HUB link set trunk-few {state}"));
    }

    /// The binary, on the network of a process.
    fn command(&self, id: u32) -> Command {
        let mut command = self.0.within(&id.to_string());
        command.arg(BINARY);
        command
    }
}

fn address(id: u32) -> SocketAddr {
    format!("10.77.0.{id}:7077").parse().expect("it is an address")
}

/// Five processes with certificates, each on a network of its own.
fn start(network: &Network, algorithm: &str, setting: &str) -> Nodes {
    let mut nodes = Nodes::new();
    nodes.certify("1,2,3,4,5");
    for id in 1..=5 {
        let peers = (1..=5)
            .map(|peer| PeerAddress { id: peer, address: address(peer).into(), control: None })
            .collect();
        let config =
            ProcessConfig { tls: Some(certificates_of(id)), ..nodes.config(algorithm, setting, id, peers) };
        nodes.start(&config, network.command(id));
    }
    nodes.are_up();
    nodes
}

#[test]
fn both_sides_of_a_pulled_cable_go_on_and_become_one_group_again() {
    let Some(network) = Network::lay("both") else { return };
    let mut nodes = start(&network, "ricart-agrawala", "");
    both_go_on(&nodes.places(), || network.trunk("down"), || network.trunk("up"));
    judge(&nodes.stop());
}

#[test]
fn a_minority_behind_a_pulled_cable_stands_still() {
    let Some(network) = Network::lay("few") else { return };
    let mut nodes = start(&network, "majority", "mode=view");
    the_few_stand_still(&nodes.places(), || network.trunk("down"), || network.trunk("up"));
    assert!(!judge(&nodes.stop()).is_misled, "a view needs no good detector");
}
