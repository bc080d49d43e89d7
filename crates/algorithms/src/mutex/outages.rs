//! How long a group could not enter after each fault.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Disturbance, Input, Moment, Observer, Process, Transit};

use super::{Event, Locks, Request};

/// What disturbed a run, and how long nobody could enter because of it.
///
/// An outage lasts from the fault to the next entry, but only time in which somebody waits counts: it begins when there
/// is somebody who waits. Time for which the lock is rightly held counts too; who waits cannot tell the difference.
#[derive(Clone, Debug)]
pub struct Outages {
    faults: Vec<Fault>,
    /// By lock.
    locks: Vec<Waiters>,
}

/// A fault and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened, in a few words.
    pub text: String,
    /// When.
    pub at: u64,
    /// How long nobody entered although somebody waited: the longest over all locks.
    pub outage: Outage,
}

/// How long nobody entered although somebody waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    /// Nobody waited, or not for any time.
    None,
    /// So long, in microseconds.
    Lasted(u64),
    /// To the end of the run.
    Never,
}

/// One lock.
#[derive(Clone, Debug, Default)]
struct Waiters {
    /// Who waits, by place.
    waiting: Vec<bool>,
    count: usize,
    /// Faults after which nobody has entered yet: which, and since when somebody has waited.
    open: Vec<(usize, Option<u64>)>,
}

/// No more faults than this are followed: messages can be lost without end.
const MOST: usize = 1_000;

impl Outages {
    /// Of a run of `n` processes on this many locks.
    #[must_use]
    pub fn new(n: usize, locks: usize) -> Self {
        let lock = Waiters { waiting: vec![false; n], ..Waiters::default() };
        Self { faults: Vec::new(), locks: vec![lock; locks] }
    }

    /// Of a run in which nothing can go wrong: it does not look.
    #[must_use]
    pub fn none() -> Self {
        Self::new(0, 0)
    }

    /// What is known when the run is over, in the order in which it happened.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults.clone();
        for (fault, since) in self.locks.iter().flat_map(|lock| &lock.open) {
            if since.is_some() {
                faults[*fault].outage = Outage::Never;
            }
        }
        faults
    }

    fn happened(&mut self, at: &Moment, text: String) {
        if self.faults.len() == MOST {
            return;
        }
        for lock in &mut self.locks {
            lock.open.push((self.faults.len(), (lock.count > 0).then_some(at.time)));
        }
        self.faults.push(Fault { text, at: at.time, outage: Outage::None });
    }

    fn asked(&mut self, at: &Moment, process: Process, lock: usize) {
        let Some(lock) = self.locks.get_mut(lock) else { return };
        if core::mem::replace(&mut lock.waiting[process.index()], true) {
            return;
        }
        lock.count += 1;
        if lock.count == 1 {
            lock.open.iter_mut().for_each(|(_, since)| *since = Some(at.time));
        }
    }

    /// A process no longer waits.
    fn gave_up(&mut self, process: Process, lock: usize) {
        let Some(lock) = self.locks.get_mut(lock) else { return };
        if !core::mem::replace(&mut lock.waiting[process.index()], false) {
            return;
        }
        lock.count -= 1;
        if lock.count == 0 {
            lock.open.iter_mut().for_each(|(_, since)| *since = None);
        }
    }

    fn granted(&mut self, at: &Moment, process: Process, lock: usize) {
        let Some(waiters) = self.locks.get_mut(lock) else { return };
        for (fault, since) in waiters.open.drain(..) {
            let lasted = at.time - since.unwrap_or(at.time);
            if lasted > 0 {
                let fault = &mut self.faults[fault];
                fault.outage = fault.outage.max(Outage::Lasted(lasted));
            }
        }
        self.gave_up(process, lock);
    }
}

impl<P: Locks> Observer<P> for Outages {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        let Input::Request(request) = input else { return };
        match P::asked(request) {
            (lock, Request::Acquire) => self.asked(at, process, lock),
            (lock, Request::Cancel) => self.gave_up(process, lock),
            (_, Request::Release) => {}
            (_, Request::Leave) => self.happened(at, format!("leave {}", process.id)),
        }
    }

    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        match P::told(event) {
            (lock, Event::Granted { .. }) => self.granted(at, process, lock),
            (lock, Event::Left) => self.gave_up(process, lock),
            (_, Event::Refused(_) | Event::Lost { .. }) => {}
        }
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        if P::MOVES_TOKEN && P::token_in(message).is_some() {
            self.happened(at, format!("token lost {} => {}", transit.from.id, transit.to.id));
        }
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        for lock in 0..self.locks.len() {
            self.gave_up(process, lock);
        }
        self.happened(at, format!("crash {}", process.id));
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        match what {
            Disturbance::Pause(process) => self.happened(at, format!("pause {}", process.id)),
            Disturbance::Cut(cut) => self.happened(at, format!("cut {cut}")),
            Disturbance::Join(process) => self.happened(at, format!("join {}", process.id)),
            Disturbance::Resume(_) | Disturbance::Heal(_) | Disturbance::Clock(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::{Epoch, Fence, RicartAgrawala};
    use conclave_core::{Chain, NodeId};

    /// Tells the observer what happens among two processes, by a few letters each: `a1` p1 asks, `g1` it gets in, `c1`
    /// it cancels, `x1` it crashes, `p1` it stands still.
    fn outages(story: &[(u64, &str)]) -> Vec<(String, Outage)> {
        let mut outages = Outages::new(2, 1);
        for (time, what) in story {
            let at = Moment { time: *time, step: 0, chain: Chain::default() };
            let (what, id) = what.split_at(1);
            let process = Process::new(NodeId(id.parse().unwrap()), id.parse::<usize>().unwrap() - 1);
            let fence = Fence { epoch: Epoch::FIRST, counter: 1, process: process.id };
            let watch: &mut dyn Observer<RicartAgrawala> = &mut outages;
            match what {
                "a" => watch.input(&at, process, &Input::Request(Request::Acquire)),
                "c" => watch.input(&at, process, &Input::Request(Request::Cancel)),
                "g" => watch.emit(&at, process, &Event::Granted { fence }),
                "x" => watch.crash(&at, process),
                "p" => watch.disturb(&at, &Disturbance::Pause(process)),
                other => panic!("{other}"),
            }
        }
        outages.faults().into_iter().map(|fault| (fault.text, fault.outage)).collect()
    }

    #[test]
    fn an_outage_lasts_from_the_fault_to_the_next_entry() {
        let found = outages(&[(0, "a1"), (5, "p2"), (9, "g1"), (20, "a2"), (30, "g2")]);
        assert_eq!(found, [("pause p2".into(), Outage::Lasted(4))]);
    }

    #[test]
    fn time_in_which_nobody_waits_does_not_count() {
        let found = outages(&[(5, "p2"), (12, "a1"), (15, "g1")]);
        assert_eq!(found, [("pause p2".into(), Outage::Lasted(3))]);
        assert_eq!(outages(&[(5, "p2"), (12, "a1"), (12, "g1")]), [("pause p2".into(), Outage::None)]);
        assert_eq!(outages(&[(0, "a1"), (1, "g1"), (5, "p2")]), [("pause p2".into(), Outage::None)]);
        // Who gave up no longer waits, and who crashed neither.
        let found = outages(&[(0, "a1"), (5, "p2"), (6, "c1"), (12, "a2"), (15, "g2")]);
        assert_eq!(found, [("pause p2".into(), Outage::Lasted(3))]);
        assert_eq!(outages(&[(0, "a1"), (5, "x1")]), [("crash p1".into(), Outage::None)]);
    }

    #[test]
    fn what_never_ends_is_called_so() {
        let found = outages(&[(0, "a1"), (5, "x2"), (7, "p1")]);
        assert_eq!(found, [("crash p2".into(), Outage::Never), ("pause p1".into(), Outage::Never)]);
    }

    #[test]
    fn one_entry_ends_all_outages_before_it() {
        let found = outages(&[(0, "a1"), (5, "p1"), (7, "p2"), (10, "g1")]);
        let expected = [("pause p1".into(), Outage::Lasted(5)), ("pause p2".into(), Outage::Lasted(3))];
        assert_eq!(found, expected);
    }
}
