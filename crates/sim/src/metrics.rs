//! What a run cost, from what the driver sees.

use conclave_algorithms::mutex::{self, Locks};
use conclave_core::{Input, Message, Moment, Observer, Process, Protocol, Transit};

/// Counts messages and inputs.
#[derive(Clone, Debug)]
pub struct Traffic {
    kinds: Vec<Kind>,
    /// Messages sent or received, by process.
    load: Vec<u64>,
    /// Inputs handled.
    pub events: u64,
    /// Messages lost.
    pub dropped: u64,
    /// Copies made by the network.
    pub duplicated: u64,
}

/// How many messages of a kind were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The kind.
    pub name: &'static str,
    /// Whether it is counted apart from the algorithm's own.
    pub overhead: bool,
    /// How many.
    pub count: u64,
}

impl Traffic {
    /// Of a run of `n` processes.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { kinds: Vec::new(), load: vec![0; n], events: 0, dropped: 0, duplicated: 0 }
    }

    /// Messages by kind, in order of first appearance.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The algorithm's own messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.kinds.iter().filter(|kind| !kind.overhead).map(|kind| kind.count).sum()
    }

    /// The other messages.
    #[must_use]
    pub fn overhead_messages(&self) -> u64 {
        self.kinds.iter().filter(|kind| kind.overhead).map(|kind| kind.count).sum()
    }

    /// Messages sent or received by each process.
    #[must_use]
    pub fn load(&self) -> &[u64] {
        &self.load
    }

    #[inline(always)]
    fn count(&mut self, name: &'static str, overhead: bool) {
        // Few kinds: looking through them costs less than any table.
        match self.kinds.iter_mut().find(|kind| core::ptr::eq(kind.name, name) || kind.name == name) {
            Some(kind) => kind.count += 1,
            None => self.kinds.push(Kind { name, overhead, count: 1 }),
        }
    }
}

impl<P: Protocol> Observer<P> for Traffic {
    #[inline(always)]
    fn input(&mut self, _at: &Moment, _process: Process, _input: &Input<P>) {
        self.events += 1;
    }

    #[inline(always)]
    fn send(&mut self, _at: &Moment, transit: &Transit, message: &P::Message) {
        self.count(message.kind(), message.is_overhead());
        self.load[transit.from.index()] += 1;
    }

    #[inline(always)]
    fn deliver(&mut self, _at: &Moment, transit: &Transit, _message: &P::Message) {
        self.load[transit.to.index()] += 1;
    }

    fn drop(&mut self, _at: &Moment, _transit: &Transit, _message: &P::Message) {
        self.dropped += 1;
    }

    fn duplicate(&mut self, _at: &Moment, _transit: &Transit, _copy: &Transit) {
        self.duplicated += 1;
    }
}

/// Times of one sort, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How many.
    pub count: u64,
    /// Their sum in microseconds.
    pub sum: u64,
    /// The longest.
    pub max: u64,
}

impl Timed {
    fn add(&mut self, span: u64) {
        self.count += 1;
        self.sum += span;
        self.max = self.max.max(span);
    }

    /// The mean in microseconds, if there was any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

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

    fn asked(&mut self, at: &Moment, process: Process, lock: usize, request: mutex::Request) {
        let times = &mut self.locks[lock];
        let asked = &mut times.asked[process.index()];
        match request {
            mutex::Request::Acquire if asked.is_none() => {
                *asked = Some(at.time);
                times.waiting += 1;
            }
            mutex::Request::Acquire => {}
            mutex::Request::Release => {
                if let Some(since) = times.withdraw(process) {
                    self.response.add(at.time - since);
                    times.left = (times.waiting > 0).then_some(at.time);
                }
            }
            mutex::Request::Cancel => {
                times.withdraw(process);
            }
            mutex::Request::Leave => {}
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
            (lock, mutex::Event::Granted { .. }) => self.granted(at, process, lock),
            // It is out without having left: nobody knows for how long it was inside.
            (lock, mutex::Event::Lost { .. } | mutex::Event::Left) => {
                self.locks[lock].withdraw(process);
            }
            (_, mutex::Event::Refused(_)) => {}
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
    use conclave_algorithms::mutex::{Epoch, Event, Fence, Request, RicartAgrawala};
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
