//! Mutants of the server, for tests that must show that they would notice.
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
    /// A node that lost its disk trusts the answers of a majority, and does not wait for those of all.
    FloorOfMajority,
    /// A read trusts acknowledgements of log entries, as the consensus library does.
    TrustsAcknowledgements,
    /// A new leader goes on with the clock of its former leadership.
    KeepsClock,
    /// Batches and what waits for them are bounded by the number of commands only.
    BatchesByCount,
    /// Tokens begin with 1.
    ForgetsFloor,
    /// A leader that has nothing else to write does not write the service time either.
    LeavesTimeUnwritten,
    /// Whatever is wrong at the end of a log is taken for a torn write, and cut off.
    CutsDamage,
    /// The last write of a log is trusted after a restart, and not written again.
    TrustsLastWrite,
    /// A node takes what nodes of another format say, and what another format left on its disk.
    TakesAnyFormat,
    /// A node that lost its disk asks the others once, and does not look whether they are the same processes a second time.
    AsksOnce,
    /// A node that recovers wants whatever its leader has by now.
    ChasesLeader,
    /// A planned stop hands the lead to whoever has most, whether it takes part or not.
    AnyHeir,
    /// Who was elected last is taken for a leader that serves, however long it has been silent.
    TrustsElections,
    /// A node that is told that the leader is gone does not look for itself.
    BelievesOneNode,
    /// A page ends by the number of items only.
    PagesByCount,
    /// A client is told everything in one message, however long that is.
    SaysAllAtOnce,
    /// Leases run out twice as fast as they should.
    HurriesTime,
    /// Those who follow an election are not told of changes.
    TellsNoLeaders,
    /// A disk that hangs is waited for like one that is slow.
    WaitsForDisks,
    /// A node does not compare what it has with what others remember of it.
    TrustsOldFiles,
    /// Those who follow changes stay with a leader that no majority answers.
    KeepsReaders,
    /// Of the names that a batch changes only the first is told to those who watch.
    TellsOneName,
    /// The state machine does something wrong.
    #[cfg(feature = "mutants")]
    Faulty(conclave_service::Fault),
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
    chosen() == Some(mutant)
}

/// What this process does wrong, if anything.
#[cfg(feature = "mutants")]
pub(crate) fn chosen() -> Option<Mutant> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(choose_by_environment);
    CHOSEN.get().copied()
}

/// Those that a process can be by its environment.
#[cfg(feature = "mutants")]
const ALL: &[Mutant] = &[
    Mutant::FloorOfMajority,
    Mutant::TrustsAcknowledgements,
    Mutant::KeepsClock,
    Mutant::BatchesByCount,
    Mutant::ForgetsFloor,
    Mutant::LeavesTimeUnwritten,
    Mutant::CutsDamage,
    Mutant::TrustsLastWrite,
    Mutant::TakesAnyFormat,
    Mutant::AsksOnce,
    Mutant::ChasesLeader,
    Mutant::AnyHeir,
    Mutant::TrustsElections,
    Mutant::BelievesOneNode,
    Mutant::PagesByCount,
    Mutant::SaysAllAtOnce,
    Mutant::WaitsForDisks,
    Mutant::TrustsOldFiles,
    Mutant::KeepsReaders,
];

/// Names the mutant that a process is, unless it has been chosen.
#[cfg(feature = "mutants")]
const NAMED: &str = "CONCLAVE_SERVER_MUTANT";

#[cfg(feature = "mutants")]
fn choose_by_environment() {
    let named = std::env::var(NAMED).ok();
    let mutant = named.and_then(|name| ALL.iter().find(|mutant| format!("{mutant:?}") == name));
    if let Some(mutant) = mutant {
        choose(*mutant);
    }
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}

/// Unit tests that must fail with a mutant. Each runs again in a process of its own, since a mutant is a matter of a whole
/// process.
#[cfg(all(test, feature = "mutants"))]
pub(crate) mod tests {
    use std::process::Command;

    use super::{ALL, Mutant, NAMED};

    /// Makes sure that a test of this binary fails with a mutant, and says this.
    pub(crate) fn assert_caught(test: &str, mutant: Mutant, says: &str) {
        assert!(ALL.contains(&mutant), "{mutant:?} can be chosen");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(NAMED, format!("{mutant:?}"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("1 passed") || said.contains("1 failed"), "{test} is no test: {said}");
        assert!(!output.status.success(), "{mutant:?} is not caught by {test}");
        assert!(said.contains(says), "{mutant:?} is caught, but not because \"{says}\": {said}");
    }
}
