//! The world of the checker once more: plain states that are cloned, hashed and compared whole, walked by stateright.
//!
//! Nothing is shared with the engine but the algorithms, their ledgers and the names of the options. What can happen in a
//! state is written down here a second time, as simply as it goes; where the two disagree, one of them is wrong.

#![allow(dead_code, unused_imports, reason = "tests and benches each use their part of it")]

mod scenario;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_algorithms::election::Electing;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::family::{EventOf, Family, MessageOf, RequestOf};
use conclave_algorithms::mutex::Locking;
use conclave_algorithms::mutex::{self, Locks};
use conclave_algorithms::{Breach, Ledger};
use conclave_check::{AskBudget, Budgets};
use conclave_core::{Boot, Effect, Floors, Incarnation, Input, Members, Message, NodeId, Protocol, Timing};
use stateright::{Model, Property};

pub use scenario::{Found, Scenario, Use, build, build_lock};

/// Everything that does not change.
pub struct System<F: Applied> {
    pub members: Members,
    pub config: <F::Protocol as Protocol>::Config,
    pub ledger: F::Ledger,
    /// Whether channels keep their order.
    pub fifo: bool,
    /// How many ticks a message travels at most, if time counts.
    pub ticks: Option<u16>,
    pub entries: AskBudget,
    pub budgets: Budgets,
    /// Whether crashes fall inside steps, too.
    pub cuts_steps: bool,
    /// Whether numbers that only grow are moved down.
    pub lowers: bool,
}

/// All processes, and all that is between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Protocol, L> {
    /// What a step does not touch is shared, as stateright's own actors do it.
    processes: Vec<Arc<Process<P>>>,
    /// By sender and receiver; in order of sending, or sorted if they may overtake each other.
    channels: Vec<Arc<Vec<Letter<P::Message>>>>,
    budgets: Budgets,
    ledger: Arc<L>,
    /// The promise that the last step has broken.
    broken: Option<&'static str>,
}

impl<P: Protocol, L> State<P, L> {
    /// A process that is about to change.
    fn process(&mut self, at: usize) -> &mut Process<P> {
        Arc::make_mut(&mut self.processes[at])
    }
}

pub type StateOf<F> = State<<F as Family>::Protocol, <F as Family>::Ledger>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process<P: Protocol> {
    /// Nothing while it is down.
    state: Option<P>,
    app: App,
    /// For each timer, in how many ticks it may and must run out.
    timers: BTreeMap<P::Timer, (u16, u16)>,
    life: Incarnation,
    durable: Option<P::Durable>,
    /// What its failure detector said last of each.
    heard: Vec<Heard>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter<M> {
    message: M,
    /// The life of its sender.
    life: Incarnation,
    /// Ticks left.
    left: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Heard {
    life: Incarnation,
    is_down: bool,
}

/// What an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct App {
    left: AskBudget,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Outside,
    Waiting,
    Inside,
    Gone,
}

/// A family whose applications behave in a known way.
pub trait Applied: Family<Protocol: Send + Sync, Ledger: Send + Sync> + 'static {
    /// What it may ask.
    fn wish(app: &App) -> Option<RequestOf<Self>>;
    /// Whether that is to give up.
    fn is_cancel(_request: &RequestOf<Self>) -> bool {
        false
    }
    /// It is told something.
    fn tell(_app: &mut App, _event: &EventOf<Self>) {}
    /// It asks.
    fn ask(app: &mut App, request: &RequestOf<Self>);
}

impl App {
    fn spend(&mut self) {
        match &mut self.left {
            AskBudget::Times(times) => *times -= 1,
            AskBudget::First => self.left = AskBudget::Times(0),
            AskBudget::Forever => {}
        }
    }
}

impl<A: Locks> Applied for Locking<A> {
    fn wish(app: &App) -> Option<A::Request> {
        let request = match app.stage {
            Stage::Outside if app.left != AskBudget::Times(0) => mutex::Request::Acquire,
            Stage::Waiting => mutex::Request::Cancel,
            Stage::Inside => mutex::Request::Release,
            Stage::Outside | Stage::Gone => return None,
        };
        Some(A::ask(0, request))
    }

    fn is_cancel(request: &A::Request) -> bool {
        A::asked(request).1 == mutex::Request::Cancel
    }

    fn tell(app: &mut App, event: &A::Event) {
        match A::told(event).1 {
            mutex::Event::Granted { .. } => app.stage = Stage::Inside,
            mutex::Event::Lost { .. } => app.stage = Stage::Outside,
            mutex::Event::Left => app.stage = Stage::Gone,
            mutex::Event::Refused(_) => {}
        }
    }

    fn ask(app: &mut App, request: &A::Request) {
        if A::asked(request).1 == mutex::Request::Acquire {
            app.spend();
            app.stage = Stage::Waiting;
        } else {
            app.stage = Stage::Outside;
        }
    }
}

impl<A: Election> Applied for Electing<A> {
    fn wish(app: &App) -> Option<election::Request> {
        (app.left != AskBudget::Times(0)).then_some(election::Request::Start)
    }

    fn tell(app: &mut App, _event: &election::Event) {
        if app.left == AskBudget::First {
            app.left = AskBudget::Times(0);
        }
    }

    fn ask(app: &mut App, _request: &election::Request) {
        app.spend();
    }
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Ask(usize),
    Expire(usize, usize),
    Notice {
        at: usize,
        about: usize,
    },
    Suspect {
        at: usize,
        about: usize,
    },
    Deliver(Place),
    Drop(Place),
    Duplicate(Place),
    Crash(usize),
    Restart(usize),
    Tick,
    /// The process of the nth of the others crashes in that step, after so many effects, and loses what it had sent in
    /// this way. Without a step it crashes and loses.
    CrashInside {
        at: usize,
        step: Option<usize>,
        after: usize,
        loss: usize,
    },
}

/// Where a message is: between whom, and how many are before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    from: usize,
    to: usize,
    nth: usize,
}

impl<F: Applied> System<F> {
    fn n(&self) -> usize {
        self.members.len()
    }

    fn channel(&self, from: usize, to: usize) -> usize {
        from * self.n() + to
    }

    fn boot(
        &self,
        at: usize,
        life: Incarnation,
        saved: Option<<F::Protocol as Protocol>::Durable>,
    ) -> F::Protocol {
        let transmission = |ticks| Duration::from_micros(u64::from(ticks));
        let timing = self.ticks.map_or_else(Timing::default, |ticks| Timing {
            transmission: transmission(ticks),
            processing: Duration::ZERO,
        });
        F::Protocol::boot(Boot {
            id: self.members.at(at),
            members: &self.members,
            config: &self.config,
            timing,
            life,
            saved,
        })
    }

    /// Everyone is up and has been started, one after the other.
    fn first(&self) -> StateOf<F> {
        let heard = Heard { life: Incarnation::FIRST, is_down: false };
        let process = |at| Process {
            state: Some(self.boot(at, Incarnation::FIRST, None)),
            app: App { left: self.entries, stage: Stage::Outside },
            timers: BTreeMap::new(),
            life: Incarnation::FIRST,
            durable: None,
            heard: vec![heard; self.n()],
        };
        let mut state = State {
            processes: (0..self.n()).map(process).map(Arc::new).collect(),
            channels: vec![Arc::default(); self.n() * self.n()],
            budgets: self.budgets,
            ledger: Arc::new(self.ledger.clone()),
            broken: None,
        };
        for at in 0..self.n() {
            self.handle(&mut state, at, Input::Start);
        }
        state
    }

    /// What a failure detector has to say about a peer, and what it is remembered to have said then.
    fn news(&self, state: &StateOf<F>, at: usize, about: usize) -> Option<(Heard, Input<F::Protocol>)> {
        let (heard, peer) = (state.processes[at].heard[about], &state.processes[about]);
        let is_new_life = heard.life < peer.life;
        let said = match (heard.is_down, peer.state.is_some()) {
            // An end must be told before anything of the next life.
            (false, true) if is_new_life => Heard { is_down: true, ..heard },
            (false, false) => Heard { is_down: true, ..heard },
            (true, true) => Heard { life: peer.life, is_down: false },
            (true, false) if is_new_life => Heard { life: peer.life, is_down: true },
            _ => return None,
        };
        let (peer, life) = (self.members.at(about), said.life);
        let input = if said.is_down { Input::PeerDown { peer, life } } else { Input::PeerUp { peer, life } };
        Some((said, input))
    }

    /// A process handles an input, and the world does what it wants done.
    fn handle(&self, state: &mut StateOf<F>, at: usize, input: Input<F::Protocol>) {
        self.handle_some(state, at, input, usize::MAX);
    }

    /// The same, with only so many of its effects carried out, timers aside. Says how many there were.
    fn handle_some(
        &self,
        state: &mut StateOf<F>,
        at: usize,
        input: Input<F::Protocol>,
        most: usize,
    ) -> usize {
        let mut effects: Vec<Effect<F::Protocol>> = Vec::new();
        let mut breaches = Vec::new();
        Arc::make_mut(&mut state.ledger).input(at, &input);
        let process = state.process(at).state.as_mut().expect("who is down handles nothing");
        process.handle(input, &mut effects);
        let is_timer = |effect: &Effect<_>| matches!(effect, Effect::Arm { .. } | Effect::Disarm(_));
        let mut count = 0;
        for effect in effects {
            count += usize::from(!is_timer(&effect));
            if count <= most {
                self.carry_out(state, at, effect, &mut breaches);
            }
        }
        let process = state.processes[at].state.as_ref().expect("it is still up");
        Arc::make_mut(&mut state.ledger).handled(at, process, &mut breaches);
        let promised = breaches.iter().find(|breach| breach.promised).map(|breach| breach.property);
        state.broken = promised.or_else(|| self.has_two_tokens(state).then_some("TOK"));
        count
    }

    fn carry_out(
        &self,
        state: &mut StateOf<F>,
        at: usize,
        effect: Effect<F::Protocol>,
        breaches: &mut Vec<Breach>,
    ) {
        let process = state.process(at);
        match effect {
            Effect::Save(durable) => process.durable = Some(durable),
            Effect::Send { to, message } => self.send(state, at, to, message),
            Effect::Arm { timer, after } => {
                let ticks = |span: Duration| span.as_micros().min(u128::from(u16::MAX)) as u16;
                let range = self.ticks.map_or((0, 0), |_| (ticks(after.min), ticks(after.max)));
                process.timers.insert(timer, range);
            }
            Effect::Disarm(timer) => {
                process.timers.remove(&timer);
            }
            Effect::Emit(event) => {
                F::tell(&mut process.app, &event);
                Arc::make_mut(&mut state.ledger).emit(at, &event, breaches);
            }
            Effect::Reject { from, why } => Arc::make_mut(&mut state.ledger).reject(at, from, why, breaches),
        }
    }

    /// Who is down gets nothing.
    fn send(&self, state: &mut StateOf<F>, from: usize, to: NodeId, message: MessageOf<F>) {
        let to = self.members.position(to).expect("messages go to members");
        assert_ne!(from, to, "nobody sends to itself");
        if state.processes[to].state.is_none() {
            return;
        }
        let letter = Letter { message, life: state.processes[from].life, left: self.ticks.unwrap_or(0) };
        let channel = Arc::make_mut(&mut state.channels[self.channel(from, to)]);
        channel.push(letter);
        self.settle(channel);
    }

    /// If messages may overtake each other, their order means nothing.
    fn settle(&self, channel: &mut [Letter<MessageOf<F>>]) {
        if !self.fifo {
            channel.sort();
        }
    }

    /// Whether there are several tokens of the latest epoch, although nobody has made copies of messages.
    fn has_two_tokens(&self, state: &StateOf<F>) -> bool {
        if !F::is_token_based(&self.config) || state.budgets.duplicates < self.budgets.duplicates {
            return false;
        }
        let held = state.processes.iter().filter_map(|process| F::token(process.state.as_ref()?));
        let carried = state
            .channels
            .iter()
            .flat_map(|channel| channel.iter())
            .filter_map(|letter| F::token_in(&letter.message));
        let mut tokens: Vec<_> = held.chain(carried).collect();
        tokens.sort();
        tokens.len() > 1 && tokens[tokens.len() - 2] == tokens[tokens.len() - 1]
    }

    fn take(&self, state: &mut StateOf<F>, place: Place) -> Letter<MessageOf<F>> {
        Arc::make_mut(&mut state.channels[self.channel(place.from, place.to)]).remove(place.nth)
    }

    fn list_letters(&self, state: &StateOf<F>, from: usize, to: usize, actions: &mut Vec<Action>) {
        let heard = state.processes[to].heard[from];
        let channel = &state.channels[self.channel(from, to)];
        for (nth, letter) in channel.iter().enumerate() {
            // Of equal neighbours it does not matter which; they are no different ways to go on.
            if nth > 0 && channel[nth - 1] == *letter {
                continue;
            }
            let place = Place { from, to, nth };
            let is_first = nth == 0 || !self.fifo;
            if is_first && (letter.life <= heard.life || heard.is_down) {
                actions.push(Action::Deliver(place));
            }
            if state.budgets.drops > 0 {
                actions.push(Action::Drop(place));
            }
            if state.budgets.duplicates > 0 {
                actions.push(Action::Duplicate(place));
            }
        }
    }

    fn list_own(&self, state: &StateOf<F>, at: usize, actions: &mut Vec<Action>) {
        let process = &state.processes[at];
        if process.state.is_none() {
            actions.extend((state.budgets.restarts > 0).then_some(Action::Restart(at)));
            return;
        }
        let wish = F::wish(&process.app).filter(|wish| !F::is_cancel(wish) || state.budgets.cancels > 0);
        actions.extend(wish.map(|_| Action::Ask(at)));
        let may_run_out = process.timers.values().enumerate().filter(|(_, (min, _))| *min == 0);
        actions.extend(may_run_out.map(|(nth, _)| Action::Expire(at, nth)));
        actions.extend((state.budgets.crashes > 0).then_some(Action::Crash(at)));
        for about in (0..self.n()).filter(|about| *about != at) {
            if self.news(state, at, about).is_some() {
                actions.push(Action::Notice { at, about });
            } else if state.budgets.suspicions > 0 && !process.heard[about].is_down {
                actions.push(Action::Suspect { at, about });
            }
            self.list_letters(state, about, at, actions);
        }
    }

    /// What may happen, but for crashes inside steps.
    fn list(&self, state: &StateOf<F>, actions: &mut Vec<Action>) {
        (0..self.n()).for_each(|at| self.list_own(state, at, actions));
        actions.extend(self.may_tick(state).then_some(Action::Tick));
    }

    /// Time passes if somebody waits for it and nothing is overdue.
    fn may_tick(&self, state: &StateOf<F>) -> bool {
        let timers = state.processes.iter().flat_map(|process| process.timers.values());
        let deadlines = timers.map(|(_, max)| *max);
        let letters = state.channels.iter().flat_map(|channel| channel.iter()).map(|letter| letter.left);
        self.ticks.is_some() && deadlines.chain(letters).min().is_some_and(|next| next > 0)
    }

    fn tick(state: &mut StateOf<F>) {
        let processes = state.processes.iter_mut().map(Arc::make_mut);
        for (min, max) in processes.flat_map(|process| process.timers.values_mut()) {
            *min = min.saturating_sub(1);
            *max -= 1;
        }
        for letter in state.channels.iter_mut().flat_map(Arc::make_mut) {
            letter.left -= 1;
        }
    }

    fn crash(&self, state: &mut StateOf<F>, at: usize) {
        state.budgets.crashes -= 1;
        Arc::make_mut(&mut state.ledger).crash(at);
        let process = state.process(at);
        process.state = None;
        process.timers.clear();
        process.heard.clear();
        process.app.stage = Stage::Outside;
        for from in 0..self.n() {
            state.channels[from * self.n() + at] = Arc::default();
        }
    }

    /// All ways to lose what a process has sent: of each channel a suffix, or anything where there is no order.
    fn losses(&self, state: &StateOf<F>, at: usize) -> usize {
        (0..self.n()).map(|to| self.ways(state.channels[self.channel(at, to)].len())).product()
    }

    fn ways(&self, len: usize) -> usize {
        if self.fifo { len + 1 } else { 1 << len }
    }

    fn lose(&self, state: &mut StateOf<F>, at: usize, mut loss: usize) -> bool {
        let mut loses = false;
        for to in 0..self.n() {
            let channel = Arc::make_mut(&mut state.channels[self.channel(at, to)]);
            let ways = self.ways(channel.len());
            let way = loss % ways;
            loss /= ways;
            loses |= way > 0;
            if self.fifo {
                channel.truncate(channel.len() - way);
            } else {
                let mut nth = 0;
                channel.retain(|_| {
                    nth += 1;
                    way >> (nth - 1) & 1 == 0
                });
            }
        }
        loses
    }

    /// Everything that a crash can do: it may fall after any number of effects of any step, and lose what was sent.
    fn list_crashes(&self, state: &StateOf<F>, actions: &mut Vec<Action>) {
        let steps = actions.clone();
        for (step, action) in steps.into_iter().enumerate() {
            let at = match action {
                Action::Ask(at) | Action::Expire(at, _) | Action::Restart(at) => at,
                Action::Notice { at, .. } | Action::Suspect { at, .. } => at,
                Action::Deliver(place) => place.to,
                Action::Crash(at) => {
                    let losses = 1..self.losses(state, at);
                    let inside = |loss| Action::CrashInside { at, step: None, after: 0, loss };
                    actions.extend(losses.map(inside));
                    continue;
                }
                Action::Drop(_) | Action::Duplicate(_) | Action::Tick | Action::CrashInside { .. } => {
                    continue;
                }
            };
            let effects = self.follow(&mut state.clone(), action, usize::MAX);
            for after in 0..effects {
                let mut cut = state.clone();
                self.follow(&mut cut, action, after);
                let inside = |loss| Action::CrashInside { at, step: Some(step), after, loss };
                actions.extend((0..self.losses(&cut, at)).map(inside));
            }
        }
    }

    fn restart(&self, state: &mut StateOf<F>, at: usize, most: usize) -> usize {
        state.budgets.restarts -= 1;
        let process = state.process(at);
        process.life = process.life.next();
        if self.budgets.amnesia {
            process.durable = None;
        }
        process.state = Some(self.boot(at, process.life, process.durable.clone()));
        let life = process.life;
        Arc::make_mut(&mut state.ledger).restart(at, life);
        let lives = state.processes.iter().map(|peer| Heard { life: peer.life, is_down: false });
        let heard = lives.collect();
        state.process(at).heard = heard;
        self.handle_some(state, at, Input::Start, most)
    }

    /// An action, with only so many effects of the step that it brings about. Says how many effects there were.
    fn follow(&self, state: &mut StateOf<F>, action: Action, most: usize) -> usize {
        match action {
            Action::Ask(at) => {
                let app = &mut state.process(at).app;
                let request = F::wish(app).expect("only who wants something asks");
                F::ask(app, &request);
                state.budgets.cancels -= u8::from(F::is_cancel(&request));
                self.handle_some(state, at, Input::Request(request), most)
            }
            Action::Expire(at, nth) => {
                let timers = &mut state.process(at).timers;
                let timer = timers.keys().nth(nth).expect("only what is armed runs out").clone();
                timers.remove(&timer);
                self.handle_some(state, at, Input::Expire(timer), most)
            }
            Action::Notice { at, about } => {
                let (said, input) = self.news(state, at, about).expect("only news are told");
                state.process(at).heard[about] = said;
                self.handle_some(state, at, input, most)
            }
            Action::Suspect { at, about } => {
                state.budgets.suspicions -= 1;
                let heard = &mut state.process(at).heard[about];
                heard.is_down = true;
                let (peer, life) = (self.members.at(about), heard.life);
                self.handle_some(state, at, Input::PeerDown { peer, life }, most)
            }
            Action::Deliver(place) => {
                let message = self.take(state, place).message;
                let from = self.members.at(place.from);
                self.handle_some(state, place.to, Input::Receive { from, message }, most)
            }
            Action::Drop(place) => {
                state.budgets.drops -= 1;
                self.take(state, place);
                Arc::make_mut(&mut state.ledger).disturb();
                0
            }
            Action::Duplicate(place) => {
                state.budgets.duplicates -= 1;
                let channel = Arc::make_mut(&mut state.channels[self.channel(place.from, place.to)]);
                let copy = channel[place.nth].clone();
                channel.insert(place.nth, copy);
                Arc::make_mut(&mut state.ledger).disturb();
                0
            }
            Action::Crash(at) => {
                self.crash(state, at);
                0
            }
            Action::Restart(at) => self.restart(state, at, most),
            Action::Tick => {
                Self::tick(state);
                0
            }
            Action::CrashInside { at, step, after, loss } => {
                if let Some(step) = step {
                    let mut actions = Vec::new();
                    self.list(state, &mut actions);
                    self.follow(state, actions[step], after);
                }
                let loses = self.lose(state, at, loss);
                self.crash(state, at);
                let ledger = Arc::make_mut(&mut state.ledger);
                if loses {
                    ledger.disturb();
                }
                ledger.unheard();
                0
            }
        }
    }

    /// Whether nothing moves any more unless somebody asks, or something fails.
    fn is_quiet(&self, state: &StateOf<F>) -> bool {
        let mut pairs = (0..self.n()).flat_map(|at| (0..self.n()).map(move |about| (at, about)));
        let has_news = |at: usize, about: usize| {
            at != about && state.processes[at].state.is_some() && self.news(state, at, about).is_some()
        };
        state.channels.iter().all(|channel| channel.is_empty())
            && state.processes.iter().all(|process| process.timers.is_empty())
            && !pairs.any(|(at, about)| has_news(at, about))
    }

    /// Whether that is how it should not end.
    fn is_dead_end(&self, state: &StateOf<F>) -> bool {
        let mut breaches = Vec::new();
        if self.is_quiet(state) {
            state.ledger.quiet(&mut breaches);
        }
        breaches.iter().any(|breach| breach.promised)
    }

    /// Moves numbers that only grow as far down as they go.
    fn lower(&self, state: &mut StateOf<F>) {
        let mut floors = Floors::default();
        self.visit_counters(state, &mut |counter| floors.meet(&counter));
        self.visit_counters(state, &mut |mut counter| floors.lower(&mut counter));
        state.channels.iter_mut().for_each(|channel| self.settle(Arc::<Vec<_>>::make_mut(channel)));
    }

    fn visit_counters(&self, state: &mut StateOf<F>, visit: &mut dyn FnMut(conclave_core::Counter<'_>)) {
        let processes = state.processes.iter_mut().map(Arc::make_mut);
        for process in processes.filter_map(|process| process.state.as_mut()) {
            process.visit_counters(visit);
        }
        let n = self.n();
        for (place, channel) in state.channels.iter_mut().enumerate() {
            for letter in Arc::make_mut(channel) {
                letter.message.visit_counters(self.members.at(place / n), &self.members, visit);
            }
        }
        Arc::make_mut(&mut state.ledger).visit_counters(visit);
    }
}

impl<F: Applied> Model for System<F> {
    type State = StateOf<F>;
    type Action = Action;

    fn init_states(&self) -> Vec<StateOf<F>> {
        vec![self.first()]
    }

    fn actions(&self, state: &StateOf<F>, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        self.list(state, actions);
        if self.cuts_steps && state.budgets.crashes > 0 {
            self.list_crashes(state, actions);
        }
    }

    fn next_state(&self, state: &StateOf<F>, action: Action) -> Option<StateOf<F>> {
        let mut next = state.clone();
        self.follow(&mut next, action, usize::MAX);
        if self.lowers {
            self.lower(&mut next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no step breaks a promise", |_, state: &StateOf<F>| state.broken.is_none()),
            Property::always("no dead end", |system: &Self, state| !system.is_dead_end(state)),
        ]
    }
}
