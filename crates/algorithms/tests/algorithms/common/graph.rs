//! Everything that can happen to a small group of which everyone asks for one lock forever.

#![allow(dead_code, reason = "every test uses a part of it")]
#![allow(
    clippy::disallowed_types,
    reason = "states have no order, and nothing here depends on that of a table"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use conclave_algorithms::mutex::{Event, Mutex, Request};
use conclave_algorithms::{Algorithm, Channels};
use conclave_core::{
    Boot, Counter, Effect, Incarnation, Input, Members, Message, NodeId, Role, Space, Timing,
};

/// A group at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Global<A: Mutex + Algorithm> {
    pub members: Members,
    pub processes: Vec<A>,
    /// What is in flight between two processes; sorted where it may arrive in any order.
    pub channels: BTreeMap<(NodeId, NodeId), Vec<A::Message>>,
    pub timers: BTreeSet<(NodeId, A::Timer)>,
    pub apps: Vec<App>,
    /// The largest fence counter that anyone has entered with.
    pub fence: u64,
}

/// What the application of a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum App {
    Idle,
    Waiting,
    Inside,
}

/// Something that can happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<A: Mutex + Algorithm> {
    Deliver(NodeId, NodeId, usize),
    Expire(NodeId, A::Timer),
    Ask(usize),
    Leave(usize),
}

impl<A: Mutex + Algorithm> Global<A> {
    pub fn new(members: &Members, config: &A::Config) -> Self {
        let (timing, life) = (Timing::default(), Incarnation::FIRST);
        let boot = |id| A::boot(Boot { id, members, config, timing, life, saved: None });
        let mut global = Self {
            members: members.clone(),
            processes: members.iter().map(boot).collect(),
            channels: BTreeMap::new(),
            timers: BTreeSet::new(),
            apps: vec![App::Idle; members.len()],
            fence: 0,
        };
        for place in 0..members.len() {
            global.handle(place, Input::Start);
        }
        global
    }

    /// All that can happen next.
    pub fn steps(&self) -> Vec<Step<A>> {
        let mut steps = Vec::new();
        for ((from, to), messages) in &self.channels {
            let choices = if A::ABOUT.channels == Channels::Fifo { 1 } else { messages.len() };
            for nth in 0..choices {
                // Of two equal messages it does not matter which one arrives.
                if nth == 0 || messages[nth] != messages[nth - 1] {
                    steps.push(Step::Deliver(*from, *to, nth));
                }
            }
        }
        steps.extend(self.timers.iter().map(|(id, timer)| Step::Expire(*id, timer.clone())));
        for (place, app) in self.apps.iter().enumerate() {
            match app {
                App::Idle => steps.push(Step::Ask(place)),
                App::Waiting => {}
                App::Inside => steps.push(Step::Leave(place)),
            }
        }
        steps
    }

    /// The moment after a step.
    pub fn after(&self, step: Step<A>) -> Self {
        let mut next = self.clone();
        match step {
            Step::Deliver(from, to, nth) => {
                let channel = next.channels.get_mut(&(from, to)).expect("a channel with messages");
                let message = channel.remove(nth);
                if channel.is_empty() {
                    next.channels.remove(&(from, to));
                }
                next.handle(next.place(to), Input::Receive { from, message });
            }
            Step::Expire(id, timer) => {
                next.timers.remove(&(id, timer.clone()));
                next.handle(next.place(id), Input::Expire(timer));
            }
            Step::Ask(place) => {
                next.apps[place] = App::Waiting;
                next.handle(place, Input::Request(Request::Acquire));
            }
            Step::Leave(place) => {
                next.apps[place] = App::Idle;
                next.handle(place, Input::Request(Request::Release));
            }
        }
        next
    }

    fn place(&self, id: NodeId) -> usize {
        self.members.position(id).expect("a member")
    }

    fn handle(&mut self, place: usize, input: Input<A>) {
        let id = self.members.at(place);
        let mut effects: Vec<Effect<A>> = Vec::new();
        self.processes[place].handle(input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    let channel = self.channels.entry((id, to)).or_default();
                    channel.push(message);
                    if A::ABOUT.channels == Channels::Any {
                        channel.sort_unstable();
                    }
                }
                Effect::Emit(Event::Granted { fence }) => {
                    self.apps[place] = App::Inside;
                    self.fence = self.fence.max(fence.counter);
                }
                Effect::Arm { timer, .. } => {
                    self.timers.insert((id, timer));
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&(id, timer));
                }
                Effect::Emit(_) | Effect::Reject { .. } | Effect::Save(_) => {
                    panic!("{id} is asked nothing that it has to refuse")
                }
            }
        }
    }

    /// Moves the numbers of each space down as far as they go: the smallest exact one becomes 1.
    pub fn normal(mut self) -> Self {
        let mut least: BTreeMap<Space, u64> = BTreeMap::new();
        self.visit_counters(&mut |counter| {
            if counter.role == Role::Exact {
                let least = least.entry(counter.space).or_insert(u64::MAX);
                *least = (*counter.value).min(*least);
            }
        });
        self.visit_counters(&mut |counter| {
            let down = least.get(&counter.space).map_or(0, |least| least.saturating_sub(1));
            *counter.value = counter.value.saturating_sub(down);
        });
        if A::ABOUT.channels == Channels::Any {
            // Numbers that were raised to the same bound may have changed the order of the messages.
            self.channels.values_mut().for_each(|channel| channel.sort_unstable());
        }
        self
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(Space::shared("fence"), &mut self.fence));
        for process in &mut self.processes {
            process.visit_counters(visit);
        }
        for ((from, _), channel) in &mut self.channels {
            for message in channel {
                message.visit_counters(*from, &self.members, visit);
            }
        }
    }

    /// The largest number of messages in one channel.
    pub fn fullest(&self) -> usize {
        self.channels.values().map(Vec::len).max().unwrap_or(0)
    }
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// So many steps.
    pub depth: usize,
    /// So many states.
    pub states: usize,
    /// So many messages in one channel; what would send more is left out.
    pub room: usize,
}

impl Limits {
    /// To the end, if that is not too far.
    pub const FAR: Self = Self { depth: usize::MAX, states: 300_000, room: usize::MAX };
}

/// All states that can be reached, each brought into its form by `form`; none if they are too many.
pub fn reachable<A: Mutex + Algorithm>(
    first: Global<A>,
    limits: Limits,
    form: impl Fn(Global<A>) -> Global<A>,
) -> Option<HashSet<Global<A>>> {
    let mut known = HashSet::new();
    let mut fringe = vec![form(first)];
    known.extend(fringe.iter().cloned());
    for _ in 0..limits.depth {
        let mut next = Vec::new();
        for state in &fringe {
            for step in state.steps() {
                let after = form(state.after(step));
                if after.fullest() <= limits.room && known.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        if known.len() > limits.states {
            return None;
        }
        if next.is_empty() {
            break;
        }
        fringe = next;
    }
    Some(known)
}

/// The states that can be reached, and what follows what.
pub struct Graph<A: Mutex + Algorithm> {
    states: Vec<Global<A>>,
    after: Vec<Vec<usize>>,
}

impl<A: Mutex + Algorithm> Graph<A> {
    /// As far as the limits go; what lies beyond is left out.
    pub fn new(first: Global<A>, limits: Limits) -> Self {
        let first = first.normal();
        let mut index = HashMap::from([(first.clone(), 0)]);
        let mut graph = Self { states: vec![first], after: Vec::new() };
        let mut from = 0;
        while from < graph.states.len() {
            let mut after = Vec::new();
            for step in graph.states[from].steps() {
                let next = graph.states[from].after(step).normal();
                if next.fullest() > limits.room {
                    continue;
                }
                let known = index.get(&next).copied();
                if let Some(to) = known {
                    after.push(to);
                } else if graph.states.len() < limits.states {
                    after.push(graph.states.len());
                    index.insert(next.clone(), graph.states.len());
                    graph.states.push(next);
                }
            }
            graph.after.push(after);
            from += 1;
        }
        graph
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is a way round on which this process waits forever although nobody is to blame: every message
    /// arrives, every timer expires, whoever is inside leaves, whoever is out asks again, and others are let in.
    pub fn starves(&self, victim: usize) -> bool {
        let waits = |state: usize| self.states[state].apps[victim] == App::Waiting;
        components(&self.after, waits).iter().any(|round| self.is_fair(round, victim))
    }

    /// Whoever walks round all these states forever sees every channel empty and every timer unarmed again and again.
    fn is_fair(&self, round: &[usize], victim: usize) -> bool {
        let states = || round.iter().map(|state| &self.states[*state]);
        let first = &self.states[round[0]];
        let sometimes = |what: &dyn Fn(&Global<A>) -> bool| states().any(what);
        first.channels.keys().all(|channel| sometimes(&|state| !state.channels.contains_key(channel)))
            && first.timers.iter().all(|timer| sometimes(&|state| !state.timers.contains(timer)))
            && (0..first.apps.len()).all(|place| {
                let ever = |app| sometimes(&|state| state.apps[place] == app);
                place == victim || ever(App::Waiting) || ever(App::Idle) && ever(App::Inside)
            })
            && sometimes(&|state| state.apps.contains(&App::Inside))
    }
}

/// The sets of nodes that can all be reached from each other, among those that count; single nodes are left out.
fn components(after: &[Vec<usize>], counts: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); after.len()];
    for (from, targets) in after.iter().enumerate() {
        targets.iter().for_each(|to| before[*to].push(from));
    }
    let mut left: Vec<bool> = (0..after.len()).map(&counts).collect();
    let mut order = Vec::new();
    for root in 0..after.len() {
        collect(after, root, &mut left, &mut order);
    }
    let mut left: Vec<bool> = (0..after.len()).map(counts).collect();
    let mut all = Vec::new();
    for root in order.into_iter().rev() {
        let mut component = Vec::new();
        collect(&before, root, &mut left, &mut component);
        if component.len() > 1 {
            all.push(component);
        }
    }
    all
}

/// What is left and can be reached from here, each node after all that can be reached from it.
fn collect(edges: &[Vec<usize>], root: usize, left: &mut [bool], into: &mut Vec<usize>) {
    if !std::mem::take(&mut left[root]) {
        return;
    }
    let mut path = vec![(root, 0)];
    while let Some((node, nth)) = path.last_mut() {
        match edges[*node].get(*nth) {
            None => {
                into.push(*node);
                path.pop();
            }
            Some(next) => {
                *nth += 1;
                if std::mem::take(&mut left[*next]) {
                    path.push((*next, 0));
                }
            }
        }
    }
}
