//! What does not belong to a service: nodes of others, nodes that are there twice, connections that say nothing.

use std::net::TcpStream;
use std::process::Command;

use conclave_client::{Client, SessionOptions};

use crate::addresses::own_addresses;
use crate::hostile::runtime;
use crate::nodes::Service;
use crate::runs::{BINARY, Running};
use crate::until;

/// The endpoints of two services, in both orders.
fn mixtures(one: &Service, other: &Service) -> [String; 2] {
    let (one, other) = (one.address(1), other.address(1));
    [format!("{one},{other}"), format!("{other},{one}")]
}

#[test]
fn endpoints_of_two_clusters_are_refused() {
    let (service, foreign) = (Service::one(), Service::one());
    // Each of them serves, but not both together.
    for alone in [&service, &foreign] {
        until("it knows which cluster it is", || {
            alone.conclave("status --json").ends(0).json()[0]["nodes"][0]["cluster"].is_string()
        });
    }
    for both in mixtures(&service, &foreign) {
        let mixed = service.conclave(&format!("status --endpoints {both}")).ends(1);
        assert!(mixed.out.contains("the endpoints belong to different clusters"), "{}", mixed.out);
        let refused = service.shell(&format!("lock a --try --endpoints {both}"), "exit 0");
        assert!(refused.err.contains("check the endpoints"), "{}", refused.err);
        assert_ne!(refused.code, 0);
    }
    assert!(service.show("a").is_null() && foreign.show("a").is_null(), "nothing was granted");
}

#[test]
fn a_client_of_one_cluster_does_not_go_over_to_another() {
    let (mut service, mut foreign) = (Service::one(), Service::absent(1));
    let endpoints = [service.address(1).to_owned(), foreign.address(1).to_owned()];
    let knows = |service: &Service| {
        let status = service.conclave("status --json").json();
        status.first().is_some_and(|status| status["nodes"][0]["cluster"].is_string())
    };
    until("it knows which cluster it is", || knows(&service));
    let runtime = runtime();
    let client = runtime.block_on(async { Client::new(endpoints).expect("they are addresses") });
    let open = || runtime.block_on(client.session(SessionOptions::default()));
    runtime.block_on(open().expect("it is served").close()).expect("it is served");
    foreign.run(1);
    until("it knows which cluster it is", || knows(&foreign));
    service.kill(1);
    let refused = open().expect_err("it is another cluster").to_string();
    assert!(refused.contains("check the endpoints"), "{refused}");
}

#[test]
fn an_address_belongs_to_one_node() {
    let service = Service::absent(1);
    let twice = service.conclave("serve --cluster 1=127.0.0.1:1,2=127.0.0.1:1").ends(2);
    assert!(twice.err.contains("nodes 1 and 2 have the same address '127.0.0.1:1'"), "{}", twice.err);
}

#[test]
fn a_node_that_is_there_twice_is_told() {
    let service = Service::three();
    let members: Vec<String> =
        service.ids().iter().map(|id| format!("{id}={}", service.address(*id))).collect();
    let mut double = Command::new(BINARY);
    double.args(["serve", "--id", "3", "--cluster", &members.join(","), "--listen", &own_addresses(1)[0]]);
    double.arg("--data").arg(service.path("double"));
    let log = service.path("double.log");
    let double = Running::with_errors_in(double, &log);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    until("it is told", || said().contains("another process runs as this node"));
    service.still_serves();
    drop(double);
}

/// The same command in a shell that sets a limit first.
fn limited(command: &Command, limit: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn connections_that_say_nothing_shut_nobody_out_for_long() {
    let mut service = Service::absent(1);
    let command = limited(&service.serve(1), "-n 256");
    service.run_by(1, command);
    service.is_served();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(service.address(1)).expect("somebody listens"));
    }
    until("it is told", || service.log(1).contains("no room for another connection"));
    service.shell("lock a --connect-wait 20s", "exit 0").ends(0);
    assert!(!service.log(1).contains("cannot go on"), "{}", service.log(1));
    drop(silent);
}

#[test]
fn a_node_takes_all_the_files_that_it_may_have() {
    let mut service = Service::absent(1);
    let command = limited(&service.serve(1), "-Sn 200");
    service.run_by(1, command);
    service.is_served();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", service.pid(1))).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("there is one");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}
