//! A cluster of the real binary, in a directory of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use conclave_live::config::ProcessConfig;
use tempfile::TempDir;

use crate::wires::Wire;

/// A cluster that ends with the test.
pub struct Group {
    home: TempDir,
    pub ids: Vec<u32>,
}

/// A process and its data directory.
pub type Place = (u32, PathBuf);

impl Group {
    /// Starts processes 1 to `n`; the words are further options of `cluster start`.
    pub fn start(algorithm: &str, n: u32, words: &str) -> Self {
        let home = tempfile::tempdir().expect("there is room for a directory");
        let group = Self { home, ids: (1..=n).collect() };
        group.order(&format!("start {algorithm} -n {n} --detach --cluster lab {words}"));
        group
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// `conclave cluster` with these words, about to be run.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        command.arg("cluster").args(line.split_whitespace());
        command.env("CONCLAVE_HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    /// Runs `conclave cluster` with these words.
    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("the binary runs")
    }

    /// The same, and it must go well.
    #[track_caller]
    pub fn order(&self, line: &str) -> String {
        let output = self.run(line);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "conclave cluster {line}\n{out}{err}");
        out.into_owned()
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("clusters/lab")
    }

    /// Has every process reach every other by a wire of its own: from whom, to whom.
    pub fn wire(&self) -> BTreeMap<(u32, u32), Wire> {
        let mut wires = BTreeMap::new();
        for id in &self.ids {
            let path = self.place(*id).1.with_extension("toml");
            let mut config = ProcessConfig::read(&path).expect("it has a file");
            for peer in config.peers.iter_mut().filter(|peer| peer.id != *id) {
                let wire = Wire::to(peer.address.fixed().expect("it is on this machine"));
                peer.address = wire.address.into();
                wires.insert((*id, peer.id), wire);
            }
            std::fs::write(&path, config.text()).expect("it can be written");
            self.order(&format!("restart {id}"));
        }
        wires
    }

    pub fn place(&self, id: u32) -> Place {
        (id, self.dir().join(format!("node-{id}")))
    }

    pub fn places(&self) -> Vec<Place> {
        self.ids.iter().map(|id| self.place(*id)).collect()
    }

    pub fn but(&self, id: u32) -> Vec<u32> {
        self.ids.iter().copied().filter(|other| *other != id).collect()
    }

    /// Ends it in order, so that nothing more is written down; returns what was.
    pub fn stop(&self) -> Vec<PathBuf> {
        self.order("stop");
        records(&self.places())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_logs(&self.dir());
        }
        let _ = self.run("stop");
    }
}

/// What these processes have written down, life by life.
pub fn records(places: &[Place]) -> Vec<PathBuf> {
    let files = places.iter().flat_map(|(_, data)| std::fs::read_dir(data).expect("it has a directory"));
    let files = files.map(|entry| entry.expect("it can be read").path());
    let is_record = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut records: Vec<PathBuf> = files.filter(is_record).collect();
    records.sort();
    records
}

/// Shows the end of every log in a directory.
pub fn show_logs(dir: &Path) {
    const LINES: usize = 25;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = &lines[lines.len().saturating_sub(LINES)..];
            println!("--- {}\n{}", path.display(), end.join("\n"));
        }
    }
}
