//! Raymond: the token of a tree, asked for and passed on from neighbour to neighbour.
//!
//! Raymond: *A tree-based algorithm for distributed mutual exclusion*, ACM TOCS 7(1), 1989.
//!
//! The processes stand in a tree, and each knows only its neighbours. Whoever has the token may enter; everyone else
//! knows which neighbour is nearer to it. A request goes that way, and every process on the way puts the neighbour from
//! whom it came into a queue and asks once for all who wait there. The token comes back the same way, and every process
//! that passes it on turns its arrow round. So all arrows always lead to the token.
//!
//! ```text
//!   p1 ══════════════════●─────────────────────      ═ the token is here
//!                       ╱ ╲ Privilege
//!   p2 ──────────●─────●   ●═●─────────────────      p2 asks p1 for p3, and passes the token on
//!               ╱ Request     ╲ Privilege
//!   p3 ────────●               ●═▶ inside ═════      p3 asks p2
//! ```
//!
//! After everything that happens a process does two things, `assign` and `ask`: if the token is here and nobody is
//! inside, it goes to the head of the queue; if it is elsewhere and somebody waits here, it is asked for, once.
//!
//! **Cost**: the token takes the shortest way from one entry to the next, and is asked for along the same edges: twice
//! their distance in the tree, so 0 if the token is at hand and at most 2D, D being the diameter. Under full load the
//! token walks round the whole tree, 4(n − 1) messages for n entries, in every tree. As many message delays alone; from
//! an exit to the next entry as many as there are edges between the two.
//!
//! **Assumes** reliable channels of any order. A process stores what its neighbours have asked for and nothing more,
//! however large the tree. The token is numbered by the times it was passed on, so that a copy of it is told apart; the
//! paper leaves that to the network.
//!
//! **A process that comes back** knows nothing. The paper lets it ask its neighbours: once everything that its earlier
//! life sent has arrived, it sends `Restart`, and each `Advise`s it where its arrow points and who waits for what. If
//! every arrow points to it, the token was with it or in flight to it, and is gone: it makes a new one, of a later
//! epoch. This needs no failure detector, but a bound on delays.
//!
//! **Caveats**: while a process is down, the tree is in parts, and only the part with the token goes on. If two
//! neighbours are down at the same time, they wait for each other's advice forever.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use conclave_core::{
    After, Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol,
    Space,
};
use serde::{Deserialize, Serialize};

use super::tree::Tree;
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values,
};

/// A process of Raymond's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raymond {
    id: NodeId,
    members: Members,
    config: RaymondConfig,
    state: State,
    /// Ourselves if the token is here, else the neighbour that is nearer to it. Not known while we recover, unless the
    /// token has come.
    holder: Option<NodeId>,
    /// Who wants the token from us, ourselves and neighbours, each at most once.
    queue: VecDeque<NodeId>,
    /// Whether we have asked the holder, and the token has not come yet.
    asked: bool,
    /// Of the token when we last saw it: which it was, and how often it had been passed on.
    epoch: Epoch,
    passes: u64,
    fence: FenceCounter,
    /// What we have heard so far, if we are back from a crash and do not know enough to go on.
    recovery: Option<Box<Recovery>>,
}

/// What the application of a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// It has asked, and we stand in our own queue.
    Waiting,
    /// It is inside: `using` in the paper.
    Holding,
}

/// What a process that is back from a crash has heard from its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recovery {
    life: Incarnation,
    /// As long as a message may take.
    transmission: Duration,
    /// Those who have not answered yet.
    silent: NodeSet,
    /// The neighbour nearer to the token, and whether it still has a request of ours.
    nearer: Option<(NodeId, bool)>,
    /// Neighbours that want advice themselves; they get it when we have ours.
    advised: Vec<(NodeId, Incarnation)>,
}

/// Settings of [`Raymond`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaymondConfig {
    /// Shared by all processes.
    tree: Arc<Tree>,
    mutation: Option<Mutation>,
}

/// What neighbours say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RaymondMessage {
    /// Send me the token when it is my turn.
    Request,
    /// The token.
    Privilege {
        /// Which token it is.
        epoch: Epoch,
        /// How often it has been passed on.
        passes: u64,
        /// How many entries there have been.
        fence: FenceCounter,
    },
    /// I am back from a crash and know nothing.
    Restart {
        /// My new life.
        life: Incarnation,
    },
    /// What I know that concerns you.
    Advise {
        /// The life of yours that asked.
        life: Incarnation,
        /// Whether I believe that you are nearer to the token than I am.
        points_here: bool,
        /// Whether I have asked you for it.
        asked: bool,
        /// Whether I have a request of yours.
        queued: bool,
        /// The latest token that I know of.
        epoch: Epoch,
        /// The largest fence that I know of.
        fence: FenceCounter,
    },
}

use RaymondMessage as Msg;

impl Message for RaymondMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Privilege, Restart, Advise)
    }

    fn is_overhead(&self) -> bool {
        match self {
            Msg::Request | Msg::Privilege { .. } => false,
            Msg::Restart { .. } | Msg::Advise { .. } => true,
        }
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Privilege { passes, fence, .. } => {
                visit(Counter::exact(PASSES, passes));
                visit(fence.counter());
            }
            Msg::Advise { fence, .. } => visit(fence.counter()),
            Msg::Request | Msg::Restart { .. } => {}
        }
    }
}

const PASSES: Space = Space::shared("passes");

/// The timers of [`Raymond`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaymondTimer {
    /// All that an earlier life sent has arrived.
    Drained,
}

impl Protocol for Raymond {
    type Config = RaymondConfig;
    type Message = RaymondMessage;
    type Request = Request;
    type Event = Event;
    type Timer = RaymondTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let tree = &boot.config.tree;
        let place = boot.members.position(boot.id).unwrap_or(0);
        let first = boot.life == Incarnation::FIRST;
        let recovery = || {
            let silent = tree.neighbours(place).into_iter().map(|place| boot.members.at(place)).collect();
            let transmission = boot.timing.transmission;
            Box::new(Recovery { life: boot.life, transmission, silent, nearer: None, advised: Vec::new() })
        };
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            state: State::Idle,
            holder: first.then(|| boot.members.at(tree.hop(place, tree.root()))),
            queue: VecDeque::new(),
            asked: false,
            epoch: Epoch::FIRST,
            passes: 0,
            fence: FenceCounter::default(),
            recovery: (!first).then(recovery),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            // A first life knows where the token is; a later one waits until it can ask.
            Input::Start => {
                if let Some(recovery) = &self.recovery {
                    out.arm(RaymondTimer::Drained, After::exactly(recovery.transmission));
                }
            }
            Input::Expire(RaymondTimer::Drained) => self.ask_for_advice(out),
            Input::Receive { from, .. } if !self.is_neighbour(from) => {
                out.reject(from, "only neighbours in the tree may send");
            }
            Input::Receive { from, message: Msg::Request } => {
                self.enqueue(from);
                self.proceed(out);
            }
            Input::Receive { from, message: Msg::Privilege { epoch, passes, fence } } => {
                // A second copy, or a token that was taken for lost and has been replaced.
                if (epoch, passes) <= (self.epoch, self.passes) {
                    return;
                }
                if self.holder.is_some_and(|holder| holder != from) {
                    return out.reject(from, "the token cannot come from where it was not");
                }
                (self.epoch, self.passes) = (epoch, passes);
                self.fence.witness(fence);
                self.holder = Some(self.id);
                self.asked = false;
                self.proceed(out);
            }
            // Who knows nothing itself answers when it does.
            Input::Receive { from, message: Msg::Restart { life } } => match &mut self.recovery {
                Some(recovery) => {
                    recovery.advised.retain(|(asker, _)| *asker != from);
                    recovery.advised.push((from, life));
                }
                None => self.advise(from, life, out),
            },
            Input::Receive {
                from,
                message: Msg::Advise { life, points_here, asked, queued, epoch, fence },
            } => {
                // An answer to an earlier life may be older than what that life did; a second copy is no news.
                let expected =
                    |recovery: &mut Box<Recovery>| recovery.life == life && recovery.silent.remove(from);
                if !self.recovery.as_mut().is_some_and(expected) {
                    return;
                }
                self.epoch = self.epoch.max(epoch);
                self.fence.witness(fence);
                if points_here && asked {
                    self.enqueue(from);
                }
                self.on_advice((!points_here).then_some((from, queued)), out);
            }
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => {
                self.state = State::Waiting;
                self.queue.push_back(self.id);
                self.proceed(out);
            }
            Input::Request(Request::Release) => {
                self.state = State::Idle;
                self.proceed(out);
            }
            // The token may have been asked for; if it comes, it stays, or goes on to others who wait here.
            Input::Request(Request::Cancel) => {
                self.state = State::Idle;
                self.queue.retain(|waiting| *waiting != self.id);
            }
            // Nobody leaves the group. Whoever is up goes on; whoever comes back asks.
            Input::Request(Request::Leave) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::IDLE,
            State::Waiting => Phase::WAITING,
            State::Holding => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        // Whoever has the token counts on; the others only compare.
        visit(match self.holder == Some(self.id) {
            true => Counter::exact(PASSES, &mut self.passes),
            false => Counter::bound(PASSES, &mut self.passes),
        });
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let may_want = |id: NodeId| id == self.id || self.is_neighbour(id);
        assert!(self.queue.iter().all(|id| may_want(*id)), "we and our neighbours want the token");
        assert!(self.members.has_each_once(self.queue.iter().copied()), "everyone wants the token once");
        assert!(
            self.queue.contains(&self.id) == (self.state == State::Waiting),
            "we stand in our own queue while we wait"
        );
        let Some(holder) = self.holder else {
            return assert!(self.recovery.is_some(), "who knows enough knows where the token is");
        };
        let is_here = holder == self.id;
        assert!(may_want(holder), "an arrow points to a neighbour, or here");
        assert!(is_here || self.state != State::Holding, "who is inside has the token");
        assert!(!(is_here && self.asked), "who has the token does not ask for it");
        if self.recovery.is_none() {
            assert!(
                !is_here || self.state == State::Holding || self.queue.is_empty(),
                "a token rests only where nobody wants it"
            );
            assert!(is_here || self.asked || self.queue.is_empty(), "who wants the token has asked for it");
        }
    }
}

/// The rules of the paper.
impl Raymond {
    fn is_neighbour(&self, other: NodeId) -> bool {
        match (self.members.position(self.id), self.members.position(other)) {
            (Some(ours), Some(theirs)) => self.config.tree.are_neighbours(ours, theirs),
            _ => false,
        }
    }

    /// A neighbour asks once, until it has the token; a copy or the advice after a restart may tell of it again.
    fn enqueue(&mut self, neighbour: NodeId) {
        if !self.queue.contains(&neighbour) {
            self.queue.push_back(neighbour);
        }
    }

    /// What follows everything that happens.
    fn proceed(&mut self, out: &mut impl Effects<Self>) {
        // Who has just come back does not know enough to do anything.
        if self.recovery.is_some() {
            return;
        }
        let passed = self.assign(out);
        if !(passed && self.config.mutation == Some(Mutation::NoReAsk)) {
            self.ask(out);
        }
    }

    /// Gives the token to the head of the queue, if it is here and not in use; says whether it has left.
    fn assign(&mut self, out: &mut impl Effects<Self>) -> bool {
        let in_use = self.state == State::Holding && self.config.mutation != Some(Mutation::PassWhileInside);
        if self.holder != Some(self.id) || in_use {
            return false;
        }
        let next = match self.config.mutation {
            Some(Mutation::Lifo) => self.queue.pop_back(),
            _ => self.queue.pop_front(),
        };
        let Some(next) = next else { return false };
        if next == self.id {
            debug_assert!(self.state == State::Waiting, "only who waits enters");
            self.state = State::Holding;
            out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
            return false;
        }
        if self.config.mutation != Some(Mutation::KeepToken) {
            self.holder = Some(next);
        }
        self.passes = self.passes.saturating_add(1);
        out.send(next, Msg::Privilege { epoch: self.epoch, passes: self.passes, fence: self.fence });
        true
    }

    /// Asks for the token, if it is elsewhere and somebody waits for it here: once for all of them, and once more
    /// whenever it has left while somebody still waits.
    fn ask(&mut self, out: &mut impl Effects<Self>) {
        if let Some(holder) = self.holder.filter(|holder| *holder != self.id)
            && !self.asked
            && !self.queue.is_empty()
        {
            self.asked = true;
            out.send(holder, Msg::Request);
        }
    }
}

/// The way back from a crash.
///
/// What is sent to a process while it is down is lost: requests, and perhaps the token. What is sent to it while it
/// recovers is not: requests stand in the queue, where advice that tells of them once more changes nothing, and the
/// token stays. An arrow that points here cannot turn away before we act: the token would have to come through us.
impl Raymond {
    fn ask_for_advice(&mut self, out: &mut impl Effects<Self>) {
        let Some(recovery) = &self.recovery else { return };
        out.send_all(recovery.silent.iter(), &Msg::Restart { life: recovery.life });
        self.on_advice(None, out);
    }

    fn advise(&self, back: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        let advice = Msg::Advise {
            life,
            points_here: self.holder == Some(back),
            asked: self.asked,
            queued: self.queue.contains(&back),
            epoch: self.epoch,
            fence: self.fence,
        };
        out.send(back, advice);
    }

    /// Goes on, if this was the last that was to be heard.
    fn on_advice(&mut self, nearer: Option<(NodeId, bool)>, out: &mut impl Effects<Self>) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.nearer = recovery.nearer.or(nearer);
        if !recovery.silent.is_empty() {
            return;
        }
        let Some(recovery) = self.recovery.take() else { return };
        match (self.holder, recovery.nearer) {
            // The token has come meanwhile, whatever was said before.
            (Some(_), _) => {}
            (None, Some((nearer, queued))) => {
                self.holder = Some(nearer);
                self.asked = queued;
            }
            (None, None) => self.replace_token(recovery.life),
        }
        for (back, life) in recovery.advised {
            self.advise(back, life, out);
        }
        self.proceed(out);
    }

    /// All arrows point to us, and there is no token here: it went down with us, or was in flight when we did.
    fn replace_token(&mut self, life: Incarnation) {
        // Of a token that an earlier life of ours made and never passed on nobody knows: the life tells it apart.
        let number = self.epoch.number.saturating_add(u64::from(life.0.saturating_sub(1)));
        self.epoch = Epoch { number, creator: self.id };
        self.holder = Some(self.id);
    }
}

mutants! {
    enum Mutation {
        NoReAsk {
            name: "no-re-ask", breaks: "ME2", nodes: 3, trigger: Schedule,
            change: "a process that passes the token on does not ask for it again, although others wait there",
        }
        KeepToken {
            name: "keep-token", breaks: "TOK", nodes: 2, trigger: Schedule,
            change: "a process that passes the token on goes on as if it still had it",
        }
        PassWhileInside {
            name: "pass-while-inside", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a process inside passes the token on instead of when it leaves",
        }
        Lifo {
            name: "lifo", breaks: "ME3", nodes: 3, trigger: Forever,
            change: "the next is taken from the wrong end of the queue",
        }
    }
}

impl Algorithm for Raymond {
    const ABOUT: About = About {
        name: "raymond",
        title: "Raymond",
        paper: "Raymond: A tree-based algorithm for distributed mutual exclusion, ACM TOCS 7(1), 1989",
        idea: "a token in a tree, with arrows that lead to it",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Tree,
        cost: "2 to 2D per entry in a tree of diameter D, 0 with the token at hand; 4(n-1)/n saturated",
        faults: "a process that crashes and comes back, if delays have a bound; one that stays down cuts the tree",
        settings: &[
            Setting {
                key: "tree",
                values: Values::OneOf(&["balanced", "chain", "star", "random", "given"]),
                default: "balanced",
                unsafe_values: &[],
                help: "who is joined to whom; the first process is the root and has the token",
            },
            Setting {
                key: "arity",
                values: Values::Number(2, 1_000),
                default: "2",
                unsafe_values: &[],
                help: "how many children everyone has (tree=balanced)",
            },
            Setting {
                key: "tree-seed",
                values: Values::Number(0, u64::MAX),
                default: "1",
                unsafe_values: &[],
                help: "which of the random recursive trees (tree=random)",
            },
            Setting {
                key: "parents",
                values: Values::Numbers,
                default: "none",
                unsafe_values: &[],
                help: "the parent of everyone but the root, as child:parent (tree=given)",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let (n, parents) = (members.len(), settings.numbers("parents"));
        let unfit = |why: &str| SettingError::Unfit(format!("parents={}: {why}", settings.get("parents")));
        let tree = match settings.get("tree") {
            "given" if parents.is_empty() => {
                return Err(SettingError::Unfit("tree=given needs parents=CHILD:PARENT,...".into()));
            }
            "given" => Tree::given(members, &parents).map_err(|why| unfit(&why))?,
            _ if !parents.is_empty() => return Err(unfit("that is for tree=given")),
            "chain" => Tree::chain(n),
            "star" => Tree::star(n),
            "random" => Tree::random(members, settings.number("tree-seed")),
            _ => Tree::balanced(n, settings.number("arity") as usize),
        };
        Ok(RaymondConfig { tree: Arc::new(tree), mutation: Mutation::of(settings) })
    }
}

impl Mutex for Raymond {
    /// All arrows lead to the keeper, and the queues are as if the requests of the roll had gone there one after the
    /// other: each stands in the queue of everyone on the path, once for all that come from that side.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let tree = Arc::new(boot.config.tree.over(boot.members));
        let config = RaymondConfig { tree: Arc::clone(&tree), ..boot.config.clone() };
        let mut process = Self::boot(Boot { config: &config, ..boot });
        process.recovery = None;
        process.epoch = roll.epoch;
        let place = |id| process.members.position(id).unwrap_or(tree.root());
        let (ours, keeper) = (place(process.id), place(roll.keeper()));
        process.holder = Some(process.members.at(tree.hop(ours, keeper)));
        process.state = match roll.standing(process.id) {
            Some(Standing::Waiting { .. }) => State::Waiting,
            Some(Standing::Inside { .. }) => State::Holding,
            Some(Standing::Idle) | None => State::Idle,
        };
        for request in roll.waiting() {
            let from = process.members.position(request.process).unwrap_or(tree.root());
            // On the way of a request from there to the keeper are those who are as far from both as both are apart.
            if tree.distance(from, ours) + tree.distance(ours, keeper) == tree.distance(from, keeper) {
                process.enqueue(process.members.at(tree.hop(ours, from)));
            }
        }
        process.asked = ours != keeper && !process.queue.is_empty();
        process.proceed(out);
        process
    }

    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            // No bound on overtaking: however long a request is under way, those nearer to the token go on using it.
            ..Promises::NOTHING
        }
    }

    fn formula(config: &Self::Config, _members: &Members, tally: &Tally<'_>) -> Formula {
        let far = 2 * (tally.total() - tally.at_hand.iter().sum::<u64>());
        let text = "2 to 2D in a tree of diameter D, 0 at hand";
        Formula::between(text, far, far * u64::from(config.tree.diameter()))
    }

    fn mean(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Option<f64> {
        let (n, total) = (members.len() as f64, tally.total() as f64);
        match tally.load {
            // From one process to another that is as likely any other.
            Load::Light => {
                let far = total - tally.at_hand.iter().sum::<u64>() as f64;
                Some(far * 2.0 * config.tree.mean_distance())
            }
            Load::Open => None,
            // Over every edge and back, for one entry of each.
            Load::Saturated => Some(total * 4.0 * (n - 1.0) / n),
        }
    }

    fn client_hops(config: &Self::Config, _members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        0..=2 * config.tree.diameter()
    }

    const MOVES_TOKEN: bool = true;

    fn token(&self) -> Option<Epoch> {
        (self.holder == Some(self.id)).then_some(self.epoch)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            Msg::Privilege { epoch, .. } => Some(*epoch),
            Msg::Request | Msg::Restart { .. } | Msg::Advise { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
