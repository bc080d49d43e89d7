//! The parent of a cluster's processes: starting, watching, ending.
//!
//! They end with it, however it ends, because they hold the other end of a pipe.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use conclave_core::{Deviation, NodeId};
use conclave_net::{Address, Secret};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{
    Cluster, ClusterError, Living, Manifest, Member, Order, SUPERVISOR, at, check_name, create_private,
    data_of, write_private,
};
use crate::config::{PeerAddress, ProcessConfig};
use crate::control::{Ask, Control};

/// How long a process may take to come up.
const COMING_UP: Duration = Duration::from_secs(20);
/// How long it may take to end, before it is killed.
const GOING_DOWN: Duration = Duration::from_secs(8);
/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a cluster shall be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where clusters are kept; see [`home`](crate::cluster::home).
    pub home: PathBuf,
    /// Its name.
    pub name: String,
    /// What it runs.
    pub algorithm: String,
    /// Its processes, in ring order.
    pub ids: Vec<NodeId>,
    /// Settings of the algorithm.
    pub settings: BTreeMap<String, String>,
    /// Whether what happens is written down.
    pub record: bool,
    /// The longest time that a message travels.
    pub transmission: Duration,
    /// The shortest silence that makes a process a suspect.
    pub suspect_after: Duration,
    /// Whose clocks are wrong, and how.
    pub clocks: Vec<(NodeId, Deviation)>,
    /// The program that is a process if it is called with `node --config FILE --with-parent`.
    pub program: PathBuf,
}

impl Plan {
    /// How the clock of a process deviates, in the words of its file; of several that are given, the last counts.
    fn clock_of(&self, id: NodeId) -> Option<String> {
        let given = self.clocks.iter().rev().find(|(process, _)| *process == id);
        given.map(|(_, deviation)| deviation.to_string())
    }

    /// What the files of all processes have in common; of the one with number 0, which there is not.
    ///
    /// # Errors
    /// If no secret can be made.
    pub(crate) fn common(&self, addresses: &[Address]) -> io::Result<ProcessConfig> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
        let peer = |(id, address): (&NodeId, &Address)| PeerAddress {
            id: id.0,
            address: address.clone(),
            control: None,
        };
        Ok(ProcessConfig {
            cluster: self.name.clone(),
            algorithm: self.algorithm.clone(),
            id: 0,
            data: "node-{id}".into(),
            listen: None,
            insecure: false,
            record: self.record,
            record_mb: 256,
            epoch: since.as_secs(),
            transmission_ms: ms(self.transmission),
            processing_ms: ms(self.transmission / 5),
            suspect_after_ms: ms(self.suspect_after),
            clock: None,
            settings: self.settings.clone(),
            secret: Some(Secret::random()?),
            life: None,
            tls: None,
            peers: self.ids.iter().zip(addresses).map(peer).collect(),
        })
    }
}

/// The parent of the processes of a cluster.
pub struct Supervisor {
    dir: PathBuf,
    program: PathBuf,
    manifest: Manifest,
    children: BTreeMap<NodeId, Child>,
    is_over: bool,
}

impl Supervisor {
    /// Starts a cluster. What is left of an earlier one of the same name is removed first, if that no longer runs.
    ///
    /// # Errors
    /// If it runs already, or a process does not come up; then none is left behind.
    pub fn start(plan: &Plan) -> Result<Self, ClusterError> {
        check_name(&plan.name)?;
        let dir = plan.home.join(&plan.name);
        clear(&dir, &plan.name)?;
        create_private(&dir).map_err(at(&dir))?;
        let ports = free_ports(plan.ids.len())?;
        let address = |port: u16| Address::Fixed((Ipv4Addr::LOCALHOST, port).into());
        let processes = plan.ids.iter().zip(ports);
        let processes: Vec<Member> =
            processes.map(|(id, port)| Member { id: *id, address: address(port), living: None }).collect();
        write_configs(&dir, plan, &processes)?;
        let manifest = Manifest {
            name: plan.name.clone(),
            algorithm: plan.algorithm.clone(),
            record: plan.record,
            supervisor: Living::of(std::process::id()),
            processes,
        };
        let mut supervisor =
            Self { dir, program: plan.program.clone(), manifest, children: BTreeMap::new(), is_over: false };
        supervisor.write()?;
        for id in &plan.ids {
            supervisor.spawn(*id)?;
        }
        for id in &plan.ids {
            supervisor.wait_for(*id)?;
        }
        supervisor.write()?;
        Ok(supervisor)
    }

    /// Who is who.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where everything is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn member(&mut self, id: NodeId) -> Result<&mut Member, ClusterError> {
        let member = self.manifest.processes.iter_mut().find(|member| member.id == id);
        member.ok_or(ClusterError::Stranger(id))
    }

    /// Writes down who is who, in one piece.
    fn write(&self) -> Result<(), ClusterError> {
        let (path, draft) = (self.dir.join("cluster.json"), self.dir.join("cluster.json.new"));
        let text = serde_json::to_string_pretty(&self.manifest).expect("a manifest is plain data");
        write_private(&draft, &text).map_err(at(&draft))?;
        fs::rename(&draft, &path).map_err(at(&path))
    }

    fn spawn(&mut self, id: NodeId) -> Result<(), ClusterError> {
        let log = self.dir.join(format!("node-{}.log", id.0));
        let out = File::options().create(true).append(true).open(&log).map_err(at(&log))?;
        let err = out.try_clone().map_err(at(&log))?;
        let config = self.dir.join(format!("node-{}.toml", id.0));
        let child = Command::new(&self.program)
            .args(["node", "--with-parent", "--config"])
            .arg(&config)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            // What is typed to stop the supervisor is not for them: they end when it does.
            .process_group(0)
            .spawn()
            .map_err(at(&self.program))?;
        self.member(id)?.living = Some(Living::of(child.id()));
        self.children.insert(id, child);
        Ok(())
    }

    /// Waits until a process takes orders.
    fn wait_for(&mut self, id: NodeId) -> Result<(), ClusterError> {
        let down = |why: String| ClusterError::Down { process: id, why };
        let deadline = Instant::now() + COMING_UP;
        let data = data_of(&self.dir, id);
        loop {
            let child = self.children.get_mut(&id).ok_or(ClusterError::Stranger(id))?;
            if let Ok(Some(status)) = child.try_wait() {
                self.children.remove(&id);
                self.member(id)?.living = None;
                return Err(down(self.last_words(id, status)));
            }
            if Control::connect(&data).is_ok_and(|mut control| control.call(&Ask::Status).is_ok()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(down("it does not answer".into()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// What a process said last.
    fn last_words(&self, id: NodeId, status: ExitStatus) -> String {
        let log = fs::read_to_string(self.dir.join(format!("node-{}.log", id.0))).unwrap_or_default();
        let said = log.lines().last().map(|line| line.trim_start_matches("error: ").to_owned());
        said.unwrap_or_else(|| status.to_string())
    }

    /// Whether a process runs; one that has ended is noticed here.
    fn is_up(&mut self, id: NodeId) -> bool {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if self.children.get_mut(&id).is_some_and(ended) {
            self.children.remove(&id);
            if let Ok(member) = self.member(id) {
                member.living = None;
            }
        }
        self.children.contains_key(&id)
    }

    /// Carries out an order; says what was done.
    ///
    /// # Errors
    /// If it cannot be done.
    pub fn obey(&mut self, order: Order) -> Result<String, ClusterError> {
        let done = match order {
            Order::Kill(id) => {
                self.signal(id, Signal::KILL)?;
                self.reap(id);
                format!("{id} is killed")
            }
            Order::Pause(id) => {
                self.signal(id, Signal::STOP)?;
                format!("{id} stands still")
            }
            Order::Resume(id) => {
                self.signal(id, Signal::CONT)?;
                format!("{id} goes on")
            }
            Order::Restart(id) => {
                self.member(id)?;
                self.end(id);
                self.spawn(id)?;
                self.wait_for(id)?;
                let life = Cluster::of_supervisor(self.dir.clone(), self.manifest.clone()).status(id)?.life;
                format!("{id} is up, in life {life}")
            }
            Order::Answer => "here".into(),
            // It is over when whoever gave the order knows of it; see `take_order`.
            Order::Stop => {
                self.end_all();
                "all have stopped".into()
            }
        };
        self.write()?;
        Ok(done)
    }

    fn signal(&mut self, id: NodeId, signal: Signal) -> Result<(), ClusterError> {
        self.member(id)?;
        if !self.is_up(id) {
            return Err(ClusterError::Refused(format!("{id} is down")));
        }
        let child = &self.children[&id];
        let sent = kill_process(Pid::from_child(child), signal);
        sent.map_err(|error| ClusterError::Refused(format!("{id} cannot be reached: {error}")))
    }

    fn reap(&mut self, id: NodeId) {
        if let Some(mut child) = self.children.remove(&id) {
            let _ = child.wait();
        }
        if let Ok(member) = self.member(id) {
            member.living = None;
        }
    }

    /// Ends one process: asks it, and kills it if it does not.
    fn end(&mut self, id: NodeId) {
        self.ask_to_end(id);
        let deadline = Instant::now() + GOING_DOWN;
        while self.is_up(id) && Instant::now() < deadline {
            std::thread::sleep(LOOK_AGAIN);
        }
        if self.is_up(id) {
            let _ = self.signal(id, Signal::KILL);
        }
        self.reap(id);
    }

    /// A process ends when the pipe to it does. One that stands still must go on for that.
    fn ask_to_end(&mut self, id: NodeId) {
        let _ = self.signal(id, Signal::CONT);
        if let Some(child) = self.children.get_mut(&id) {
            drop(child.stdin.take());
        }
    }

    /// Ends all processes, the last of them when this returns, and it is over.
    pub fn stop(&mut self) {
        self.end_all();
        self.is_over = true;
    }

    fn end_all(&mut self) {
        let ids: Vec<NodeId> = self.children.keys().copied().collect();
        ids.iter().for_each(|id| self.ask_to_end(*id));
        ids.iter().for_each(|id| self.end(*id));
    }

    /// Whether it was told to stop.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
        let _ = self.write();
        let _ = fs::remove_file(self.dir.join(SUPERVISOR));
    }
}

/// A supervisor that several may give orders to.
pub type Shared = Arc<Mutex<Supervisor>>;

/// The supervisor, whatever happened to who had it before.
pub fn held(shared: &Shared) -> MutexGuard<'_, Supervisor> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes orders from elsewhere, in a thread of its own, until the program ends.
///
/// # Errors
/// If nobody could give any.
pub fn take_orders(shared: &Shared) -> Result<(), ClusterError> {
    let path = held(shared).dir.join(SUPERVISOR);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(at(&path))?;
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || take_order(stream, &shared));
        }
    });
    Ok(())
}

fn take_order(stream: UnixStream, shared: &Shared) {
    let mut line = String::new();
    let Ok(mut answers) = stream.try_clone() else { return };
    if BufReader::new(io::Read::take(stream, 4_096)).read_line(&mut line).is_err() {
        return;
    }
    let order = serde_json::from_str::<Order>(&line);
    let done: Result<String, String> = match &order {
        Ok(order) => held(shared).obey(*order).map_err(|error| error.to_string()),
        Err(error) => Err(format!("this is no order: {error}")),
    };
    let mut answer = serde_json::to_string(&done).expect("a text can be written");
    answer.push('\n');
    let _ = answers.write_all(answer.as_bytes());
    // Only now: the program ends as soon as it is over, and would take the answer with it.
    if matches!(order, Ok(Order::Stop)) {
        held(shared).is_over = true;
    }
}

/// Removes what is left of a cluster that no longer runs; processes of it that are still there are ended.
fn clear(dir: &Path, name: &str) -> Result<(), ClusterError> {
    if let Ok(Some(old)) = Cluster::open(dir) {
        if old.is_running() {
            return Err(ClusterError::Running(name.to_owned()));
        }
        for living in old.manifest.processes.iter().filter_map(|member| member.living) {
            if living.started > 0 && living.is_alive() {
                let pid = i32::try_from(living.pid).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(dir)(error)),
        _ => Ok(()),
    }
}

fn write_configs(dir: &Path, plan: &Plan, processes: &[Member]) -> Result<(), ClusterError> {
    let addresses: Vec<Address> = processes.iter().map(|member| member.address.clone()).collect();
    let common = plan.common(&addresses).map_err(at(dir))?;
    for member in processes {
        let data = data_of(Path::new(""), member.id);
        let config =
            ProcessConfig { id: member.id.0, data, clock: plan.clock_of(member.id), ..common.clone() };
        let path = dir.join(format!("node-{}.toml", member.id.0));
        write_private(&path, &config.text()).map_err(at(&path))?;
    }
    Ok(())
}

/// Ports that nobody uses now, and that the system gives to nobody who does not ask for them: a process that comes back
/// must find its own.
///
/// # Errors
/// If there are not so many.
pub fn free_ports(count: usize) -> Result<Vec<u16>, ClusterError> {
    const RANGE: u32 = 12_000;
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let start = (seed / 1_000).wrapping_add(std::process::id().wrapping_mul(97));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports = (0..RANGE).map(|k| 20_000 + (start.wrapping_add(k) % RANGE) as u16);
    let free: Vec<u16> = ports.filter(is_free).take(count).collect();
    if free.len() == count { Ok(free) } else { Err(ClusterError::Ports) }
}
