//! How long entries take.

use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Input, Moment, Observer, Process};

use super::{Event, Locks, Request};
use crate::measure::Timed;

/// Measures how long entries take.
#[derive(Clone, Debug)]
pub struct EntryTimes {
    locks: Vec<LockTimes>,
    /// Request to entry.
    pub client_delay: Timed,
    /// Exit to the next entry, while somebody else waits.
    pub sync_delay: Timed,
    /// Request to exit.
    pub response: Timed,
}

#[derive(Clone, Debug)]
struct LockTimes {
    /// When each process asked, if it waits or is inside.
    asked: Vec<Option<u64>>,
    inside: Vec<bool>,
    waiting: u64,
    /// When the last holder left, if others were waiting then.
    left: Option<u64>,
}

impl EntryTimes {
    /// Of a run of `n` processes on this many locks.
    #[must_use]
    pub fn new(n: usize, locks: usize) -> Self {
        let lock = LockTimes { asked: vec![None; n], inside: vec![false; n], waiting: 0, left: None };
        Self {
            locks: vec![lock; locks],
            client_delay: Timed::default(),
            sync_delay: Timed::default(),
            response: Timed::default(),
        }
    }

    fn asked(&mut self, at: &Moment, process: Process, lock: usize, request: Request) {
        let times = &mut self.locks[lock];
        let asked = &mut times.asked[process.index()];
        match request {
            Request::Acquire if asked.is_none() => {
                *asked = Some(at.time);
                times.waiting += 1;
            }
            Request::Acquire => {}
            Request::Release => {
                if let Some(since) = times.withdraw(process) {
                    self.response.add(at.time - since);
                    times.left = (times.waiting > 0).then_some(at.time);
                }
            }
            Request::Cancel => {
                times.withdraw(process);
            }
            Request::Leave => {}
        }
    }

    fn granted(&mut self, at: &Moment, process: Process, lock: usize) {
        let times = &mut self.locks[lock];
        let inside = core::mem::replace(&mut times.inside[process.index()], true);
        if let Some(since) = times.asked[process.index()].filter(|_| !inside) {
            times.waiting -= 1;
            self.client_delay.add(at.time - since);
        }
        if let Some(left) = times.left.take() {
            self.sync_delay.add(at.time - left);
        }
    }
}

impl<P: Locks> Observer<P> for EntryTimes {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        if let Input::Request(request) = input {
            let (lock, request) = P::asked(request);
            self.asked(at, process, lock, request);
        }
    }

    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        match P::told(event) {
            (lock, Event::Granted { .. }) => self.granted(at, process, lock),
            // It is out without having left: nobody knows for how long it was inside.
            (lock, Event::Lost { .. } | Event::Left) => {
                self.locks[lock].withdraw(process);
            }
            (_, Event::Refused(_)) => {}
        }
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        for times in &mut self.locks {
            times.withdraw(process);
        }
    }
}

impl LockTimes {
    /// A process neither waits nor is inside any more; when it had asked.
    fn withdraw(&mut self, process: Process) -> Option<u64> {
        let asked = self.asked[process.index()].take();
        let inside = core::mem::take(&mut self.inside[process.index()]);
        self.waiting -= u64::from(asked.is_some() && !inside);
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::{Epoch, Fence, RicartAgrawala};
    use conclave_core::{Chain, NodeId};

    /// Who lost the lock, or crashed inside, is out, and its next request is a new one.
    #[test]
    fn an_entry_that_was_lost_is_not_counted_on() {
        let mut times = EntryTimes::new(2, 1);
        let at = |time| Moment { time, step: 0, chain: Chain::default() };
        let process = |id: u32| Process::new(NodeId(id), id as usize - 1);
        let fence = Fence { epoch: Epoch::FIRST, counter: 1, process: NodeId(1) };
        let watch: &mut dyn Observer<RicartAgrawala> = &mut times;
        let ask = Input::Request(Request::Acquire);
        watch.input(&at(0), process(1), &ask);
        watch.emit(&at(10), process(1), &Event::Granted { fence });
        watch.input(&at(15), process(2), &ask);
        watch.emit(&at(20), process(1), &Event::Lost { fence });
        watch.input(&at(50), process(1), &ask);
        watch.emit(&at(53), process(1), &Event::Granted { fence });
        watch.crash(&at(60), process(1));
        watch.emit(&at(65), process(2), &Event::Granted { fence });
        assert_eq!(times.client_delay, Timed { count: 3, sum: 10 + 3 + 50, max: 50 });
        assert_eq!(times.locks[0].waiting, 0);
        assert_eq!(times.response, Timed::default());
    }
}
