//! A leader behind a pulled cable, on networks of their own.
//!
//! ```text
//!   n1 ── hub ── n2      a bridge in a namespace of its own, one node per namespace;
//!          │             clients are in the hub, or on the network of a node
//!          n3
//! ```

use std::process::Command;

use crate::netns::Namespaces;
use crate::nodes::Service;
use crate::runs::{Running, ran};
use crate::until;

/// A bridge, with the nodes around it.
struct Network(Namespaces);

impl Network {
    /// Nothing if it cannot be laid here.
    fn lay() -> Option<Self> {
        let mut hub = Namespaces::new("service")?;
        hub.ip("-n HUB link add hub type bridge");
        hub.ip("-n HUB link set hub up");
        hub.ip("-n HUB link set lo up");
        hub.ip("-n HUB address add 10.78.0.100/24 dev hub");
        (1..=3).for_each(|id| hub.plug(id, "hub", &format!("10.78.0.{id}")));
        Some(Self(hub))
    }

    fn cable(&self, id: u64, state: &str) {
        self.0.ip(&format!("-n HUB link set port-{id} {state}"));
    }

    /// The command, on the network of a node or in the hub.
    fn within(&self, place: &str, command: &Command) -> Command {
        let mut within = self.0.within(place);
        within.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => within.env(key, value),
                None => within.env_remove(key),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            within.current_dir(dir);
        }
        within.stdin(std::process::Stdio::null());
        within
    }

    fn begin(&self, service: &Service, place: &str, line: &str, script: &str) -> Running {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["--", "/bin/sh", "-c", script]);
        Running::start(self.within(place, &service.client(&words)))
    }

    /// What all nodes say of themselves, for those who are in the hub.
    fn status(&self, service: &Service) -> String {
        ran(&mut self.within("hub", &service.client(&["status", "--json"]))).out
    }
}

/// Says on every beat who is there, and is not moved by being told to end.
fn beats(file: &str) -> String {
    format!("trap '' TERM; while :; do date +%s%N >> {file}; sleep 0.01; done")
}

#[test]
fn a_leader_behind_a_pulled_cable_serves_nobody_and_its_clients_stop_in_time() {
    let Some(network) = Network::lay() else { return };
    let members = (1..=3).map(|id| (id, format!("10.78.0.{id}:7400"))).collect();
    let mut service = Service::at(members);
    for id in 1..=3 {
        let mut serve = service.serve(id);
        serve.arg("--insecure");
        service.run_by(id, network.within(&id.to_string(), &serve));
    }
    let mut settled = None;
    until("all follow one leader", || {
        settled = service.unanimous_leader(&network.status(&service));
        settled.is_some()
    });
    let leader = settled.expect("somebody leads");
    let beside = leader.to_string();

    // One client is on the leader's side of the cable, the next in line is on the other side.
    let holder = network.begin(&service, &beside, "lock a --ttl 2s --grace 300ms", &beats("beats"));
    let count =
        |file: &str| std::fs::read_to_string(service.path(file)).map_or(0, |text| text.lines().count());
    until("the command runs", || count("beats") > 2);
    let next = network.begin(
        &service,
        "hub",
        "lock a --ttl 1min",
        "echo $CONCLAVE_TOKEN > token; date +%s%N > next",
    );
    let waits = |name: &str| {
        let shown = ran(&mut network.within("hub", &service.client(&["show", name, "--json"])));
        shown.out.contains("\"queue\":[{")
    };
    until("the next one waits", || waits("a"));

    network.cable(leader, "down");
    holder.end().explains(122, "'a' is lost");
    next.end().ends(0);
    let last = std::fs::read_to_string(service.path("beats")).expect("it ran");
    let last: u64 = last.lines().filter_map(|line| line.parse().ok()).max().expect("it ran");
    let granted: u64 = service.written("next").trim().parse().expect("it notes a time");
    assert!(last < granted, "the lock was granted before the command was dead");
    until("the others have a leader", || {
        service.agreed_leader(&network.status(&service)).is_some_and(|other| other != leader)
    });
    // Behind the cable nothing is granted, even what is free.
    let alone = network.begin(&service, &beside, "lock b --try --connect-wait 2s", "touch never");
    alone.end().ends(123);

    network.cable(leader, "up");
    let within = format!("lock a --ttl 2s --endpoints {}", service.address(leader));
    let again = network.begin(&service, &beside, &within, "echo $CONCLAVE_TOKEN > again");
    again.end().ends(0);
    let token = |name: &str| service.written(name).trim().parse::<u64>().expect("a token");
    assert!(token("again") > token("token"));
    assert!(!service.path("never").exists());
}
