//! Servers as processes of our own: started from a small file, killed, started again, and gone when we are.
//!
//! ```toml
//! kind = "etcd"
//!
//! [[nodes]]
//! endpoint = "127.0.0.1:23791"
//! command = ["etcd", "--name", "n1", "--data-dir", "/var/bench/n1"]
//! log = "/var/bench/n1.log"
//! ```

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use thiserror::Error;
use tokio::process::{Child, Command};

use crate::target::{Role, Target};
use crate::targets::Kind;

/// How often a cluster that is coming up is asked.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long one server may take to say how it is.
const ANSWER: Duration = Duration::from_secs(1);

/// What is wrong with a cluster.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// The file is not a plan.
    #[error("{path} is not a plan of a cluster: {reason}")]
    NotAPlan {
        /// Which file.
        path: PathBuf,
        /// What the parser says.
        reason: toml::de::Error,
    },
    /// A plan without nodes, or a node without a command.
    #[error("{0}")]
    Incomplete(&'static str),
    /// A server does not start.
    #[error("cannot start {program}: {reason}")]
    NotStarted {
        /// Its program.
        program: String,
        /// What the system says.
        reason: std::io::Error,
    },
    /// A server ended by itself.
    #[error("node {node} ended by itself with {status}; see {log}")]
    Ended {
        /// Which one, from 1.
        node: usize,
        /// How.
        status: String,
        /// Where it wrote.
        log: PathBuf,
    },
    /// They do not agree on a leader.
    #[error("not all nodes were well within {0} s")]
    NotReady(u64),
}

/// How to start the servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What they are.
    pub kind: Kind,
    /// One by one.
    pub nodes: Vec<Node>,
}

/// How to start one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Where its clients find it.
    pub endpoint: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where its output goes.
    pub log: PathBuf,
}

impl Plan {
    /// Reads a plan.
    pub fn read(path: &Path) -> Result<Self, ClusterError> {
        let text = fs::read_to_string(path)
            .map_err(|reason| ClusterError::Unreadable { path: path.to_owned(), reason })?;
        let plan: Self = toml::from_str(&text)
            .map_err(|reason| ClusterError::NotAPlan { path: path.to_owned(), reason })?;
        if plan.nodes.is_empty() {
            return Err(ClusterError::Incomplete("the plan has no nodes"));
        }
        if plan.nodes.iter().any(|node| node.command.is_empty()) {
            return Err(ClusterError::Incomplete("a node of the plan has no command"));
        }
        Ok(plan)
    }

    /// The target that these servers make.
    pub fn target(&self, ttl: Duration) -> Arc<dyn Target> {
        let endpoints: Vec<String> = self.nodes.iter().map(|node| node.endpoint.clone()).collect();
        self.kind.open(&endpoints, ttl, None)
    }
}

/// Running servers. All of them are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    children: Vec<Child>,
}

impl Cluster {
    /// Starts all.
    pub fn start(nodes: Vec<Node>) -> Result<Self, ClusterError> {
        let children = nodes.iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self { nodes, children })
    }

    /// Kills one, as a power cut would, and returns the moment of it.
    pub async fn kill(&mut self, node: usize) -> std::io::Result<Instant> {
        let moment = Instant::now();
        self.children[node].start_kill()?;
        self.children[node].wait().await?;
        Ok(moment)
    }

    /// Stops one without ending it, as if nothing reached it any more, and returns the moment of it.
    pub fn stop(&mut self, node: usize) -> std::io::Result<Instant> {
        let pid = self.pid(node).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| std::io::Error::other("it does not run"))?;
        let moment = Instant::now();
        kill_process(pid, Signal::STOP)?;
        Ok(moment)
    }

    /// Starts one that was killed.
    pub fn restart(&mut self, node: usize) -> Result<(), ClusterError> {
        self.children[node] = spawn(&self.nodes[node])?;
        Ok(())
    }

    /// The process of a node, while it runs.
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.children[node].id()
    }

    /// Waits until all serve and exactly one leads; tells which.
    pub async fn leader(&mut self, target: &dyn Target, patience: Duration) -> Result<usize, ClusterError> {
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            self.all_run()?;
            if let Some(leader) = sole_leader(target).await {
                return Ok(leader);
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(ClusterError::NotReady(patience.as_secs()))
    }

    /// None has ended by itself.
    fn all_run(&mut self) -> Result<(), ClusterError> {
        for (at, child) in self.children.iter_mut().enumerate() {
            if let Ok(Some(status)) = child.try_wait() {
                let log = self.nodes[at].log.clone();
                return Err(ClusterError::Ended { node: at + 1, status: status.to_string(), log });
            }
        }
        Ok(())
    }
}

/// The endpoint of the leader, if every server answers and exactly one leads.
pub async fn sole_leader(target: &dyn Target) -> Option<usize> {
    let mut leader = None;
    for endpoint in 0..target.endpoints().len() {
        let role = tokio::time::timeout(ANSWER, target.role(endpoint)).await.ok()?.ok()?;
        match (role, leader) {
            (Role::Follower, _) => {}
            (Role::Leader, None) => leader = Some(endpoint),
            (Role::Leader, Some(_)) | (Role::Lost, _) => return None,
        }
    }
    leader
}

fn spawn(node: &Node) -> Result<Child, ClusterError> {
    let (program, arguments) =
        node.command.split_first().ok_or(ClusterError::Incomplete("a node has no command"))?;
    let start = || {
        let log = OpenOptions::new().create(true).append(true).open(&node.log)?;
        let output = log.try_clone()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(log).kill_on_drop(true).spawn()
    };
    start().map_err(|reason| ClusterError::NotStarted { program: program.clone(), reason })
}
