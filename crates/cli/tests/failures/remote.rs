//! Processes of one file, started one by one as if each were on a machine of its own, and given orders from elsewhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::nodes::{Nodes, binary, free_addresses};
use crate::until;

/// The file of three processes.
fn file(nodes: &Nodes, name: &str, secret: &str) -> PathBuf {
    let addresses = free_addresses(6);
    let peer = |id: usize| {
        format!(
            "  {{ id = {id}, address = \"{}\", control = \"{}\" }},\n",
            addresses[id - 1],
            addresses[id + 2]
        )
    };
    let peers: String = (1..=3).map(peer).collect();
    let text = format!(
        "cluster = \"lab\"\nalgorithm = \"suzuki-kasami\"\ndata = \"node-{{id}}\"\nrecord = true\n\
         secret = \"{secret}\"\npeers = [\n{peers}]\n"
    );
    let path = nodes.home().join(name);
    std::fs::write(&path, text).expect("it can be written");
    path
}

fn cluster(file: &Path, line: &str) -> Output {
    let mut command: Command = binary();
    command.args(["cluster", "--config"]).arg(file).args(line.split_whitespace());
    command.stdin(Stdio::null()).output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn one_file_is_enough_to_run_a_group_and_to_use_it() {
    let mut nodes = Nodes::new();
    let right = file(&nodes, "cluster.toml", "known to all of them");
    for id in 1..=3 {
        nodes.start_from(&right, id, binary());
    }
    until("all are up", || cluster(&right, "status").status.code() == Some(0));
    for via in 1..=3 {
        let locked = cluster(&right, &format!("lock backup --via {via} -- printenv CONCLAVE_FENCE"));
        assert_eq!(locked.status.code(), Some(0), "{}", said(&locked));
        assert!(said(&locked).trim().ends_with(&format!(".{via}")), "{}", said(&locked));
    }
    let refused = cluster(&right, "kill 1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("where they run"), "{}", said(&refused));
    let trace = cluster(&right, "trace");
    assert!(said(&trace).contains("it came out the same"), "{}", said(&trace));

    // Whoever does not know the secret gives no orders.
    let text = std::fs::read_to_string(&right).expect("it is there");
    let wrong = nodes.home().join("guessed.toml");
    std::fs::write(&wrong, text.replace("known to all", "guessed by one")).expect("it can be written");
    let refused = cluster(&wrong, "lock backup --via 1 -- true");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("is the secret of the file that of the cluster?"), "{}", said(&refused));
    nodes.stop();
}
