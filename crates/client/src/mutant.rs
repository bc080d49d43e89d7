//! Mutants of the client, for tests that must show that they would notice. Without the feature `mutants` there are none.

/// What a broken client does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// It waits to be told that a lease has run out, and does not look at the clock itself.
    TrustsTimers,
    /// It takes every answer for a renewal, also a refusal that a node gives by itself.
    RefusalsRenew,
    /// It closes a session that has run out, so that others are given what it held at once.
    ClosesAtTheEnd,
    /// It leaves in the queue what nobody waits for any more.
    LeavesWaits,
    /// It believes in a grant that the service no longer counts when a session is taken up again.
    KeepsWhatIsGone,
    /// It takes what is said to a former run of itself for its own.
    HearsOtherLives,
    /// It says everything in one message, however long that is.
    SendsAllAtOnce,
    /// It keeps what it is granted after it was told that it is refused.
    KeepsWhatWasRefused,
    /// It keeps of a stream nothing but what comes, and not the way to the node.
    LetsGoOfConnections,
}

/// Names the mutant that a process is, unless it has been chosen.
#[cfg(feature = "mutants")]
const NAMED: &str = "CONCLAVE_CLIENT_MUTANT";

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Makes every client of this process do that wrong from now on. The first choice stays.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Mutant) {
    CHOSEN.get_or_init(|| format!("{mutant:?}"));
}

#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    let chosen = CHOSEN.get_or_init(|| std::env::var(NAMED).unwrap_or_default());
    *chosen == format!("{mutant:?}")
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
