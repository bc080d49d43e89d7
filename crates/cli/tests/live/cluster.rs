//! A cluster of real processes that ends with its test.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conclave_core::NodeId;
use conclave_live::cluster::{Living, Manifest};
use conclave_live::control::{Answer, Ask, Control, Status};
use conclave_net::merge;
use conclave_trace::{Trace, What};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Nothing here takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A place for clusters that nobody else uses.
pub struct Home(tempfile::TempDir);

/// What a run of the binary left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// It was refused, in words that say why.
    #[track_caller]
    pub fn refused(self, why: &str) {
        let ran = self.ends(2);
        assert!(ran.err.starts_with("error: ") && ran.err.contains(why), "{}", ran.err);
        assert!(ran.err.lines().count() <= 2, "a sentence and a hint:\n{}", ran.err);
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}:\n{}", self.out))
    }
}

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for a directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The directory of a cluster.
    pub fn dir(&self, name: &str) -> PathBuf {
        self.path().join("clusters").join(name)
    }

    /// The binary, about to be run here.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        command.args(line.split_whitespace()).stdin(Stdio::null()).env("CONCLAVE_HOME", self.path());
        command.env_remove("CLICOLOR_FORCE");
        command
    }

    /// Runs `conclave` with the words of a line; no word has a blank in it.
    pub fn run(&self, line: &str) -> Ran {
        ran(&mut self.command(line))
    }

    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        serde_json::from_str(&fs::read_to_string(self.dir(name).join("cluster.json")).ok()?).ok()
    }

    /// Starts a cluster that is called as its algorithm; the line goes on with its options.
    pub fn start(&self, line: &str) -> Live<'_> {
        let name = line.split_whitespace().next().expect("a cluster runs something");
        self.start_with(name, self.command(&format!("cluster start {line}")))
    }

    /// Starts a cluster of this name with a command that does so.
    pub fn start_with(&self, name: &str, mut command: Command) -> Live<'_> {
        let said = self.path().join(format!("{name}.said"));
        let file = File::create(&said).expect("there is room for a file");
        let child = command.stdout(file.try_clone().expect("a file can be shared")).stderr(file).spawn();
        let child = child.expect("the binary runs");
        let mut live = Live { home: self, name: name.to_owned(), child, said, is_over: false };
        live.come_up();
        live
    }
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code().expect("it ends by itself"), out, err }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not happen that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(pid, signal).expect("the process is there");
}

/// A running cluster.
pub struct Live<'a> {
    pub home: &'a Home,
    pub name: String,
    /// The supervisor.
    pub child: Child,
    /// What it printed.
    said: PathBuf,
    is_over: bool,
}

impl Live<'_> {
    fn come_up(&mut self) {
        let socket = self.dir().join("cluster.sock");
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&socket).is_err() {
            let ended = self.child.try_wait().expect("it can be asked");
            assert!(ended.is_none() && Instant::now() < deadline, "{} did not come up", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        let pids: BTreeSet<u32> = self.living().iter().map(|living| living.pid).collect();
        assert_eq!(pids.len(), self.manifest().processes.len() + 1, "processes of their own");
        until("everybody has links with everybody", || {
            self.statuses().iter().all(|status| status.peers.values().all(|peer| peer.connected))
        });
    }

    pub fn dir(&self) -> PathBuf {
        self.home.dir(&self.name)
    }

    pub fn manifest(&self) -> Manifest {
        self.home.manifest(&self.name).expect("a running cluster has a manifest")
    }

    pub fn ids(&self) -> Vec<NodeId> {
        self.manifest().processes.iter().map(|member| member.id).collect()
    }

    /// All that runs now, the supervisor first.
    pub fn living(&self) -> Vec<Living> {
        let manifest = self.manifest();
        let members = manifest.processes.iter().filter_map(|member| member.living);
        core::iter::once(manifest.supervisor).chain(members).collect()
    }

    pub fn connect(&self, process: NodeId) -> Control {
        let data = self.dir().join(format!("node-{}", process.0));
        Control::connect(&data).unwrap_or_else(|error| panic!("{process}: {error}"))
    }

    pub fn status(&self, process: NodeId) -> Status {
        match self.connect(process).call(&Ask::Status).expect("it answers") {
            Answer::Status(status) => *status,
            other => panic!("{process} answered {other:?}"),
        }
    }

    pub fn statuses(&self) -> Vec<Status> {
        self.ids().into_iter().map(|process| self.status(process)).collect()
    }

    /// What all processes have written down, put together.
    pub fn merged(&self) -> Option<Trace> {
        let record = |process: NodeId| self.dir().join(format!("node-{}/record-1.jsonl", process.0));
        merge(&self.ids().into_iter().map(record).collect::<Vec<_>>()).ok()
    }

    /// Waits until so many requests were handled, and every message that was sent has arrived. While processes write,
    /// what they wrote may not fit together; then it is looked at again.
    pub fn settled(&self, requests: usize) -> Trace {
        let mut before = None;
        until("nothing is in flight", || {
            let sent: Vec<_> = self
                .statuses()
                .into_iter()
                .map(|status| (status.messages, status.overhead_messages, waiting(&status.peers)))
                .collect();
            let is_still = before.as_ref() == Some(&sent) && sent.iter().all(|(_, _, waiting)| *waiting == 0);
            before = Some(sent);
            is_still && self.merged().is_some_and(|trace| is_settled(&trace, requests))
        });
        self.merged().expect("nobody writes any more")
    }

    /// Runs `conclave cluster` on this cluster.
    pub fn run(&self, line: &str) -> Ran {
        self.home.run(&format!("cluster --cluster {} {line}", self.name))
    }

    /// Plays what was written down: it must come out the same, and what is promised must hold.
    pub fn judged(&self) -> Value {
        let report = self.run("trace --json").ends(0).json();
        assert_eq!(report["same"], true, "{report}");
        let promised = report["properties"].as_array().expect("a list");
        for property in promised {
            assert_ne!(property["holds"], false, "{property}");
        }
        report
    }

    /// Ends it as a user would, and nothing is left of it.
    pub fn stop(mut self) {
        let living = self.living();
        self.run("stop").ends(0);
        self.is_over = true;
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        until("all have ended", || !living.iter().any(Living::is_alive));
    }

    /// What everybody printed.
    fn logs(&self) -> String {
        let mut text = String::new();
        let nodes = self.home.manifest(&self.name).map(|manifest| manifest.processes).unwrap_or_default();
        let nodes = nodes.iter().map(|member| self.dir().join(format!("node-{}.log", member.id.0)));
        for path in core::iter::once(self.said.clone()).chain(nodes) {
            let said = fs::read_to_string(&path).unwrap_or_default();
            let last = said.lines().rev().take(20).collect::<Vec<_>>();
            text += &format!("--- {}\n", path.display());
            last.iter().rev().for_each(|line| text += &format!("{line}\n"));
        }
        text
    }
}

fn waiting(peers: &std::collections::BTreeMap<NodeId, conclave_live::control::PeerStatus>) -> usize {
    peers.values().map(|peer| peer.waiting).sum()
}

fn is_settled(trace: &Trace, requests: usize) -> bool {
    let count = |which: fn(&What) -> bool| trace.records.iter().filter(|record| which(&record.what)).count();
    let sends = count(|what| matches!(what, What::Send(_)));
    let arrivals = count(|what| matches!(what, What::Deliver(_)));
    sends == arrivals && count(|what| matches!(what, What::Request { .. })) == requests
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::io::stderr().write_all(self.logs().as_bytes());
        }
        if !self.is_over && matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}
