//! Views and virtual synchrony: who stays up delivers the same posts between one view of the group and the next.
//!
//! A view is a numbered list of members. Somebody who joins, leaves or crashes makes a new one, and one process, the
//! leader, brings it about:
//!
//! ```text
//!   p1                     p2                     p3, the leader      p4 ✗
//!    │ ◀─────────────────────────────── Collect ──│
//!    │                     │ ◀──────── Collect ───│   sends nothing new, delivers nothing more
//!    │ ── Report: 4.1 ────────────────────────────▶│
//!    │                     │ ── Report: none ────▶│   the posts of this view that each has seen
//!    │ ◀────────────── Install: 4.1, view 2 ──────│
//!    │                     │ ◀─ Install: 4.1, .. ─│   all deliver 4.1 in view 1, then enter view 2
//! ```
//!
//! What a process sends while a view changes goes out in the next one. Posts of an earlier view that still arrive are known
//! to those who need them, and are ignored.
//!
//! **The leader** is the highest process at first, and whoever an embedded election names afterwards. Each attempt to
//! change the view has an epoch: larger than all that its leader has seen. Everyone takes part in the latest that it knows
//! of and refuses earlier ones. A leader that dies half-way leaves some in the next view and some not; the one after it
//! hears of both, begins at the latest view that anyone has entered, and sends the others what they have missed.
//!
//! [`sequencer`](super::sequencer) is the same with a number for each post: then all deliver in the same order, too.
//!
//! **Cost**: n − 1 for a post, 3(n − 1) for a new view, and an election if the leader is dead.
//!
//! **Assumes** reliable channels of any order, and a failure detector that reports every crash and no more. The bully needs a bound on
//! delays; other elections can be had.
//!
//! **Caveats**: somebody who lives and is suspected is left out, and may deliver something else. A process that comes back is no
//! member until it joins. The posts of a view are kept until the next, and reports carry them: so a sender whose own posts of a
//! view take more than its part of 256 KiB asks for the next view, and goes on in that. Where a group is to last, its leader makes
//! a new view as well when the posts are many.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{Boot, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::family::{EVERYONE, Multicast, everyone};
use super::ledger::{Promises, Survives};
use super::sequencer::Sequence;
use super::{AnyConfig, Event, FAMILY, Id, Post, Request, Source};
use crate::election::{AnyConfig as AnyElectionConfig, AnyElection};
use crate::mutex::Epoch;
use crate::{About, Asked, Formula, Led, LedConfig, STRANGER, SettingError, Settings, Synchrony, Told};

/// What the posts of a view may take together, in bytes: a report of all of them is one message.
const VIEW_BYTES: usize = 256 << 10;
/// What a post takes besides its text.
const POST_BYTES: usize = 64;

/// A process with views, and with the election of its leader.
pub type LedViews = Led<AnyElection, Views>;

/// A process with views.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Views {
    source: Source,
    config: ViewsConfig,
    members: Members,
    /// The latest change that we take part in, or have taken part in.
    epoch: Epoch,
    view: ViewId,
    group: NodeSet,
    /// A change is under way: nothing is sent or delivered until it is over.
    is_frozen: bool,
    /// Who leads, as our election said last; the highest process at first.
    elected: Option<NodeId>,
    down: NodeSet,
    /// Whether our application wants to be a member.
    wants: bool,
    /// It has left since we entered this view, and perhaps joined again.
    has_left: bool,
    /// The posts of this view.
    posts: BTreeMap<Id, String>,
    /// Their numbers, where they have some.
    sequence: Sequence,
    /// Posts and numbers of views that we have not entered yet.
    early: Vec<ViewsMessage>,
    /// How many posts we have named.
    sent: u64,
    /// Our own posts that wait for the next view.
    waiting: Vec<Post>,
    /// The latest views, as far as somebody may have missed them.
    past: Vec<Step>,
    /// There is one while we change the view as leader.
    office: Option<Office>,
}

/// Settings of [`Views`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewsConfig {
    /// Whether everyone is a member at first.
    pub everyone: bool,
    /// Whether the leader numbers the posts.
    pub numbers: bool,
    /// After so many numbered posts in a view its leader makes the next, so that they need not be kept.
    pub renewed_after: Option<u64>,
    mutation: Option<Mutation>,
}

impl ViewsConfig {
    /// As the settings say, with numbers or without.
    ///
    /// # Errors
    /// If the election does not fit these members.
    pub fn read(settings: &Settings, members: &Members, numbers: bool) -> Result<AnyConfig, SettingError> {
        let mutation = Mutation::of(settings);
        let application = Self { everyone: everyone(settings), numbers, renewed_after: None, mutation };
        application.led(settings, members)
    }

    /// A sequencer for a group of all that lasts, as it is to be embedded.
    ///
    /// # Errors
    /// If the election does not fit these members.
    pub fn lasting(settings: &Settings, members: &Members) -> Result<AnyConfig, SettingError> {
        let renewed_after = Some(MOST_KEPT);
        Self { everyone: true, numbers: true, renewed_after, mutation: None }.led(settings, members)
    }

    fn led(self, settings: &Settings, members: &Members) -> Result<AnyConfig, SettingError> {
        let election = AnyElectionConfig::read(settings, members)?;
        Ok(AnyConfig::Views(LedConfig { election, application: self }))
    }
}

/// So many posts a group that lasts keeps before it renews its view.
pub const MOST_KEPT: u64 = 256;

mutants! {
    pub enum Mutation {
        /// A new view begins without what somebody may have missed in the one before.
        NoFlush {
            name: "no-flush", breaks: "VIEW", nodes: 3, trigger: Crash,
            change: "a new view begins without the posts that only some have delivered in the one before",
        }
        /// Posts are delivered after their receiver has reported.
        NoFreeze {
            name: "no-freeze", breaks: "VIEW", nodes: 3, trigger: Crash,
            change: "a process delivers posts of the old view after it has reported what it knows",
        }
        /// The sequencer is not waited for.
        ByArrival {
            name: "by-arrival", breaks: "TOTAL", nodes: 2, trigger: Schedule,
            change: "posts are delivered when they arrive, whatever their numbers",
        }
        /// A new sequencer numbers all posts anew.
        ForgetNumbers {
            name: "forget-numbers", breaks: "INTEGRITY", nodes: 3, trigger: Crash,
            change: "a new sequencer numbers all posts anew, also those that somebody has delivered",
        }
    }
}

/// A view: its number, and the change that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewId {
    /// Counted from 1; 0 of a process that knows of none.
    pub number: u64,
    /// In which epoch it was made.
    pub epoch: Epoch,
}

/// A view to be entered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Which.
    view: ViewId,
    /// All posts of the view before, in the order of delivery.
    posts: Vec<Post>,
    /// Its members.
    group: Vec<NodeId>,
    /// The number of its first post.
    first: u64,
}

/// How a process stands, as it reports it to a leader.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct State {
    view: ViewId,
    posts: Vec<Post>,
    numbers: Vec<(u64, Id)>,
    first: u64,
    past: Vec<Step>,
    wants: bool,
}

/// A change of the view, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Office {
    /// Who has not reported yet.
    missing: NodeSet,
    reports: BTreeMap<NodeId, State>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ViewsMessage {
    /// A post for the members of a view.
    Data {
        /// Which.
        id: Id,
        /// What it says.
        text: String,
        /// The view in which it is sent.
        view: ViewId,
    },
    /// The number of a post.
    Order {
        /// The number.
        number: u64,
        /// The post.
        id: Id,
        /// The view.
        view: ViewId,
    },
    /// The view is going to change: how do you stand?
    Collect {
        /// The change.
        epoch: Epoch,
    },
    /// So, and I send and deliver nothing more in this view.
    Report {
        /// The change.
        epoch: Epoch,
        /// How I stand.
        state: State,
    },
    /// Deliver what you have missed, and enter the last of these views.
    Install {
        /// The change.
        epoch: Epoch,
        /// The views, those before it for who has missed them.
        steps: Vec<Step>,
    },
    /// I take part in a later change than yours.
    Refuse {
        /// The later one.
        epoch: Epoch,
    },
    /// I want to be in the group, or out of it.
    Wish {
        /// Whether in.
        is_in: bool,
    },
}

use ViewsMessage as Msg;

impl Message for ViewsMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Data, Order, Collect, Report, Install, Refuse, Wish)
    }
}

impl Protocol for Views {
    type Config = ViewsConfig;
    type Message = ViewsMessage;
    type Request = Asked<Request>;
    type Event = Told<Event>;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let is_first = boot.life == Incarnation::FIRST;
        let everyone = boot.config.everyone && is_first;
        Self {
            source: Source { process: boot.id, life: boot.life },
            config: boot.config.clone(),
            members: boot.members.clone(),
            epoch: Epoch::FIRST,
            view: ViewId { number: u64::from(is_first), epoch: Epoch::FIRST },
            group: boot.members.iter().filter(|_| everyone).collect(),
            is_frozen: !is_first,
            elected: boot.members.max().filter(|_| is_first),
            down: NodeSet::new(),
            wants: everyone,
            has_left: false,
            posts: BTreeMap::new(),
            sequence: Sequence::from(1),
            early: Vec::new(),
            sent: 0,
            waiting: Vec::new(),
            past: Vec::new(),
            office: None,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id(), from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } => self.receive(from, message, out),
            Input::Request(Asked::App(Request::Join)) => self.on_join(out),
            Input::Request(Asked::App(Request::Leave)) => self.on_leave(out),
            Input::Request(Asked::App(Request::Send(text))) => self.on_send(text, out),
            Input::Request(Asked::Elected { leaders, .. }) => {
                if let Some(leader) = leaders.first() {
                    self.on_elected(*leader, out);
                }
            }
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
                self.maybe_change(out);
            }
            // Who comes back has to be told the view, and there may be nobody who would.
            Input::Start if self.source.life != Incarnation::FIRST => out.emit(Told::Elect),
            Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        match (self.is_frozen, self.leads()) {
            (true, _) => Phase::WAITING,
            (false, true) => Phase::LEADING,
            (false, false) => Phase::FOLLOWING,
        }
    }

    fn assert_invariants(&self) {
        assert!(self.office.is_none() || self.is_frozen, "a leader that changes the view has stopped, too");
        assert!(
            self.office.is_none() || self.epoch.creator == self.id(),
            "a leader changes the view in an epoch of its own"
        );
        assert!(
            self.is_frozen || self.is_full() || self.waiting.is_empty(),
            "only who is frozen, or has said enough in this view, puts off what it sends"
        );
    }
}

impl Views {
    fn id(&self) -> NodeId {
        self.source.process
    }

    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// Whether we deliver in this view.
    fn is_inside(&self) -> bool {
        self.group.contains(self.id()) && !self.has_left
    }

    /// Who brings views about: the maker of the latest epoch, and at first the highest process.
    fn leader(&self) -> Option<NodeId> {
        let maker = match self.epoch == Epoch::FIRST {
            true => self.members.max().filter(|_| self.view.number > 0),
            false => Some(self.epoch.creator),
        };
        maker.filter(|maker| !self.down.contains(*maker))
    }

    fn leads(&self) -> bool {
        self.leader() == Some(self.id())
    }

    /// Who numbers the posts of this view: who has made it.
    fn sequencer(&self) -> Option<NodeId> {
        let first = self.view.epoch == Epoch::FIRST;
        let maker = if first { self.members.max() } else { Some(self.view.epoch.creator) };
        maker.filter(|_| self.config.numbers)
    }

    fn receive(&mut self, from: NodeId, message: ViewsMessage, out: &mut impl Effects<Self>) {
        match message {
            Msg::Data { view, .. } | Msg::Order { view, .. } => match view.cmp(&self.view) {
                core::cmp::Ordering::Less => {}
                core::cmp::Ordering::Equal => self.on_present(message, out),
                core::cmp::Ordering::Greater => self.early.push(message),
            },
            Msg::Collect { epoch } | Msg::Install { epoch, .. } if epoch.creator != from => {
                out.reject(from, "an epoch is named after who began it");
            }
            Msg::Collect { epoch } => self.on_collect(from, epoch, out),
            Msg::Report { epoch, state } => self.on_report(from, epoch, state, out),
            Msg::Install { epoch, steps } => self.on_install(epoch, steps, out),
            Msg::Refuse { epoch } => {
                if self.elected == Some(self.id())
                    && (epoch >= self.epoch || (self.office.is_none() && self.is_frozen))
                {
                    self.epoch = self.epoch.max(epoch);
                    self.change(out);
                }
            }
            // It says in its report whether it still wants that.
            Msg::Wish { .. } => self.maybe_change(out),
        }
    }

    /// A post or a number of the present view. Who has reported knows no more of it than it has said.
    fn on_present(&mut self, message: ViewsMessage, out: &mut impl Effects<Self>) {
        if self.is_frozen && !self.broken(Mutation::NoFreeze) {
            return;
        }
        match message {
            Msg::Data { id, text, .. } => self.take(Post { id, text }, out),
            Msg::Order { number, id, .. } => {
                self.sequence.learn(number, id);
                self.deliver_numbered(out);
            }
            Msg::Collect { .. }
            | Msg::Report { .. }
            | Msg::Install { .. }
            | Msg::Refuse { .. }
            | Msg::Wish { .. } => {}
        }
    }

    fn on_send(&mut self, text: String, out: &mut impl Effects<Self>) {
        self.sent += 1;
        let had_none_waiting = self.waiting.is_empty();
        self.send_or_wait(Post { id: self.source.post(self.sent), text }, out);
        if had_none_waiting && !self.waiting.is_empty() && !self.is_frozen {
            self.tell_wish(out);
        }
    }

    fn send_or_wait(&mut self, post: Post, out: &mut impl Effects<Self>) {
        match self.is_frozen || self.is_full() {
            true => self.waiting.push(post),
            false => self.send(post, out),
        }
    }

    /// Whether our own posts of this view take our part of what all may take.
    fn is_full(&self) -> bool {
        let own = self.posts.range(self.source.post(0)..=self.source.post(u64::MAX));
        let bytes: usize = own.map(|(_, text)| text.len() + POST_BYTES).sum();
        bytes >= VIEW_BYTES / self.members.len().max(1)
    }

    /// To all members, and to the sequencer where there is one.
    fn send(&mut self, post: Post, out: &mut impl Effects<Self>) {
        let mut to = self.group.clone();
        to.extend(self.sequencer());
        to.remove(self.id());
        let Post { id, text } = post.clone();
        out.send_all(to.iter(), &Msg::Data { id, text, view: self.view });
        self.take(post, out);
    }

    fn take(&mut self, post: Post, out: &mut impl Effects<Self>) {
        let id = post.id;
        if self.posts.contains_key(&id) {
            return;
        }
        self.posts.insert(id, post.text.clone());
        if !self.config.numbers || self.broken(Mutation::ByArrival) {
            return self.deliver(post, out);
        }
        if self.sequencer() == Some(self.id())
            && let Some(number) = self.sequence.assign(id)
        {
            let mut to = self.group.clone();
            to.remove(self.id());
            out.send_all(to.iter(), &Msg::Order { number, id, view: self.view });
        }
        self.deliver_numbered(out);
    }

    /// Delivers as long as the next number is known, and its post.
    fn deliver_numbered(&mut self, out: &mut impl Effects<Self>) {
        if self.broken(Mutation::ByArrival) {
            return;
        }
        while let Some(id) = self.sequence.due()
            && let Some(text) = self.posts.get(&id)
        {
            let post = Post { id, text: text.clone() };
            self.sequence.advance();
            self.deliver(post, out);
        }
        if self.is_worn() {
            self.maybe_change(out);
        }
    }

    /// Whether as many posts were delivered in this view as are to be kept.
    fn is_worn(&self) -> bool {
        let delivered = self.sequence.next().saturating_sub(self.sequence.first());
        self.config.renewed_after.is_some_and(|most| delivered >= most)
    }

    fn deliver(&mut self, post: Post, out: &mut impl Effects<Self>) {
        if self.is_inside() {
            out.emit(Told::App(Event::Delivered(post)));
        }
    }

    fn on_elected(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        self.elected = Some(leader);
        if leader == self.id() {
            self.change(out);
        }
    }

    fn on_join(&mut self, out: &mut impl Effects<Self>) {
        if !core::mem::replace(&mut self.wants, true) {
            self.tell_wish(out);
        }
    }

    fn on_leave(&mut self, out: &mut impl Effects<Self>) {
        self.has_left = true;
        if core::mem::replace(&mut self.wants, false) {
            self.tell_wish(out);
        }
    }

    /// Sees to it that the next view is as our application wants it.
    fn tell_wish(&mut self, out: &mut impl Effects<Self>) {
        match self.leader() {
            Some(leader) if leader == self.id() => self.maybe_change(out),
            Some(leader) => out.send(leader, Msg::Wish { is_in: self.wants }),
            None => {}
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        self.down.insert(peer);
        if let Some(office) = &mut self.office {
            office.missing.remove(peer);
            return self.maybe_install(out);
        }
        match self.leads() {
            true => self.change(out),
            false => self.maybe_seek_leader(out),
        }
    }

    /// Whoever made the latest epoch is dead, or is not known to be back: somebody has to finish what it began.
    fn maybe_seek_leader(&mut self, out: &mut impl Effects<Self>) {
        if self.leader().is_some() {
            return;
        }
        match self.elected.filter(|elected| !self.down.contains(*elected)) {
            Some(elected) if elected == self.id() => self.change(out),
            // Whoever leads may think that all is well, and an election that finds it again tells it nothing new.
            Some(elected) => {
                out.send(elected, Msg::Refuse { epoch: self.epoch });
                out.emit(Told::Elect);
            }
            None => out.emit(Told::Elect),
        }
    }

    /// As leader: something calls for a new view. A change that is under way sees it, too.
    fn maybe_change(&mut self, out: &mut impl Effects<Self>) {
        if self.leads() && self.office.is_none() {
            self.change(out);
        }
    }

    /// As leader: begins to change the view.
    fn change(&mut self, out: &mut impl Effects<Self>) {
        self.epoch = self.epoch.next(self.id());
        self.is_frozen = true;
        let missing: NodeSet =
            self.members.others(self.id()).filter(|other| !self.down.contains(*other)).collect();
        out.send_all(missing.iter(), &Msg::Collect { epoch: self.epoch });
        self.office = Some(Office { missing, reports: [(self.id(), self.state())].into() });
        self.maybe_install(out);
    }

    fn on_collect(&mut self, from: NodeId, epoch: Epoch, out: &mut impl Effects<Self>) {
        // An epoch that is over cannot begin again: its maker may have come back and not know that it was there.
        if epoch < self.epoch || (epoch == self.epoch && !self.is_frozen) {
            return out.send(from, Msg::Refuse { epoch: self.epoch });
        }
        self.epoch = epoch;
        self.is_frozen = true;
        self.office = None;
        out.send(from, Msg::Report { epoch, state: self.state() });
        self.maybe_seek_leader(out);
    }

    fn state(&self) -> State {
        let post = |(id, text): (&Id, &String)| Post { id: *id, text: text.clone() };
        State {
            view: self.view,
            posts: self.posts.iter().map(post).collect(),
            numbers: self.sequence.known(),
            first: self.sequence.first(),
            past: self.past.clone(),
            wants: self.wants,
        }
    }

    fn on_report(&mut self, from: NodeId, epoch: Epoch, state: State, out: &mut impl Effects<Self>) {
        // A change that we began in an earlier life: nobody else is going to finish it.
        if epoch > self.epoch && epoch.creator == self.id() {
            self.epoch = epoch;
            return self.change(out);
        }
        if epoch == self.epoch
            && let Some(office) = &mut self.office
            && office.missing.remove(from)
        {
            office.reports.insert(from, state);
            self.maybe_install(out);
        }
    }

    /// As leader: makes the next view when all who are up have reported.
    fn maybe_install(&mut self, out: &mut impl Effects<Self>) {
        let Some(office) = self.office.take_if(|office| office.missing.is_empty()) else { return };
        let steps = self.steps(office.reports);
        let to = self.members.others(self.id()).filter(|other| !self.down.contains(*other));
        out.send_all(to, &Msg::Install { epoch: self.epoch, steps: steps.clone() });
        self.install(steps, out);
    }

    /// The views that somebody has missed, and the next.
    fn steps(&self, reports: BTreeMap<NodeId, State>) -> Vec<Step> {
        let lowest =
            reports.values().map(|state| state.view.number).filter(|number| *number > 0).min().unwrap_or(0);
        let wants = |(id, state): (&NodeId, &State)| (state.wants && !self.down.contains(*id)).then_some(*id);
        let group = reports.iter().filter_map(wants).collect();
        let Some(latest) = reports.values().map(|state| state.view).max() else { return Vec::new() };
        let there: Vec<State> = reports.into_values().filter(|state| state.view == latest).collect();
        let Some(first) = there.first() else { return Vec::new() };
        let posts = self.in_order(&there);
        let next = Step {
            view: ViewId { number: latest.number.saturating_add(1), epoch: self.epoch },
            group,
            first: first.first.saturating_add(posts.len() as u64),
            posts,
        };
        let missed = first.past.iter().filter(|step| step.view.number > lowest).cloned();
        missed.chain([next]).collect()
    }

    /// All posts that any of these knows: first those with numbers, then the others.
    fn in_order(&self, there: &[State]) -> Vec<Post> {
        if self.broken(Mutation::NoFlush) {
            return Vec::new();
        }
        let mut posts: BTreeMap<Id, &Post> =
            there.iter().flat_map(|state| &state.posts).map(|post| (post.id, post)).collect();
        let numbers: BTreeSet<(u64, Id)> =
            there.iter().flat_map(|state| state.numbers.iter().copied()).collect();
        let known = numbers.into_iter().filter(|_| !self.broken(Mutation::ForgetNumbers));
        let numbered: Vec<&Post> = known.filter_map(|(_, id)| posts.remove(&id)).collect();
        numbered.into_iter().chain(posts.into_values()).cloned().collect()
    }

    fn on_install(&mut self, epoch: Epoch, steps: Vec<Step>, out: &mut impl Effects<Self>) {
        let is_ours = self.is_frozen && epoch == self.epoch;
        let is_new_here = self.view.number == 0 && epoch > self.epoch;
        if is_ours || is_new_here {
            self.epoch = epoch;
            self.office = None;
            self.install(steps, out);
        }
    }

    /// Enters these views one after the other, and goes on.
    fn install(&mut self, steps: Vec<Step>, out: &mut impl Effects<Self>) {
        for step in &steps {
            if step.view.number > self.view.number {
                self.enter(step, out);
            }
        }
        self.past = steps;
        self.is_frozen = false;
        for post in core::mem::take(&mut self.waiting) {
            self.send_or_wait(post, out);
        }
        self.take_early(out);
        if self.wants != self.group.contains(self.id()) || (!self.waiting.is_empty() && !self.is_frozen) {
            self.tell_wish(out);
        }
    }

    /// What came before its view was entered.
    fn take_early(&mut self, out: &mut impl Effects<Self>) {
        for message in core::mem::take(&mut self.early) {
            match view_of(&message).cmp(&Some(self.view)) {
                core::cmp::Ordering::Less => {}
                core::cmp::Ordering::Equal => self.on_present(message, out),
                core::cmp::Ordering::Greater => self.early.push(message),
            }
        }
    }

    fn enter(&mut self, step: &Step, out: &mut impl Effects<Self>) {
        // Who has just come back was in no view.
        if self.view.number > 0 {
            self.deliver_missed(&step.posts, out);
        }
        self.view = step.view;
        // A set of whoever a peer may name could be of any size.
        self.group = step.group.iter().copied().filter(|id| self.members.contains(*id)).collect();
        self.posts.clear();
        self.sequence = Sequence::from(step.first);
        self.has_left = !self.wants;
        if self.is_inside() {
            out.emit(Told::App(Event::View { number: step.view.number, group: step.group.clone() }));
        }
    }

    /// The posts of a view that is over which we have not delivered.
    fn deliver_missed(&mut self, posts: &[Post], out: &mut impl Effects<Self>) {
        let delivered = match self.config.numbers {
            true => self.sequence.next().saturating_sub(self.sequence.first()) as usize,
            false => 0,
        };
        for post in posts.iter().skip(delivered) {
            if self.config.numbers || !self.posts.contains_key(&post.id) {
                self.deliver(post.clone(), out);
            }
        }
    }
}

/// The view that a post or a number belongs to.
fn view_of(message: &ViewsMessage) -> Option<ViewId> {
    match message {
        Msg::Data { view, .. } | Msg::Order { view, .. } => Some(*view),
        Msg::Collect { .. }
        | Msg::Report { .. }
        | Msg::Install { .. }
        | Msg::Refuse { .. }
        | Msg::Wish { .. } => None,
    }
}

impl Multicast for super::family::Views {
    const ABOUT: About = About {
        name: "views",
        title: "Views with virtual synchrony",
        paper: "Birman and Joseph, Exploiting virtual synchrony in distributed systems, SOSP (1987)",
        idea: "all who go from view to view deliver the same between",
        synchrony: Synchrony::Synchronous,
        cost: "n − 1, and 3(n − 1) for a new view",
        faults: "crashes, also of the leader and inside a step; not wrong suspicions",
        settings: &[EVERYONE, AnyElectionConfig::SETTING],
        mutants: &[Mutation::NoFlush.about(), Mutation::NoFreeze.about()],
        ..About::of("views", FAMILY)
    };

    fn configure(settings: &Settings, members: &Members) -> Result<AnyConfig, SettingError> {
        ViewsConfig::read(settings, members, false)
    }

    fn promises(_settings: &Settings) -> Promises {
        Promises { view: true, trusts: true, ..Promises::plain(Survives::Crashes) }
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("n − 1", n - 1)
    }
}
