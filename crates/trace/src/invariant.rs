//! Invariants of a process, asserted without ending the program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use conclave_core::Protocol;

thread_local! {
    /// Whether a panic on this thread is about to be caught here.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// The sentence with which an invariant of this process fails, if one does; see [`Protocol::assert_invariants`].
///
/// What the caller does with it is a violation like any other: the run ends, and can be told as a script.
#[inline(never)]
pub fn broken_invariant<P: Protocol>(state: &P) -> Option<String> {
    silence_caught_panics();
    IS_CAUGHT.set(true);
    // The state is only read, so that a panic leaves nothing half done.
    let result = catch_unwind(AssertUnwindSafe(|| state.assert_invariants()));
    IS_CAUGHT.set(false);
    let payload = result.err()?;
    let sentence = payload.downcast_ref::<String>().cloned();
    let sentence = sentence.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
    Some(sentence.unwrap_or_else(|| "an invariant does not hold".into()))
}

/// Panics that are caught here are not printed. All others still go to the hook that was there before.
fn silence_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                print(panic);
            }
        }));
    });
}
