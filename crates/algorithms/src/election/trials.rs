//! Trials that every election on a ring must pass: counts, mutants, and storms of crashes.

use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::println;

use conclave_core::{Incarnation, Input, Members, Message as _, NodeId};

use super::{Election, Properties, Request, Tally};
use crate::testing::{Dice, World};
use crate::{Arena, Ending, Finding, Judge, Settings};

/// A world of an election with its judge.
pub type Judged<A> = World<A, Properties<A>>;

/// The configuration that these settings make.
pub fn config<A: Election>(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> A::Config {
    let about = const { &A::ABOUT };
    let settings = Settings::new(about, Arena::Laboratory, given.iter().copied(), mutant);
    A::configure(&settings.expect("declared settings"), members).expect("they fit")
}

/// These processes in this order.
pub fn ring(ids: &[u32]) -> Members {
    Members::listed(ids.iter().map(|id| NodeId(*id)).collect::<Vec<_>>())
}

/// `n` processes, shuffled.
pub fn shuffled(n: u32, dice: &mut Dice) -> Members {
    let mut ids: Vec<u32> = (1..=n).collect();
    for place in (1..ids.len()).rev() {
        ids.swap(place, dice.below(place + 1));
    }
    ring(&ids)
}

/// A world in which some are down from the beginning and everyone else knows.
pub fn world<A: Election>(members: &Members, config: &A::Config, absent: &[NodeId]) -> Judged<A> {
    let mut world = World::new(members.clone(), config, Properties::new(config, members));
    for id in absent {
        world.crash(id.0);
        world.report(id.0);
    }
    world
}

/// Delivers in random order, each channel in its own, until nothing travels, and lets timers run out then; says whether all
/// came to rest.
pub fn shake<A: Election>(world: &mut Judged<A>, dice: &mut Dice) -> bool {
    for _ in 0..20_000 {
        let travelling = world.travelling();
        if travelling.is_empty() {
            let armed = world.armed();
            if armed.is_empty() {
                return true;
            }
            let (id, timer) = dice.pick(&armed).clone();
            world.expire(id, timer);
            continue;
        }
        let (from, to, _) = *dice.pick(&travelling);
        world.deliver_nth(from, to, 0);
    }
    false
}

/// What the judge finds broken when the run is over.
pub fn verdict<A: Election>(world: &mut Judged<A>, quiet: bool) -> Vec<&'static str> {
    let ending = if quiet { Ending::Quiet } else { Ending::OutOfTime };
    let step = world.step();
    world.observer.end(step, ending);
    let judgements = world.observer.judgements();
    let broken = judgements.iter().filter(|judgement| matches!(judgement.finding, Finding::Broken(_)));
    let mut broken: Vec<_> = broken.map(|judgement| judgement.property).collect();
    broken.extend(world.observer.violation().map(|violation| violation.property));
    broken
}

/// Runs without faults: all groups up to ten, single, several and all starters, perhaps one absent, in several
/// arrangements. Everyone agrees on the right one, and the formula holds.
pub fn keeps_its_formula<A: Election>(given: &[(&str, &str)]) {
    let mut dice = Dice(7);
    for n in 1..=10 {
        for arrangement in 0..12 {
            let members = if arrangement == 0 { Members::numbered(n) } else { shuffled(n, &mut dice) };
            let config = config::<A>(given, None, &members);
            let absent: Vec<_> =
                members.max().into_iter().filter(|_| n > 1 && arrangement % 3 == 2).collect();
            let live: Vec<_> = members.iter().filter(|id| !absent.contains(id)).collect();
            let mut casts: Vec<Vec<NodeId>> = live.iter().map(|id| [*id].into()).collect();
            casts.push(live.clone());
            casts.push(live.iter().copied().filter(|_| dice.below(2) == 0).collect());
            for starters in casts {
                let mut world = world::<A>(&members, &config, &absent);
                for id in &starters {
                    world.request(id.0, Request::Start);
                }
                assert!(shake(&mut world, &mut dice), "{members:?} from {starters:?} comes to rest");
                let broken = verdict(&mut world, true);
                assert!(broken.is_empty(), "{members:?} from {starters:?} breaks {broken:?}");
                let tally = Tally { starters: &starters, absent: &absent, recovered: None, disturbed: false };
                let formula = A::formula(&config, &members, &tally);
                let sent = counted(&world) as u64;
                assert!(formula.admits(sent), "{members:?} from {starters:?}: {sent}, not {formula:?}");
            }
        }
    }
}

/// How many messages were sent, overhead left out.
pub fn counted<A: Election>(world: &Judged<A>) -> usize {
    world.sent.iter().filter(|(_, _, message)| !message.is_overhead()).count()
}

/// Without a failure detector, one process crashes at any moment; then another is asked to start. All who are left agree on
/// the right leader.
pub fn finds_the_dead_by_itself<A: Election>(given: &[(&str, &str)], seeds: u64) {
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let members = shuffled(2 + dice.below(5) as u32, &mut dice);
        let config = config::<A>(given, None, &members);
        let mut world = world::<A>(&members, &config, &[]);
        for id in members.iter() {
            if dice.below(2) == 0 {
                world.request(id.0, Request::Start);
            }
        }
        for _ in 0..dice.below(30) {
            let travelling = world.travelling();
            if !travelling.is_empty() {
                let (from, to, _) = *dice.pick(&travelling);
                world.deliver_nth(from, to, 0);
            }
        }
        let everyone: Vec<_> = members.iter().collect();
        let victim = *dice.pick(&everyone);
        world.crash(victim.0);
        assert!(shake(&mut world, &mut dice), "seed {seed}: {members:?} comes to rest without {victim}");
        let living: Vec<_> = members.iter().filter(|id| *id != victim).collect();
        world.request(dice.pick(&living).0, Request::Start);
        assert!(shake(&mut world, &mut dice), "seed {seed}: {members:?} comes to rest after a new call");
        let winners = A::winners(&config, &members, &living);
        for id in living {
            let process = world.process(id.0);
            assert_eq!(process.leaders(), winners, "seed {seed}: {id} of {members:?} without {victim}");
        }
    }
}

/// Every mutant is caught by the property that it breaks, within a thousand seeds.
pub fn mutants_are_caught<A: Election>() {
    for mutant in A::ABOUT.mutants {
        let caught = (0..1_000).find(|seed| {
            let mut dice = Dice(*seed);
            let members = shuffled(mutant.nodes, &mut dice);
            let config = config::<A>(&[], Some(mutant.name), &members);
            let absent: Vec<_> = members.max().into_iter().filter(|_| dice.below(2) == 0).collect();
            let mut world = world::<A>(&members, &config, &absent);
            let live: Vec<_> = members.iter().filter(|id| !absent.contains(id)).collect();
            let all = dice.below(3) == 0;
            for id in live {
                if all || dice.below(2) == 0 {
                    world.request(id.0, Request::Start);
                }
            }
            let quiet = shake(&mut world, &mut dice);
            verdict(&mut world, quiet).contains(&mutant.breaks)
        });
        assert!(caught.is_some(), "{} is not caught by {}", mutant.name, mutant.breaks);
    }
}

/// What a storm may do.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub crashes: usize,
    pub restarts: bool,
    pub retirements: bool,
    pub wrong_suspicions: bool,
    /// Leaders may be announced before they are certain: no judgement on E1. On a ring, who comes back before all have
    /// heard of its crash may be passed over by those who hear of it then.
    pub tentative: bool,
}

impl Weather {
    pub const CRASH: Self =
        Self { crashes: 1, restarts: false, retirements: false, wrong_suspicions: false, tentative: false };
    /// The detector is wrong, too, and takes it back sooner or later: nobody can promise E1 then.
    pub const DOUBT: Self =
        Self { crashes: 3, restarts: true, retirements: true, wrong_suspicions: true, tentative: true };
    pub const STORM: Self =
        Self { crashes: 3, restarts: true, retirements: true, wrong_suspicions: false, tentative: false };
}

impl Weather {
    /// The same for an algorithm that announces leaders before they are certain.
    pub const fn tentative(self) -> Self {
        Self { tentative: true, ..self }
    }
}

/// Runs with faults at any moment and a failure detector that tells everyone the truth, sooner or later: they come to
/// rest, and the survivors agree on the right leader.
pub fn weathers<A: Election>(weather: Weather, given: &[(&str, &str)], seeds: u64) {
    let mut failed = 0;
    for seed in 0..seeds {
        let mut storm = Storm::<A>::new(weather, given, seed);
        let problem = storm.run();
        if let Some(problem) = problem {
            failed += 1;
            if failed <= 3 {
                println!("seed {seed}: {problem}");
                storm.world.sent.iter().for_each(|line| println!("{line:?}"));
                println!("{:?}", storm.diary);
                println!("{:#?}", storm.world.processes);
            }
        }
    }
    assert_eq!(failed, 0, "seeds of {seeds} went wrong");
}

struct Storm<A: Election> {
    weather: Weather,
    world: Judged<A>,
    config: A::Config,
    dice: Dice,
    lives: BTreeMap<NodeId, Incarnation>,
    /// What the detector of each process has yet to report, in order.
    notices: BTreeMap<NodeId, VecDeque<Input<A>>>,
    /// Who has called for an election and is still in the same life.
    called: Vec<NodeId>,
    diary: Vec<alloc::string::String>,
    retired: Vec<NodeId>,
}

impl<A: Election> Storm<A> {
    fn new(weather: Weather, given: &[(&str, &str)], seed: u64) -> Self {
        let mut dice = Dice(seed);
        let n = 2 + dice.below(5) as u32;
        let members = shuffled(n, &mut dice);
        let config = config::<A>(given, None, &members);
        let world = world::<A>(&members, &config, &[]);
        Self {
            weather,
            world,
            config,
            dice,
            lives: members.iter().map(|id| (id, Incarnation::FIRST)).collect(),
            notices: members.iter().map(|id| (id, VecDeque::new())).collect(),
            called: Vec::new(),
            retired: Vec::new(),
            diary: Vec::new(),
        }
    }

    fn living(&self) -> Vec<NodeId> {
        self.world.members.iter().filter(|id| self.world.is_up(*id)).collect()
    }

    fn note(&mut self, what: &str, who: NodeId) {
        self.diary.push(alloc::format!("{} {what} {who}", self.world.sent.len()));
    }

    fn run(&mut self) -> Option<&'static str> {
        // In half of the storms a leader is there before they begin.
        if self.dice.below(2) == 0 {
            let first = *self.dice.pick(&self.living());
            self.start(first);
            shake(&mut self.world, &mut self.dice);
        }
        for id in self.living() {
            if self.dice.below(2) == 0 {
                self.start(id);
            }
        }
        let mut crashes = self.weather.crashes;
        for _ in 0..20_000 {
            let travelling = self.world.travelling();
            let told: Vec<_> =
                self.notices.iter().filter(|(_, queue)| !queue.is_empty()).map(|(id, _)| *id).collect();
            // Who has nothing under way has waited for as long as it takes.
            let is_idle = |id: &NodeId| !travelling.iter().any(|(from, to, _)| from == id || to == id);
            let due: Vec<_> = self.world.armed().into_iter().filter(|(id, _)| is_idle(id)).collect();
            let quiet = travelling.is_empty() && told.is_empty() && due.is_empty();
            if quiet && crashes == 0 {
                return self.judge();
            }
            match self.dice.below(12) {
                0 if crashes > 0 => {
                    crashes -= 1;
                    self.strike();
                }
                0..4 if !told.is_empty() => {
                    let id = *self.dice.pick(&told);
                    self.notify(id);
                }
                choice if !due.is_empty() && (choice == 11 || travelling.is_empty()) => {
                    let (id, timer) = self.dice.pick(&due).clone();
                    self.world.expire(id, timer);
                }
                _ if !travelling.is_empty() => {
                    let (from, to, _) = *self.dice.pick(&travelling);
                    // Nobody hears anything of a new life before the end of the old one.
                    if self.lives[&from] > Incarnation::FIRST {
                        while self.has_down_notice(to, from) {
                            self.notify(to);
                        }
                    }
                    self.world.deliver_nth(from, to, 0);
                }
                _ => {}
            }
        }
        Some("does not come to rest")
    }

    fn start(&mut self, id: NodeId) {
        self.note("start", id);
        self.called.push(id);
        self.world.request(id.0, Request::Start);
    }

    fn has_down_notice(&self, at: NodeId, of: NodeId) -> bool {
        self.notices[&at].iter().any(|notice| matches!(notice, Input::PeerDown { peer, .. } if *peer == of))
    }

    fn notify(&mut self, id: NodeId) {
        if let Some(notice) = self.notices.get_mut(&id).and_then(VecDeque::pop_front) {
            self.diary.push(alloc::format!("{} {id} hears {notice:?}", self.world.sent.len()));
            self.world.input(id, notice);
        }
    }

    fn strike(&mut self) {
        let living = self.living();
        let victim = *self.dice.pick(&living);
        let down: Vec<_> = self.world.members.iter().filter(|id| !self.world.is_up(*id)).collect();
        match self.dice.below(4) {
            0 if self.weather.retirements => {
                self.note("retire", victim);
                self.retired.push(victim);
                self.world.request(victim.0, Request::Retire);
            }
            1 if self.weather.restarts && !down.is_empty() => {
                let id = *self.dice.pick(&down);
                self.revive(id);
            }
            2 if self.weather.wrong_suspicions => {
                let peer = *self.dice.pick(&living);
                if peer != victim {
                    let life = self.lives[&peer];
                    let queue = self.notices.get_mut(&victim).expect("a queue for everyone");
                    queue.push_back(Input::PeerDown { peer, life });
                    queue.push_back(Input::PeerUp { peer, life });
                }
            }
            _ if living.len() > 1 => self.crash(victim),
            _ => {}
        }
    }

    fn crash(&mut self, victim: NodeId) {
        self.note("crash", victim);
        self.world.crash(victim.0);
        self.called.retain(|id| *id != victim);
        self.retired.retain(|id| *id != victim);
        self.notices.insert(victim, VecDeque::new());
        let life = self.lives[&victim];
        for id in self.living() {
            self.tell(id, Input::PeerDown { peer: victim, life });
        }
    }

    fn revive(&mut self, id: NodeId) {
        self.note("revive", id);
        let life = self.lives[&id].next();
        self.lives.insert(id, life);
        let down: Vec<_> =
            self.world.members.iter().filter(|other| *other != id && !self.world.is_up(*other)).collect();
        for peer in down {
            self.tell(id, Input::PeerDown { peer, life: self.lives[&peer] });
        }
        for other in self.living() {
            self.tell(other, Input::PeerUp { peer: id, life });
        }
        self.called.push(id);
        self.world.revive(id.0, &self.config, life);
    }

    fn tell(&mut self, id: NodeId, notice: Input<A>) {
        self.notices.get_mut(&id).expect("a queue for everyone").push_back(notice);
    }

    fn judge(&mut self) -> Option<&'static str> {
        if !self.world.rejects.is_empty() {
            return Some("an honest process is rejected");
        }
        let living = self.living();
        let eligible: Vec<_> = living.iter().copied().filter(|id| !self.retired.contains(id)).collect();
        let winners = A::winners(&self.config, &self.world.members, &eligible);
        let of = |id: &NodeId| self.world.process(id.0);
        // Whoever called for an election may have died with all that was said of it.
        let unheard = living.iter().all(|id| of(id).leaders().is_empty() && !of(id).is_participant());
        if unheard && self.called.is_empty() {
            return None;
        }
        if living.iter().any(|id| of(id).is_participant()) {
            return Some("somebody still takes part");
        }
        if living.iter().any(|id| of(id).leaders() != winners) {
            return Some("somebody names a wrong leader");
        }
        let broken = verdict(&mut self.world, true);
        broken.into_iter().find(|property| *property != "E1" || !self.weather.tentative)
    }
}
