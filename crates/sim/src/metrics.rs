//! What a run cost, from what the driver sees.

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
