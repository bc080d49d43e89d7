//! What everybody in a world shares: the nodes, the history, and how far it has come.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use conclave_server::consensus::Status;
use conclave_server::disk::Faults;
use turmoil::Sim;

use crate::checks::watchers::View;
use crate::client::ELECTION;
use crate::faults::guest;
use crate::history::{End, History, Micros, Outcome, Quiet};
use crate::node::Node;

/// How far a world has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Clients do what they do.
    Busy,
    /// They finish what they began, let go of everything, and take one thing of their own.
    Settle,
    /// They let go of that too, and end.
    Leave,
}

/// A session, and the tokens that its client holds as far as it knows.
pub type Belief = (u64, Vec<u64>);

/// What everybody shares.
pub struct Stage {
    nodes: Vec<Rc<Node>>,
    clients: usize,
    pub history: RefCell<History>,
    pub act: Cell<Act>,
    now: Cell<Duration>,
    /// How far each client has come; those that vanished have come to the end.
    pub reached: RefCell<Vec<Act>>,
    /// What each client holds in the end.
    pub believed: RefCell<Vec<Option<Belief>>>,
    /// How often each client has begun again.
    pub lives: RefCell<Vec<u64>>,
    /// The last session of each client.
    pub sessions: RefCell<Vec<Option<u64>>>,
    /// The sessions of those who stand for election.
    pub candidates: RefCell<BTreeMap<usize, u64>>,
    /// What went wrong that nobody may do.
    pub blamed: RefCell<Vec<(Micros, String)>>,
    /// What those who watch know by what they were told.
    pub views: RefCell<BTreeMap<usize, View>>,
}

impl Stage {
    pub fn new(nodes: Vec<Rc<Node>>, clients: usize) -> Rc<Self> {
        Rc::new(Self {
            nodes,
            clients,
            history: RefCell::default(),
            act: Cell::new(Act::Busy),
            now: Cell::default(),
            reached: RefCell::new(vec![Act::Busy; clients]),
            believed: RefCell::new(vec![None; clients]),
            lives: RefCell::new(vec![0; clients]),
            sessions: RefCell::new(vec![None; clients]),
            candidates: RefCell::default(),
            blamed: RefCell::default(),
            views: RefCell::default(),
        })
    }

    /// The simulated time: of the host that runs, or of the world between two steps.
    pub fn now(&self) -> Micros {
        turmoil::sim_elapsed().unwrap_or(self.now.get()).as_micros() as Micros
    }

    pub fn set_now(&self, now: Duration) {
        self.now.set(now);
    }

    pub fn note(&self, who: impl Into<String>, what: impl Into<String>) {
        let now = self.now();
        self.history.borrow_mut().note(now, who, what);
    }

    pub fn nodes(&self) -> &[Rc<Node>] {
        &self.nodes
    }

    pub fn node(&self, id: u64) -> &Rc<Node> {
        &self.nodes[id as usize - 1]
    }

    /// Changes what is wrong with a node's disk.
    pub fn fault(&self, node: u64, change: impl FnOnce(&mut Faults)) {
        self.node(node).disk.borrow().fault(change);
    }

    /// A node that did what no node may do.
    pub fn blame(&self, node: &Node, why: &str) {
        node.is_broken.set(true);
        self.blamed.borrow_mut().push((self.now(), format!("{} stopped: {why}", node.name)));
    }

    /// Who leads, by the latest term that any node knows of.
    pub fn leader(&self) -> Option<u64> {
        self.leadership().map(|(_, leader)| leader)
    }

    /// The latest term in which a node leads by its own word, and that node.
    pub fn leadership(&self) -> Option<(u64, u64)> {
        let leading = self.nodes.iter().filter_map(|node| {
            let server = node.server.borrow();
            let status = server.as_ref()?.consensus().status();
            (status.leader == Some(node.id)).then_some((status.term, node.id))
        });
        leading.max()
    }

    /// Nothing reaches a node any more, and nothing comes from it.
    pub fn disconnect(&self, sim: &Sim<'_>, node: u64) {
        for other in self.others(node) {
            sim.partition(self.node(node).name.clone(), other);
        }
    }

    /// Undoes that.
    pub fn connect(&self, sim: &Sim<'_>, node: u64) {
        for other in self.others(node) {
            sim.repair(self.node(node).name.clone(), other);
        }
    }

    /// The hosts of all other nodes and of all clients.
    pub fn others(&self, node: u64) -> impl Iterator<Item = String> + '_ {
        let nodes = self.nodes.iter().filter(move |other| other.id != node).map(|other| other.name.clone());
        nodes.chain((0..self.clients).map(guest))
    }

    /// A client is no more.
    pub fn vanish(&self, client: usize) {
        let now = self.now();
        self.reached.borrow_mut()[client] = Act::Leave;
        self.views.borrow_mut().remove(&client);
        let mut history = self.history.borrow_mut();
        for asked in
            history.asked.iter_mut().filter(|asked| asked.client == client && asked.outcome.is_none())
        {
            asked.ended = Some(now);
            asked.outcome = Some(Outcome::Unknown("it vanished"));
        }
        for hold in history.holds.iter_mut().filter(|hold| hold.client == client && hold.until.is_none()) {
            hold.until = Some(now);
            hold.end = Some(End::Vanished);
        }
    }

    /// It is there again.
    pub fn return_again(&self, client: usize) {
        self.note(guest(client), "is there again");
        self.lives.borrow_mut()[client] += 1;
        self.reached.borrow_mut()[client] = Act::Busy;
    }

    pub fn all_reached(&self, act: Act) -> bool {
        self.reached.borrow().iter().all(|reached| *reached >= act)
    }

    /// How far the foremost node has come.
    pub fn foremost(&self) -> u64 {
        self.statuses().into_iter().flatten().map(|status| status.applied).max().unwrap_or(0)
    }

    /// Whether all nodes have come so far.
    pub fn has_come_to(&self, index: u64) -> bool {
        self.statuses().into_iter().all(|status| status.is_some_and(|status| status.applied >= index))
    }

    fn statuses(&self) -> Vec<Option<Status>> {
        let status =
            |node: &Rc<Node>| node.server.borrow().as_ref().map(|server| server.consensus().status());
        self.nodes.iter().map(status).collect()
    }

    /// Whether all nodes run and have applied the same, and all there is.
    pub fn is_even(&self) -> bool {
        let mut applied =
            self.statuses().into_iter().map(|status| status.map(|status| (status.applied, status.last_log)));
        let first = applied.next().flatten();
        first.is_some_and(|(at, last)| at == last) && applied.all(|other| other == first)
    }

    /// What those who watch do not see of what there is, on a node that has come as far as all others.
    pub fn unseen(&self) -> Vec<String> {
        let states = self.quiet().states;
        let Some((_, state)) = states.first() else { return Vec::new() };
        let views = self.views.borrow();
        let misses = |(watcher, view): (&usize, &View)| {
            Some(format!("client{watcher} {}", view.misses(state, ELECTION)?))
        };
        views.iter().filter_map(misses).collect()
    }

    pub fn quiet(&self) -> Quiet {
        let states = self.nodes.iter().filter_map(|node| {
            let server = node.server.borrow();
            Some((node.id, server.as_ref()?.consensus().state().look(Clone::clone)))
        });
        Quiet {
            believed: self.believed.borrow().iter().flatten().cloned().collect(),
            states: states.collect(),
        }
    }
}
