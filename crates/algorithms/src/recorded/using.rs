//! Who uses a recorded algorithm: applications, users and clients that may also take snapshots.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use conclave_core::Process;

use super::family::{Asked, SNAPSHOT, Told, Unrecorded};
use super::{Recorded, Telling, Wanting};
use crate::application::{App, Ask, AskBudget};
use crate::desk::{Client, Deed, Desk, Standing, Wish, Word};
use crate::erased::{Erased, ErasedApp};
use crate::lens::{Serving, Used};
use crate::workload::{Agenda, Workload};

/// The application of a process that may also begin snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordingApp {
    /// That of the algorithm, where it is known.
    inner: Option<ErasedApp>,
    /// How many snapshots it may still begin.
    snapshots: usize,
}

impl RecordingApp {
    /// The application of the algorithm, which may begin so many snapshots besides.
    pub fn around(inner: ErasedApp, snapshots: usize) -> Self {
        Self { inner: Some(inner), snapshots }
    }
}

impl App<Recorded<Erased>> for RecordingApp {
    /// One of no algorithm asks for nothing; see [`Family::app`].
    fn new(_budget: AskBudget) -> Self {
        Self { inner: None, snapshots: 0 }
    }

    fn asks(&self) -> Vec<Ask<Asked>> {
        let inner = self.inner.iter().flat_map(|app| app.value.asks());
        let inner = inner.map(|Ask { request, is_fair, is_cancel }| Ask {
            request: Wanting::Algorithm(request),
            is_fair,
            is_cancel,
        });
        let snapshot = Ask { request: Wanting::Snapshot, is_fair: false, is_cancel: false };
        inner.chain((self.snapshots > 0).then_some(snapshot)).collect()
    }

    fn asked(&mut self, request: &Asked) {
        match (request, &mut self.inner) {
            (Wanting::Algorithm(request), Some(inner)) => inner.value.asked(request),
            (Wanting::Snapshot, _) => self.snapshots -= 1,
            (Wanting::Algorithm(_), None) => {}
        }
    }

    fn refill(&mut self, budget: AskBudget) {
        self.inner.iter_mut().for_each(|inner| inner.value.refill(budget));
    }

    fn hear(&mut self, event: &Told) {
        if let (Telling::Algorithm(event), Some(inner)) = (event, &mut self.inner) {
            inner.value.hear(event);
        }
    }

    fn crashed(&mut self) {
        self.inner.iter_mut().for_each(|inner| inner.value.crashed());
    }

    fn phase(&self) -> u8 {
        self.inner.as_ref().map_or(0, |inner| inner.value.phase())
    }

    fn is_waiting(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.value.is_waiting())
    }

    fn is_inside(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.value.is_inside())
    }
}

/// The users of the algorithm, and whoever takes snapshots.
pub struct RecordingUsers {
    inner: Used<Unrecorded, Box<dyn Workload<Erased>>>,
    /// When which process begins a snapshot, by place.
    planned: Vec<(u64, usize)>,
    /// How many snapshots of each process are to come or under way, by place.
    expected: BTreeMap<usize, usize>,
    /// Who is down, by place.
    down: BTreeSet<usize>,
}

impl RecordingUsers {
    /// Snapshots begin at these times, each at the process of this place.
    pub fn new(inner: Box<dyn Workload<Erased>>, planned: Vec<(u64, usize)>) -> Self {
        Self { inner: Used::new(inner), planned, expected: BTreeMap::new(), down: BTreeSet::new() }
    }

    fn is_over(&mut self, place: usize) {
        if let Some(expected) = self.expected.get_mut(&place) {
            *expected = expected.saturating_sub(1);
        }
    }
}

impl Workload<Recorded<Erased>> for RecordingUsers {
    fn begin(&mut self, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.begin(agenda);
        for (at, place) in self.planned.clone() {
            agenda.ask_after(at, place, Wanting::Snapshot, 0);
            if !self.down.contains(&place) {
                *self.expected.entry(place).or_default() += 1;
            }
        }
    }

    fn told(&mut self, process: Process, event: &Told, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.told(process, event, agenda);
        if let Telling::Complete(_) = event {
            self.is_over(process.index());
        }
    }

    fn stands(&self, process: Process, request: &Asked, ticket: u64) -> bool {
        self.inner.stands(process, request, ticket)
    }

    fn handled(&mut self, process: Process, request: &Asked, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.handled(process, request, agenda);
    }

    fn quiet(&mut self, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.quiet(agenda);
    }

    /// What it had begun is gone with it, and what it was to begin is not begun.
    fn crashed(&mut self, process: Process) {
        self.expected.remove(&process.index());
        self.down.insert(process.index());
        Workload::<Recorded<Erased>>::crashed(&mut self.inner, process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.down.remove(&process.index());
        self.inner.restarted(process, agenda);
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.joined(process, agenda);
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<Recorded<Erased>>) {
        self.inner.leave(process, agenda);
    }

    fn is_done(&self) -> bool {
        self.inner.is_done() && self.expected.values().all(|expected| *expected == 0)
    }

    fn is_waiting(&self) -> bool {
        self.inner.is_waiting()
    }
}

/// Serves the clients of the algorithm, and those who want a snapshot.
pub struct RecordingDesk {
    inner: Serving<Unrecorded, Box<dyn Desk<Erased>>>,
    /// Who asked for a snapshot and has not got it, the oldest first.
    askers: VecDeque<Client>,
    /// How many snapshots were answered.
    answered: u64,
}

impl RecordingDesk {
    /// Nobody has asked for a snapshot.
    pub fn new(inner: Box<dyn Desk<Erased>>) -> Self {
        Self { inner: Serving::new(inner), askers: VecDeque::new(), answered: 0 }
    }
}

impl Desk<Recorded<Erased>> for RecordingDesk {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<Recorded<Erased>>>) {
        match wish {
            Wish::Ask { words } if words == SNAPSHOT => {
                self.askers.push_back(client);
                out.extend([Deed::Ask(Wanting::Snapshot), Deed::Tell(client, Word::Asked)]);
            }
            wish => self.inner.wish(client, wish, out),
        }
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<Recorded<Erased>>>) {
        self.inner.gone(client, out);
    }

    /// Snapshots of one process are complete in the order in which they were begun.
    fn told(&mut self, event: Told, out: &mut Vec<Deed<Recorded<Erased>>>) {
        if let Telling::Complete(cut) = &event {
            self.answered += 1;
            if let Some(client) = self.askers.pop_front() {
                let head = alloc::format!("snapshot {}: {}", cut.snapshot, cut.verdict());
                let text = core::iter::once(head).chain(cut.lines()).collect::<Vec<_>>().join("\n");
                out.push(Deed::Tell(client, Word::Event { text }));
            }
        }
        self.inner.told(event, out);
    }

    fn standing(&self) -> Standing {
        let inner = self.inner.standing();
        Standing { served: inner.served + self.answered, ..inner }
    }
}
