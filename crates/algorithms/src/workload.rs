//! What the applications of a run ask for, and when.

use alloc::boxed::Box;
use alloc::vec::Vec;

use conclave_core::{Process, Protocol};

use crate::span::Draw;

/// The applications: they ask, are told, and ask again.
pub trait Workload<P: Protocol> {
    /// The run begins.
    fn begin(&mut self, agenda: &mut Agenda<P>);
    /// A process told its application something.
    fn told(&mut self, process: Process, event: &P::Event, agenda: &mut Agenda<P>);
    /// Whether a request that was put on the agenda with this ticket is still to be made.
    fn stands(&self, _process: Process, _request: &P::Request, _ticket: u64) -> bool {
        true
    }
    /// A request that was on the agenda has been handled.
    fn handled(&mut self, process: Process, request: &P::Request, agenda: &mut Agenda<P>);
    /// Nothing is on the agenda, and no message travels, or only such as always do.
    fn quiet(&mut self, agenda: &mut Agenda<P>);
    /// A process crashed: what it asked for is gone.
    fn crashed(&mut self, process: Process);
    /// A process is up again.
    fn restarted(&mut self, process: Process, agenda: &mut Agenda<P>);
    /// A newcomer is up.
    fn joined(&mut self, _process: Process, _agenda: &mut Agenda<P>) {}
    /// The application of a process shall leave the group.
    fn leave(&mut self, _process: Process, _agenda: &mut Agenda<P>) {}
    /// Whether nothing more will be asked for and everything was given.
    fn is_done(&self) -> bool;
    /// Whether an application waits for an answer that nobody else is keeping it from.
    fn is_waiting(&self) -> bool;
}

impl<P: Protocol, W: Workload<P> + ?Sized> Workload<P> for Box<W> {
    fn begin(&mut self, agenda: &mut Agenda<P>) {
        (**self).begin(agenda);
    }

    fn told(&mut self, process: Process, event: &P::Event, agenda: &mut Agenda<P>) {
        (**self).told(process, event, agenda);
    }

    fn stands(&self, process: Process, request: &P::Request, ticket: u64) -> bool {
        (**self).stands(process, request, ticket)
    }

    fn handled(&mut self, process: Process, request: &P::Request, agenda: &mut Agenda<P>) {
        (**self).handled(process, request, agenda);
    }

    fn quiet(&mut self, agenda: &mut Agenda<P>) {
        (**self).quiet(agenda);
    }

    fn crashed(&mut self, process: Process) {
        (**self).crashed(process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<P>) {
        (**self).restarted(process, agenda);
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<P>) {
        (**self).joined(process, agenda);
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<P>) {
        (**self).leave(process, agenda);
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn is_waiting(&self) -> bool {
        (**self).is_waiting()
    }
}

/// Where a workload writes what shall be asked for, and when.
pub struct Agenda<P: Protocol> {
    /// The time.
    pub now: u64,
    /// The randomness of the workload; delays draw from another stream.
    pub rng: Box<dyn Draw>,
    /// What was written down and not yet taken up by the driver.
    pub items: Vec<Item<P::Request>>,
}

/// What stands on an agenda.
#[derive(Debug)]
pub enum Item<R> {
    /// The application of a process asks for something.
    Ask {
        /// When.
        time: u64,
        /// The place of the process.
        process: usize,
        /// What.
        request: R,
        /// Shown to [`Workload::stands`] when the time has come.
        ticket: u64,
    },
    /// The same of a request that was planned before the run: a run waits for it, and it is made in whatever life the process
    /// is in then.
    Call {
        /// When.
        time: u64,
        /// The place of the process.
        process: usize,
        /// What.
        request: R,
    },
    /// A process has left, and does nothing any more.
    Depart(usize),
}

impl<P: Protocol> Agenda<P> {
    /// An empty one.
    #[must_use]
    pub fn new(rng: impl Draw + 'static) -> Self {
        Self { now: 0, rng: Box::new(rng), items: Vec::new() }
    }

    /// The application of the process at this place shall ask for this, so long from now. The ticket is shown to
    /// [`Workload::stands`] then.
    pub fn ask_after(&mut self, span: u64, process: usize, request: P::Request, ticket: u64) {
        let time = self.now.saturating_add(span);
        self.items.push(Item::Ask { time, process, request, ticket });
    }

    /// The application of the process at this place shall ask for this then, as was planned.
    pub fn call(&mut self, time: u64, process: usize, request: P::Request) {
        self.items.push(Item::Call { time, process, request });
    }

    /// The process at this place has left: it does nothing any more.
    pub fn depart(&mut self, process: usize) {
        self.items.push(Item::Depart(process));
    }
}

/// Applications that ask for what is planned, when it is planned, and for nothing more.
#[derive(Clone, Debug)]
pub struct Calls<R> {
    calls: Vec<(u64, usize, R)>,
    /// How a process leaves, where it may.
    leave: Option<R>,
}

impl<R> Calls<R> {
    /// When, which process, what.
    #[must_use]
    pub fn new(calls: Vec<(u64, usize, R)>) -> Self {
        Self { calls, leave: None }
    }

    /// The same, where a process leaves by asking for this.
    #[must_use]
    pub fn leaving_by(self, request: R) -> Self {
        Self { leave: Some(request), ..self }
    }
}

impl<P: Protocol> Workload<P> for Calls<P::Request> {
    fn begin(&mut self, agenda: &mut Agenda<P>) {
        for (time, process, request) in self.calls.drain(..) {
            agenda.call(time, process, request);
        }
    }

    fn told(&mut self, _process: Process, _event: &P::Event, _agenda: &mut Agenda<P>) {}

    fn handled(&mut self, _process: Process, _request: &P::Request, _agenda: &mut Agenda<P>) {}

    fn quiet(&mut self, _agenda: &mut Agenda<P>) {}

    fn crashed(&mut self, _process: Process) {}

    fn restarted(&mut self, _process: Process, _agenda: &mut Agenda<P>) {}

    fn leave(&mut self, process: Process, agenda: &mut Agenda<P>) {
        if let Some(request) = self.leave.clone() {
            agenda.call(agenda.now, process.index(), request);
        }
    }

    /// What is still to come is in the queue of the driver.
    fn is_done(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        true
    }
}
