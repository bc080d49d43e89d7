//! Processes on networks of their own, with certificates, and cables that are pulled.
//!
//! ```text
//!   p1 ─┐                 ┌─ p3
//!       few ── trunk ── many ─ p4
//!   p2 ─┘                 └─ p5
//! ```
//!
//! Two bridges in a namespace of their own, one process per namespace: nothing of it touches the network of the machine.

use std::net::SocketAddr;
use std::process::{Command, Output};

use conclave_live::config::{PeerAddress, ProcessConfig, TlsFiles};

use crate::cuts::{FEW, both_go_on, the_few_stand_still};
use crate::judge::judge;
use crate::nodes::Nodes;

const BINARY: &str = env!("CARGO_BIN_EXE_conclave");

/// Namespaces that go with the test.
struct Network {
    prefix: String,
}

impl Network {
    /// Nothing if it cannot be laid here.
    fn lay(name: &str) -> Option<Self> {
        let network = Self { prefix: format!("conclave-{name}-{}", std::process::id()) };
        if let Err(why) = network.is_possible() {
            let is_required = std::env::var_os("CONCLAVE_CI").is_some_and(|value| !value.is_empty());
            assert!(!is_required, "network namespaces are needed: {why}");
            println!("SKIPPED: no network namespaces here: {why}");
            return None;
        }
        for bridge in ["few", "many"] {
            network.ip(&format!("-n HUB link add {bridge} type bridge"));
            network.ip(&format!("-n HUB link set {bridge} up"));
        }
        network.ip("-n HUB link add trunk-few type veth peer name trunk-many");
        for side in ["few", "many"] {
            network.ip(&format!("-n HUB link set trunk-{side} master {side}"));
            network.ip(&format!("-n HUB link set trunk-{side} up"));
        }
        (1..=5).for_each(|id| network.plug(id));
        Some(network)
    }

    /// Tries it: to be root is not enough in every container.
    fn is_possible(&self) -> Result<(), String> {
        let output = self.try_ip("netns add HUB").map_err(|error| format!("`ip` cannot be run: {error}"))?;
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(words) }
    }

    /// A namespace for a process, and a cable from it to its side.
    fn plug(&self, id: u32) {
        let side = if FEW.contains(&id) { "few" } else { "many" };
        self.ip(&format!("netns add NODE-{id}"));
        self.ip(&format!("-n NODE-{id} link set lo up"));
        self.ip(&format!("-n HUB link add port-{id} type veth peer name wire netns NODE-{id}"));
        self.ip(&format!("-n HUB link set port-{id} master {side}"));
        self.ip(&format!("-n HUB link set port-{id} up"));
        self.ip(&format!("-n NODE-{id} address add {}/24 dev wire", address(id).ip()));
        self.ip(&format!("-n NODE-{id} link set wire up"));
    }

    /// Runs `ip`; HUB and NODE stand for our namespaces.
    fn try_ip(&self, line: &str) -> std::io::Result<Output> {
        let line = line.replace("HUB", &format!("{}-hub", self.prefix)).replace("NODE", &self.prefix);
        Command::new("ip").args(line.split_whitespace()).output()
    }

    #[track_caller]
    fn ip(&self, line: &str) {
        let output = self.try_ip(line).expect("`ip` runs");
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn trunk(&self, state: &str) {
        self.ip(&format!("-n HUB link set trunk-few {state}"));
    }

    /// The binary, on the network of a process.
    fn command(&self, id: u32) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{id}", self.prefix), BINARY]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for id in 1..=5 {
            let _ = self.try_ip(&format!("netns delete NODE-{id}"));
        }
        let _ = self.try_ip("netns delete HUB");
    }
}

fn address(id: u32) -> SocketAddr {
    format!("10.77.0.{id}:7077").parse().expect("it is an address")
}

/// Five processes with certificates, each on a network of its own.
fn start(network: &Network, algorithm: &str, setting: &str) -> Nodes {
    let mut nodes = Nodes::new();
    let certificates = Command::new(BINARY)
        .args(["cert", "certs", "--cluster", "lab", "--ids", "1,2,3,4,5"])
        .current_dir(nodes.home())
        .output()
        .expect("the binary runs");
    assert!(certificates.status.success(), "{}", String::from_utf8_lossy(&certificates.stderr));
    for id in 1..=5 {
        let peers = (1..=5).map(|peer| PeerAddress { id: peer, address: address(peer) }).collect();
        let tls = TlsFiles {
            authority: "certs/authority.pem".into(),
            certificate: format!("certs/node-{id}.pem").into(),
            key: format!("certs/node-{id}.key").into(),
        };
        let config = ProcessConfig { tls: Some(tls), ..nodes.config(algorithm, setting, id, peers) };
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
