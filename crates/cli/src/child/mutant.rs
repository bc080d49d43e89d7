//! Mutants of runner and keeper, for tests that must show that they would notice. Without the feature `mutants` there are none.

/// What a broken runner or keeper does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "service", feature = "laboratory")),
    expect(dead_code, reason = "some are about what only one half of the binary has")
)]
pub enum Mutant {
    /// The runner prints by itself, and waits for it.
    SpeaksItself,
    /// It gives back what a command holds that it could not end.
    ClosesWhatRuns,
    /// It forgets the signals that arrive while the command starts.
    ForgetsEarlySignals,
    /// It does not stop when its command does.
    IgnoresStops,
    /// The keeper acts on each deadline three seconds late.
    EndsLate,
    /// It acts on what the runner said before, though there is news.
    ActsOnOldNews,
    /// It is done when the command is, whatever the command left behind.
    ForgetsTheRest,
    /// The runner of a live group takes what it has for something that does not run out.
    ForgetsLeases,
}

/// Names the mutant that a process is.
#[cfg(feature = "mutants")]
const CHOSEN: &str = "CONCLAVE_RUNNER_MUTANT";

#[cfg(feature = "mutants")]
pub fn is(mutant: Mutant) -> bool {
    static NAMED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var(CHOSEN).ok());
    named.as_ref().is_some_and(|name| *name == format!("{mutant:?}"))
}

#[cfg(not(feature = "mutants"))]
pub const fn is(_: Mutant) -> bool {
    false
}
