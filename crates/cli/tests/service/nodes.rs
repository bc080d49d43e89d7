//! Nodes of the service, each a process with a data directory of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use conclave_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::addresses::own_addresses;
use crate::runs::{BINARY, Ran, Running, ran};
use crate::until;

/// A service that ends with its test.
pub struct Service {
    home: TempDir,
    members: BTreeMap<u64, String>,
    running: BTreeMap<u64, Child>,
}

impl Service {
    /// One node.
    pub fn one() -> Self {
        Self::start(1)
    }

    /// Three nodes, one of which leads.
    pub fn three() -> Self {
        Self::start(3)
    }

    /// Five nodes, one of which leads.
    pub fn five() -> Self {
        Self::start(5)
    }

    fn start(count: u64) -> Self {
        let mut service = Self::absent(count);
        (1..=count).for_each(|id| service.run(id));
        service.is_settled();
        service
    }

    /// Addresses and a place for data, and nobody there yet.
    pub fn absent(count: u64) -> Self {
        Self::at((1..=count).zip(own_addresses(count as usize)).collect())
    }

    /// The same at these addresses.
    pub fn at(members: BTreeMap<u64, String>) -> Self {
        // On the disk of the build: a temporary directory may be memory.
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("there is room for a directory");
        Self { home, members, running: BTreeMap::new() }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    pub fn data(&self, id: u64) -> PathBuf {
        self.path(&format!("node-{id}"))
    }

    pub fn address(&self, id: u64) -> &str {
        &self.members[&id]
    }

    pub fn ids(&self) -> Vec<u64> {
        self.members.keys().copied().collect()
    }

    /// Where clients ask: everywhere.
    pub fn endpoints(&self) -> String {
        self.members.values().cloned().collect::<Vec<_>>().join(",")
    }

    /// The command that starts a node.
    pub fn serve(&self, id: u64) -> Command {
        let members: Vec<String> =
            self.members.iter().map(|(id, address)| format!("{id}={address}")).collect();
        let mut command = Command::new(BINARY);
        command.args(["serve", "--id", &id.to_string(), "--cluster", &members.join(",")]);
        command.arg("--data").arg(self.data(id)).stdin(Stdio::null());
        command
    }

    /// Starts a node, for the first time or again.
    pub fn run(&mut self, id: u64) {
        let command = self.serve(id);
        self.run_by(id, command);
    }

    /// Starts a node by this command.
    pub fn run_by(&mut self, id: u64, mut command: Command) {
        let log = File::options().create(true).append(true).open(self.log_path(id)).expect("there is room");
        let child = command.stdout(log.try_clone().expect("a file can be shared")).stderr(log).spawn();
        self.running.insert(id, child.expect("the binary runs"));
    }

    fn log_path(&self, id: u64) -> PathBuf {
        self.path(&format!("node-{id}.log"))
    }

    /// What a node has written about itself.
    pub fn log(&self, id: u64) -> String {
        fs::read_to_string(self.log_path(id)).unwrap_or_default()
    }

    pub fn pid(&self, id: u64) -> u32 {
        self.running[&id].id()
    }

    pub fn signal(&self, id: u64, signal: Signal) {
        send(self.pid(id), signal);
    }

    /// Ends a node without a warning.
    pub fn kill(&mut self, id: u64) {
        let mut child = self.running.remove(&id).expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Ends a node as an operator does.
    pub fn stop(&mut self, id: u64) -> ExitStatus {
        self.signal(id, Signal::TERM);
        self.wait(id)
    }

    /// Waits for the end of a node.
    pub fn wait(&mut self, id: u64) -> ExitStatus {
        let mut child = self.running.remove(&id).expect("it runs");
        let mut ended = None;
        until(&format!("node {id} ends"), || {
            ended = child.try_wait().expect("it can be asked");
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// Waits until somebody leads.
    pub fn is_served(&self) {
        until("the service is served", || self.leader().is_some());
    }

    /// Waits until all nodes follow the same leader. A new cluster hands the lead over once, when its last node has joined: a
    /// leader that only a majority follows may be about to.
    pub fn is_settled(&self) {
        until("all nodes follow one leader", || {
            self.unanimous_leader(&self.conclave("status --json").out).is_some()
        });
    }

    /// Who leads, by the word of a majority of the nodes. A slow moment of a machine that has much else to do is waited
    /// for.
    pub fn leader(&self) -> Option<u64> {
        let deadline = Instant::now() + Duration::from_secs(3);
        loop {
            let leader = self.agreed_leader(&self.conclave("status --json").out);
            if leader.is_some() || Instant::now() >= deadline {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Who leads, by this answer of `conclave status --json`.
    pub fn agreed_leader(&self, status: &str) -> Option<u64> {
        let words = leaders(status);
        let is_agreed =
            |leader: &u64| words.iter().filter(|word| *word == leader).count() * 2 > self.members.len();
        words.iter().copied().find(is_agreed)
    }

    /// The same, if all nodes say so.
    pub fn unanimous_leader(&self, status: &str) -> Option<u64> {
        let words = leaders(status);
        let first = *words.first()?;
        (words.len() == self.members.len() && words.iter().all(|word| *word == first)).then_some(first)
    }

    /// Who leads and who does not, by one answer: asked twice, it may be another one.
    pub fn roles(&self) -> (u64, Vec<u64>) {
        let leader = self.leader().expect("it is served");
        (leader, self.ids().into_iter().filter(|id| *id != leader).collect())
    }

    /// The nodes that do not lead.
    pub fn followers(&self) -> Vec<u64> {
        self.roles().1
    }

    /// How much of the log a node has applied, if it answers.
    pub fn applied(&self, id: u64) -> Option<u64> {
        let status: Value = serde_json::from_str(&self.conclave("status --json").out).ok()?;
        let nodes = status["nodes"].as_array()?;
        nodes.iter().find(|node| node["node"] == id)?["applied"].as_u64()
    }

    /// A client of all nodes, inside this process; it needs a runtime around it.
    pub fn library(&self) -> Client {
        Client::new(self.members.values().cloned()).expect("the addresses are right")
    }

    /// The binary, as a client of this service.
    pub fn client(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(words).current_dir(self.home()).stdin(Stdio::null());
        command.env("CONCLAVE_ENDPOINTS", self.endpoints()).env_remove("CLICOLOR_FORCE");
        command
    }

    /// Runs the binary with the words of a line; no word has a blank in it.
    pub fn conclave(&self, line: &str) -> Ran {
        ran(&mut self.client(&line.split_whitespace().collect::<Vec<_>>()))
    }

    /// Runs the binary with the words of a line, a double dash, and a script for the shell.
    pub fn shell(&self, line: &str, script: &str) -> Ran {
        ran(&mut self.script(line, script))
    }

    /// The same, without waiting for its end.
    pub fn begin(&self, line: &str, script: &str) -> Running {
        Running::start(self.script(line, script))
    }

    /// A command that holds what the line says until it is told to let go; returns when it runs. It leaves its token in a
    /// file of this name.
    pub fn hold(&self, line: &str, tag: &str) -> Running {
        let running = self.begin(line, &format!("echo $CONCLAVE_TOKEN > {tag}; exec sleep 60"));
        self.written(tag);
        running
    }

    fn script(&self, line: &str, script: &str) -> Command {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["--", "/bin/sh", "-c", script]);
        self.client(&words)
    }

    /// Everything about a name; nothing for a name that nobody uses.
    pub fn show(&self, name: &str) -> Value {
        let ran = self.conclave(&format!("show {name} --json"));
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
    }

    /// Waits until so many wait for a name.
    pub fn has_waiters(&self, name: &str, count: usize) {
        let is_so = || self.show(name)["queue"].as_array().map_or(0, Vec::len) == count;
        until(&format!("{count} wait for {name}"), is_so);
    }

    /// Waits until a command has written this file, and gives what it wrote.
    pub fn written(&self, name: &str) -> String {
        until(&format!("{name} is written"), || {
            fs::read_to_string(self.path(name)).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(self.path(name)).expect("it was there")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let logs: BTreeMap<u64, String> = self.ids().into_iter().map(|id| (id, self.log(id))).collect();
        if std::thread::panicking() {
            for (id, log) in &logs {
                let lines: Vec<&str> = log.lines().collect();
                println!("--- node {id}\n{}", lines[lines.len().saturating_sub(25)..].join("\n"));
            }
            return;
        }
        for (id, log) in &logs {
            assert!(!log.contains("panicked"), "node {id}:\n{log}");
        }
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(pid, signal).expect("the process is there");
}

/// The leaders that nodes name in this answer of `conclave status --json`, one for each node that names one.
fn leaders(status: &str) -> Vec<u64> {
    let status: Value = serde_json::from_str(status).unwrap_or_default();
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter_map(|node| node["leader"].as_u64()).filter(|leader| *leader != 0).collect()
}
