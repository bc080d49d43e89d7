//! Networks of one's own: a namespace for the hub, one for each process, and cables between them. Nothing of it touches
//! the network of the machine, and it goes with the test.

use std::process::{Command, Output};

use crate::waits::cannot_run_without;

/// A hub without anything in it yet.
pub struct Namespaces {
    prefix: String,
    plugged: Vec<u32>,
}

impl Namespaces {
    /// Nothing if there can be none here: to be root is not enough in every container.
    pub fn new(name: &str) -> Option<Self> {
        let prefix = format!("conclave-{name}-{}", std::process::id());
        let namespaces = Self { prefix, plugged: Vec::new() };
        let why = match namespaces.try_ip("netns add HUB") {
            Ok(output) if output.status.success() => return Some(namespaces),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("`ip` cannot be run: {error}"),
        };
        cannot_run_without(&format!("network namespaces: {why}"));
        None
    }

    /// A namespace for a process, with this address, and a cable from it to a bridge of the hub.
    pub fn plug(&mut self, id: u32, bridge: &str, address: &str) {
        self.plugged.push(id);
        self.ip(&format!("netns add NODE-{id}"));
        self.ip(&format!("-n NODE-{id} link set lo up"));
        self.ip(&format!("-n HUB link add port-{id} type veth peer name wire netns NODE-{id}"));
        self.ip(&format!("-n HUB link set port-{id} master {bridge}"));
        self.ip(&format!("-n HUB link set port-{id} up"));
        self.ip(&format!("-n NODE-{id} address add {address}/24 dev wire"));
        self.ip(&format!("-n NODE-{id} link set wire up"));
    }

    /// What stands before a command that is to run on the network of a process, or in the `hub`.
    pub fn within(&self, place: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{place}", self.prefix)]);
        command
    }

    /// Runs `ip`; HUB and NODE stand for our namespaces.
    #[track_caller]
    pub fn ip(&self, line: &str) {
        let output = self.try_ip(line).expect("`ip` runs");
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn try_ip(&self, line: &str) -> std::io::Result<Output> {
        let line = line.replace("HUB", &format!("{}-hub", self.prefix)).replace("NODE", &self.prefix);
        Command::new("ip").args(line.split_whitespace()).output()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for id in &self.plugged {
            let _ = self.try_ip(&format!("netns delete NODE-{id}"));
        }
        let _ = self.try_ip("netns delete HUB");
    }
}
