//! What the lab needs of the program around it: its command line and its algorithms.

use conclave_algorithms::{About, Violation};
use conclave_core::NodeId;
use conclave_live::supervisor::Plan;
use conclave_sim::step::Stage;
use conclave_sim::{Played, Property};
use conclave_trace::{Script, Setup, Trace};
use serde_json::{Map, Value};

use crate::{Limits, Problem, Run};

/// Options by their names, as a recipe has them.
pub type Options = Map<String, Value>;

/// The program around the lab: it has one definition of the options and one list of the algorithms.
pub trait Bench: Send + Sync + 'static {
    /// The options of each command, for `api/v1/options`.
    fn options(&self) -> Value;

    /// Families and algorithms, for `api/v1/catalogue`.
    fn catalogue(&self) -> Value;

    /// What an algorithm says of itself.
    fn about(&self, algorithm: &str) -> Option<&'static About>;

    /// About how many messages a simulated run takes.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit, or the run is over the limits.
    fn expected_messages(&self, algorithm: &str, options: &Options, limits: &Limits) -> Result<u64, Problem>;

    /// Simulates a run.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit, or the run is over the limits.
    fn simulate(&self, algorithm: &str, options: &Options, limits: &Limits) -> Result<Simulated, Problem>;

    /// Plays a script, and reports as the command line does.
    ///
    /// # Errors
    /// If it cannot be played.
    fn play(&self, script: &Script) -> Result<(Played, String), Problem>;

    /// The beginning of a run that these may join.
    ///
    /// # Errors
    /// If there is no such algorithm, or it cannot be set up so.
    fn stage(&self, setup: &Setup, newcomers: &[NodeId]) -> Result<Stage, Problem>;

    /// A file of a run, in a format that the command line writes, and its media type.
    ///
    /// # Errors
    /// If there is no such format, or the query is not one of its options.
    fn export(&self, run: &Run, format: &str, query: &Options) -> Result<(&'static str, Vec<u8>), Problem>;

    /// What a cluster with these options shall be; its name is left to the lab.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit, or the cluster is over the limits.
    fn cluster(&self, algorithm: &str, options: &Options, limits: &Limits) -> Result<Plan, Problem>;

    /// Searches all runs, from the beginning or from a moment of a run. `watch` hears how far it is, and says whether to go on.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit, or it was told to stop.
    fn check(
        &self,
        algorithm: &str,
        options: &Options,
        from: Option<(&Run, usize)>,
        limits: &Limits,
        watch: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Searched, Problem>;

    /// Compares algorithms: the report of the command line, and the plots.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit, or it was told to stop.
    fn compare(
        &self,
        algorithms: &[String],
        options: &Options,
        watch: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Value, Problem>;

    /// A short script that breaks the same property as a simulated run, if there is one.
    ///
    /// # Errors
    /// If the options cannot be read or do not fit.
    fn shrink(
        &self,
        algorithm: &str,
        options: &Options,
        property: &str,
        limits: &Limits,
    ) -> Result<Option<Script>, Problem>;

    /// What became of the promises in a run of real processes, and the report of it.
    ///
    /// # Errors
    /// If the run means nothing.
    fn recorded(&self, name: &str, trace: &Trace) -> Result<Recorded, Problem>;
}

/// What is said about a run of real processes.
pub struct Recorded {
    /// The report of the command line, in JSON.
    pub report: String,
    /// What became of the properties that are promised.
    pub promised: Vec<Property>,
    /// What became of the others.
    pub other: Vec<Property>,
    /// The promise that it broke, if it did.
    pub violation: Option<Violation>,
    /// Why the properties are not judged, if they are not.
    pub unjudged: Option<&'static str>,
}

/// A simulated run.
pub struct Simulated {
    /// What runs.
    pub setup: Setup,
    /// What happened.
    pub trace: Trace,
    /// The report of the command line, in JSON.
    pub report: String,
    /// What became of the properties that are promised.
    pub promised: Vec<Property>,
    /// What became of the others.
    pub other: Vec<Property>,
    /// The promise that it broke, if it did.
    pub violation: Option<Violation>,
    /// The command that repeats it.
    pub command: String,
}

/// What a search found.
pub struct Searched {
    /// `held`, `broken` or `incomplete`.
    pub outcome: &'static str,
    /// The report of the command line.
    pub report: Value,
    /// How a promise is broken, and the step after which that cannot be avoided any more.
    pub counterexample: Option<(Script, Option<usize>)>,
}
