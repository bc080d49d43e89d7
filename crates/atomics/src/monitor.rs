//! Critical regions and monitors, made of what the standard library has.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Lock;

/// A conditional critical region: `region v when B do S`.
#[derive(Debug)]
pub struct Region<T> {
    value: Mutex<T>,
    left: Condvar,
}

impl<T> Region<T> {
    /// Over this value.
    pub fn over(value: T) -> Self {
        Self { value: Mutex::new(value), left: Condvar::new() }
    }

    /// Does something in exclusion over the value, once a condition is true of it.
    pub fn when<R>(&self, mut condition: impl FnMut(&T) -> bool, does: impl FnOnce(&mut T) -> R) -> R {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let value = self.left.wait_while(value, |value| !condition(value));
        let mut value = value.unwrap_or_else(PoisonError::into_inner);
        let result = does(&mut value);
        // Whoever waits looks at its condition again.
        self.left.notify_all();
        result
    }
}

/// Two regions make a lock: one takes the value when it is free, the other frees it.
impl Lock for Region<bool> {
    fn new(_threads: usize) -> Self {
        Self::over(false)
    }

    fn enter(&self, _me: usize) {
        self.when(|held| !held, |held| *held = true);
    }

    fn leave(&self, _me: usize) {
        self.when(|_| true, |held| *held = false);
    }
}

/// A monitor with two procedures, to enter and to leave: tickets inside, and a condition on which to wait for one's own.
#[derive(Debug, Default)]
pub struct Monitor {
    state: Mutex<Tickets>,
    served: Condvar,
}

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    serving: u64,
}

impl Monitor {
    fn inside(&self) -> MutexGuard<'_, Tickets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lock for Monitor {
    fn new(_threads: usize) -> Self {
        Self::default()
    }

    fn enter(&self, _me: usize) {
        let mut state = self.inside();
        let ticket = state.next;
        state.next += 1;
        // A loop, since whoever is woken may find that another is served.
        while state.serving != ticket {
            state = self.served.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn leave(&self, _me: usize) {
        self.inside().serving += 1;
        self.served.notify_all();
    }
}
