//! Whether anybody still wants what is being simulated.
//!
//! Runs and scripts are in the hands of an algorithm that may never come to rest. Who has to answer in time, or is told to stop,
//! leaves them in their middle.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static GIVEN_UP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// It was given up before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp;

/// Does something on this thread, and leaves every simulation in it as soon as `given_up` is set.
///
/// # Errors
/// If it was left.
pub fn unless<T>(given_up: Arc<AtomicBool>, work: impl FnOnce() -> T) -> Result<T, GivenUp> {
    let before = GIVEN_UP.replace(Some(given_up));
    let done = catch_unwind(AssertUnwindSafe(work));
    GIVEN_UP.set(before);
    done.map_err(|reason| match reason.downcast::<GivenUp>() {
        Ok(given_up) => *given_up,
        Err(reason) => resume_unwind(reason),
    })
}

/// Leaves what nobody wants any more.
pub(crate) fn go_on() {
    let is_given_up = GIVEN_UP
        .with_borrow(|given_up| given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::Relaxed)));
    if is_given_up {
        resume_unwind(Box::new(GivenUp));
    }
}

#[cfg(test)]
mod tests {
    use conclave_trace::Script;

    use super::*;
    use crate::play;

    fn settled(given_up: bool) -> Result<bool, GivenUp> {
        let script = Script::parse("run central -n 2\nrequest 1\nsettle\n---\n").unwrap();
        unless(Arc::new(AtomicBool::new(given_up)), || play(&script).is_ok())
    }

    #[test]
    fn what_is_given_up_is_left_and_the_next_is_not() {
        assert_eq!(settled(false), Ok(true));
        assert_eq!(settled(true), Err(GivenUp));
        assert_eq!(settled(false), Ok(true));
    }
}
