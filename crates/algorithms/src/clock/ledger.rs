//! What is remembered of a run in order to judge its clocks.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId, Reading, Shown};

use super::{Drift, Event, Request, SoftClock, Timekeeper, show_span};
use crate::judge::{Breach, Ledger};

/// What a corrected clock is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// With the clock of the process that it was corrected by.
    Source,
    /// With that of the master after the same round.
    Round,
    /// With the true time.
    Truth,
}

/// How well everyone's clock does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Accuracy<C> {
    members: Members,
    config: Arc<C>,
    drift: Drift,
    /// By place.
    processes: Vec<Standing>,
    disturbed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Standing {
    is_down: bool,
    life: Option<Incarnation>,
    /// Its application waits for a correction.
    asked: bool,
    /// It has crashed at some time.
    has_crashed: bool,
    /// How far its clock has been from the truth, at most.
    farthest: i64,
    /// What its clock showed at its last step.
    shown: Option<Shown>,
    /// Its clock was set, or drifts by more than is assumed.
    is_unsteady: bool,
    /// The corrected clock after that step, in the present life.
    clock: Option<SoftClock>,
    /// What its application was told last, in the present life.
    told: Option<Reading>,
    /// The last correction.
    adjusted: Option<Adjusted>,
}

impl Standing {
    /// What is known of its clock, whichever life it is in.
    fn kept(&self) -> Self {
        let Self { life, has_crashed, farthest, shown, is_unsteady, .. } = *self;
        Self { life, has_crashed, farthest, shown, is_unsteady, ..Self::default() }
    }
}

/// A correction: the round, and how far the clock was to be from the truth then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Adjusted {
    round: u64,
    off: i64,
    truth: u64,
}

impl<C> Accuracy<C> {
    /// Nobody was corrected yet.
    #[must_use]
    pub fn new(members: &Members, config: Arc<C>, drift: Drift) -> Self {
        let processes = vec![Standing::default(); members.len()];
        Self { members: members.clone(), config, drift, processes, disturbed: false }
    }

    fn who(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn is_unsteady(&self, places: [usize; 2]) -> bool {
        places.iter().any(|place| self.processes[*place].is_unsteady)
    }

    /// What a process that was corrected by this one is compared with: how far that is from the truth, and since when.
    fn reference(&self, reference: Reference, source: usize, round: u64) -> Option<(i64, u64)> {
        let standing = &self.processes[source];
        match reference {
            Reference::Source => standing.shown.map(|shown| (shown.ahead, shown.truth)),
            Reference::Round => {
                let of_round = standing.adjusted.filter(|adjusted| adjusted.round == round);
                of_round.map(|adjusted| (adjusted.off, adjusted.truth))
            }
            Reference::Truth => None,
        }
    }

    /// How far a corrected clock is from what it was corrected by, beyond what was said; nothing if it is as near.
    fn excess(&self, reference: Reference, place: usize, event: &Event) -> Option<(i64, Option<NodeId>)> {
        let Event::Adjusted { bound, source: Some(source), round, .. } = event else { return None };
        let now = self.processes[place].adjusted?;
        if reference == Reference::Truth {
            return (now.off.saturating_abs() > bound.saturating_add(2)).then_some((now.off, None));
        }
        let at = self.members.position(*source).filter(|at| *at != place)?;
        let (off, since) = self.reference(reference, at, *round)?;
        let elapsed = i64::try_from(now.truth.abs_diff(since)).unwrap_or(i64::MAX).saturating_mul(1_000);
        // Drift is counted in whole nanoseconds on every clock.
        let allowed = bound.saturating_add(self.drift.apart(elapsed)).saturating_add(2);
        let difference = now.off.saturating_sub(off);
        (difference.saturating_abs() > allowed).then_some((difference, Some(*source)))
    }

    fn set_back(&self, place: usize, from: Reading, to: Reading) -> Breach {
        let detail =
            format!("the clock of {} was set back by {}", self.who(place), show_span(from.since(to)));
        Breach { property: "C2", detail, promised: !self.processes[place].is_unsteady }
    }

    fn is_sound<A: Timekeeper<Config = C>>(&self, place: usize) -> bool {
        let is_right = |at: usize, within: i64| {
            let standing = &self.processes[at];
            !standing.has_crashed && standing.farthest <= within
        };
        A::is_sound(&self.config, &self.members, place, &is_right)
    }

    fn answer(&mut self, place: usize) {
        self.processes[place].asked = false;
    }
}

impl<A: Timekeeper> Ledger<A> for Accuracy<A::Config> {
    fn process(&self, place: usize) -> NodeId {
        self.who(place)
    }

    /// A clock that has moved more than it may drift was set.
    fn clock(&mut self, place: usize, shown: Shown) {
        let standing = &mut self.processes[place];
        if let Some(last) = standing.shown {
            let elapsed = i64::try_from(shown.truth.abs_diff(last.truth)).unwrap_or(i64::MAX);
            let moved = shown.ahead.saturating_sub(last.ahead).saturating_abs();
            // Two clocks drift apart by twice as much as one drifts from the truth.
            let usual = self.drift.apart(elapsed.saturating_mul(1_000)) / 2 + 2;
            standing.is_unsteady |= moved > usual;
        }
        standing.farthest = standing.farthest.max(shown.ahead.saturating_abs());
        standing.shown = Some(shown);
    }

    fn input(&mut self, place: usize, input: &Input<A>) {
        match input {
            Input::Request(Request::Sync) => self.processes[place].asked = true,
            // It is alive, in the very life that is said to be over.
            Input::PeerDown { peer, life } => {
                let accused = self.members.position(*peer).map(|at| &self.processes[at]);
                self.disturbed |= accused.is_some_and(|accused| {
                    !accused.is_down && accused.life.unwrap_or(Incarnation::FIRST) == *life
                });
            }
            Input::Request(Request::Read)
            | Input::Start
            | Input::Receive { .. }
            | Input::Expire(_)
            | Input::PeerUp { .. } => {}
        }
    }

    fn emit(&mut self, place: usize, event: &Event, breaches: &mut Vec<Breach>) {
        let truth = self.processes[place].shown.unwrap_or_default();
        match event {
            Event::Adjusted { to, round, bound, .. } => {
                let off = to.since(Shown { ahead: 0, ..truth }.reading());
                self.processes[place].adjusted = Some(Adjusted { round: *round, off, truth: truth.truth });
                self.answer(place);
                if let Some((difference, source)) = self.excess(A::REFERENCE, place, event) {
                    let of =
                        source.map_or_else(|| "the true time".into(), |source| format!("that of {source}"));
                    let detail = format!(
                        "the clock of {} is {} from {of}, and was said to be within {}",
                        self.who(place),
                        show_span(difference),
                        show_span(*bound)
                    );
                    let at = source.and_then(|source| self.members.position(source)).unwrap_or(place);
                    let promised = !self.is_unsteady([place, at]) && self.is_sound::<A>(place);
                    breaches.push(Breach { property: "C1", detail, promised });
                }
            }
            Event::Time(time) => {
                if let Some(last) = self.processes[place].told.replace(*time)
                    && *time < last
                {
                    breaches.push(self.set_back(place, last, *time));
                }
            }
            Event::Failed => {
                self.answer(place);
                let is_alive = |at: usize| at != place && !self.processes[at].is_down;
                if A::can_sync(&self.config, &self.members, place, &is_alive) {
                    let detail = format!("{} found nobody to ask, although it could have", self.who(place));
                    let promised = !self.disturbed && self.is_sound::<A>(place);
                    breaches.push(Breach { property: "C3", detail, promised });
                }
            }
        }
    }

    /// What the clock showed just before the step is compared with what it shows just after it.
    fn handled(&mut self, place: usize, state: &A, breaches: &mut Vec<Breach>) {
        let standing = &mut self.processes[place];
        let (before, after) = (standing.clock.replace(*state.clock()), *state.clock());
        let Some(reading) = standing.shown.map(Shown::reading) else { return };
        if let Some(before) = before
            && after.at(reading) < before.at(reading)
        {
            breaches.push(self.set_back(place, before.at(reading), after.at(reading)));
        }
    }

    fn crash(&mut self, place: usize) {
        let kept = self.processes[place].kept();
        self.processes[place] = Standing { is_down: true, has_crashed: true, ..kept };
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        let kept = self.processes[place].kept();
        self.processes[place] = Standing { life: Some(life), ..kept };
        self.disturbed |= !A::OUTLIVES_RETURNS;
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// An announcement that died with its sender is told to some and not to others.
    fn unheard(&mut self) {
        self.disturbed = true;
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        let waiting = self.processes.iter().position(|standing| !standing.is_down && standing.asked);
        if let Some(place) = waiting {
            let detail: String =
                format!("nothing moves any more, and {} was told nothing of its clock", self.who(place));
            let steady = self.processes.iter().all(|standing| !standing.is_unsteady);
            breaches.push(Breach { property: "C3", detail, promised: !self.disturbed && steady });
        }
    }
}
