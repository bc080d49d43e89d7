//! The lab: makes runs from recipes and keeps them for a while.

use std::sync::Arc;

use conclave_core::NodeId;
use conclave_sim::{Played, Property, examples};
use conclave_trace::{Block, Command, Script, Setup};
use serde_json::{Value, json};

use crate::fork;
use crate::keep::Keep;
use crate::recipe::Recipe;
use crate::run::{Mark, Origin, Run, too_large};
use crate::{Bench, Code, Limits, Problem, Simulated};

/// Makes runs, keeps them for a while, and asks the program around it for what it does not know itself.
pub struct Lab {
    pub(crate) bench: Arc<dyn Bench>,
    pub(crate) limits: Limits,
    keep: Keep,
}

impl Run {
    /// A simulated run.
    ///
    /// # Errors
    /// If the algorithm cannot be set up as the trace says.
    pub fn simulated(
        simulated: Simulated,
        recipe: Option<Recipe>,
        bench: &dyn Bench,
    ) -> Result<Self, Problem> {
        // What the trace says was decided, and not only what was asked for.
        let setup = Setup::from_header(&simulated.trace.header);
        let about = bench.about(&setup.algorithm);
        let about =
            about.ok_or_else(|| Problem::refused(format!("there is no algorithm '{}'", setup.algorithm)))?;
        let stage = bench.stage(&setup, &simulated.trace.header.newcomers)?;
        let origin = Origin {
            recipe,
            kind: "sim",
            about,
            report: simulated.report,
            command: simulated.command,
            script: None,
            marks: Vec::new(),
            promised: simulated.promised,
            other: simulated.other,
            violation: simulated.violation,
        };
        let mut run = Self::new(origin, simulated.trace, stage);
        run.setup_text = simulated.setup.to_string();
        Ok(run)
    }
}

impl Lab {
    /// A lab in which nothing has been run.
    #[must_use]
    pub fn new(bench: Arc<dyn Bench>, limits: Limits) -> Self {
        Self { bench, limits, keep: Keep::default() }
    }

    /// Makes the run of a recipe, or finds it where it has been made already.
    ///
    /// # Errors
    /// If it is no recipe, or makes no run.
    pub fn make(&self, recipe: &Value) -> Result<Arc<Run>, Problem> {
        self.run(&Recipe::read(recipe)?)
    }

    /// The run of this name, if it is still kept.
    ///
    /// # Errors
    /// If it is not.
    pub fn find(&self, id: &str) -> Result<Arc<Run>, Problem> {
        self.keep.find(id).ok_or_else(|| {
            Problem::new(Code::Gone, format!("run '{id}' is not kept any more")).hint("post its recipe again")
        })
    }

    pub(crate) fn run(&self, recipe: &Recipe) -> Result<Arc<Run>, Problem> {
        let (mut run, forks) = match self.nearest(recipe) {
            Some(found) => found,
            None => (self.keep(self.original(&recipe.first(0))?), 0),
        };
        for (place, fork) in recipe.forks.iter().enumerate().skip(forks) {
            let forked = fork.of(&run, &*self.bench)?;
            let recipe = recipe.first(place + 1);
            let mut next = self.played(&recipe, &by_command(forked.script), forked_command(), true)?;
            next.fork =
                json!({ "at": fork.at, "do": fork.commands, "then": fork.then, "skipped": forked.skipped });
            run = self.keep(next);
        }
        Ok(run)
    }

    /// The last run on the way to that of a recipe that is kept, and how many forks it has.
    fn nearest(&self, recipe: &Recipe) -> Option<(Arc<Run>, usize)> {
        let mut forks = (0..=recipe.forks.len()).rev();
        forks.find_map(|forks| Some((self.keep.find(&recipe.first(forks).id())?, forks)))
    }

    /// A counterexample as a run.
    pub(crate) fn counterexample(
        &self,
        script: &Script,
        unavoidable_after: Option<usize>,
    ) -> Result<Arc<Run>, Problem> {
        let recipe = Recipe { script: Some(script.to_string()), ..Recipe::default() };
        let mut run = self.original(&recipe)?;
        run.point_of_no_return = unavoidable_after.map(|step| step.min(run.steps()));
        Ok(self.keep(run))
    }

    /// The shortest run that is found which breaks the same promise.
    pub(crate) fn shrunk(&self, run: &Run) -> Result<Arc<Run>, Problem> {
        let Some(violation) = &run.violation else {
            return Err(Problem::refused("no promise is broken in this run"));
        };
        let simulated = run.recipe.as_ref().filter(|recipe| recipe.forks.is_empty());
        let script = match simulated.and_then(|recipe| Some((recipe, recipe.algorithm.as_ref()?))) {
            Some((recipe, algorithm)) => {
                self.bench.shrink(algorithm, &recipe.options, violation.property, &self.limits)?
            }
            None => fork::shorter(run, violation.property, &*self.bench)?,
        };
        let script = script.ok_or_else(|| {
            Problem::refused(format!("no short run that breaks {} was found", violation.property))
        })?;
        let recipe = Recipe { script: Some(script.to_string()), ..Recipe::default() };
        self.run(&recipe)
    }

    pub(crate) fn keep(&self, run: Run) -> Arc<Run> {
        let run = Arc::new(run);
        self.keep.add(Arc::clone(&run));
        run
    }

    fn original(&self, recipe: &Recipe) -> Result<Run, Problem> {
        if let Some(algorithm) = &recipe.algorithm {
            return self.simulated(recipe, algorithm);
        }
        if let Some(name) = &recipe.example {
            let example = examples::find(name)
                .ok_or_else(|| Problem::new(Code::Unknown, format!("there is no example '{name}'")))?;
            return self.played(recipe, &example.script, format!("conclave example {}", example.name), false);
        }
        let script = Script::parse(recipe.script.as_deref().unwrap_or_default()).map_err(Problem::refused)?;
        self.played(recipe, &script, forked_command(), false)
    }

    fn simulated(&self, recipe: &Recipe, algorithm: &str) -> Result<Run, Problem> {
        self.about(algorithm)?;
        let simulated = self.bench.simulate(algorithm, &recipe.options, &self.limits)?;
        Run::check_size(&simulated.trace, &self.limits)?;
        Run::simulated(simulated, Some(recipe.clone()), &*self.bench)
    }

    /// Plays a script; one that was made of commands alone is written with a block for each that is seen.
    fn played(&self, recipe: &Recipe, script: &Script, command: String, made: bool) -> Result<Run, Problem> {
        let Some(setup) = script.setup() else { return Err(Problem::refused("the script has no `run`")) };
        let about = self.about(&setup.algorithm)?;
        if setup.nodes.len() > self.limits.processes {
            return Err(too_large(setup.nodes.len(), 0, &self.limits));
        }
        let (played, report) = self.bench.play(script)?;
        Run::check_size(&played.trace, &self.limits)?;
        let Played { mut script, trace, judgements, violation, marks, .. } = played;
        let marks = if made {
            script = seen(script);
            Vec::new()
        } else {
            let blocks = script.blocks.iter().zip(marks);
            let mark = |(block, records): (&Block, usize)| Mark {
                comments: block.comments.clone(),
                recorded: block.recorded.clone(),
                records,
            };
            blocks.map(mark).collect()
        };
        let (promised, other): (Vec<_>, Vec<_>) =
            judgements.into_iter().partition(|judgement| judgement.promised);
        let plain = |list: Vec<_>| list.into_iter().map(Property::from).collect();
        let newcomers: &[NodeId] = &trace.header.newcomers;
        let stage = self.bench.stage(&Setup::from_header(&trace.header), newcomers)?;
        let origin = Origin {
            recipe: Some(recipe.clone()),
            kind: "script",
            about,
            report,
            command,
            script: Some(script.to_string()),
            marks,
            promised: plain(promised),
            other: plain(other),
            violation,
        };
        Ok(Run::new(origin, trace, stage))
    }

    pub(crate) fn about(&self, algorithm: &str) -> Result<&'static conclave_algorithms::About, Problem> {
        self.bench.about(algorithm).ok_or_else(|| {
            Problem::new(Code::Unknown, format!("there is no algorithm '{algorithm}'"))
                .hint("the catalogue has all of them")
        })
    }

    /// About how many events it takes to make a run; nothing for one that is kept.
    ///
    /// # Errors
    /// If the recipe makes no run.
    pub(crate) fn weight(&self, recipe: &Recipe) -> Result<u64, Problem> {
        let all = recipe.forks.len() as u64;
        // Every run on the way is played from its beginning.
        if let Some((run, forks)) = self.nearest(recipe) {
            return Ok((all - forks as u64).saturating_mul(run.trace().records.len() as u64));
        }
        let first = match (&recipe.algorithm, &recipe.script) {
            (Some(algorithm), _) => {
                self.about(algorithm)?;
                self.bench.expected_messages(algorithm, &recipe.options, &self.limits)?
            }
            (None, Some(script)) => script_weight(script),
            (None, None) => 100,
        };
        Ok(first.saturating_mul(all + 1))
    }
}

/// A command may be told to everybody, and `settle` delivers that and what comes of it.
fn script_weight(text: &str) -> u64 {
    let script = Script::parse(text).ok();
    let everyone = script.as_ref().and_then(Script::setup).map_or(0, |setup| setup.nodes.len() as u64);
    let commands = script.iter().flat_map(|script| &script.blocks).map(|block| block.commands.len() as u64);
    let settles = text.matches("settle").count() as u64;
    (commands.sum::<u64>() + settles).saturating_mul(everyone)
}

fn forked_command() -> String {
    "conclave replay run.script".into()
}

/// A block for each command, so that it is told what came of each.
fn by_command(script: Script) -> Script {
    let commands = script.blocks.into_iter().flat_map(|block| block.commands);
    let block = |command: (Command, usize)| Block { commands: vec![command], ..Block::default() };
    Script { blocks: commands.map(block).collect() }
}

/// What had no visible effect stands with the next that has one.
fn seen(script: Script) -> Script {
    let mut seen = Script::default();
    let mut open = Block::default();
    for block in script.blocks {
        open.commands.extend(block.commands);
        open.recorded = block.recorded;
        if !open.recorded.is_empty() {
            seen.blocks.push(core::mem::take(&mut open));
        }
    }
    if !open.commands.is_empty() {
        seen.blocks.push(open);
    }
    seen
}
