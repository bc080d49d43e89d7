//! What README.md and docs/service.md say of the first minutes: the commands as they stand there, one file for everything,
//! what a node offers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use conclave_client::PROTOCOL;
use rustix::process::Signal;
use serde_json::Value;
use tonic::codegen::http::uri::PathAndQuery;

use crate::hostile::runtime;
use crate::netns::Namespaces;
use crate::nodes::Service;
use crate::runs::{BINARY, ran};
use crate::talker::channel;

const README: &str = include_str!("../../../../README.md");
const GUIDE: &str = include_str!("../../../../docs/service.md");

/// Without options, on a machine of their own.
#[test]
fn the_first_commands_work_as_they_are_written() {
    let Some(machine) = Namespaces::new("readme") else { return };
    machine.ip("-n HUB link set lo up");
    let mut service = Service::absent(1);
    let command = |line: &str| -> Command {
        assert!([README, GUIDE].iter().all(|text| text.contains(line)), "'{line}' is not written there");
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let mut command = machine.within("hub");
        command.arg(BINARY).args(words).current_dir(service.home()).stdin(Stdio::null());
        command.env_remove("CONCLAVE_ENDPOINTS").env_remove("CONCLAVE_CONFIG");
        command
    };
    let backup = service.path("backup.sh");
    fs::write(&backup, "#!/bin/sh\necho $CONCLAVE_LOCK $CONCLAVE_TOKEN > backed-up\n")
        .expect("there is room");
    fs::set_permissions(&backup, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let (serve, mut lock) =
        (command("conclave serve"), command("conclave lock nightly-backup -- ./backup.sh"));
    service.run_by(1, serve);
    assert_eq!(ran(&mut lock).ends(0).err, "");
    let written = service.written("backed-up");
    let (name, token) = written.trim().split_once(' ').expect("a name and a token");
    assert_eq!(name, "nightly-backup");
    assert!(token.parse::<u64>().expect("it is a number") > 0);
    assert!(service.path("conclave-data").is_dir(), "data is in ./conclave-data");
}

#[test]
fn one_file_is_enough_for_all_nodes_and_clients() {
    let mut service = Service::absent(3);
    let file = service.path("cluster.toml");
    let nodes: String =
        service.ids().iter().map(|id| format!("{id} = \"{}\"\n", service.address(*id))).collect();
    let text = format!("data = \"{}\"\n\n[nodes]\n{nodes}", service.path("data").display());
    fs::write(&file, text).expect("there is room");
    for id in service.ids() {
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "--log", "json", "--id", &id.to_string(), "--config"]).arg(&file);
        serve.stdin(Stdio::null());
        service.run_by(id, serve);
    }
    service.is_settled();
    let mut lock = service.client(&["lock", "a", "--", "true"]);
    ran(lock.env_remove("CONCLAVE_ENDPOINTS").env("CONCLAVE_CONFIG", &file)).ends(0);
    // Ctrl-C is a planned stop.
    let (leader, _) = service.roles();
    service.signal(leader, Signal::INT);
    assert_eq!(service.wait(leader).code(), Some(0));
    assert!(service.log(leader).contains("handed the lead over"), "{}", service.log(leader));
    for id in service.ids() {
        assert!(service.path(&format!("data/{id}")).is_dir(), "each node has a directory of its own");
        let log = service.log(id);
        let is_object = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object());
        assert!(log.lines().count() > 2 && log.lines().all(is_object), "{log}");
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionRequest {
    #[prost(string, tag = "7")]
    list_services: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "6")]
    services: Option<ServiceList>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceList {
    #[prost(message, repeated, tag = "1")]
    services: Vec<ServiceName>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceName {
    #[prost(string, tag = "1")]
    name: String,
}

#[test]
fn what_a_node_offers_can_be_listed() {
    assert!(GUIDE.contains(&format!("conclave-protocol: {PROTOCOL}'")), "the version is that of the guide");
    let service = Service::one();
    let offered: Vec<String> = runtime().block_on(async {
        let mut grpc = tonic::client::Grpc::new(channel(service.address(1)).await);
        grpc.ready().await.expect("it listens");
        let path = PathAndQuery::from_static("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
        let codec = tonic_prost::ProstCodec::<ReflectionRequest, ReflectionResponse>::default();
        let asked = tokio_stream::once(ReflectionRequest { list_services: "*".to_owned() });
        let answers = grpc.streaming(tonic::Request::new(asked), path, codec).await.expect("it answers");
        let answer = answers.into_inner().message().await.expect("it answers").expect("there is one");
        answer.services.expect("a list").services.into_iter().map(|service| service.name).collect()
    });
    for name in ["conclave.v1.Conclave", "grpc.health.v1.Health"] {
        assert!(offered.iter().any(|offered| offered == name), "{offered:?}");
    }
}
