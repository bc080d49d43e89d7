//! Algorithms of the registry on real sockets, and what was recorded of them played again in the simulator.

use std::path::PathBuf;
use std::time::SystemTime;

use conclave_algorithms::family::Family;
use conclave_algorithms::mutex::Locking;
use conclave_algorithms::mutex::{Event, Request, RicartAgrawala};
use conclave_algorithms::{Algorithm, Arena, Name, Named, NamedConfig, NamedEvent, NamedRequest, Settings};
use conclave_core::{Incarnation, Members, Protocol};
use conclave_net::record::file_name;
use conclave_net::{Events, Node, Options, Recording, merge, start};
use conclave_trace::{
    Block, Command, Header, Script, Setup, SvgOptions, Trace, What, commands_of, shiviz, svg,
};
use tokio::time::timeout;

use crate::group::{Group, PATIENCE};

type Ra = RicartAgrawala;

fn header(epoch_locks: usize) -> Header {
    Header {
        locks: epoch_locks,
        ..Setup::numbered("ricart-agrawala", 3).to_header(Ra::ABOUT.channels.name())
    }
}

fn settings() -> <Ra as Protocol>::Config {
    let settings = Settings::new(const { &Ra::ABOUT }, Arena::Laboratory, [], None).unwrap();
    Ra::configure(&settings, &Members::numbered(3)).unwrap()
}

struct Recorded {
    group: Group,
    epoch: SystemTime,
}

impl Recorded {
    fn new() -> Self {
        Self { group: Group::new(3), epoch: SystemTime::now() }
    }

    async fn start<F: Family>(
        &mut self,
        id: u32,
        config: <F::Protocol as Protocol>::Config,
    ) -> (Node<F::Protocol>, Events<F::Protocol>) {
        let recording = Some(Recording::of::<F>(header(1), self.epoch));
        let listener = self.group.listener(id);
        let options = Options { listener, recording, ..Options::default() };
        start(self.group.config(id), config, options).await.unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let lives = (1..=3).flat_map(|id| (1..=9).map(move |life| (id, Incarnation(life))));
        let paths = lives.map(|(id, life)| self.group.config(id).data.join(file_name(life)));
        paths.filter(|path| path.exists()).collect()
    }
}

/// Plays what was recorded, and compares what comes out with what was recorded.
fn play_again(trace: &Trace) {
    let mut text = Vec::new();
    trace.write_jsonl(&mut text).unwrap();
    let read = Trace::read_jsonl(&String::from_utf8(text).unwrap()).expect("a merged trace is a trace");
    assert_eq!(read.records.len(), trace.records.len());
    assert!(svg(trace, &SvgOptions::default()).contains("<svg"));
    assert!(!shiviz(trace).is_empty());
    let setup = Setup::from_header(&trace.header);
    let commands = std::iter::once(Command::Run(setup)).chain(commands_of(trace));
    let commands = commands.zip(1..).collect();
    let script = Script { blocks: vec![Block { commands, ..Block::default() }] };
    let played = conclave_sim::play(&script).expect("every command is possible");
    assert_eq!(played.violation, None);
    // Events are those of the live run, one by one.
    let events = |trace: &Trace| -> Vec<(Option<u32>, What)> {
        let told = trace.records.iter().filter(|record| matches!(record.what, What::Event { .. }));
        told.map(|record| (record.process.map(|id| id.0), record.what.clone())).collect()
    };
    assert_eq!(events(&played.trace), events(trace));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ricart_agrawala_enters_alone_and_its_record_can_be_played() {
    let mut run = Recorded::new();
    let mut tasks = Vec::new();
    for id in 1..=3 {
        let (node, mut events) = run.start::<Locking<Ra>>(id, settings()).await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                node.request(Request::Acquire).await.unwrap();
                let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
                assert!(matches!(event, Event::Granted { .. }), "{event:?}");
                node.request(Request::Release).await.unwrap();
            }
            (node, events)
        }));
    }
    let mut nodes = Vec::new();
    for task in tasks {
        nodes.push(task.await.unwrap());
    }
    // Two requests and two replies for each of sixty entries; the last replies follow the last release.
    let sent = || -> u64 {
        let counts = nodes.iter().flat_map(|(node, _)| node.status().sent.into_values());
        counts.map(|sent| sent.count).sum()
    };
    crate::group::until("all replies are sent", || sent() >= 60 * 4).await;
    assert_eq!(sent(), 60 * 4);
    for (node, events) in nodes {
        drop(events);
        node.shutdown().await.unwrap();
    }
    let trace = merge(&run.files()).unwrap();
    let granted = |record: &&conclave_trace::Record| matches!(&record.what, What::Event { event, .. } if event == "granted");
    assert_eq!(trace.records.iter().filter(granted).count(), 60);
    play_again(&trace);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_with_names_are_recorded_under_numbers() {
    type Locks = Named<Ra>;
    let mut run = Recorded::new();
    let mut tasks = Vec::new();
    for id in 1..=3 {
        let (node, mut events) = run.start::<Locking<Locks>>(id, NamedConfig::new(settings())).await;
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                let name = Name::new(["backup", "deploy", "index"][(round + id as usize) % 3]).unwrap();
                node.request(NamedRequest { name: name.clone(), request: Request::Acquire }).await.unwrap();
                let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
                assert!(matches!(event, NamedEvent { event: Event::Granted { .. }, .. }), "{event:?}");
                node.request(NamedRequest { name, request: Request::Release }).await.unwrap();
            }
            (node, events)
        }));
    }
    // Nobody leaves before all are done: the others need its replies.
    let mut nodes = Vec::new();
    for task in tasks {
        nodes.push(task.await.unwrap());
    }
    for (node, _events) in nodes {
        node.kill().await.unwrap();
    }
    let trace = merge(&run.files()).unwrap();
    assert_eq!(trace.header.locks, 3);
    play_again(&trace);
}

/// One of three is killed and comes back: the record shows a crash, a new life, and who suspected whom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_found_in_the_records() {
    let mut run = Recorded::new();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(run.start::<Locking<Ra>>(id, settings()).await);
    }
    enter(&mut nodes[0]).await;
    let (third, _) = nodes.pop().unwrap();
    third.kill().await.unwrap();
    for (node, _) in &nodes {
        crate::group::until("it is suspected", || node.status().peers.values().any(|peer| peer.suspected))
            .await;
    }
    let again = run.start::<Locking<Ra>>(3, settings()).await;
    for (node, _) in &nodes {
        crate::group::until("it is back", || node.status().peers.values().all(|peer| !peer.suspected)).await;
    }
    nodes.push(again);
    // Cut off in the middle of a line, as a killed process may leave it.
    let cut_off = run.group.config(3).data.join(file_name(Incarnation(1)));
    let mut text = std::fs::read_to_string(&cut_off).unwrap();
    text.push_str("{\"id\":99,\"ti");
    std::fs::write(&cut_off, text).unwrap();
    for (node, _events) in nodes {
        node.kill().await.unwrap();
    }
    let trace = merge(&run.files()).unwrap();
    let kinds: Vec<&str> =
        trace.records.iter().filter(|r| r.process.is_some_and(|p| p.0 == 3)).map(|r| r.what.name()).collect();
    let crash = kinds.iter().position(|kind| *kind == "crash").expect("a crash");
    assert_eq!(kinds[crash + 1..crash + 3], ["restart", "start"], "{kinds:?}");
    let at = |name: &str| trace.records.iter().position(|record| record.what.name() == name).unwrap();
    assert!(at("crash") < at("suspect") && at("restart") < at("trust"));
    play_again(&trace);
    std::fs::write(&cut_off, "rubbish\n").unwrap();
    assert!(merge(&run.files()).unwrap_err().to_string().contains("record-1.jsonl"));
}

/// Whoever reads the records of a group that still runs has more of one process than of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_cut_to_what_was_read_of_all() {
    let mut run = Recorded::new();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(run.start::<Locking<Ra>>(id, settings()).await);
    }
    for round in 0..9 {
        enter(&mut nodes[round % 3]).await;
    }
    let (third, _) = nodes.pop().unwrap();
    third.kill().await.unwrap();
    let again = run.start::<Locking<Ra>>(3, settings()).await;
    for (node, _) in &nodes {
        crate::group::until("it is back", || {
            node.status().peers.values().all(|peer| peer.connected_to && !peer.suspected)
        })
        .await;
    }
    nodes.push(again);
    for (node, _events) in nodes {
        node.kill().await.unwrap();
    }
    let whole = merge(&run.files()).unwrap();
    let ended = run.group.config(3).data.join(file_name(Incarnation(1)));
    for path in run.files().into_iter().filter(|path| *path != ended) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // A step is written in one piece; what it did names it as the cause.
        let is_step = |count: &usize| !lines[*count].contains("\"cause\":");
        for count in (1..lines.len()).filter(is_step) {
            std::fs::write(&path, lines[..count].concat()).unwrap();
            let trace = merge(&run.files()).unwrap();
            assert!(trace.records.len() < whole.records.len());
            play_again(&trace);
        }
        std::fs::write(&path, text).unwrap();
    }
    std::fs::remove_file(run.group.config(1).data.join(file_name(Incarnation(1)))).unwrap();
    assert!(merge(&run.files()).unwrap_err().to_string().contains("is a record missing?"));
}

async fn enter(member: &mut (Node<Ra>, Events<Ra>)) {
    member.0.request(Request::Acquire).await.unwrap();
    let event = timeout(PATIENCE, member.1.recv()).await.unwrap().unwrap();
    assert!(matches!(event, Event::Granted { .. }), "{event:?}");
    member.0.request(Request::Release).await.unwrap();
}
