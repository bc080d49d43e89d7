//! Whoever writes an election of their own runs its processes by its type, under any name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use conclave_algorithms::election::{self, ChangRoberts};
use conclave_core::NodeId;
use conclave_live::config::{PeerAddress, ProcessConfig};
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use conclave_live::process::{ProcessError, run, run_algorithm};
use conclave_live::supervisor::free_ports;
use tokio::sync::{mpsc, watch};

const PATIENCE: Duration = Duration::from_secs(40);

fn configs(home: &Path) -> Vec<ProcessConfig> {
    let ports = free_ports(3).expect("there are ports");
    let peers: Vec<PeerAddress> = (1..)
        .zip(ports)
        .map(|(id, port)| PeerAddress {
            id,
            address: std::net::SocketAddr::from(([127, 0, 0, 1], port)).into(),
            control: None,
        })
        .collect();
    let config = |peer: &PeerAddress| ProcessConfig {
        cluster: "ours".into(),
        algorithm: "ours".into(),
        id: peer.id,
        data: home.join(peer.id.to_string()),
        listen: None,
        insecure: false,
        record: false,
        epoch: 0,
        transmission_ms: 1_000,
        processing_ms: 100,
        suspect_after_ms: 20_000,
        settings: BTreeMap::new(),
        clock: None,
        record_mb: 256,
        secret: None,
        life: None,
        tls: None,
        peers: peers.clone(),
    };
    peers.iter().map(config).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_needs_no_registry() {
    let home = tempfile::tempdir().expect("there is room for a directory");
    let configs = configs(home.path());
    let unknown = run(&configs[0], core::future::pending(), || ()).await;
    assert!(matches!(unknown, Err(ProcessError::UnknownAlgorithm(name)) if name == "ours"));

    let (stop, stopped) = watch::channel(false);
    let (up, mut ups) = mpsc::unbounded_channel();
    let processes: Vec<_> = configs
        .iter()
        .cloned()
        .map(|config| {
            let (mut stopped, up) = (stopped.clone(), up.clone());
            tokio::spawn(async move {
                let stop = async move { drop(stopped.wait_for(|is_over| *is_over).await) };
                run_algorithm::<election::Of<ChangRoberts>>(&config, stop, move || {
                    up.send(()).expect("it is awaited");
                })
                .await
            })
        })
        .collect();
    for _ in &processes {
        tokio::time::timeout(PATIENCE, ups.recv()).await.expect("all come up").expect("and say so");
    }
    let data = configs[0].data.clone();
    let elected = tokio::task::spawn_blocking(move || {
        let mut control = Control::connect(&data).expect("it takes orders");
        control.ask(&Ask::Wish(Wish::Elect)).expect("it hears");
        control.answer(Some(PATIENCE)).expect("it answers")
    });
    let Some(Answer::Word(Word::Elected { leaders, .. })) = elected.await.expect("no panic") else {
        panic!("nobody was elected");
    };
    assert_eq!(leaders, [NodeId(3)]);
    stop.send(true).expect("they listen");
    for process in processes {
        process.await.expect("no panic").expect("it ends as it was told");
    }
}
