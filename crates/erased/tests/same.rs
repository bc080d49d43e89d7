//! An algorithm does the same whether its types are erased or not, and it looks the same from outside.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use conclave_algorithms::erased::{Erased, ErasedConfig};
use conclave_algorithms::family::{Family, Prepared, Registered, Use, Wanted};
use conclave_algorithms::mutex::{self, Locking, Mutex};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{About, Algorithm, Arena, Named, NamedConfig, Recovering, SettingError};
use conclave_core::{Boot, Effect, Incarnation, Input, Members, Message as _, NodeId, Protocol, Timing};

/// Steps after which an algorithm that never rests is left alone.
const STEPS: usize = 400;

/// A value as it prints, and as it hashes.
fn seen<T: Debug + Hash>(value: &T) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{value:?} {:016x}", hasher.finish())
}

/// A run in which everyone asks, messages arrive in the order of sending, and timers expire when nothing else moves.
struct Run<P: Protocol> {
    states: Vec<P>,
    members: Members,
    messages: VecDeque<(NodeId, NodeId, P::Message)>,
    timers: VecDeque<(NodeId, P::Timer)>,
    durables: Vec<P::Durable>,
    transcript: Vec<String>,
}

impl<P: Protocol> Run<P> {
    fn new(members: &Members, config: &P::Config) -> Self {
        let boot = |id| {
            let (timing, life) = (Timing::default(), Incarnation::FIRST);
            P::boot(Boot { id, members, config, timing, life, saved: None })
        };
        Self {
            states: members.iter().map(boot).collect(),
            members: members.clone(),
            messages: VecDeque::new(),
            timers: VecDeque::new(),
            durables: Vec::new(),
            transcript: Vec::new(),
        }
    }

    fn step(&mut self, process: NodeId, input: Input<P>) {
        let place = self.members.position(process).expect("a member");
        self.transcript.push(format!("{process}: {}", seen(&input)));
        let mut effects = Vec::new();
        self.states[place].handle(input, &mut effects);
        for effect in effects {
            self.transcript.push(seen(&effect));
            match effect {
                Effect::Send { to, message } => {
                    let json = serde_json::to_string(&message).expect("plain data");
                    let (kind, is_overhead) = (message.kind(), message.is_overhead());
                    self.transcript.push(format!("{kind} {is_overhead} {json}"));
                    self.messages.push_back((process, to, message));
                }
                Effect::Arm { timer, .. } => {
                    self.timers.retain(|armed| *armed != (process, timer.clone()));
                    self.timers.push_back((process, timer));
                }
                Effect::Disarm(timer) => self.timers.retain(|armed| *armed != (process, timer.clone())),
                Effect::Save(durable) => {
                    self.transcript.push(serde_json::to_string(&durable).expect("plain data"));
                    self.durables.push(durable);
                }
                Effect::Emit(_) | Effect::Reject { .. } => {}
            }
        }
        let state = &self.states[place];
        state.assert_invariants();
        self.transcript.push(format!("{} {}", state.phase().name, seen(state)));
    }

    /// Runs to the end, or for long enough.
    fn go(&mut self, request: &P::Request) {
        for process in self.members.clone().iter() {
            self.step(process, Input::Start);
        }
        for process in self.members.clone().iter() {
            self.step(process, Input::Request(request.clone()));
        }
        for _ in 0..STEPS {
            if let Some((from, to, message)) = self.messages.pop_front() {
                self.step(to, Input::Receive { from, message });
            } else if let Some((process, timer)) = self.timers.pop_front() {
                self.step(process, Input::Expire(timer));
            } else {
                break;
            }
        }
        // What the checker does to states and messages.
        for state in &mut self.states {
            let mut count = 0;
            state.visit_counters(&mut |_| count += 1);
            self.transcript.push(format!("{count} counters"));
        }
    }
}

/// What is asked first of a family.
fn words(about: &About) -> &'static str {
    about.family.requests[0].traced
}

struct Typed;

impl Use for Typed {
    type Output = Vec<String>;
    const SEVERAL: bool = true;
    const TYPED: bool = true;

    fn with<F: Family>(self, prepared: Prepared<F>) -> Vec<String> {
        let mut run = Run::<F::Protocol>::new(&prepared.members, &prepared.config);
        run.go(&F::parse(words(prepared.about), prepared.locks - 1).expect("it is listed"));
        run.transcript
    }
}

fn typed(name: &str, mut wanted: Wanted<'_>) -> Result<Vec<String>, SettingError> {
    struct Named<'a, 'b>(&'a mut Wanted<'b>);
    impl Visitor for Named<'_, '_> {
        type Output = Result<Vec<String>, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            R::prepare(self.0, Typed)
        }
    }
    registry::visit(name, Named(&mut wanted)).expect("it is registered")
}

fn erased(name: &str, mut wanted: Wanted<'_>) -> Result<Run<Erased>, SettingError> {
    let is_live = wanted.arena == Arena::Live;
    let prepared = conclave_erased::prepare(name, &mut wanted).expect("it is registered")?;
    let mut run = Run::<Erased>::new(&prepared.members, &prepared.config);
    run.go(&prepared.request(words(prepared.about), prepared.locks - 1)?);
    if is_live {
        read_back(&run, &prepared.config);
    }
    Ok(run)
}

/// Messages and durable values can be read again by whoever knows the algorithm.
fn read_back(run: &Run<Erased>, config: &ErasedConfig) {
    for (_, _, message) in &run.messages {
        let bytes = postcard::to_allocvec(message).expect("plain data");
        assert_eq!(config.read_message(&bytes).as_ref(), Some(message));
        assert_eq!(config.read_message(&[&bytes[..], &[0]].concat()), None);
    }
    for durable in &run.durables {
        let bytes = postcard::to_allocvec(durable).expect("plain data");
        assert_eq!(config.read_durable(&bytes).as_ref(), Some(durable));
    }
    assert_eq!(config.read_message(&[0xff; 3]), None);
}

#[test]
fn an_erased_algorithm_does_and_looks_the_same() {
    let (nodes, none) = ([1, 2, 3].map(NodeId), BTreeMap::new());
    for about in registry::all() {
        let (lab, live) = (Arena::Laboratory, Arena::Live);
        for (locks, failures, arena) in
            [(1, false, lab), (1, true, lab), (2, false, lab), (2, true, lab), (1, true, live)]
        {
            let wanted = || Wanted { locks, failures, arena, ..Wanted::new(&nodes, &none) };
            match (typed(about.name, wanted()), erased(about.name, wanted())) {
                (Ok(typed), Ok(erased)) => {
                    assert!(typed.len() > 12, "{} does something", about.name);
                    assert_eq!(typed, erased.transcript, "{}, {locks} locks", about.name);
                }
                (typed, erased) => assert_eq!(typed.err(), erased.err(), "{}", about.name),
            }
        }
    }
}

/// What a lock does in a group that recovers and beside another lock, with its types.
struct Around<'a, 'b>(&'a Wanted<'b>);

impl mutex::Visitor for Around<'_, '_> {
    type Output = [Vec<String>; 2];

    fn visit<A: Mutex + Algorithm>(self) -> Self::Output {
        let Prepared { members, config, .. } = mutex::prepared::<A>(self.0).expect("it can be set up so");
        let request = Locking::<Named<A>>::parse("acquire", 1).expect("it is listed");
        let mut several = Run::<Named<A>>::new(&members, &NamedConfig::new(config));
        several.go(&request);
        let Prepared { config, .. } = mutex::prepared::<Recovering<A>>(self.0).expect("it can be set up so");
        let mut recovering = Run::<Recovering<A>>::new(&members, &config);
        recovering.go(&Locking::<A>::parse("acquire", 0).expect("it is listed"));
        [several.transcript, recovering.transcript]
    }
}

#[test]
fn a_lock_in_a_box_does_and_looks_the_same() {
    let (nodes, none) = ([1, 2, 3].map(NodeId), BTreeMap::new());
    for about in mutex::all() {
        let wanted = |locks, failures| Wanted { locks, failures, ..Wanted::new(&nodes, &none) };
        let [several, recovering] =
            mutex::visit(about.name, Around(&wanted(1, false))).expect("it is listed");
        assert!(several.len() > 12 && recovering.len() > 12, "{} does something", about.name);
        let boxed = |wanted| erased(about.name, wanted).expect("it can be set up so").transcript;
        assert_eq!(several, boxed(wanted(2, false)), "{} beside another lock", about.name);
        assert_eq!(recovering, boxed(wanted(1, true)), "{} in a group that recovers", about.name);
    }
}

#[test]
fn an_algorithm_that_does_not_exist_is_not_prepared() {
    let (nodes, none) = ([NodeId(1)], BTreeMap::new());
    assert!(conclave_erased::prepare("nobody", &mut Wanted::new(&nodes, &none)).is_none());
}
