//! Servers as processes: started, killed, started again, and gone in the end. Any program will do for one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::memory::{Fault, Memory};
use conclave_bench::cluster::{Cluster, ClusterError, Node, Plan};
use conclave_bench::failover::Outages;
use conclave_bench::targets::{Kind, Spec};

fn node(directory: &Path, command: &[&str]) -> Node {
    Node {
        endpoint: "127.0.0.1:1".to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        log: directory.join("log"),
    }
}

fn runs(pid: u32) -> bool {
    // A process that ended and was not waited for yet shows as a zombie.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

#[tokio::test]
async fn a_killed_node_is_gone_and_comes_back_as_another_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut cluster =
        Cluster::start(vec![node(directory.path(), &["sleep", "1000"])]).expect("sleep is there");
    let first = cluster.pid(0).expect("it runs");
    assert!(runs(first));
    cluster.kill(0).await.expect("it is ours");
    assert!(!runs(first));
    cluster.restart(0).expect("as before");
    let second = cluster.pid(0).expect("it runs");
    assert!(second != first && runs(second));
    drop(cluster);
    let gone = async {
        while runs(second) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("nothing is left behind");
}

#[tokio::test]
async fn a_node_that_ends_by_itself_is_reported_with_its_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut cluster =
        Cluster::start(vec![node(directory.path(), &["sh", "-c", "echo no disk; exit 3"])]).expect("a shell");
    let target = Memory::target(Fault::None);
    let ended = async {
        loop {
            if let Err(error) = cluster.leader(target.as_ref(), Duration::from_secs(1)).await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(10), ended).await.expect("it ends at once");
    assert!(matches!(&error, ClusterError::Ended { node: 1, .. }), "{error}");
    assert_eq!(fs::read_to_string(directory.path().join("log")).expect("a log"), "no disk\n");
}

#[test]
fn plans_are_read_or_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("plan.toml");
    let read = |text: &str| {
        fs::write(&path, text).expect("a file");
        Plan::read(&path)
    };
    let node = "[[nodes]]\nendpoint = \"127.0.0.1:1\"\nlog = \"log\"\n";
    let plan = read(&format!("kind = \"etcd\"\n{node}command = [\"etcd\"]\n")).expect("a plan");
    assert_eq!((plan.kind, plan.nodes[0].command.as_slice()), (Kind::Etcd, ["etcd".to_owned()].as_slice()));
    for (text, reason) in [
        ("kind = \"etcd\"\nnodes = []\n".to_owned(), "no nodes"),
        (format!("kind = \"etcd\"\n{node}command = []\n"), "no command"),
        (format!("kind = \"chubby\"\n{node}command = [\"x\"]\n"), "unknown variant"),
        (format!("kind = \"etcd\"\nports = 3\n{node}command = [\"x\"]\n"), "unknown field"),
    ] {
        let error = read(&text).expect_err("not a plan").to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(matches!(Plan::read(Path::new("/nowhere")), Err(ClusterError::Unreadable { .. })));
}

#[test]
fn targets_are_read_or_refused_with_a_reason() {
    let spec: Spec = "etcd/alone=127.0.0.1:1,[::1]:2".parse().expect("well-formed");
    assert_eq!((spec.kind, spec.label.as_str()), (Kind::Etcd, "alone"));
    assert_eq!(spec.endpoints, ["127.0.0.1:1", "[::1]:2"]);
    assert_eq!("redis=h:1".parse::<Spec>().expect("well-formed").label, "redis");
    for (text, reason) in [
        ("etcd", "expected KIND="),
        ("chubby=h:1", "known are conclave, conclave-dropped, etcd, zookeeper, redis"),
        ("etcd/=h:1", "label"),
        ("etcd=", "not HOST:PORT"),
        ("etcd=h:1,", "not HOST:PORT"),
        ("etcd=h:99999", "not HOST:PORT"),
        ("etcd=:1", "not HOST:PORT"),
    ] {
        let error = text.parse::<Spec>().expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn outages_are_summed_up() {
    let outages: Vec<Duration> = (1..=20).map(|n| Duration::from_millis(100 * n)).collect();
    let figures = Outages::of(&outages);
    assert_eq!((figures.each_ms.len(), figures.max_ms), (20, 2000.0));
    assert!((figures.median_ms - 1000.0).abs() < 10.0 && (figures.p90_ms - 1800.0).abs() < 18.0);
}
