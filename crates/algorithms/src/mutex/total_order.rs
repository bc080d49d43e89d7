//! A lock over total order: everyone hears of all requests and releases in the same order, and so keeps the same queue.
//!
//! Schneider: *Implementing fault-tolerant services using the state machine approach*, ACM Computing Surveys 22(4), 1990;
//! the orders are those of the family [`multicast`](crate::multicast).
//!
//! A process that wants to enter posts a request to the group, and a release when it leaves. All posts are delivered to
//! all in one order. A request that is delivered goes to the end of the queue, a release takes the place of its sender
//! out of it, and whoever is at the head is inside. Nobody asks anybody for permission, and nobody counts replies: that all
//! copies of the queue are equal is the business of the multicast below.
//!
//! ```text
//!   p1 posts a request     p2 posts a request      p3, the sequencer
//!    │ ─ Data ────────────▶│ ─ Data ──────────────▶│ numbers p2's
//!    │ ─ Data ──────────────────────────────────────▶│ and then p1's
//!    │ ◀─────────────── Order 1: p2, Order 2: p1 ──│
//!    │ p2, p1              │ p2, p1: it is inside  │ p2, p1         the same queue everywhere
//! ```
//!
//! **The order** is that of a sequencer, of ISIS, or of Lamport's stamps. With a sequencer a new view of the group is
//! delivered in the same order, too: all who are left take those who are not in it out of the queue at the same place. So the
//! lock goes on when somebody crashes, the process inside and the sequencer among them.
//!
//! **Cost**: two posts per entry. With `order=sequencer` 4(n − 1) messages, and 3(n − 1) for a new view after so many posts that
//! they are not to be kept any longer; with `order=isis` 6(n − 1), with `order=lamport-stamps` 2n(n − 1). Two message
//! delays alone, none for the sequencer itself.
//!
//! **Assumes** what its multicast assumes: reliable channels, which keep their order for `lamport-stamps`; where
//! somebody may crash, `order=sequencer` and a failure detector that reports every crash and no more.
//!
//! **Caveats**: entries follow the order of delivery, which need not be that in which people asked. Somebody who lives and is
//! suspected is left out: if it was inside, only the fence protects the resource. Who has been left out or comes back does not know the
//! queue, and takes no further part, unless the group recovers.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, Members, NodeId, NodeSet, Phase, Protocol, Stamp,
    Through, erased,
};

use super::{Epoch, Event, Fence, FenceCounter, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::multicast::lamport_stamps::LamportStampsMessage;
use crate::multicast::views::MOST_KEPT;
use crate::multicast::{self, AnyDurable, AnyMessage, AnyMulticast, AnyTimer, LayeredConfig, Post};
use crate::{About, Algorithm, Channels, Formula, SettingError, Settings, Synchrony, Topology};

/// A process of the lock over total order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TotalOrder {
    id: NodeId,
    config: TotalOrderConfig,
    multicast: AnyMulticast,
    state: State,
    /// Our releases that have not been delivered to us yet: so many of our places in the queue are not ours any more.
    leaving: u64,
    queue: Queue,
    /// Who has been in the group ever since it began, and knows the queue.
    group: NodeSet,
    /// The number of the view that we are in.
    view: u64,
    /// We have missed something, and do not know the queue.
    is_lost: bool,
    epoch: Epoch,
    fence: FenceCounter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Holding { fence: Fence },
}

/// The queue, of which everyone has a copy.
///
/// Requests of one process are not told apart: where a release is delivered before its request, the request is not put
/// into the queue when it comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    places: VecDeque<NodeId>,
    /// How many releases of a process came before their requests.
    early: BTreeMap<NodeId, u64>,
}

impl Queue {
    fn head(&self) -> Option<NodeId> {
        self.places.front().copied()
    }

    /// A request is delivered; says whether that brings somebody to the head.
    fn push(&mut self, process: NodeId) -> bool {
        if let Some(early) = self.early.get_mut(&process) {
            *early -= 1;
            self.early.retain(|_, early| *early > 0);
            return false;
        }
        self.places.push_back(process);
        self.places.len() == 1
    }

    /// A release is delivered; says whether that brings somebody to the head.
    fn pop(&mut self, process: NodeId) -> bool {
        match self.places.iter().position(|place| *place == process) {
            Some(place) => {
                self.places.remove(place);
                place == 0 && !self.places.is_empty()
            }
            None => {
                *self.early.entry(process).or_default() += 1;
                false
            }
        }
    }

    /// Only these have places from now on.
    fn keep(&mut self, group: &NodeSet) {
        self.places.retain(|process| group.contains(*process));
        self.early.retain(|process, _| group.contains(*process));
    }
}

/// Settings of [`TotalOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TotalOrderConfig {
    /// What puts the posts into order.
    multicast: multicast::AnyConfig,
    mutation: Option<Mutation>,
}

/// More than can come to the head of the queue in one view.
const TURNS_IN_A_VIEW: u64 = 1 << 32;

/// What a request says.
const REQUEST: &str = "request";
/// What a release says.
const RELEASE: &str = "release";

impl Protocol for TotalOrder {
    type Config = TotalOrderConfig;
    type Message = AnyMessage;
    type Request = Request;
    type Event = Event;
    type Timer = AnyTimer;
    type Durable = AnyDurable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, saved } = boot;
        let config = config.clone();
        let inner = Boot { id, members, config: &config.multicast, timing, life, saved };
        Self {
            id,
            multicast: AnyMulticast::boot(inner),
            config,
            state: State::Idle,
            leaving: 0,
            queue: Queue::default(),
            group: members.iter().collect(),
            view: 1,
            is_lost: life != Incarnation::FIRST,
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start => self.pass_on(Input::Start, out),
            Input::Receive { from, message } => self.pass_on(Input::Receive { from, message }, out),
            Input::Expire(timer) => self.pass_on(Input::Expire(timer), out),
            Input::PeerDown { peer, life } => self.pass_on(Input::PeerDown { peer, life }, out),
            Input::PeerUp { peer, life } => self.pass_on(Input::PeerUp { peer, life }, out),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => {
                self.state = State::Waiting;
                self.post(REQUEST, out);
            }
            Input::Request(Request::Release | Request::Cancel) => self.become_idle(out),
            // Nobody leaves the group.
            Input::Request(Request::Leave) => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::IDLE,
            State::Waiting => Phase::WAITING,
            State::Holding { .. } => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.multicast.visit_counters(visit);
        // Everyone counts the entries, so that all counts move together.
        visit(self.fence.exact());
        if let State::Holding { fence } = &mut self.state {
            visit(fence.counter());
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        self.multicast.assert_invariants();
        assert!(
            self.queue.places.iter().all(|process| self.group.contains(*process)),
            "only who is in the group has a place in the queue"
        );
        assert!(
            self.queue.early.keys().all(|process| !self.queue.places.contains(process)),
            "a release takes the place of its sender out of the queue, if there is one"
        );
    }
}

impl TotalOrder {
    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// Tells the whole group, ourselves too. Who does not know the queue would only be in the way.
    fn post(&mut self, text: &str, out: &mut impl Effects<Self>) {
        if !self.is_lost {
            self.pass_on(Input::Request(multicast::Request::Send(text.into())), out);
        }
    }

    /// Hands the multicast an input, and then takes what it delivers.
    fn pass_on(&mut self, input: Input<AnyMulticast>, out: &mut impl Effects<Self>) {
        let (mut told, now) = (Vec::new(), out.now());
        let lift = |effect: Effect<AnyMulticast>| match effect {
            Effect::Save(saved) => out.save(saved),
            Effect::Send { to, message } => out.send(to, message),
            Effect::Arm { timer, after } => out.arm(timer, after),
            Effect::Disarm(timer) => out.disarm(timer),
            Effect::Emit(event) => told.push(event),
            Effect::Reject { from, why } => out.reject(from, why),
        };
        self.multicast.handle(input, &mut erased(&mut Through::new(now, lift)));
        let is_view = |event: &multicast::Event| matches!(event, multicast::Event::View { .. });
        let mut views_to_come = told.iter().filter(|event| is_view(event)).count();
        for event in told {
            views_to_come -= usize::from(is_view(&event));
            let is_next = self.on_told(event, out);
            // What comes together with a new view may have been preceded by posts that only the dead have seen: whoever is at the
            // head then is inside in the view, with a fence of the view.
            if is_next && views_to_come == 0 {
                self.begin_turn(out);
            }
        }
    }

    /// Says whether a turn begins.
    fn on_told(&mut self, event: multicast::Event, out: &mut impl Effects<Self>) -> bool {
        match event {
            multicast::Event::Delivered(post) => self.on_delivered(&post),
            multicast::Event::View { number, group } => {
                self.on_view(number, &group, out);
                // Everyone counts a turn at every view, since some may have begun theirs before it.
                true
            }
            // Everyone is a member from the beginning.
            multicast::Event::Joined => false,
        }
    }

    /// Says whether that brings somebody to the head of the queue.
    fn on_delivered(&mut self, post: &Post) -> bool {
        let sender = post.id.source.process;
        // Who came back does not know the queue, and a release of its former life is not one of this.
        if !self.group.contains(sender) {
            return false;
        }
        match post.text.as_str() {
            REQUEST => self.queue.push(sender),
            RELEASE => {
                if sender == self.id {
                    self.leaving = self.leaving.saturating_sub(1);
                }
                self.queue.pop(sender)
            }
            _ => false,
        }
    }

    /// Who is not in the new view is dead, or taken for dead. Who is in it for the first time does not know the queue.
    fn on_view(&mut self, number: u64, group: &[NodeId], out: &mut impl Effects<Self>) {
        if number != self.view.saturating_add(1) {
            self.become_lost(out);
        }
        self.view = number;
        // Who is dead may have been inside by posts that nobody else has: what it knew is smaller than all that follows.
        self.fence.witness(FenceCounter(number.saturating_mul(TURNS_IN_A_VIEW)));
        self.group = group.iter().copied().filter(|id| self.group.contains(*id)).collect();
        if !self.broken(Mutation::KeepDead) {
            self.queue.keep(&self.group);
        }
    }

    /// A view has gone by without us: the others have taken us out of their queues.
    fn become_lost(&mut self, out: &mut impl Effects<Self>) {
        self.is_lost = true;
        if let State::Holding { fence } = self.state {
            self.state = State::Idle;
            out.emit(Event::Lost { fence });
        }
    }

    /// Whoever has come to the head of the queue is inside. Everyone counts that, so that the next fence is larger.
    fn begin_turn(&mut self, out: &mut impl Effects<Self>) {
        let Some(head) = self.queue.head() else { return };
        let fence = self.fence.enter(self.epoch, head);
        if head == self.id && self.state == State::Waiting && self.leaving == 0 && !self.is_lost {
            self.state = State::Holding { fence };
            out.emit(Event::Granted { fence });
        }
    }

    fn become_idle(&mut self, out: &mut impl Effects<Self>) {
        let is_silent = self.phase() == Phase::HOLDING && self.broken(Mutation::SilentExit);
        self.state = State::Idle;
        if !is_silent {
            self.leaving += 1;
            self.post(RELEASE, out);
        }
    }
}

mutants! {
    enum Mutation {
        NoOrder {
            name: "no-order", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "requests and releases go out by basic multicast: each process queues them as they arrive",
        }
        SilentExit {
            name: "silent-exit", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a process that leaves posts no release",
        }
        KeepDead {
            name: "keep-dead", breaks: "ME2", nodes: 3, trigger: Crash,
            change: "who is not in the new view keeps its place in the queue",
        }
    }
}

impl Algorithm for TotalOrder {
    const ABOUT: About = About {
        name: "total-order",
        title: "Lock over total order",
        paper: "Schneider: Implementing fault-tolerant services using the state machine approach, ACM Computing Surveys 22(4), 1990",
        idea: "all hear all requests in one order: one queue",
        family: crate::mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "4(n-1) per entry; isis 6(n-1), lamport-stamps 2n(n-1)",
        faults: "crashes, with order=sequencer; not wrong suspicions, but for the fence",
        settings: &[multicast::AnyConfig::ORDER],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let mutation = Mutation::of(settings);
        let multicast = match mutation {
            Some(Mutation::NoOrder) => multicast::AnyConfig::Layered(LayeredConfig::basic()),
            _ => multicast::AnyConfig::ordered(settings, members)?,
        };
        Ok(TotalOrderConfig { multicast, mutation })
    }
}

impl Mutex for TotalOrder {
    /// The queue is that of the roll, and the multicast of the new epoch begins anew.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(Boot { life: Incarnation::FIRST, ..boot });
        process.epoch = roll.epoch;
        process.pass_on(Input::Start, out);
        process.queue.places = roll.requests().iter().map(|request| request.process).collect();
        process.state = match roll.standing(process.id) {
            Some(Standing::Waiting { .. }) => State::Waiting,
            Some(Standing::Inside { fence }) => State::Holding { fence },
            Some(Standing::Idle) | None => State::Idle,
        };
        process.begin_turn(out);
        process
    }

    /// Lamport's stamps are an order of the requests themselves; the others order them by arrival somewhere. However long a request is
    /// on its way there, those whose requests have arrived go on entering.
    fn promises(config: &Self::Config, members: &Members) -> Promises {
        let is_stamped = matches!(config.multicast, multicast::AnyConfig::LamportStamps(_));
        Promises {
            no_starvation: true,
            overtaking: is_stamped.then(|| members.len() as u64 - 1),
            stamp_order: is_stamped,
            causal_order: is_stamped,
            ..Promises::NOTHING
        }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let (n, posts) = (members.len() as u64, 2 * tally.total());
        match config.multicast {
            multicast::AnyConfig::Views(_) => {
                // A post that is caught by a new view arrives with that and needs no number.
                let views = posts / MOST_KEPT;
                let low = 2 * posts * (n - 1) - (views * n * (n - 1)).min(posts * (n - 1));
                let high = 2 * posts * (n - 1) + views * 3 * (n - 1);
                match views {
                    0 => Formula::exactly("4(n-1)", high),
                    _ => Formula::between("4(n-1), and 3(n-1) for a new view after 256 posts", low, high),
                }
            }
            multicast::AnyConfig::Isis(_) => Formula::exactly("6(n-1)", 3 * posts * (n - 1)),
            multicast::AnyConfig::LamportStamps(_) => Formula::exactly("2n(n-1)", posts * n * (n - 1)),
            multicast::AnyConfig::Layered(_) => Formula::exactly("2(n-1)", posts * (n - 1)),
        }
    }

    /// The sequencer numbers its own requests. While the view is renewed, a request waits for the next.
    fn client_hops(config: &Self::Config, members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        let is_alone = members.len() == 1;
        match config.multicast {
            _ if is_alone => 0..=0,
            multicast::AnyConfig::Views(_) if members.max() == Some(requester) => 0..=2,
            multicast::AnyConfig::Views(_) => 2..=4,
            multicast::AnyConfig::Isis(_) | multicast::AnyConfig::LamportStamps(_) => 2..=2,
            multicast::AnyConfig::Layered(_) => 0..=0,
        }
    }

    fn announced(_from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            AnyMessage::LamportStamps(LamportStampsMessage::Data { id, stamp, text }) if text == REQUEST => {
                Some(Stamp { time: *stamp, process: id.source.process })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use conclave_core::Message as _;

    use super::*;
    use crate::Arena;
    use crate::testing::World;

    const ORDERS: [&str; 3] = ["sequencer", "isis", "lamport-stamps"];

    fn world(order: &str, n: u32) -> World<TotalOrder> {
        let settings = Settings::new(&TotalOrder::ABOUT, Arena::Laboratory, [("order", order)], None);
        let members = Members::numbered(n);
        let config = TotalOrder::configure(&settings.expect("declared settings"), &members);
        World::numbered(n, &config.expect("they fit"))
    }

    fn entered(world: &World<TotalOrder>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    fn places(world: &World<TotalOrder>, id: u32) -> Vec<u32> {
        world.process(id).queue.places.iter().map(|process| process.0).collect()
    }

    /// All ask at once, in every order and in groups of every size: one after the other, and each post costs what it costs.
    #[test]
    fn an_entry_costs_two_posts() {
        let cost = |order, n: usize| match order {
            "sequencer" => 2 * (n - 1),
            "isis" => 3 * (n - 1),
            _ => n * (n - 1),
        };
        for order in ORDERS {
            for n in 1..=9 {
                let mut world = world(order, n);
                (1..=n).for_each(|id| world.request(id, Request::Acquire));
                for so_far in 1..=n as usize {
                    world.drain();
                    let inside = entered(&world);
                    assert_eq!(inside.len(), so_far, "{order}, n = {n}: {inside:?}");
                    world.request(inside[so_far - 1], Request::Release);
                }
                world.drain();
                assert_eq!(world.sent.len(), 2 * n as usize * cost(order, n as usize), "{order}, n = {n}");
                assert!((1..=n).all(|id| places(&world, id).is_empty()), "{order}, n = {n}");
            }
        }
    }

    /// Whoever hears of its own request first is not first: the order is what counts.
    #[test]
    fn the_queue_is_that_of_the_sequencer() {
        let mut world = world("sequencer", 3);
        world.request(1, Request::Acquire);
        world.request(2, Request::Acquire);
        world.deliver(2, 3);
        world.drain();
        assert_eq!(entered(&world), [2]);
        assert!((1..=3).all(|id| places(&world, id) == [2, 1]));
    }

    /// Channels need not keep their order: a release that is numbered before its request takes it out in advance.
    #[test]
    fn a_release_may_come_before_its_request() {
        let mut world = world("sequencer", 3);
        world.request(1, Request::Acquire);
        world.request(1, Request::Cancel);
        world.deliver_nth(NodeId(1), NodeId(3), 1);
        assert_eq!(world.process(3).queue.early, [(NodeId(1), 1)].into());
        world.drain();
        assert!((1..=3).all(|id| world.process(id).queue == Queue::default()));
        // The next request is another one.
        world.request(1, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [1]);
    }

    /// A place that was given up is not entered, although the release of it is still on its way.
    #[test]
    fn whoever_gives_up_and_asks_again_waits_for_its_new_place() {
        let mut world = world("sequencer", 3);
        world.request(1, Request::Acquire);
        world.request(1, Request::Cancel);
        world.request(1, Request::Acquire);
        world.deliver(1, 3);
        world.deliver(3, 1);
        assert_eq!((places(&world, 1), entered(&world)), (vec![1], Vec::new()));
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world).len(), 1);
        let first = entered(&world)[0];
        world.request(first, Request::Release);
        world.drain();
        assert_eq!(entered(&world), [first, 3 - first]);
    }

    fn crash(world: &mut World<TotalOrder>, id: u32) {
        world.crash(id);
        world.report(id);
        while let Some((from, to, _)) = world.travelling().first().copied() {
            world.deliver_nth(from, to, 0);
        }
        while let Some((id, timer)) = world.armed().into_iter().next() {
            world.expire(id, timer);
            world.drain();
        }
    }

    /// p3 is inside, numbers the posts, and leads: it dies, and the others have the queue without it.
    #[test]
    fn the_queue_goes_on_without_the_sequencer() {
        let mut world = world("sequencer", 3);
        world.request(3, Request::Acquire);
        world.drain();
        world.request(2, Request::Acquire);
        world.request(1, Request::Acquire);
        world.deliver(2, 3);
        world.drain();
        assert!((1..=3).all(|id| places(&world, id) == [3, 2, 1]));
        crash(&mut world, 3);
        assert_eq!(entered(&world), [3, 2]);
        assert!((1..=2).all(|id| places(&world, id) == [2, 1]));
        world.request(2, Request::Release);
        world.drain();
        assert_eq!(entered(&world), [3, 2, 1]);
        let fences: Vec<_> = world.events.iter().map(|(_, event)| *event).collect();
        let fences = fences.iter().filter_map(|event| match event {
            Event::Granted { fence } => Some(*fence),
            _ => None,
        });
        assert!(fences.collect::<Vec<_>>().is_sorted_by(|a, b| a < b));
    }

    /// p3 is inside by a post that nobody else has seen when it dies: whatever follows has a larger fence.
    #[test]
    fn an_entry_that_nobody_heard_of_has_a_smaller_fence() {
        let mut world = world("sequencer", 3);
        world.request(3, Request::Acquire);
        crash(&mut world, 3);
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [3, 2]);
        let fence = |event: &Event| match event {
            Event::Granted { fence } => Some(*fence),
            _ => None,
        };
        let fences: Vec<_> = world.events.iter().filter_map(|(_, event)| fence(event)).collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }

    /// Who comes back does not know the queue. It never gets in, and is in nobody's way.
    #[test]
    fn who_comes_back_takes_no_part() {
        let mut world = world("sequencer", 3);
        let config = world.process(1).config.clone();
        crash(&mut world, 1);
        world.revive(1, &config, Incarnation::FIRST.next());
        world.request(1, Request::Acquire);
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [2]);
        assert!(world.process(1).is_lost);
        assert!((2..=3).all(|id| !world.process(id).group.contains(NodeId(1))));
    }

    /// p1 is inside, and taken for dead by mistake. When it is taken back it learns that it has been left out.
    #[test]
    fn who_was_left_out_loses_its_entry() {
        let mut world = world("sequencer", 3);
        world.request(1, Request::Acquire);
        world.drain();
        for to in [2, 3] {
            world.input(NodeId(to), Input::PeerDown { peer: NodeId(1), life: Incarnation::FIRST });
        }
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [1, 2], "only the fence keeps p1 out");
        for to in [2, 3] {
            world.input(NodeId(to), Input::PeerUp { peer: NodeId(1), life: Incarnation::FIRST });
        }
        world.drain();
        let lost: Vec<_> = world
            .events
            .iter()
            .filter(|(_, event)| matches!(event, Event::Lost { .. }))
            .map(|(id, _)| id.0)
            .collect();
        assert_eq!(lost, [1]);
        world.request(1, Request::Acquire);
        world.request(2, Request::Release);
        world.request(3, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [1, 2, 3]);
    }

    /// A lock that is used for long keeps no more posts than one view has.
    #[test]
    fn a_long_run_renews_the_view() {
        let mut world = world("sequencer", 2);
        for _ in 0..300 {
            for id in [1, 2] {
                world.request(id, Request::Acquire);
                world.drain();
                world.request(id, Request::Release);
                world.drain();
            }
        }
        assert_eq!(entered(&world).len(), 600);
        let collects = world.sent.iter().filter(|(_, _, message)| message.kind() == "Collect").count();
        assert_eq!(collects as u64, 1200 / MOST_KEPT);
        let most = format!("{:?}", world.process(1)).len();
        assert!(most < 100 * MOST_KEPT as usize, "a process is {most} characters long");
        assert!(world.process(1).view > 1);
    }

    /// Two posts of a lock are a request and a release: a stamp is announced by the first only.
    #[test]
    fn requests_are_announced_with_their_stamps() {
        let mut world = world("lamport-stamps", 2);
        world.request(1, Request::Acquire);
        world.drain();
        world.request(1, Request::Release);
        world.drain();
        let announced =
            |(from, _, message): &(NodeId, NodeId, AnyMessage)| TotalOrder::announced(*from, message);
        let announced: Vec<_> = world.sent.iter().filter_map(announced).collect();
        assert_eq!(announced, [Stamp { time: 1, process: NodeId(1) }]);
    }
}
