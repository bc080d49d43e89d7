//! Clusters of real processes, whose parent is the lab. They end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use conclave_algorithms::Name;
use conclave_algorithms::desk::{Wish, Word};
use conclave_core::NodeId;
use conclave_live::cluster::{Cluster, ClusterError, Living, Order};
use conclave_live::control::{Answer, Ask, Closer, Control, ControlError, Status};
use conclave_live::supervisor::{Plan, Shared, Supervisor, held};
use conclave_trace::{Setup, Trace};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bench::Recorded;
use crate::run::{Origin, Run, not_judged};
use crate::{Code, Lab, Problem};

/// How long an election or an answer is waited for; it goes on without us.
const PATIENCE: Duration = Duration::from_secs(5);
/// More locks at once are no help to anybody who looks.
const MOST_HOLDS: usize = 32;

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        Self::refused(error)
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        Self::refused(error)
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clusters of a lab.
pub struct Clusters {
    most: usize,
    next: AtomicU64,
    all: Mutex<BTreeMap<String, Place>>,
}

/// A place among the clusters: taken while one comes up.
enum Place {
    Taken,
    Up(Arc<Live>),
}

impl Clusters {
    pub fn new(most: usize) -> Self {
        Self { most, next: AtomicU64::new(1), all: Mutex::default() }
    }

    /// Starts a cluster; its name is one that nobody else gives.
    pub fn start(&self, plan: Plan) -> Result<Arc<Live>, Problem> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("c{number}");
        {
            let mut all = locked(&self.all);
            if all.len() >= self.most {
                let sentence =
                    format!("{} clusters are running, and the lab runs no more at once", all.len());
                return Err(Problem::new(Code::Busy, sentence).hint("stop one of them"));
            }
            all.insert(id.clone(), Place::Taken);
        }
        let plan = Plan { name: format!("lab-{}-{number}", std::process::id()), ..plan };
        let started = Live::start(id.clone(), &plan).map(Arc::new);
        let mut all = locked(&self.all);
        match &started {
            Ok(live) => all.insert(id, Place::Up(Arc::clone(live))),
            Err(_) => all.remove(&id),
        };
        started
    }

    /// Those that are up.
    pub fn all(&self) -> Vec<Arc<Live>> {
        let up = |place: &Place| match place {
            Place::Up(live) => Some(Arc::clone(live)),
            Place::Taken => None,
        };
        locked(&self.all).values().filter_map(up).collect()
    }

    pub fn find(&self, id: &str) -> Result<Arc<Live>, Problem> {
        match locked(&self.all).get(id) {
            Some(Place::Up(live)) => Ok(Arc::clone(live)),
            _ => Err(Problem::new(Code::Gone, format!("there is no cluster '{id}'")).hint("start one")),
        }
    }

    /// Ends all that are up.
    pub fn end(&self) {
        self.all().iter().for_each(|live| live.end());
    }

    /// Ends a cluster and removes what it wrote.
    pub fn stop(&self, id: &str) -> Result<(), Problem> {
        let live = self.find(id)?;
        live.end();
        locked(&self.all).remove(id);
        Ok(())
    }
}

impl Drop for Clusters {
    fn drop(&mut self) {
        self.end();
    }
}

/// A cluster that runs.
pub struct Live {
    pub id: String,
    algorithm: String,
    name: String,
    home: PathBuf,
    since: Instant,
    supervisor: Shared,
    is_over: AtomicBool,
    paused: Mutex<BTreeSet<NodeId>>,
    cuts: Mutex<Vec<String>>,
    holds: Arc<Mutex<Vec<Hold>>>,
    next_hold: AtomicU64,
}

/// A lock that was asked for here.
struct Hold {
    id: String,
    lock: Name,
    via: NodeId,
    state: &'static str,
    why: Option<String>,
    fence: Option<String>,
    /// The lock is given back when this is dropped.
    connection: Option<Closer>,
}

/// What can be done to a cluster.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Deed {
    Lock { lock: String, via: u32 },
    Unlock { hold: String },
    Elect { via: u32 },
    Ask { process: u32, words: String },
    Kill { process: u32 },
    Restart { process: u32 },
    Pause { process: u32 },
    Resume { process: u32 },
    Cut { groups: String },
    Heal,
}

impl Live {
    fn start(id: String, plan: &Plan) -> Result<Self, Problem> {
        let supervisor = Supervisor::start(plan)?;
        Ok(Self {
            id,
            algorithm: plan.algorithm.clone(),
            name: plan.name.clone(),
            home: plan.home.clone(),
            since: Instant::now(),
            supervisor: Arc::new(Mutex::new(supervisor)),
            is_over: AtomicBool::new(false),
            paused: Mutex::default(),
            cuts: Mutex::default(),
            holds: Arc::default(),
            next_hold: AtomicU64::new(1),
        })
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        held(&self.supervisor).stop();
        // What is left is in nobody's way.
        let _ = fs::remove_dir_all(self.home.join(&self.name));
    }

    fn cluster(&self) -> Result<Cluster, Problem> {
        Ok(Cluster::find(&self.home, Some(&self.name))?)
    }

    /// How everybody stands.
    pub fn status(&self) -> Result<Value, Problem> {
        let cluster = self.cluster()?;
        let paused = locked(&self.paused).clone();
        let members = &cluster.manifest.processes;
        // One that does not answer must not make the others wait.
        let statuses: Vec<Option<Status>> = thread::scope(|scope| {
            let ask = |id: NodeId| {
                let (cluster, is_asked) = (&cluster, !paused.contains(&id));
                scope.spawn(move || if is_asked { cluster.status(id).ok() } else { None })
            };
            let asked: Vec<_> = members.iter().map(|member| ask(member.id)).collect();
            asked.into_iter().map(|thread| thread.join().unwrap_or(None)).collect()
        });
        let process = |(member, status): (&conclave_live::cluster::Member, &Option<Status>)| {
            let is_alive = member.living.as_ref().is_some_and(Living::is_alive);
            let state = match status {
                Some(_) => "up",
                None if !is_alive => "down",
                None if paused.contains(&member.id) => "paused",
                None => "silent",
            };
            described(member.id, &member.address.to_string(), state, status.as_ref())
        };
        let hold = |hold: &Hold| json!({ "hold": hold.id, "lock": hold.lock, "via": hold.via, "state": hold.state, "fence": hold.fence, "why": hold.why });
        Ok(json!({
            "id": self.id, "name": self.name, "algorithm": self.algorithm, "seconds": self.since.elapsed().as_secs_f64(),
            "cuts": *locked(&self.cuts),
            "processes": members.iter().zip(&statuses).map(process).collect::<Vec<_>>(),
            "holds": locked(&self.holds).iter().map(hold).collect::<Vec<_>>(),
        }))
    }

    /// Does something; says what came of it.
    pub fn obey(&self, deed: Deed) -> Result<String, Problem> {
        match deed {
            Deed::Lock { lock, via } => self.lock(&lock, NodeId(via)),
            Deed::Unlock { hold } => self.unlock(&hold),
            Deed::Elect { via } => self.elect(NodeId(via)),
            Deed::Ask { process, words } => self.ask(NodeId(process), words),
            Deed::Kill { process } => self.order(Order::Kill(NodeId(process)), process, false),
            Deed::Restart { process } => self.order(Order::Restart(NodeId(process)), process, false),
            Deed::Pause { process } => self.order(Order::Pause(NodeId(process)), process, true),
            Deed::Resume { process } => self.order(Order::Resume(NodeId(process)), process, false),
            Deed::Cut { groups } => self.cut(&groups),
            Deed::Heal => self.heal(),
        }
    }

    fn order(&self, order: Order, process: u32, pauses: bool) -> Result<String, Problem> {
        let said = held(&self.supervisor).obey(order)?;
        let mut paused = locked(&self.paused);
        if pauses {
            paused.insert(NodeId(process));
        } else {
            paused.remove(&NodeId(process));
        }
        Ok(said)
    }

    /// Asks for a lock, and goes on: how it stands is told by the status.
    fn lock(&self, lock: &str, via: NodeId) -> Result<String, Problem> {
        let lock = Name::new(lock).map_err(Problem::refused)?;
        let mut holds = locked(&self.holds);
        let open = holds.iter().filter(|hold| hold.connection.is_some()).count();
        if open >= MOST_HOLDS {
            return Err(Problem::new(Code::Busy, format!("{open} locks are asked for already"))
                .hint("unlock one of them"));
        }
        let mut control = self.cluster()?.connect(via)?;
        control.ask(&Ask::Wish(Wish::Lock { name: lock.clone() }))?;
        let connection = Some(control.closer()?);
        let id = format!("h{}", self.next_hold.fetch_add(1, Ordering::Relaxed));
        // Of what is over the last few are enough.
        let mut over = holds.iter().filter(|hold| hold.connection.is_none()).count();
        holds.retain(|hold| {
            let goes = hold.connection.is_none() && over >= 8;
            over -= usize::from(goes);
            !goes
        });
        let said = format!("{via} asks for {lock}");
        holds.push(Hold { id: id.clone(), lock, via, state: "waiting", why: None, fence: None, connection });
        let shared = Arc::clone(&self.holds);
        thread::spawn(move || watch(&mut control, &id, &shared));
        Ok(said)
    }

    fn unlock(&self, id: &str) -> Result<String, Problem> {
        let mut holds = locked(&self.holds);
        let hold = holds.iter_mut().find(|hold| hold.id == id);
        let hold = hold.ok_or_else(|| Problem::refused(format!("there is no hold '{id}'")))?;
        if hold.connection.take().is_none() {
            return Err(Problem::refused(format!("{} is not held here any more", hold.lock)));
        }
        hold.state = "unlocked";
        Ok(format!("{} is given back", hold.lock))
    }

    fn elect(&self, via: NodeId) -> Result<String, Problem> {
        let mut control = self.cluster()?.connect(via)?;
        control.ask(&Ask::Wish(Wish::Elect))?;
        match control.answer(Some(PATIENCE))? {
            Some(Answer::Word(Word::Elected { leaders, .. })) => Ok(format!("{} leads", listed(&leaders))),
            Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why)) => Err(Problem::refused(why)),
            Some(_) | None => Ok(format!("{via} holds an election")),
        }
    }

    fn ask(&self, process: NodeId, words: String) -> Result<String, Problem> {
        let mut control = self.cluster()?.connect(process)?;
        control.ask(&Ask::Wish(Wish::Ask { words }))?;
        match control.answer(Some(PATIENCE))? {
            Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why)) => Err(Problem::refused(why)),
            Some(_) => Ok(format!("{process} is asked")),
            None => Err(Problem::refused(format!("{process} does not answer"))),
        }
    }

    fn cut(&self, text: &str) -> Result<String, Problem> {
        let cluster = self.cluster()?;
        let members: Vec<NodeId> = cluster.manifest.processes.iter().map(|member| member.id).collect();
        cluster.part(&groups(text, &members)?, true)?;
        locked(&self.cuts).push(text.to_owned());
        Ok(format!("cut: {text}"))
    }

    fn heal(&self) -> Result<String, Problem> {
        let cluster = self.cluster()?;
        let alone: Vec<Vec<NodeId>> =
            cluster.manifest.processes.iter().map(|member| vec![member.id]).collect();
        cluster.part(&alone, false)?;
        locked(&self.cuts).clear();
        Ok("healed".to_owned())
    }

    /// What all processes have written down, as one run.
    pub fn trace(&self) -> Result<(String, Trace), Problem> {
        let trace = conclave_net::merge(&self.cluster()?.records()?).map_err(Problem::refused)?;
        Ok((self.name.clone(), trace))
    }
}

impl Lab {
    /// A run of real processes. It has no recipe, and is there as long as it is kept.
    pub(crate) fn recorded(&self, name: &str, trace: Trace) -> Result<Arc<Run>, Problem> {
        Run::check_size(&trace, &self.limits)?;
        let about = self.bench.about(&trace.header.algorithm);
        let about = about
            .ok_or_else(|| Problem::refused(format!("there is no algorithm '{}'", trace.header.algorithm)))?;
        let Recorded { report, promised, other, violation, unjudged } = self.bench.recorded(name, &trace)?;
        let stage = self.bench.stage(&Setup::from_header(&trace.header), &trace.header.newcomers)?;
        let command = "conclave replay run.jsonl".to_owned();
        let origin = Origin {
            recipe: None,
            kind: "live",
            about,
            report,
            command,
            script: None,
            marks: Vec::new(),
            promised,
            other,
            violation,
        };
        let mut run = Run::new(origin, trace, stage);
        if let Some(why) = unjudged {
            not_judged(&mut run.properties, why);
        }
        Ok(self.keep(run))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

/// Follows what is told about a lock until there is nothing more to tell.
fn watch(control: &mut Control, id: &str, holds: &Mutex<Vec<Hold>>) {
    loop {
        let answer = control.answer(None);
        let mut holds = locked(holds);
        let Some(hold) = holds.iter_mut().find(|hold| hold.id == id && hold.connection.is_some()) else {
            return;
        };
        match answer {
            Ok(Some(Answer::Word(Word::Granted { fence, .. }))) => {
                hold.state = "held";
                hold.fence = Some(fence.to_string());
                continue;
            }
            Ok(Some(Answer::Word(Word::Lost { .. }))) => hold.state = "lost",
            Ok(Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why))) => {
                hold.state = "refused";
                hold.why = Some(why);
            }
            Ok(_) => continue,
            Err(error) => {
                hold.state = "gone";
                hold.why = Some(error.to_string());
            }
        }
        hold.connection = None;
        return;
    }
}

fn described(id: NodeId, address: &str, state: &str, status: Option<&Status>) -> Value {
    let mut process = json!({ "id": id, "address": address, "state": state, "phase": null, "suspects": [], "messages": null, "locks": [] });
    let Some(status) = status else { return process };
    let desk = &status.desk;
    let suspects = status.peers.iter().filter(|(_, peer)| peer.suspected).map(|(id, _)| id);
    let locks = desk.locks.iter().map(|lock| {
        json!({ "name": lock.name, "holder": lock.fence.is_some(), "waiting": lock.waiting, "fence": lock.fence.as_ref().map(ToString::to_string) })
    });
    process["phase"] = phase(id, status).into();
    process["suspects"] = suspects.collect::<Vec<_>>().into_iter().map(|id| json!(id)).collect();
    process["messages"] = status.messages.values().sum::<u64>().into();
    process["locks"] = locks.collect();
    process["life"] = status.life.into();
    process
}

/// What a process does, as far as its desk knows it.
fn phase(id: NodeId, status: &Status) -> String {
    let desk = &status.desk;
    if desk.locks.iter().any(|lock| lock.fence.is_some()) {
        "holding".into()
    } else if desk.locks.iter().any(|lock| lock.waiting > 0) {
        "waiting".into()
    } else if desk.leaders.contains(&id) {
        "leading".into()
    } else if !desk.leaders.is_empty() {
        format!("follows {}", listed(&desk.leaders))
    } else {
        desk.last.clone().unwrap_or_else(|| "idle".into())
    }
}

fn listed(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `1,2/3`: two sides at least, nobody on two of them, all of them members.
fn groups(text: &str, members: &[NodeId]) -> Result<Vec<Vec<NodeId>>, Problem> {
    let mut seen = BTreeSet::new();
    let mut sides = Vec::new();
    for side in text.split('/') {
        let mut group = Vec::new();
        for word in side.split(',') {
            let word = word.trim();
            let id = word.strip_prefix('p').unwrap_or(word).parse().map(NodeId).ok();
            let id = id.filter(|id| members.contains(id));
            let id = id.ok_or_else(|| Problem::refused(format!("'{word}' is no process of this cluster")))?;
            if !seen.insert(id) {
                return Err(Problem::refused(format!("{id} cannot be on two sides of a cut")));
            }
            group.push(id);
        }
        sides.push(group);
    }
    if sides.len() < 2 {
        return Err(Problem::refused(format!("'{text}' has one side only")).hint("write a cut as 1,2/3"));
    }
    Ok(sides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_has_sides_of_members() {
        let members = [1, 2, 3].map(NodeId);
        let sides = groups("p1, 2/3", &members).unwrap();
        assert_eq!(sides, vec![vec![NodeId(1), NodeId(2)], vec![NodeId(3)]]);
        for wrong in ["", "1,2", "1/1", "1/4", "1/x", "1//2"] {
            assert_eq!(groups(wrong, &members).unwrap_err().code, Code::Refused, "{wrong}");
        }
    }
}
