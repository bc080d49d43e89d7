//! Clusters of processes on one machine, seen from anywhere: who is who, how they stand, what they are told.
//!
//! A cluster is a directory: `cluster.json` says who is who, `node-3.toml` and `node-3/` belong to process 3, and
//! `cluster.sock` to the [supervisor](crate::supervisor).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_core::NodeId;
use conclave_net::{Address, Secret};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{FileError, PeerAddress, ProcessConfig};
use crate::control::{Answer, Ask, Control, ControlError, SOCKET, Status};

/// Why something cannot be done with a cluster.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// There is none of that name.
    #[error("there is no cluster '{0}'")]
    Unknown(String),
    /// There is none at all.
    #[error("no cluster is running")]
    None,
    /// There are several, and none was named.
    #[error("several clusters are running: {0}; name one with --cluster")]
    Several(String),
    /// It runs already.
    #[error("the cluster '{0}' is running already")]
    Running(String),
    /// It is not a name.
    #[error("'{0}' cannot be the name of a cluster; use letters, digits and '-'")]
    Name(String),
    /// A file or directory is in the way.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file says something else.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its list of processes cannot be read.
    #[error("{path} does not say who is who: {why}")]
    Manifest {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It takes no orders from elsewhere, and is not here.
    #[error(
        "{0} does not run on this machine, and the file has no 'control' address and secret to reach it with"
    )]
    NoControl(NodeId),
    /// Only who has started a process can do that to it.
    #[error("processes of a file are started and ended where they run, by 'conclave node'")]
    NoSupervisor,
    /// It belongs to another user.
    #[error("{0} belongs to another user")]
    Foreign(PathBuf),
    /// A process did not come up.
    #[error("{process} did not come up: {why}")]
    Down {
        /// Which.
        process: NodeId,
        /// What it said.
        why: String,
    },
    /// There is no such process.
    #[error("the cluster has no {0}")]
    Stranger(NodeId),
    /// A process does not answer.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Somebody said no.
    #[error("{0}")]
    Refused(String),
    /// There are no free ports.
    #[error("no free port was found on this machine")]
    Ports,
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> ClusterError + '_ {
    move |error| ClusterError::Io { path: path.to_owned(), error }
}

/// Where clusters are kept: in `$CONCLAVE_HOME`, or the place for the state of programs.
#[must_use]
pub fn home() -> PathBuf {
    state_home().join("clusters")
}

/// `$CONCLAVE_HOME`, or the place for the state of programs.
pub(crate) fn state_home() -> PathBuf {
    let from =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = || from("XDG_STATE_HOME").or_else(|| from("HOME").map(|home| home.join(".local/state")));
    let home = from("CONCLAVE_HOME").or_else(|| state().map(|state| state.join("conclave")));
    home.unwrap_or_else(|| std::env::temp_dir().join("conclave"))
}

/// Who is who.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The name of the cluster.
    pub name: String,
    /// What it runs.
    pub algorithm: String,
    /// Whether what happens is written down.
    pub record: bool,
    /// The supervisor.
    pub supervisor: Living,
    /// The processes, in ring order.
    pub processes: Vec<Member>,
}

/// A process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub id: NodeId,
    /// Where it listens.
    pub address: Address,
    /// It, for the operating system; nothing while it is down.
    pub living: Option<Living>,
}

/// A running program. Numbers are given again; together with the time of its start they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Living {
    /// Its number.
    pub pid: u32,
    /// When it was started, in the units of the operating system; 0 if that is not known.
    pub started: u64,
}

impl Living {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        started(self.pid).is_some_and(|started| self.started == 0 || started == self.started)
    }
}

/// When a program was started, if it runs; not if it has ended and nobody has noticed yet.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may contain anything.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| state != "Z")
}

/// A cluster that is there, seen from anywhere.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) dir: PathBuf,
    /// Who is who.
    pub manifest: Manifest,
    /// Where its processes are, if it is known by a file, and they may be on other machines.
    places: Option<Places>,
}

/// Where the processes of a file are.
#[derive(Debug)]
struct Places {
    secret: Option<Secret>,
    /// Who takes orders from other machines, and where.
    controls: BTreeMap<NodeId, Address>,
    /// Where each keeps its data, if it runs on this machine.
    data: BTreeMap<NodeId, PathBuf>,
}

impl Places {
    /// The address for orders and what has to be known to give them.
    fn control(&self, process: NodeId) -> Option<(&Address, &Secret)> {
        Some((self.controls.get(&process)?, self.secret.as_ref()?))
    }
}

impl Cluster {
    /// The cluster of a supervisor on this machine.
    pub(crate) fn of_supervisor(dir: PathBuf, manifest: Manifest) -> Self {
        Self { dir, manifest, places: None }
    }

    /// The cluster that a file describes, whatever machines its processes are on.
    ///
    /// # Errors
    /// If the file says something else.
    pub fn of_file(path: &Path) -> Result<Self, ClusterError> {
        let text = fs::read_to_string(path).map_err(at(path))?;
        // Of a file of all processes, any of them will do.
        let table: Option<toml::Table> = toml::from_str(&text).ok();
        let first = table
            .as_ref()
            .filter(|table| !table.contains_key("id"))
            .and_then(|table| table.get("peers")?.as_array()?.first()?.get("id")?.as_integer());
        let first = first.and_then(|id| u32::try_from(id).ok());
        let config = ProcessConfig::read_as(path, first)?;
        let mut data = BTreeMap::from([(NodeId(config.id), config.data.clone())]);
        if first.is_some() {
            for peer in &config.peers {
                let own = ProcessConfig::read_as(path, Some(peer.id))?;
                data.insert(NodeId(peer.id), own.data);
            }
        }
        let member =
            |peer: &PeerAddress| Member { id: NodeId(peer.id), address: peer.address.clone(), living: None };
        let control = |peer: &PeerAddress| Some((NodeId(peer.id), peer.control.clone()?));
        let manifest = Manifest {
            name: config.cluster.clone(),
            algorithm: config.algorithm.clone(),
            record: config.record,
            supervisor: Living { pid: 0, started: 0 },
            processes: config.peers.iter().map(member).collect(),
        };
        let controls = config.peers.iter().filter_map(control).collect();
        let places = Some(Places { secret: config.known_secret(), controls, data });
        Ok(Self { dir: path.to_owned(), manifest, places })
    }

    /// The cluster of this name among those that are kept here, or the only one that runs.
    ///
    /// # Errors
    /// If there is none, or there are several.
    pub fn find(home: &Path, name: Option<&str>) -> Result<Self, ClusterError> {
        if let Some(name) = name {
            check_name(name)?;
            return Self::open(&home.join(name))?.ok_or_else(|| ClusterError::Unknown(name.to_owned()));
        }
        let mut running = Self::all(home)?;
        running.retain(Self::is_running);
        match running.len() {
            0 => Err(ClusterError::None),
            1 => Ok(running.remove(0)),
            _ => {
                let names: Vec<_> = running.iter().map(|cluster| cluster.manifest.name.as_str()).collect();
                Err(ClusterError::Several(names.join(", ")))
            }
        }
    }

    /// All that are kept here, running or not.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn all(home: &Path) -> Result<Vec<Self>, ClusterError> {
        let entries = match fs::read_dir(home) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(home)(error)),
        };
        let mut dirs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        dirs.sort();
        // Something else in the directory is no reason not to see the clusters.
        Ok(dirs.iter().filter_map(|dir| Self::open(dir).ok().flatten()).collect())
    }

    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, ClusterError> {
        let path = dir.join("cluster.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        // It names programs that are ended, and sockets that are trusted.
        if fs::metadata(&path).map_err(at(&path))?.uid() != rustix::process::geteuid().as_raw() {
            return Err(ClusterError::Foreign(path));
        }
        let wrong =
            |error: serde_json::Error| ClusterError::Manifest { path: path.clone(), why: error.to_string() };
        let manifest = serde_json::from_str(&text).map_err(wrong)?;
        Ok(Some(Self { dir: dir.to_owned(), manifest, places: None }))
    }

    /// Whether its supervisor is there.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.manifest.supervisor.is_alive()
    }

    /// Whose processes run, standing still or not. Those of a file are asked.
    #[must_use]
    pub fn running(&self) -> BTreeSet<NodeId> {
        let is_running = |member: &&Member| match &self.places {
            Some(_) => self.connect(member.id).is_ok(),
            None => member.living.is_some_and(|it| it.is_alive()),
        };
        self.manifest.processes.iter().filter(is_running).map(|member| member.id).collect()
    }

    /// The data directory of a process.
    #[must_use]
    pub fn data(&self, process: NodeId) -> PathBuf {
        let known = self.places.as_ref().and_then(|places| places.data.get(&process));
        known.cloned().unwrap_or_else(|| data_of(&self.dir, process))
    }

    /// A connection to one of its processes.
    ///
    /// # Errors
    /// If there is no such process, or it is down.
    pub fn connect(&self, process: NodeId) -> Result<Control, ClusterError> {
        if !self.manifest.processes.iter().any(|member| member.id == process) {
            return Err(ClusterError::Stranger(process));
        }
        let data = self.data(process);
        match self.places.as_ref().map(|places| places.control(process)) {
            Some(Some((address, secret))) => Ok(Control::reach(address, secret)?),
            Some(None) if !data.join(SOCKET).exists() => Err(ClusterError::NoControl(process)),
            Some(None) | None => Ok(Control::connect(&data)?),
        }
    }

    /// How a process stands.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn status(&self, process: NodeId) -> Result<Status, ClusterError> {
        let mut control = self.connect(process)?;
        control.ask(&Ask::Status)?;
        match control.answer(Some(Duration::from_secs(2)))? {
            Some(Answer::Status(status)) => Ok(*status),
            Some(other) => Err(ControlError::Strange(format!("{other:?}")).into()),
            None => Err(ClusterError::Refused(format!("{process} does not answer"))),
        }
    }

    /// Parts groups from each other, or joins them again: each process is told of those on the other sides. Who is down
    /// needs no joining.
    ///
    /// # Errors
    /// If one of them is no member, and then nobody was told; or does not answer, and then all the others were.
    pub fn part(&self, groups: &[Vec<NodeId>], is_cut: bool) -> Result<(), ClusterError> {
        let is_member = |id: &&NodeId| self.manifest.processes.iter().any(|member| member.id == **id);
        if let Some(stranger) = groups.iter().flatten().find(|id| !is_member(id)) {
            return Err(ClusterError::Stranger(*stranger));
        }
        let mut failed = None;
        for (side, group) in groups.iter().enumerate() {
            let others = || groups.iter().enumerate().filter(move |(other, _)| *other != side);
            let peers: Vec<NodeId> = others().flat_map(|(_, group)| group.iter().copied()).collect();
            for process in group {
                let peers = peers.clone();
                let ask = if is_cut { Ask::Cut(peers) } else { Ask::Heal(peers) };
                let told = match self.connect(*process) {
                    Err(ClusterError::Control(_)) if !is_cut => continue,
                    connected => connected.and_then(|mut control| Ok(control.call(&ask)?)),
                };
                match told {
                    Ok(Answer::Wrong(why)) => return Err(ClusterError::Refused(why)),
                    Ok(_) => {}
                    Err(error) => {
                        failed = Some(ClusterError::Refused(format!("{process} was not told: {error}")));
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Has the supervisor do something.
    ///
    /// # Errors
    /// If there is no supervisor, or it cannot.
    pub fn order(&self, order: &Order) -> Result<String, ClusterError> {
        if self.places.is_some() {
            return Err(ClusterError::NoSupervisor);
        }
        let path = self.dir.join(SUPERVISOR);
        let mut stream = UnixStream::connect(&path).map_err(at(&path))?;
        let mut line = serde_json::to_string(order).expect("an order is plain data");
        line.push('\n');
        stream.write_all(line.as_bytes()).map_err(at(&path))?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).map_err(at(&path))?;
        let answer: Result<String, String> = serde_json::from_str(&answer)
            .map_err(|_| ClusterError::Refused("the supervisor went away".into()))?;
        answer.map_err(ClusterError::Refused)
    }

    /// What its processes have written down, wherever they are. What other machines have is copied into this directory.
    ///
    /// # Errors
    /// If a directory cannot be read, or a process on another machine does not answer.
    pub fn collect(&self, copies: &Path) -> Result<Vec<PathBuf>, ClusterError> {
        let mut records = Vec::new();
        for member in &self.manifest.processes {
            let is_elsewhere = self.places.as_ref().is_some_and(|it| it.control(member.id).is_some());
            let of_member =
                if is_elsewhere { self.fetch(member.id, copies) } else { self.written(member.id) };
            records.append(&mut of_member?);
        }
        records.sort();
        Ok(records)
    }

    /// Copies what a process on another machine has written down, life by life.
    fn fetch(&self, process: NodeId, copies: &Path) -> Result<Vec<PathBuf>, ClusterError> {
        let last = self.status(process)?.life;
        let mut control = self.connect(process)?;
        let mut records = Vec::new();
        for life in 1..=last {
            let path = copies.join(format!("{}-{life}.jsonl", process.0));
            if copy_record(&mut control, life, &path)? {
                records.push(path);
            }
        }
        Ok(records)
    }

    /// What its processes have written down on this machine, life by life.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn records(&self) -> Result<Vec<PathBuf>, ClusterError> {
        let mut records = Vec::new();
        for member in &self.manifest.processes {
            records.append(&mut self.written(member.id)?);
        }
        records.sort();
        Ok(records)
    }

    /// What a process has written down on this machine, life by life. A process of a file need not have been here.
    fn written(&self, process: NodeId) -> Result<Vec<PathBuf>, ClusterError> {
        let dir = self.data(process);
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.places.is_some() => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(at(&dir))?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(at(&dir))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with("record-") && name.ends_with(".jsonl") {
                records.push(path);
            }
        }
        Ok(records)
    }
}

/// Copies the record of a life, a piece at a time; false if there is none.
fn copy_record(control: &mut Control, life: u32, path: &Path) -> Result<bool, ClusterError> {
    let mut file = None;
    let mut offset = 0;
    loop {
        match control.call(&Ask::Record { life, offset })? {
            Answer::Record(Some(piece)) if piece.is_empty() => return Ok(file.is_some()),
            Answer::Record(Some(piece)) => {
                let file = match &mut file {
                    Some(file) => file,
                    None => file.insert(fs::File::create(path).map_err(at(path))?),
                };
                file.write_all(piece.as_bytes()).map_err(at(path))?;
                offset += piece.len() as u64;
            }
            Answer::Record(None) => return Ok(false),
            other => return Err(ControlError::Strange(format!("{other:?}")).into()),
        }
    }
}

/// Makes a directory that nobody else can open; one that is there stays as it is.
///
/// # Errors
/// If it cannot be made.
pub fn create_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a file that nobody else can read: who can read it can speak as the processes do.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

pub(crate) fn data_of(dir: &Path, process: NodeId) -> PathBuf {
    dir.join(format!("node-{}", process.0))
}

pub(crate) fn check_name(name: &str) -> Result<(), ClusterError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_name = (1..=63).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-');
    if is_name { Ok(()) } else { Err(ClusterError::Name(name.to_owned())) }
}

/// A name that no running cluster here has: this one, or with a number behind it.
///
/// # Errors
/// If the directory of clusters cannot be read.
pub fn free_name(home: &Path, wanted: &str) -> Result<String, ClusterError> {
    let taken: Vec<String> = Cluster::all(home)?
        .into_iter()
        .filter(Cluster::is_running)
        .map(|cluster| cluster.manifest.name)
        .collect();
    let mut names = core::iter::once(wanted.to_owned()).chain((2..).map(|k| format!("{wanted}-{k}")));
    Ok(names.find(|name| !taken.contains(name)).expect("there are more numbers than clusters"))
}

/// The socket of the supervisor.
pub(crate) const SUPERVISOR: &str = "cluster.sock";

/// What a supervisor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End a process at once, without a word (SIGKILL).
    Kill(NodeId),
    /// Start a process again; if it runs, it is shut down first.
    Restart(NodeId),
    /// Make a process stand still (SIGSTOP).
    Pause(NodeId),
    /// Let it go on (SIGCONT).
    Resume(NodeId),
    /// Say that it is there.
    Answer,
    /// Shut everything down.
    Stop,
}
