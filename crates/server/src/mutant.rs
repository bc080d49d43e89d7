//! Broken twins of the server, for tests that must show that they would notice.
//!
//! A mutant is a matter of a whole process, since it is chosen before anything else happens there: so nothing has to be
//! passed from hand to hand through code that knows nothing of mutants. Without the feature `mutants` there are none.

/// What a broken server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A leader answers before the others have agreed.
    AnswersEarly,
    /// A new leader takes its own clock for service time, instead of going on where the last leader stopped.
    OwnClock,
    /// It does not remember which requests it has seen.
    #[cfg(feature = "mutants")]
    ForgetsRequests,
}

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<Mutant> = std::sync::OnceLock::new();

/// Makes every node of this process do that wrong from now on. The first choice stays.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Mutant) {
    CHOSEN.get_or_init(|| mutant);
}

#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(&mutant)
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
