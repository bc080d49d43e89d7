//! The memory: words, and what the system keeps for processes that wait without spinning.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use conclave_core::NodeId;

use super::access::{Access, Word};
use super::locks::{Lock, region, semaphore};

/// The memory of a machine with its processors, and what its system keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    lock: Lock,
    /// All who compete; they are dealt out to the processors in this order.
    all: Arc<[NodeId]>,
    /// All words that are not 0.
    words: BTreeMap<Word, u32>,
    /// Who has switched off the interrupts of a processor.
    off: BTreeMap<usize, NodeId>,
    /// Who goes on when it can run again, and with what.
    ready: VecDeque<(NodeId, Access)>,
    /// What the semaphore counts.
    semaphore: i32,
    /// Who waits at it.
    asleep: VecDeque<NodeId>,
    guard: Guard,
}

/// What guards a critical region or a monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Guard {
    inside: Option<NodeId>,
    /// Who waits to get in, and for which condition.
    entry: VecDeque<(NodeId, Condition)>,
    /// Who waits for a signal.
    waiting: VecDeque<NodeId>,
}

/// A word has this value; none is always true.
type Condition = Option<(Word, u32)>;

/// An access is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose it was.
    pub to: NodeId,
    /// What was read, or the rule that it broke.
    pub value: Result<u32, &'static str>,
}

impl Store {
    /// All is 0, and the semaphore has as many places as the lock.
    pub fn new(lock: Lock, all: Arc<[NodeId]>) -> Self {
        Self {
            lock,
            all,
            words: BTreeMap::new(),
            off: BTreeMap::new(),
            ready: VecDeque::new(),
            semaphore: i32::try_from(lock.places()).unwrap_or(i32::MAX),
            asleep: VecDeque::new(),
            guard: Guard::default(),
        }
    }

    /// A process wants to carry out an access. Returns all accesses that are over now.
    pub fn arrive(&mut self, from: NodeId, access: Access) -> Vec<Reply> {
        let mut replies = Vec::new();
        if self.is_held_up(from) {
            self.ready.push_back((from, access));
        } else {
            self.carry_out(from, access, &mut replies);
        }
        replies
    }

    /// What a word is.
    pub fn read(&self, word: Word) -> u32 {
        self.words.get(&word).copied().unwrap_or(0)
    }

    /// Writes a word, and returns what it was.
    fn write(&mut self, word: Word, value: u32) -> u32 {
        let old = if value == 0 { self.words.remove(&word) } else { self.words.insert(word, value) };
        old.unwrap_or(0)
    }

    /// One access in one step: nothing comes between what it reads and what it writes.
    fn carry_out(&mut self, from: NodeId, access: Access, replies: &mut Vec<Reply>) {
        let value = match access {
            Access::Read { word } => Ok(self.read(word)),
            Access::Write { word, value } => {
                self.write(word, value);
                Ok(0)
            }
            Access::TestAndSet { word } => Ok(self.write(word, 1)),
            Access::Swap { word, value } => Ok(self.write(word, value)),
            Access::CompareAndSwap { word, expected, value } => {
                let old = self.read(word);
                if old == expected {
                    self.write(word, value);
                }
                Ok(old)
            }
            Access::FetchAndAdd { word, modulo } => {
                let next = self.read(word).wrapping_add(1).checked_rem(modulo);
                next.map(|next| self.write(word, next)).ok_or("a word counts modulo 1 at least")
            }
            Access::DisableInterrupts => {
                self.off.insert(self.processor(from), from);
                Ok(0)
            }
            Access::EnableInterrupts => return self.enable(from, replies),
            Access::P => return self.take(from, replies),
            Access::V => return self.put_back(from, replies),
            Access::EnterRegion { when } => return self.come(from, when, replies),
            Access::EnterMonitor => return self.come(from, None, replies),
            Access::LeaveRegion
            | Access::LeaveMonitor
            | Access::Wait
            | Access::Signal
            | Access::Broadcast => return self.act_inside(from, access, replies),
            Access::Value { .. } => Err("the memory asks for nothing"),
        };
        replies.push(Reply { to: from, value });
    }

    /// Which processor a process runs on.
    fn processor(&self, process: NodeId) -> usize {
        let count = match self.lock {
            Lock::Interrupts(processors, _) => processors.count.max(1) as usize,
            _ => 1,
        };
        self.all.iter().position(|one| *one == process).unwrap_or(0) % count
    }

    /// Whether somebody else has switched off the interrupts of the processor that a process runs on.
    fn is_held_up(&self, process: NodeId) -> bool {
        self.off.get(&self.processor(process)).is_some_and(|holder| *holder != process)
    }

    /// Interrupts are on again: those of this processor go on, until one of them switches them off.
    fn enable(&mut self, from: NodeId, replies: &mut Vec<Reply>) {
        let processor = self.processor(from);
        self.off.remove(&processor);
        replies.push(Reply { to: from, value: Ok(0) });
        while let Some((process, access)) = self.schedule() {
            self.carry_out(process, access, replies);
        }
    }

    /// The scheduler takes one of those who can run.
    fn schedule(&mut self) -> Option<(NodeId, Access)> {
        let can_run = |(process, _): &(NodeId, Access)| !self.is_held_up(*process);
        let last_first = matches!(self.lock, Lock::Interrupts(processors, _) if processors.last_first);
        let place = if last_first {
            self.ready.iter().rposition(can_run)
        } else {
            self.ready.iter().position(can_run)
        };
        self.ready.remove(place?)
    }

    /// Semaphore: one is taken. The answer comes when there was one.
    fn take(&mut self, from: NodeId, replies: &mut Vec<Reply>) {
        self.semaphore = self.semaphore.saturating_sub(1);
        let lowest = match self.lock {
            Lock::Semaphore(_, Some(semaphore::Mutation::OneTooMany)) => -1,
            _ => 0,
        };
        if self.semaphore < lowest {
            self.asleep.push_back(from);
        } else {
            replies.push(Reply { to: from, value: Ok(0) });
        }
    }

    /// Semaphore: one is put back, and whoever has waited longest has it.
    fn put_back(&mut self, from: NodeId, replies: &mut Vec<Reply>) {
        self.semaphore = self.semaphore.saturating_add(1);
        replies.push(Reply { to: from, value: Ok(0) });
        if !matches!(self.lock, Lock::Semaphore(_, Some(semaphore::Mutation::LostWakeup))) {
            replies.extend(self.asleep.pop_front().map(|to| Reply { to, value: Ok(0) }));
        }
    }

    /// Somebody comes to a region or a monitor. The answer comes when it is inside.
    fn come(&mut self, from: NodeId, when: Condition, replies: &mut Vec<Reply>) {
        if self.guard.inside.is_none() && self.is_true(when) {
            self.guard.inside = Some(from);
            replies.push(Reply { to: from, value: Ok(0) });
        } else {
            self.guard.entry.push_back((from, when));
        }
    }

    fn is_true(&self, condition: Condition) -> bool {
        condition.is_none_or(|(word, value)| self.read(word) == value)
    }

    /// What only the one who is inside a region or a monitor may do.
    fn act_inside(&mut self, from: NodeId, access: Access, replies: &mut Vec<Reply>) {
        if self.guard.inside != Some(from) {
            let value = Err("only who is inside a region or a monitor may do that");
            return replies.push(Reply { to: from, value });
        }
        let done = Reply { to: from, value: Ok(0) };
        match access {
            // The answer comes when somebody has signalled and the monitor is free.
            Access::Wait => {
                self.guard.waiting.push_back(from);
                self.let_next_in(replies);
            }
            Access::Signal => {
                replies.push(done);
                let woken = self.guard.waiting.pop_front();
                self.guard.entry.extend(woken.map(|process| (process, None)));
            }
            Access::Broadcast => {
                replies.push(done);
                let woken = core::mem::take(&mut self.guard.waiting);
                self.guard.entry.extend(woken.into_iter().map(|process| (process, None)));
            }
            _ => {
                replies.push(done);
                self.let_next_in(replies);
            }
        }
    }

    /// Nobody is inside any more: in goes the first of those whose condition is true.
    fn let_next_in(&mut self, replies: &mut Vec<Reply>) {
        let rechecks = !matches!(self.lock, Lock::Region(Some(region::Mutation::NoRecheck)));
        let may_enter = |(_, when): &(NodeId, Condition)| self.is_true(*when) && (rechecks || when.is_none());
        let place = self.guard.entry.iter().position(may_enter);
        let next = place.and_then(|place| self.guard.entry.remove(place)).map(|(process, _)| process);
        self.guard.inside = next;
        replies.extend(next.map(|to| Reply { to, value: Ok(0) }));
    }

    /// Asserts what is true of the memory between two accesses.
    pub fn assert_invariants(&self) {
        assert!(self.words.values().all(|value| *value != 0), "a word that is 0 is not kept");
        assert!(self.ready.is_empty() || !self.off.is_empty(), "nobody is held up while interrupts are on");
    }
}
