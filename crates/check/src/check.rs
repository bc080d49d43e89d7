//! From a setup to a report.

use std::time::{Duration, Instant};

use conclave_algorithms::application::AskBudget;
use conclave_algorithms::demand::{Demand, PlannedAsk, Who};
use conclave_algorithms::family::{self, Endless, Family, Prepared, Registered, Use, Wanted};
use conclave_algorithms::recorded::{self, SNAPSHOT};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Channels, Judge as _, Judgement, PropertyKind, SettingError, Synchrony};
use conclave_core::{Deviation, Members, NodeId, Reading};
use conclave_trace::{Block, Carry, Command, Script, Setup};

use crate::alone::{self, Alone};
use crate::explore::{Space, Typed};
use crate::graph::{Graph, Lasso};
use crate::lead::suspects;
use crate::model::{Budgets, Model, Terms};
use crate::path::Walk;
use crate::reduce::{MOST, Reduction};
use crate::rehearse::rehearse;
use crate::report::{Counterexample, Overtaking, Property, Report};
use crate::search::{Limits, Progress, Search, Stopped, Violation};

/// What to search, beyond the algorithm.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often each process asks.
    pub entries: AskBudget,
    /// Who may ask, or call an election, if not everyone.
    pub starters: Option<Vec<NodeId>>,
    /// Who begins a global snapshot, once for each time that it is named and at any moment.
    pub snapshots: Vec<NodeId>,
    /// What may go wrong.
    pub budgets: Budgets,
    /// Who may crash, if not everyone.
    pub mortals: Option<Vec<NodeId>>,
    /// Whether processes crash only between two steps, and everything that they sent is sent.
    pub atomic_steps: bool,
    /// Whose clocks are ahead or behind, and by how many nanoseconds. No time passes on them.
    pub clocks: Vec<(NodeId, i64)>,
    /// Whether failure detectors report crashes.
    pub detector: bool,
    /// Whether the order of grants is judged, too.
    pub order: bool,
    /// Whether runs without end are judged, too.
    pub liveness: bool,
    /// Whether steps that commute are followed in one order only. Not together with liveness.
    pub reduce: bool,
    /// With `reduce`: whether steps commute is seen from what they do, not from where they happen, wherever the family lets
    /// that be seen. Fewer states, and more time for each.
    pub by_effect: bool,
    /// Whether timers expire at any moment although the algorithm relies on time.
    pub untimed: bool,
    /// Ticks that a message takes at most. If nothing is said, one where the algorithm relies on time, and else time is
    /// not counted.
    pub ticks: Option<u16>,
    /// How many threads search.
    pub threads: usize,
    /// When to stop.
    pub limits: Limits,
    /// Commands of a recorded run, which lead to where the search begins. What they spend does not count.
    pub lead: Vec<Command>,
    /// Whether the invariants of a process are asserted after each of its steps; in tests they always are.
    pub paranoid: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            entries: AskBudget::Times(1),
            starters: None,
            snapshots: Vec::new(),
            budgets: Budgets::default(),
            mortals: None,
            atomic_steps: false,
            clocks: Vec::new(),
            detector: true,
            order: false,
            liveness: true,
            reduce: false,
            by_effect: false,
            untimed: false,
            ticks: None,
            threads: 1,
            limits: Limits::default(),
            lead: Vec::new(),
            paranoid: false,
        }
    }
}

/// Why something cannot be searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// There is no such algorithm.
    #[error("there is no algorithm '{0}'")]
    UnknownAlgorithm(String),
    /// It cannot be set up so.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// It cannot be searched so.
    #[error("{0}")]
    Unfit(String),
}

/// The most processes that a search takes.
pub const MOST_PROCESSES: usize = 14;

/// Searches all runs of the algorithm, settings and mutant that a setup names.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up or searched so.
pub fn check(
    setup: &Setup,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Report, CheckError> {
    fits(setup, options)?;
    struct Named<'a>(&'a Setup, &'a Options, &'a mut dyn FnMut(&Progress));
    impl Visitor for Named<'_> {
        type Output = Result<Report, CheckError>;

        fn visit<R: Registered>(self) -> Self::Output {
            let Self(setup, options, watch) = self;
            R::prepare(&mut wanted(setup, options), Checker { setup, options, watch })?
        }
    }
    if recorded::is_wanted(&setup.settings) {
        // What stands around an algorithm is compiled once, for all of them.
        let prepared = conclave_erased::prepare_recorded(&setup.algorithm, &mut wanted(setup, options));
        let unknown = || CheckError::UnknownAlgorithm(setup.algorithm.clone());
        return Checker { setup, options, watch }.with(prepared.ok_or_else(unknown)??);
    }
    let found = registry::visit(&setup.algorithm, Named(setup, options, watch));
    found.ok_or_else(|| CheckError::UnknownAlgorithm(setup.algorithm.clone()))?
}

/// Searches all runs of an algorithm that no registry has to know: `check_algorithm::<mutex::Of<MyLock>>`.
///
/// # Errors
/// If it cannot be set up or searched so.
pub fn check_algorithm<R: Registered>(
    setup: &Setup,
    options: &Options,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Report, CheckError> {
    fits(setup, options)?;
    family::prepare::<R, _>(&mut wanted(setup, options), Checker { setup, options, watch })?
}

/// What is wanted of the algorithm.
fn wanted<'a>(setup: &'a Setup, options: &Options) -> Wanted<'a> {
    let Budgets { crashes, suspicions, .. } = options.budgets;
    let failures = crashes > 0 || suspicions > 0;
    let snapshot = |process: &NodeId| PlannedAsk { at: 0, who: Who::One(*process), words: SNAPSHOT.into() };
    Wanted {
        mutant: setup.mutant.as_deref(),
        channels: setup.channels.as_deref().and_then(Channels::named),
        locks: setup.locks,
        failures,
        faulty: failures,
        order: options.order,
        forever: options.entries == AskBudget::Forever,
        suspicions: suspicions > 0 || suspects(&options.lead),
        demand: Demand { asks: options.snapshots.iter().map(snapshot).collect(), ..Demand::default() },
        ..Wanted::new(&setup.nodes, &setup.settings)
    }
}

fn fits(setup: &Setup, options: &Options) -> Result<(), CheckError> {
    let unfit = |why: String| Err(CheckError::Unfit(why));
    let n = setup.nodes.len();
    if n == 0 || n > MOST_PROCESSES {
        return unfit(format!("the checker takes 1 to {MOST_PROCESSES} processes, not {n}"));
    }
    if setup.locks != 1 {
        return unfit("the checker takes one lock".into());
    }
    if options.reduce && options.liveness {
        return unfit("runs without end cannot be judged from a reduced search".into());
    }
    if options.reduce && options.order {
        return unfit("the order of grants cannot be judged from a reduced search".into());
    }
    if options.reduce && n > MOST {
        return unfit(format!("the reduction takes up to {MOST} processes"));
    }
    Ok(())
}

struct Checker<'a> {
    setup: &'a Setup,
    options: &'a Options,
    watch: &'a mut dyn FnMut(&Progress),
}

impl Use for Checker<'_> {
    type Output = Result<Report, CheckError>;
    const SEVERAL: bool = false;
    const TYPED: bool = true;

    fn with<F: Family>(self, prepared: Prepared<F>) -> Self::Output {
        let Prepared { about, judge, overtaking, settings, .. } = &prepared;
        let (claims, bound) = (judge.judgements(), *overtaking);
        // What was decided about recovery belongs into a counterexample.
        // And so do processes that its family adds, which a script must name.
        let nodes = prepared.members.iter().collect();
        let setup = Setup { settings: settings.clone(), nodes, ..self.setup.clone() };
        let options = self.options;
        let usual = (about.synchrony_with(settings) == Synchrony::Synchronous).then_some(1);
        let budgets = self.budgets(&prepared.members, F::has_application);
        let grows = budgets.contains(&AskBudget::Forever) || prepared.normalises;
        let is_mortal = |id: NodeId| options.mortals.as_ref().is_none_or(|mortals| mortals.contains(&id));
        let ahead = |id: NodeId| options.clocks.iter().rev().find(|(process, _)| *process == id);
        let reading = |id: NodeId| ahead(id).map_or(Reading::ZERO, |(_, offset)| Reading(*offset));
        let terms = Terms {
            fifo: prepared.fifo,
            mortal: prepared.members.iter().map(is_mortal).collect(),
            clocks: prepared.members.iter().map(reading).collect(),
            ticks: options.ticks.or(usual).filter(|_| !options.untimed),
            budgets: options.budgets,
            cuts_steps: !options.atomic_steps && options.budgets.crashes > 0,
            detector: options.detector,
            order: options.order,
            // A new life begins at zero, wherever the numbers of the others have been moved to.
            normalise: grows && prepared.can_normalise && options.budgets.restarts == 0,
            entries: budgets,
            lead: options.lead.clone(),
            members: prepared.members,
            paranoid: options.paranoid || cfg!(debug_assertions),
            counts_tokens: !options.lead.iter().any(copies),
        };
        let model = Model::<F> { terms, config: prepared.config, ledger: prepared.ledger };
        let space = Box::new(Typed::new(model));
        Checker { setup: &setup, options, watch: &mut *self.watch }.search(space, &claims, bound)
    }
}

impl Checker<'_> {
    /// How often each process asks, by place.
    fn budgets(&self, members: &Members, has_application: fn(NodeId) -> bool) -> Vec<AskBudget> {
        let starters = self.options.starters.as_ref();
        let asks = |id: NodeId| has_application(id) && starters.is_none_or(|some| some.contains(&id));
        let times = |id| if asks(id) { self.options.entries } else { AskBudget::Times(0) };
        members.iter().map(times).collect()
    }

    fn search(
        self,
        space: Box<dyn Space>,
        claims: &[Judgement],
        bound: Option<u64>,
    ) -> Result<Report, CheckError> {
        if let Some(why) = misled(&*space) {
            return Err(CheckError::Unfit(why));
        }
        let started = Instant::now();
        let options = self.options;
        let mut examined = examine(space, options, self.watch);
        let took = started.elapsed();
        let counterexample = examined.counterexample(self.setup);
        let Examined { search, lasso, .. } = &examined;
        let property =
            |claim: &Judgement| judged(claim, search, lasso.as_ref().map(|(name, ..)| *name), options);
        Ok(Report {
            algorithm: self.setup.algorithm.clone(),
            nodes: self.setup.nodes.len(),
            mutant: self.setup.mutant.clone(),
            entries: options.entries,
            failures: in_words(options),
            network: network(search.terms()),
            ticks: search.terms().ticks,
            states: search.states.len(),
            transitions: search.transitions,
            // What is followed once more does not count as farther.
            depth: match search.alone {
                Some(_) => search.states.farthest(),
                None => search.depth.saturating_sub(1),
            },
            assumes: assumptions(search.terms(), options),
            complete: search.stopped.is_none() && counterexample.is_none(),
            incomplete: search.stopped.filter(|_| counterexample.is_none()),
            reduced: options.reduce,
            normalised: search.terms().normalise,
            threads: options.threads,
            memory: search.bytes(),
            wall_seconds: took.as_secs_f64(),
            states_per_second: (search.states.len() as f64 / took.as_secs_f64().max(1e-9)).round(),
            properties: claims.iter().map(property).collect(),
            coverage: search.met().coverage(search.space.sights(), &options.budgets),
            overtaking: options.order.then(|| Overtaking { most: search.overtaking(), bound }),
            counterexample,
        })
    }
}

/// Why a search cannot be led to where it is to begin.
fn misled(space: &dyn Space) -> Option<String> {
    if space.terms().lead.is_empty() {
        return None;
    }
    if space.terms().ticks.is_some() {
        return Some("a recorded run cannot be counted in ticks; search it untimed".into());
    }
    let misled = Search::new(space.afresh(), 1, false, None).misled;
    misled.map(|why| format!("the recorded run cannot be followed: {why}"))
}

/// A finished search.
struct Examined {
    search: Search,
    /// A run without end that breaks a promise: which, how, and the run.
    lasso: Option<(&'static str, String, Lasso)>,
}

/// How many states are searched before runs without end are looked for the first time.
const FIRST_LOOK: usize = 20_000;

fn examine(space: Box<dyn Space>, options: &Options, watch: &mut dyn FnMut(&Progress)) -> Examined {
    let mut search = match options.reduce {
        true if options.by_effect && alone::is_possible(&*space) => {
            let search = one_by_one(space, options, watch);
            return Examined { search, lasso: None };
        }
        true => return Examined { search: reduced(&*space, options, watch), lasso: None },
        false => Search::new(space, options.threads, options.liveness, None),
    };
    let mut look = FIRST_LOOK;
    loop {
        let enough = options.limits.states.unwrap_or(usize::MAX);
        let states = if options.liveness { Some(look.min(enough)) } else { options.limits.states };
        search.run(&Limits { states, ..options.limits.clone() }, watch);
        if search.violation.is_some() || !options.liveness {
            return Examined { search, lasso: None };
        }
        let lasso = endless(&search);
        if lasso.is_some() || search.stopped != Some(Stopped::States) || look >= enough {
            return Examined { search, lasso };
        }
        look = look.saturating_mul(10);
    }
}

/// A run without end that breaks a promise.
fn endless(search: &Search) -> Option<(&'static str, String, Lasso)> {
    let graph = search.graph.as_ref()?;
    match search.space.endless() {
        Endless::Never(property) => {
            let lasso = graph.fair_lasso(|_| true)?;
            Some((property, "messages circulate forever".into(), lasso))
        }
        Endless::NobodyStarves(property) => starved(search, graph, property),
        Endless::SomebodyEnters { progress, starvation } => {
            let places = 0..search.terms().n();
            let is_futile = |state| {
                places.clone().any(|place| search.is_waiting(state, place))
                    && !places.clone().any(|place| search.is_inside(state, place))
            };
            match graph.fair_lasso(is_futile) {
                Some(lasso) => Some((progress, "somebody waits, and nobody ever gets in".into(), lasso)),
                None => starved(search, graph, starvation),
            }
        }
    }
}

/// A run without end in which one process waits all the time.
fn starved(search: &Search, graph: &Graph, property: &'static str) -> Option<(&'static str, String, Lasso)> {
    let of = |place: usize| Some((graph.fair_lasso(|state| search.is_waiting(state, place))?, place));
    let found = (0..search.terms().n()).filter_map(of);
    let (lasso, place) = found.min_by_key(|(lasso, place)| (lasso.start, *place))?;
    let who = search.terms().members.at(place);
    Some((property, format!("{who} waits forever, and everything that can go on goes on"), lasso))
}

/// Searches with deliveries followed alone wherever nothing can tell.
fn one_by_one(space: Box<dyn Space>, options: &Options, watch: &mut dyn FnMut(&Progress)) -> Search {
    let mut search = Search::new(space, options.threads, false, None);
    search.alone = Some(Alone::new(&*search.space));
    search.run(&options.limits, watch);
    search
}

/// Searches with commuting steps left out, after a few runs to learn from; and again whenever somebody turns out to send
/// to whom nobody knew it sends.
fn reduced(space: &dyn Space, options: &Options, watch: &mut dyn FnMut(&Progress)) -> Search {
    let started = Instant::now();
    let mut reduction = Reduction::default();
    let begin = |reduction: &Reduction| {
        let mut search = Search::new(space.afresh(), options.threads, false, Some(reduction.clone()));
        search.started = started;
        search
    };
    rehearse(&mut begin(&reduction), &mut reduction);
    loop {
        let mut search = begin(&reduction);
        search.run(&options.limits, watch);
        if !search.is_surprised {
            return search;
        }
        reduction = search.reduction.take().expect("the search was reduced");
        rehearse(&mut search, &mut reduction);
    }
}

impl Examined {
    fn counterexample(&mut self, setup: &Setup) -> Option<Counterexample> {
        if let Some(violation) = self.search.violation.clone() {
            return Some(self.broken(setup, &violation));
        }
        let (property, detail, lasso) = self.lasso.clone()?;
        let way = self.search.states.way_to(lasso.start);
        let mut walk = Walk::new(&mut self.search);
        way.iter().for_each(|(state, nth)| walk.step(*state, *nth));
        walk.begin_circle();
        let (led, stem) = (walk.led(), walk.commands.len() - 1);
        lasso.circle.iter().for_each(|(state, nth)| walk.step(*state, *nth));
        walk.commands.push(Command::Again);
        let commands = core::mem::take(&mut walk.commands);
        let circle = commands.len() - stem - 2;
        let script = write(setup, property, &detail, commands, led, None, &self.clocks());
        Some(Counterexample {
            property,
            detail,
            steps: stem - led,
            circle: Some(circle),
            unavoidable_after: None,
            script,
        })
    }

    fn broken(&mut self, setup: &Setup, violation: &Violation) -> Counterexample {
        let Violation { state, action, broken } = violation;
        let way = self.search.states.way_to(*state);
        let unavoidable = self.unavoidable(&way, *state);
        let mut walk = Walk::new(&mut self.search);
        let led = walk.led();
        let mut marks = Vec::new();
        for (state, nth) in way.iter().copied().chain(action.map(|nth| (*state, nth))) {
            marks.push(walk.commands.len());
            walk.step(state, nth);
        }
        let mut commands = core::mem::take(&mut walk.commands);
        let steps = commands.len();
        if action.is_none() {
            commands.push(Command::Settle);
        }
        let unavoidable_after = unavoidable.map(|place| marks.get(place).copied().unwrap_or(steps));
        let clocks = self.clocks();
        let script = write(setup, broken.property, &broken.detail, commands, led, unavoidable_after, &clocks);
        Counterexample {
            property: broken.property,
            detail: broken.detail.clone(),
            steps: steps - led,
            circle: None,
            unavoidable_after: unavoidable_after.map(|after| after - led),
            script,
        }
    }

    /// What sets the clocks as they are in this search.
    fn clocks(&self) -> Vec<Command> {
        let Terms { members, clocks, .. } = self.search.terms();
        let wrong = members.iter().zip(clocks).filter(|(_, reading)| **reading != Reading::ZERO);
        let set = |(process, reading): (NodeId, &Reading)| {
            let deviation = Deviation { offset: reading.0, drift: 0 };
            Command::Clock { process, deviation, at: None }
        };
        wrong.map(set).collect()
    }

    /// After how many steps of the way the breaking can no longer be avoided, if everything can be seen.
    fn unavoidable(&self, way: &[(u32, u16)], last: u32) -> Option<usize> {
        self.search.graph.as_ref()?;
        let doomed = self.search.doomed(MOST_EXPLAINED)?;
        let states = way.iter().map(|(state, _)| *state).chain([last]);
        let first = states.into_iter().position(|state| doomed[state as usize]);
        Some(first.unwrap_or(way.len() + 1))
    }
}

/// States up to which a search goes on only to tell when a failure could no longer be avoided.
const MOST_EXPLAINED: usize = 300_000;

/// The script of a counterexample: first, in one block, what had been recorded; then a block per command.
fn write(
    setup: &Setup,
    property: &str,
    detail: &str,
    mut commands: Vec<Command>,
    led: usize,
    unavoidable: Option<usize>,
    clocks: &[Command],
) -> Script {
    let mut about = vec![format!("{} breaks {property}: {detail}.", setup.algorithm)];
    let mut blocks = vec![block(&mut about, Command::Run(setup.clone()))];
    blocks.extend(clocks.iter().map(|command| block(&mut about, command.clone())));
    let found = commands.split_off(led);
    if led > 0 {
        let commands = commands.into_iter().map(|command| (command, 0)).collect();
        let comments = vec!["As it was recorded.".into()];
        blocks.push(Block { comments, commands, recorded: Vec::new() });
        about.push("Here the search begins.".into());
    }
    for (nth, command) in (led..).zip(found) {
        if unavoidable == Some(nth) {
            about.push("From here on it can no longer be avoided.".into());
        }
        if command == Command::Loop {
            about.push("From here on it repeats forever.".into());
        }
        blocks.push(block(&mut about, command));
    }
    Script { blocks }
}

fn block(comments: &mut Vec<String>, command: Command) -> Block {
    Block { comments: core::mem::take(comments), commands: vec![(command, 0)], recorded: Vec::new() }
}

fn judged(claim: &Judgement, search: &Search, endless: Option<&'static str>, options: &Options) -> Property {
    let Judgement { property: name, kind, claim, promised, .. } = *claim;
    let broken = search.violation.as_ref().filter(|violation| violation.broken.property == name);
    let (holds, detail) = if let Some(violation) = broken {
        (Some(false), violation.broken.detail.clone())
    } else if endless == Some(name) {
        (Some(false), "a fair run goes on forever without it".into())
    } else if search.unpromised().contains(name) {
        (Some(false), "broken, and not promised".into())
    } else if search.space.leaves_out(name) {
        (None, "not judged in a search where it is not promised".into())
    } else if let Some(why) = unjudged(kind, search.terms(), options) {
        (None, why.into())
    } else if let Some(why) = search.stopped {
        (None, format!("not broken in what was seen; {why}"))
    } else if search.violation.is_some() || endless.is_some() {
        (None, "the search ended before".into())
    } else {
        (Some(true), String::new())
    };
    Property { name, claim, promised, holds, detail }
}

/// Why a property is not judged, or not in every run.
fn unjudged(kind: PropertyKind, terms: &Terms, options: &Options) -> Option<&'static str> {
    let Budgets { suspicions, duplicates, .. } = options.budgets;
    match kind {
        PropertyKind::Safety => None,
        PropertyKind::Time => Some("a matter of time: see the simulator"),
        PropertyKind::Order if !options.order => Some("not judged"),
        PropertyKind::Order if !options.budgets.is_faultless() => {
            Some("judged only before the first failure")
        }
        PropertyKind::Order => None,
        PropertyKind::Liveness if !options.liveness => Some("not judged"),
        PropertyKind::Liveness => None,
        PropertyKind::Resource if suspicions == 0 => Some("not judged where nobody is wrongly suspected"),
        PropertyKind::Resource => None,
        PropertyKind::Tokens if !terms.counts_tokens => Some("not judged after a doubled message"),
        PropertyKind::Tokens if duplicates > 0 => Some("judged only before the first doubled message"),
        PropertyKind::Tokens => None,
    }
}

/// Whether the network makes a copy of a message in a command.
fn copies(command: &Command) -> bool {
    matches!(command, Command::Carry { what: Carry::Duplicate, .. })
}

/// What the verdicts of a search rely on.
fn assumptions(terms: &Terms, options: &Options) -> Vec<String> {
    let Budgets { crashes, drops, duplicates, suspicions, .. } = options.budgets;
    let detector = match (crashes, suspicions) {
        (0, 0) => "nobody crashes",
        (_, 0) if !terms.detector => "no crash is reported",
        (_, 0) => "every crash is reported, and nobody else is suspected",
        (0, _) => "nobody crashes, and who is suspected is trusted again",
        (_, _) => "every crash is reported, and who is wrongly suspected is trusted again",
    };
    let channels = match (drops, duplicates) {
        (0, 0) => "no message is lost or doubled",
        (_, 0) => "no message is doubled",
        (0, _) => "no message is lost",
        (_, _) => "",
    };
    let time = terms.ticks.map(|ticks| {
        let unit = if ticks == 1 { "tick" } else { "ticks" };
        format!("messages take at most {ticks} {unit}, steps no time, and timers are exact")
    });
    let untimed = (options.untimed && options.liveness)
        .then_some("a timer that is always armed expires at last, even if it is armed anew again and again");
    let steps = (crashes > 0 && !terms.cuts_steps).then_some("crashes fall between steps");
    let storage = (crashes > 0 && !options.budgets.amnesia).then_some("what was saved is kept");
    let words = [Some(detector), Some(channels).filter(|words| !words.is_empty()), steps, storage, untimed];
    words.into_iter().flatten().map(str::to_owned).chain(time).collect()
}

fn in_words(options: &Options) -> String {
    let Options { atomic_steps, detector, .. } = *options;
    let Budgets { crashes, restarts, amnesia, drops, duplicates, suspicions, cancels } = options.budgets;
    let count = |count: u8, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let all = [
        count(crashes, "crash", "crashes"),
        (crashes > 0 && atomic_steps).then(|| "between steps only".into()),
        count(restarts, "restart", "restarts"),
        (amnesia && restarts > 0).then(|| "with amnesia".into()),
        (crashes > 0 && !detector).then(|| "no failure detector".into()),
        count(drops, "lost message", "lost messages"),
        count(duplicates, "doubled message", "doubled messages"),
        count(suspicions, "wrong suspicion", "wrong suspicions"),
        count(cancels, "request given up", "requests given up"),
    ];
    let words: Vec<String> = all.into_iter().flatten().collect();
    if words.is_empty() { "nothing fails".into() } else { words.join(", ") }
}

fn network(terms: &Terms) -> String {
    let order = if terms.fifo { "channels keep their order" } else { "messages arrive in any order" };
    match terms.ticks {
        Some(1) => format!("{order}, within 1 tick"),
        Some(ticks) => format!("{order}, within {ticks} ticks"),
        None => format!("{order}, at any time"),
    }
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory limit reached",
            Self::Depth => "depth limit reached",
            Self::Time => "time limit reached",
            Self::States => "state limit reached",
            Self::Crowded => "states with too many messages in flight were not followed",
            Self::Interrupted => "interrupted",
        })
    }
}

impl serde::Serialize for Stopped {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Default for Limits {
    /// Half a gibibyte, and as long as it takes.
    fn default() -> Self {
        Self {
            memory: 1 << 29,
            depth: None,
            time: None::<Duration>,
            states: None,
            in_flight: None,
            interrupt: None,
        }
    }
}
