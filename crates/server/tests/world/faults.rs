//! What goes wrong in a world, and when.

use std::rc::Rc;
use std::time::Duration;

use conclave_server::disk::MemoryDisk;
use conclave_server::server::Server;
use serde::{Deserialize, Serialize};
use turmoil::Sim;

use crate::dice::Dice;
use crate::node::{LEFT, Node, members};
use crate::stage::Stage;

/// What a simulated disk says when it was told to fail, or to be full.
const INJECTED: &[&str] = &["injected failure", "no storage space"];

/// One thing that goes wrong for a while.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The process of a node is killed. What it wrote and did not sync can still be read.
    Kill(u64),
    /// A node is asked to stop.
    Leave(u64),
    /// A machine loses its power: nobody hears of it, and its disk keeps what it had to keep.
    PowerCut(u64),
    /// All machines do.
    Blackout,
    /// Nothing passes between two nodes.
    Cut(u64, u64),
    /// Nothing passes from one node to another.
    OneWay(u64, u64),
    /// A node hears and reaches no other node.
    Alone(u64),
    /// A client hears and reaches no node.
    Lonely(usize),
    /// A client does not reach one node.
    Unreached(usize, u64),
    /// Connections to a node break, and some of the others are told that nobody listens there, though it lives.
    Rumoured(u64, u64),
    /// Messages between two nodes are held up.
    Held(u64, u64),
    /// They take long.
    Slow(u64, u64, u64),
    /// Nothing can be written on a node's disk.
    WritesFail(u64),
    /// Nothing becomes safe on it.
    SyncsFail(u64),
    /// It takes long until something is.
    SyncsSlow(u64, u64),
    /// Nothing that is asked of it is answered.
    Hangs(u64),
    /// There is no room on it.
    Full(u64),
    /// A machine is stopped and goes on, as the others see it: nothing comes from it and nothing reaches it, and then
    /// everything does. The clock that it counts leases by stands still meanwhile. Its timers do not: the simulation
    /// cannot stop them.
    Stopped(u64),
    /// The same for the machine of a client.
    Asleep(usize),
    /// Bits of a node's disk turn around while its process is down.
    Rot(u64, u64),
    /// A machine is replaced by one with an empty disk.
    Robbed(u64),
    /// The process of a client is killed.
    Vanish(usize),
}

/// How often what happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    pub crashes: u64,
    pub blackouts: u64,
    pub partitions: u64,
    pub delays: u64,
    pub stops: u64,
    pub disk_faults: u64,
    pub disks_lost: u64,
    pub rotten: u64,
    pub departures: u64,
    pub vanished: u64,
    pub rumours: u64,
}

/// Makes things go wrong, and heals them.
pub struct Troubles {
    dice: Dice,
    next: Duration,
    active: Vec<(Duration, Trouble)>,
    nodes: u64,
    clients: usize,
    /// Clients that may vanish.
    mortal: Vec<usize>,
    pub tally: Tally,
}

impl Troubles {
    pub fn new(seed: u64, nodes: u64, clients: usize, from: Duration) -> Self {
        let mut dice = Dice::new(seed, 2);
        let mortal = (0..clients).skip(2).filter(|_| dice.chance(40)).collect();
        Self { dice, next: from, active: Vec::new(), nodes, clients, mortal, tally: Tally::default() }
    }

    /// Ends what is over and begins what is due.
    pub fn go_on(&mut self, sim: &mut Sim<'_>, stage: &Stage, now: Duration) {
        let (over, active) =
            std::mem::take(&mut self.active).into_iter().partition(|(until, _)| *until <= now);
        self.active = active;
        let over: Vec<(Duration, Trouble)> = over;
        for (_, trouble) in over {
            self.end(sim, stage, trouble);
        }
        self.revive(sim, stage);
        if self.next <= now && self.active.len() < 3 {
            let trouble = self.draw(stage);
            let until = now + self.length(trouble);
            self.next = now + self.dice.millis(50..=1500);
            self.begin(sim, stage, trouble);
            self.active.push((until, trouble));
        }
    }

    /// Goes on without anything new: what is down comes up.
    pub fn heal(&mut self, sim: &mut Sim<'_>, stage: &Stage) {
        self.revive(sim, stage);
    }

    /// Ends everything: from now on nothing goes wrong any more.
    pub fn end_all(&mut self, sim: &mut Sim<'_>, stage: &Stage) {
        for (_, trouble) in std::mem::take(&mut self.active) {
            self.end(sim, stage, trouble);
        }
        self.revive(sim, stage);
    }

    fn length(&mut self, trouble: Trouble) -> Duration {
        match trouble {
            Trouble::Kill(_) | Trouble::Leave(_) | Trouble::Robbed(_) => self.dice.millis(1..=2500),
            Trouble::Rot(..) => self.dice.millis(1..=500),
            Trouble::PowerCut(_) | Trouble::Blackout => self.dice.millis(1..=2500),
            Trouble::WritesFail(_) | Trouble::SyncsFail(_) | Trouble::Full(_) => self.dice.millis(200..=1500),
            _ => self.dice.millis(100..=3000),
        }
    }

    fn draw(&mut self, stage: &Stage) -> Trouble {
        let node = self.node(stage);
        let other = if self.nodes == 1 {
            node
        } else {
            1 + (node + self.dice.within(0..=self.nodes - 2)) % self.nodes
        };
        let client = self.dice.within(0..=self.clients as u64 - 1) as usize;
        // Where more disks can be lost, more are.
        let robberies = if self.nodes > 3 { 87..=94 } else { 93..=94 };
        match self.dice.within(0..=99) {
            73 => Trouble::Asleep(client),
            74..=75 => Trouble::Stopped(node),
            lot if robberies.contains(&lot) && self.may_be_robbed(stage, node) => Trouble::Robbed(node),
            // With nobody else there is nobody to be cut off from.
            30..=57 | 68..=80 if self.nodes == 1 => Trouble::PowerCut(node),
            27..=29 if self.may_rot(stage, node) => Trouble::Rot(node, self.dice.any()),
            0..=10 => Trouble::Kill(node),
            11..=14 => Trouble::Leave(node),
            15..=22 => Trouble::PowerCut(node),
            23..=29 => Trouble::Blackout,
            30..=36 => Trouble::Cut(node, other),
            37..=46 => Trouble::OneWay(node, other),
            47..=57 => Trouble::Alone(node),
            58..=64 => Trouble::Lonely(client),
            65..=67 => Trouble::Unreached(client, node),
            68..=70 => Trouble::Rumoured(node, self.dice.any()),
            71..=75 => Trouble::Held(node, other),
            76..=80 => Trouble::Slow(node, other, self.dice.within(20..=200)),
            81..=83 => Trouble::WritesFail(node),
            84..=86 => Trouble::SyncsFail(node),
            87..=88 => Trouble::Full(node),
            89..=90 => Trouble::SyncsSlow(node, self.dice.within(5..=100)),
            91..=92 => Trouble::Hangs(node),
            _ => self.mortal.pop().map_or(Trouble::Kill(node), Trouble::Vanish),
        }
    }

    /// What only a majority has together must not be lost with it: fewer than half are without their disks at one time.
    fn may_be_robbed(&self, stage: &Stage, node: u64) -> bool {
        let robbed = stage.nodes().iter().filter(|other| other.is_robbed.get() || other.id == node).count();
        2 * robbed < stage.nodes().len()
    }

    /// A node that others can repair, or that is alone and has a copy of its disk, and on whose disk nothing else is wrong.
    fn may_rot(&self, stage: &Stage, node: u64) -> bool {
        let is_well =
            stage.node(node).is_up.get() && !stage.node(node).is_robbed.get() && !self.is_down(node);
        is_well && (self.nodes == 1 || self.may_be_robbed(stage, node))
    }

    /// A node to be in trouble: the leader more often than not.
    fn node(&mut self, stage: &Stage) -> u64 {
        let any = self.dice.within(1..=self.nodes);
        stage.leader().filter(|_| self.dice.chance(60)).unwrap_or(any)
    }

    fn begin(&mut self, sim: &mut Sim<'_>, stage: &Stage, trouble: Trouble) {
        stage.note("world", format!("begins: {trouble:?}"));
        self.count(trouble);
        match trouble {
            Trouble::Kill(node) => self.crash(sim, stage.node(node), MemoryDisk::restart),
            Trouble::Leave(node) => stage.node(node).leave.notify_one(),
            Trouble::PowerCut(node) => self.cut_power(sim, stage, node),
            Trouble::Blackout => (1..=self.nodes).for_each(|node| self.cut_power(sim, stage, node)),
            Trouble::Cut(one, other) => sim.partition(host(one), host(other)),
            Trouble::OneWay(from, to) => sim.partition_oneway(host(from), host(to)),
            Trouble::Alone(node) => {
                self.others(node).for_each(|other| sim.partition(host(node), host(other)));
            }
            Trouble::Lonely(client) => {
                (1..=self.nodes).for_each(|node| sim.partition(guest(client), host(node)));
            }
            Trouble::Unreached(client, node) => sim.partition_oneway(guest(client), host(node)),
            Trouble::Rumoured(node, whom) => {
                let address = &members(self.nodes)[&node];
                for other in self.others(node) {
                    let rumours = &stage.node(other).rumours;
                    rumours.break_off(other, address);
                    if whom >> other & 1 == 1 {
                        rumours.refuse(other, address);
                    }
                }
            }
            Trouble::Held(one, other) => sim.hold(host(one), host(other)),
            Trouble::Slow(one, other, millis) => {
                sim.set_link_latency(host(one), host(other), Duration::from_millis(millis));
            }
            Trouble::WritesFail(node) => stage.fault(node, |faults| faults.writes_fail = true),
            Trouble::SyncsFail(node) => stage.fault(node, |faults| faults.syncs_fail = true),
            Trouble::Full(node) => stage.fault(node, |faults| faults.full = true),
            Trouble::Hangs(node) => stage.fault(node, |faults| faults.hangs = true),
            Trouble::Stopped(node) => {
                stage.node(node).stop_clock(true);
                stage.others(node).for_each(|other| sim.hold(host(node), other));
            }
            Trouble::Asleep(client) => {
                (1..=self.nodes).for_each(|node| sim.hold(guest(client), host(node)));
            }
            Trouble::SyncsSlow(node, millis) => {
                stage.fault(node, |faults| faults.sync_delay = Duration::from_millis(millis));
            }
            Trouble::Rot(node, seed) => {
                let node = stage.node(node);
                self.crash(sim, node, MemoryDisk::restart);
                node.rot(seed);
                node.is_robbed.set(self.nodes > 1 && node.rotten.borrow().is_some());
            }
            Trouble::Robbed(node) => {
                self.cut_power(sim, stage, node);
                stage.node(node).disk.borrow().wipe();
                stage.node(node).is_robbed.set(true);
            }
            Trouble::Vanish(client) => {
                sim.crash(guest(client));
                stage.vanish(client);
            }
        }
    }

    fn end(&mut self, sim: &mut Sim<'_>, stage: &Stage, trouble: Trouble) {
        stage.note("world", format!("ends: {trouble:?}"));
        let heal = |one: String, other: String| {
            sim.release(one.clone(), other.clone());
            sim.repair(one, other);
        };
        match trouble {
            Trouble::Cut(one, other) | Trouble::OneWay(one, other) | Trouble::Held(one, other) => {
                heal(host(one), host(other));
            }
            Trouble::Alone(node) => self.others(node).for_each(|other| heal(host(node), host(other))),
            Trouble::Lonely(client) => (1..=self.nodes).for_each(|node| heal(guest(client), host(node))),
            Trouble::Unreached(client, node) => heal(guest(client), host(node)),
            Trouble::Rumoured(node, _) => {
                let address = &members(self.nodes)[&node];
                self.others(node).for_each(|other| stage.node(other).rumours.admit(other, address));
            }
            Trouble::Slow(one, other, _) => {
                sim.set_link_latency(host(one), host(other), Duration::from_millis(1));
                sim.set_link_max_message_latency(host(one), host(other), Duration::from_millis(5));
            }
            Trouble::WritesFail(node) => stage.fault(node, |faults| faults.writes_fail = false),
            Trouble::SyncsFail(node) => stage.fault(node, |faults| faults.syncs_fail = false),
            Trouble::Full(node) => stage.fault(node, |faults| faults.full = false),
            Trouble::Hangs(node) => stage.fault(node, |faults| faults.hangs = false),
            Trouble::Stopped(node) => {
                stage.others(node).for_each(|other| heal(host(node), other));
                stage.node(node).stop_clock(false);
            }
            Trouble::Asleep(client) => (1..=self.nodes).for_each(|node| heal(guest(client), host(node))),
            Trouble::SyncsSlow(node, _) => stage.fault(node, |faults| faults.sync_delay = Duration::ZERO),
            Trouble::Vanish(client) => {
                if self.dice.chance(60) {
                    stage.return_again(client);
                    sim.bounce(guest(client));
                }
            }
            // They come up again by themselves.
            Trouble::Kill(_) | Trouble::Leave(_) | Trouble::PowerCut(_) => {}
            Trouble::Blackout | Trouble::Robbed(_) | Trouble::Rot(..) => {}
        }
    }

    /// Brings up what is down and in no trouble.
    fn revive(&mut self, sim: &mut Sim<'_>, stage: &Stage) {
        for node in stage.nodes() {
            let stopped = node.stopped.borrow_mut().take();
            if let Some(why) = stopped {
                stage.note(&node.name, format!("stopped: {why}"));
                if why.contains("is damaged at byte") && node.rotten.borrow().is_some() {
                    node.mend(self.nodes);
                } else if why != LEFT && !INJECTED.iter().any(|text| why.contains(text)) {
                    stage.blame(node, &why);
                }
                self.crash(sim, node, MemoryDisk::restart);
            }
            if node.server.borrow().is_some()
                && let Some(rot) = node.rotten.take()
            {
                let what = format!("{} goes on with {rot:?}", node.name);
                stage.history.borrow_mut().overlooked.push((stage.now(), what));
            }
            let is_settled = |server: &Rc<Server>| server.consensus().status().settled;
            if node.is_robbed.get() && node.server.borrow().as_ref().is_some_and(is_settled) {
                stage.note(&node.name, "has caught up");
                node.is_robbed.set(false);
            }
            if !node.is_up.get() && !node.is_broken.get() && !self.is_down(node.id) {
                stage.note(&node.name, "starts");
                stage.connect(sim, node.id);
                for (_, trouble) in &self.active {
                    if let Trouble::Alone(id) = trouble
                        && *id == node.id
                    {
                        self.others(*id).for_each(|other| sim.partition(host(*id), host(other)));
                    }
                }
                node.is_up.set(true);
                sim.bounce(node.name.clone());
            }
        }
    }

    fn is_down(&self, node: u64) -> bool {
        self.active.iter().any(|(_, trouble)| match trouble {
            Trouble::Kill(id) | Trouble::Leave(id) | Trouble::PowerCut(id) => *id == node,
            Trouble::WritesFail(id) | Trouble::SyncsFail(id) | Trouble::Full(id) => *id == node,
            Trouble::Robbed(id) | Trouble::Rot(id, _) => *id == node,
            Trouble::Blackout => true,
            _ => false,
        })
    }

    fn cut_power(&mut self, sim: &mut Sim<'_>, stage: &Stage, node: u64) {
        // Its peers are not told that their connections are gone.
        stage.disconnect(sim, node);
        let seed = self.dice.any();
        self.crash(sim, stage.node(node), |disk| disk.crash(seed));
    }

    /// Ends the process of a node, and whatever that does to its disk.
    fn crash(&mut self, sim: &mut Sim<'_>, node: &Rc<Node>, end: impl FnOnce(&MemoryDisk) -> MemoryDisk) {
        if !node.is_up.replace(false) {
            return;
        }
        node.server.borrow_mut().take();
        sim.crash(node.name.clone());
        node.stopped.borrow_mut().take();
        let disk = end(&node.disk.borrow());
        *node.disk.borrow_mut() = disk;
    }

    fn others(&self, node: u64) -> impl Iterator<Item = u64> + use<> {
        (1..=self.nodes).filter(move |id| *id != node)
    }

    fn count(&mut self, trouble: Trouble) {
        let tally = &mut self.tally;
        let counter = match trouble {
            Trouble::Kill(_) | Trouble::PowerCut(_) => &mut tally.crashes,
            Trouble::Leave(_) => &mut tally.departures,
            Trouble::Blackout => &mut tally.blackouts,
            Trouble::Cut(..) | Trouble::OneWay(..) | Trouble::Alone(_) => &mut tally.partitions,
            Trouble::Lonely(_) | Trouble::Unreached(..) => &mut tally.partitions,
            Trouble::Held(..) | Trouble::Slow(..) => &mut tally.delays,
            Trouble::WritesFail(_) | Trouble::SyncsFail(_) => &mut tally.disk_faults,
            Trouble::Full(_) | Trouble::SyncsSlow(..) | Trouble::Hangs(_) => &mut tally.disk_faults,
            Trouble::Stopped(_) | Trouble::Asleep(_) => &mut tally.stops,
            Trouble::Robbed(_) => &mut tally.disks_lost,
            Trouble::Rot(..) => &mut tally.rotten,
            Trouble::Vanish(_) => &mut tally.vanished,
            Trouble::Rumoured(..) => &mut tally.rumours,
        };
        *counter += 1;
    }
}

fn host(node: u64) -> String {
    format!("node{node}")
}

/// The host of a client.
pub fn guest(client: usize) -> String {
    format!("client{client}")
}
