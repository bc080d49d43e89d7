//! What a search found.

use conclave_trace::Script;
use serde::Serialize;

use crate::search::Stopped;
use conclave_algorithms::application::AskBudget;

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the algorithm.
    pub algorithm: String,
    /// How many processes took part.
    pub nodes: usize,
    /// The mutant that was searched instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// How often each process asked: a number, or `forever`.
    pub entries: AskBudget,
    /// What could go wrong, in words.
    pub failures: String,
    /// How messages and time were taken, in words.
    pub network: String,
    /// Ticks that a message took at most, where time was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u16>,
    /// Distinct states found.
    pub states: usize,
    /// Steps between them.
    pub transitions: u64,
    /// Steps from the beginning to the farthest state.
    pub depth: u32,
    /// What the verdicts rely on, in words: what cannot happen in the model and may happen elsewhere.
    pub assumes: Vec<String>,
    /// Whether everything was seen.
    pub complete: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Stopped>,
    /// Whether steps were left out because they commute with others.
    pub reduced: bool,
    /// Whether numbers that only grow were moved down.
    pub normalised: bool,
    /// How many threads searched.
    pub threads: usize,
    /// Bytes in use at the end.
    pub memory: usize,
    /// How long it took.
    pub wall_seconds: f64,
    /// How fast it was.
    pub states_per_second: f64,
    /// What became of every property.
    pub properties: Vec<Property>,
    /// The situations that should be met, and whether they were.
    pub coverage: Vec<Coverage>,
    /// The most entries by others that a known request had to see, and how many the algorithm allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overtaking: Option<Overtaking>,
    /// How a promise is broken.
    pub counterexample: Option<Counterexample>,
}

impl Report {
    /// Whether no promise was broken.
    #[must_use]
    pub fn all_held(&self) -> bool {
        self.counterexample.is_none()
    }

    /// What became of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }
}

/// What became of one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Its code, `ME1`.
    pub name: &'static str,
    /// What it claims.
    pub claim: &'static str,
    /// Whether the algorithm promises it.
    pub promised: bool,
    /// Whether it held; nothing if it was not judged in every run, for which `detail` has the reason.
    pub holds: Option<bool>,
    /// More about that.
    pub detail: String,
}

/// A situation that should be met: if it never is, the verdict says less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The situation.
    pub situation: &'static str,
    /// What had happened before; empty if nothing need have.
    pub after: &'static str,
    /// Whether it was met.
    pub met: bool,
}

/// How often a request was overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Overtaking {
    /// At most so often, over all schedules. Where requests have no end and there is no bound, the number of processes stands
    /// for itself and all that is more.
    pub most: u64,
    /// The bound that is promised.
    pub bound: Option<u64>,
}

/// How a promise is broken.
#[derive(Clone, Debug, Serialize)]
pub struct Counterexample {
    /// The property.
    pub property: &'static str,
    /// What happens, in a sentence.
    pub detail: String,
    /// Steps to the breaking, or to where the circle begins.
    pub steps: usize,
    /// Steps of the circle that goes on forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circle: Option<usize>,
    /// The step after which it could no longer be avoided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavoidable_after: Option<usize>,
    /// As a script that the simulator plays.
    #[serde(serialize_with = "as_text")]
    pub script: Script,
}

fn as_text<S: serde::Serializer>(script: &Script, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(script)
}
