//! The file that says what a process is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use conclave_core::{Deviation, Incarnation, NodeId, Timing};
use conclave_net::{Address, ClockConfig, DetectorConfig, Fingerprint, NodeConfig, Secret, TlsConfig};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a process is, as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// The name of the group: letters, digits and `-`.
    pub cluster: String,
    /// What it runs.
    pub algorithm: String,
    /// Which of the processes this is.
    pub id: u32,
    /// Where it keeps what must survive; a relative path starts at the file.
    pub data: PathBuf,
    /// Where it listens, if not at its address among the peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Whether to listen beyond this machine without certificates.
    #[serde(default)]
    pub insecure: bool,
    /// Whether to write down what happens.
    #[serde(default)]
    pub record: bool,
    /// How large the record of a life may become, in MiB: then it ends, and the process goes on without.
    #[serde(default = "record_mb")]
    pub record_mb: u64,
    /// What times in records are counted from: seconds since 1970. The same for all processes of a group.
    #[serde(default)]
    pub epoch: u64,
    /// The longest time that a message travels, in milliseconds: time-outs of the algorithm follow from it.
    #[serde(default = "transmission")]
    pub transmission_ms: u64,
    /// The longest time that a process needs to answer, in milliseconds.
    #[serde(default = "processing")]
    pub processing_ms: u64,
    /// No silence shorter than this makes a process a suspect, in milliseconds.
    #[serde(default = "suspect_after")]
    pub suspect_after_ms: u64,
    /// How the clock of the process deviates from that of the machine: `+20ms,50ppm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Settings of the algorithm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What only the processes of the group know, at least 16 characters: every connection shows that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The life to begin with, if the data directory knows of none as late: for a process that has lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<u32>,
    /// Certificates, without which nothing is encrypted and anybody can pretend to be anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// All processes, this one among them, in ring order.
    pub peers: Vec<PeerAddress>,
}

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerAddress {
    /// Its name.
    pub id: u32,
    /// Where the others find it: `10.0.0.1:7001`, or `node-1.lab:7001`, which is looked up at every connection.
    pub address: Address,
    /// Where it takes orders from other machines, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Address>,
}

/// Where certificates are; a relative path starts at the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Of the authority.
    pub authority: PathBuf,
    /// Of this process.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// SHA-256 fingerprints of certificates that are refused although the authority has signed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl TlsFiles {
    fn refused(&self) -> Result<BTreeSet<Fingerprint>, String> {
        let parsed = self.refused.iter().map(|text| text.parse());
        parsed.collect::<Result<_, _>>().map_err(|error: conclave_net::NoFingerprint| error.to_string())
    }
}

fn record_mb() -> u64 {
    256
}

fn transmission() -> u64 {
    50
}

fn processing() -> u64 {
    10
}

fn suspect_after() -> u64 {
    500
}

/// Why a file does not say what a process is.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{path}: {why}")]
    Wrong {
        /// Which.
        path: PathBuf,
        /// Why, and where.
        why: String,
    },
}

impl ProcessConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or says something else.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::read_as(path, None)
    }

    /// The same for one of the processes, where one file is for all of them: it names none, and `{id}` in its paths stands for
    /// each.
    ///
    /// # Errors
    /// If it cannot be read or says something else.
    pub fn read_as(path: &Path, id: Option<u32>) -> Result<Self, FileError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| FileError::Io { path: path.into(), error })?;
        let broken = |error: toml::de::Error| FileError::Wrong { path: path.into(), why: error.to_string() };
        let wrong = |why: String| FileError::Wrong { path: path.into(), why };
        let mut table: toml::Table = toml::from_str(&text).map_err(broken)?;
        let mut config: Self = match (id, table.get("id").and_then(toml::Value::as_integer)) {
            (Some(id), None) => {
                table.insert("id".into(), i64::from(id).into());
                table.try_into().map_err(broken)?
            }
            (Some(id), Some(named)) if named != i64::from(id) => {
                return Err(wrong(format!("it is the file of process {named}")));
            }
            (None, None) if table.contains_key("cluster") && !table.contains_key("id") => {
                return Err(wrong("it names no process; say which with --id".into()));
            }
            _ => toml::from_str(&text).map_err(broken)?,
        };
        config.fill_in();
        if let Some(why) = config.contradiction() {
            return Err(wrong(why));
        }
        let home = path.parent().unwrap_or(Path::new(""));
        config.data = home.join(&config.data);
        if let Some(tls) = &mut config.tls {
            for file in [&mut tls.authority, &mut tls.certificate, &mut tls.key] {
                *file = home.join(&*file);
            }
        }
        Ok(config)
    }

    /// Puts the id into the paths that name it.
    fn fill_in(&mut self) {
        let id = self.id.to_string();
        let fill = |path: &mut PathBuf| {
            if let Some(text) = path.to_str() {
                *path = text.replace("{id}", &id).into();
            }
        };
        fill(&mut self.data);
        if let Some(tls) = &mut self.tls {
            [&mut tls.authority, &mut tls.certificate, &mut tls.key].into_iter().for_each(fill);
        }
    }

    /// Where this process takes orders from other machines, if it does.
    #[must_use]
    pub fn control(&self) -> Option<Address> {
        self.peers.iter().find(|peer| peer.id == self.id).and_then(|peer| peer.control.clone())
    }

    /// The secret that every connection shows knowledge of.
    #[must_use]
    pub fn known_secret(&self) -> Option<Secret> {
        self.secret.as_deref().and_then(Secret::new)
    }

    /// What cannot be true of a group.
    fn contradiction(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.peers.iter().find(|peer| !seen.insert(peer.id)) {
            return Some(format!("process {} is among the peers twice", twice.id));
        }
        if !seen.contains(&self.id) {
            return Some(format!("process {} is not among the peers", self.id));
        }
        if self.secret.as_ref().is_some_and(|secret| Secret::new(secret).is_none()) {
            return Some(format!("a secret has at least {} characters", Secret::LEAST));
        }
        if self.secret.is_none() && self.peers.iter().any(|peer| peer.control.is_some()) {
            return Some("without a secret anybody could give orders at a control address".into());
        }
        if self.life == Some(0) {
            return Some("lives are counted from 1".into());
        }
        let refused = self.tls.as_ref().and_then(|tls| tls.refused().err());
        refused.or_else(|| self.deviation().err())
    }

    fn deviation(&self) -> Result<Deviation, String> {
        self.clock.as_ref().map_or(Ok(Deviation::default()), |clock| clock.parse())
    }

    /// The clock that the process reads: it counts from the epoch, and is as wrong as the file says.
    #[must_use]
    pub fn clock(&self) -> ClockConfig {
        ClockConfig { zero: self.epoch(), deviation: self.deviation().unwrap_or_default() }
    }

    /// As text for a file.
    ///
    /// # Panics
    /// Never: everything in it can be written.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect("numbers, texts and paths can be written")
    }

    /// The same as the file of all processes: it names none.
    ///
    /// # Panics
    /// Never: everything in it can be written.
    #[must_use]
    pub fn text_of_all(&self) -> String {
        let mut table = toml::Table::try_from(self).expect("numbers, texts and paths can be written");
        table.remove("id");
        toml::to_string(&table).expect("a table can be written")
    }

    /// What times in records are counted from.
    #[must_use]
    pub fn epoch(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.epoch)
    }

    /// The same for the driver.
    #[must_use]
    pub fn node(&self) -> NodeConfig {
        let peers: Vec<(NodeId, Address)> =
            self.peers.iter().map(|peer| (NodeId(peer.id), peer.address.clone())).collect();
        let usual =
            NodeConfig::new(NodeId(self.id), peers, &self.cluster, &self.algorithm, self.data.clone());
        let ms = Duration::from_millis;
        NodeConfig {
            listen: self.listen.map_or(usual.listen, Address::Fixed),
            timing: Timing { transmission: ms(self.transmission_ms), processing: ms(self.processing_ms) },
            detector: DetectorConfig { at_least: ms(self.suspect_after_ms), ..DetectorConfig::default() },
            tls: self.tls.as_ref().map(|tls| TlsConfig {
                authority: tls.authority.clone(),
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
                refused: tls.refused().unwrap_or_default(),
            }),
            insecure: self.insecure,
            secret: self.known_secret(),
            least_life: self.life.map_or(Incarnation::FIRST, Incarnation),
            looks_around: true,
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
cluster = "lab"
algorithm = "maekawa"
id = 2
data = "node-2"
peers = [{ id = 1, address = "127.0.0.1:7001" }, { id = 2, address = "127.0.0.1:7002" }]

[settings]
quorum = "plane"
"#;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node.toml");
        std::fs::write(&path, FILE).expect("it can be written");
        let config = ProcessConfig::read(&path).expect("it is right");
        assert_eq!(config.data, dir.path().join("node-2"));
        assert_eq!((config.transmission_ms, config.settings["quorum"].as_str()), (50, "plane"));
        std::fs::write(&path, config.text()).expect("it can be written");
        assert_eq!(ProcessConfig::read(&path).expect("it is right"), config);
    }

    #[test]
    fn processes_may_have_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node.toml");
        std::fs::write(&path, FILE.replace("127.0.0.1", "node.lab")).expect("it can be written");
        let config = ProcessConfig::read(&path).expect("it is right");
        assert_eq!(config.node().peers[0].1.to_string(), "node.lab:7001");
        assert_eq!(config.node().listen.to_string(), "node.lab:7002");
        assert_eq!(toml::from_str::<ProcessConfig>(&config.text()).as_ref(), Ok(&config));
    }

    /// One file for all processes, and for whoever gives them orders.
    #[test]
    fn one_file_describes_all_processes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cluster.toml");
        let text = FILE.replace("id = 2\n", "").replace("node-2", "data/{id}");
        std::fs::write(&path, &text).expect("it can be written");
        for id in [1, 2] {
            let config = ProcessConfig::read_as(&path, Some(id)).expect("it is right");
            assert_eq!((config.id, config.data), (id, dir.path().join(format!("data/{id}"))));
        }
        let why = |id| ProcessConfig::read_as(&path, id).expect_err("it is wrong").to_string();
        assert!(why(None).contains("say which with --id"), "{}", why(None));
        assert!(why(Some(3)).contains("process 3 is not among the peers"), "{}", why(Some(3)));
        std::fs::write(&path, FILE).expect("it can be written");
        assert!(why(Some(1)).contains("the file of process 2"), "{}", why(Some(1)));
    }

    #[test]
    fn what_a_file_should_not_say_is_named_with_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node.toml");
        let wrong = [
            (FILE.replace("id = 2\n", "id = \"two\"\n"), "id"),
            (format!("{FILE}x = 1\n[y]\n"), "y"),
            (FILE.replace("id = 2\n", "id = 3\n"), "process 3 is not among the peers"),
            (FILE.replace("id = 2,", "id = 1,"), "process 1 is among the peers twice"),
            (FILE.replace("7001\"", "7001\", control = \"127.0.0.1:8001\""), "without a secret anybody"),
            (format!("life = 0\n{FILE}"), "lives are counted from 1"),
            (format!("secret = \"short\"\n{FILE}"), "a secret has at least 16 characters"),
            (FILE.replace("127.0.0.1:7001", "node-1.lab"), "'node-1.lab' has no port"),
            (FILE.replace("127.0.0.1:7001", "node 1:7001"), "'node 1' is no host"),
            (
                format!(
                    "{FILE}[tls]\nauthority = \"a\"\ncertificate = \"c\"\nkey = \"k\"\nrefused = [\"ab\"]\n"
                ),
                "'ab' is no fingerprint",
            ),
        ];
        for (text, word) in wrong {
            std::fs::write(&path, text).expect("it can be written");
            let error = ProcessConfig::read(&path).expect_err("it is wrong").to_string();
            assert!(error.contains("node.toml") && error.contains(word), "{error}");
        }
    }
}
