//! Processes from files of their own: `conclave node`, started by the test.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use conclave_live::config::{PeerAddress, ProcessConfig, TlsFiles};
use conclave_live::control::Control;
use tempfile::TempDir;

use crate::group::{Place, records, show_logs};
use crate::until;

/// Processes that end with the test.
pub struct Nodes {
    home: TempDir,
    epoch: u64,
    children: BTreeMap<u32, Child>,
}

impl Nodes {
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("there is room for a directory");
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs();
        Self { home, epoch, children: BTreeMap::new() }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// What a process of this group is like. The setting is `key=value`, or empty.
    pub fn config(&self, algorithm: &str, setting: &str, id: u32, peers: Vec<PeerAddress>) -> ProcessConfig {
        let setting = setting.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        ProcessConfig {
            cluster: "lab".into(),
            algorithm: algorithm.into(),
            id,
            data: format!("node-{id}").into(),
            listen: None,
            insecure: false,
            record: true,
            epoch: self.epoch,
            transmission_ms: 50,
            processing_ms: 10,
            suspect_after_ms: 500,
            settings: setting.into_iter().collect(),
            clock: None,
            record_mb: 256,
            secret: None,
            life: None,
            tls: None,
            peers,
        }
    }

    /// Makes certificates for these processes.
    pub fn certify(&self, ids: &str) {
        let made = binary()
            .args(["cert", "certs", "--cluster", "lab", "--ids", ids])
            .current_dir(self.home())
            .output()
            .expect("the binary runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// Starts a process, by a command that ends in the binary.
    pub fn start(&mut self, config: &ProcessConfig, command: Command) {
        let id = config.id;
        let path = self.home().join(format!("node-{id}.toml"));
        std::fs::write(&path, config.text()).expect("it can be written");
        self.start_from(&path, id, command);
    }

    /// Starts one of the processes of a file.
    pub fn start_from(&mut self, file: &Path, id: u32, mut command: Command) {
        let log = File::create(self.home().join(format!("node-{id}.log"))).expect("it can be written");
        let child = command
            .args(["node", "--with-parent", "--id", &id.to_string(), "--config"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .expect("the binary runs");
        self.children.insert(id, child);
    }

    fn data(&self, id: u32) -> PathBuf {
        self.home().join(format!("node-{id}"))
    }

    pub fn places(&self) -> Vec<Place> {
        self.children.keys().map(|id| (*id, self.data(*id))).collect()
    }

    /// Ends one without a word.
    pub fn kill(&mut self, id: u32) {
        if let Some(mut child) = self.children.remove(&id) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// One that has ended is no longer among them.
    pub fn forget(&mut self, id: u32) {
        self.children.remove(&id);
    }

    /// Whether one has ended by itself.
    pub fn has_ended(&mut self, id: u32) -> bool {
        self.children.get_mut(&id).is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// What one has said.
    pub fn log(&self, id: u32) -> String {
        std::fs::read_to_string(self.home().join(format!("node-{id}.log"))).unwrap_or_default()
    }

    /// Waits until all take orders.
    pub fn are_up(&self) {
        let is_up = |place: &Place| Control::connect(&place.1).is_ok();
        until("all are up", || self.places().iter().all(is_up));
    }

    /// Ends all in order; returns what was written down.
    pub fn stop(&mut self) -> Vec<PathBuf> {
        let records = records(&self.places());
        self.end();
        records
    }

    /// They end when their standard input does.
    fn end(&mut self) {
        self.children.values_mut().for_each(|child| drop(child.stdin.take()));
        let deadline = Instant::now() + Duration::from_secs(10);
        for child in self.children.values_mut() {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_logs(self.home());
        }
        self.end();
    }
}

/// The certificate of a process for which one was made.
pub fn certificates_of(id: u32) -> TlsFiles {
    TlsFiles {
        authority: "certs/authority.pem".into(),
        certificate: format!("certs/node-{id}.pem").into(),
        key: format!("certs/node-{id}.key").into(),
        refused: Vec::new(),
    }
}

/// The binary as it is.
pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_conclave"))
}

/// Addresses on this machine that nobody has now, and that nobody is given who asks for just any port.
pub fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let ports = conclave_live::supervisor::free_ports(count).expect("there are ports");
    ports.into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect()
}
