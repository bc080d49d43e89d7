//! Plays golden scripts.

use conclave_algorithms::erased::{Erased, ErasedEvent, ErasedMessage, Prepared};
use conclave_algorithms::family::Registered;
use conclave_algorithms::{Judgement, SettingError, Violation};
use conclave_core::{
    Disturbance, Incarnation, Message as _, Moment, NodeId, Observer, Phase, Process, Protocol as _, Transit,
};
use conclave_trace::{Command, Header, Record, Script, Trace, What, inside_step, message_text};

use crate::recorder::{Recorder, Words};
use crate::run::{Outline, prepare, prepare_algorithm};
use crate::scripted::ScriptedRun;

/// A script that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// The script with what was recorded this time.
    pub script: Script,
    /// What happened.
    pub trace: Trace,
    /// What became of the properties.
    pub judgements: Vec<Judgement>,
    /// The promise that was broken, if any.
    pub violation: Option<Violation>,
    /// Where it came out differently from what the script had recorded.
    pub difference: Option<Difference>,
    /// By block of the script: how many records the trace had when it was over.
    pub marks: Vec<usize>,
}

/// Where a script came out differently from what was recorded in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the first command of the block.
    pub line: usize,
    /// What was recorded, if anything.
    pub recorded: Option<String>,
    /// What came out, if anything.
    pub came_out: Option<String>,
}

/// Why a script cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// The script does not say what runs.
    #[error("the script has no `run`")]
    NoRun,
    /// The script names an algorithm that does not exist.
    #[error("there is no algorithm '{0}'")]
    UnknownAlgorithm(String),
    /// The settings do not fit.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A command is not possible at its place.
    #[error("line {line}: {why}")]
    Impossible {
        /// The line.
        line: usize,
        /// Why not.
        why: String,
    },
}

/// Plays a script from its beginning.
///
/// # Errors
/// If the script asks for what does not exist, or a command is not possible at its place.
pub fn play(script: &Script) -> Result<Played, PlayError> {
    let Some(setup) = script.setup() else { return Err(PlayError::NoRun) };
    let prepared = prepare(setup, &script.newcomers())?;
    let header = Outline::from(&prepared).header(setup);
    play_blocks(script, &prepared, header)
}

/// Plays a script of an algorithm that no registry has to know.
///
/// # Errors
/// As [`play`].
pub fn play_algorithm<R: Registered>(script: &Script) -> Result<Played, PlayError> {
    let Some(setup) = script.setup() else { return Err(PlayError::NoRun) };
    let prepared = prepare_algorithm::<R>(setup, &script.newcomers())?;
    let header = Outline::from(&prepared).header(setup);
    play_blocks(script, &prepared, header)
}

/// A stage, and perhaps a scribe who keeps what happens there, in both forms. Shortening needs none, on the same stage.
pub(crate) type RecordedRun = ScriptedRun<Option<(Recorder<Erased>, Narrator)>>;

/// Carries out one command; gives the lines that a script records of it. The first broken promise is told once.
pub(crate) fn perform(
    stage: &mut RecordedRun,
    command: &Command,
    told: &mut bool,
) -> Result<Vec<String>, String> {
    stage.apply(command)?;
    let mut lines: Vec<String> =
        stage.observer().iter_mut().flat_map(|(_, narrator)| narrator.lines.drain(..)).collect();
    if let Command::Show(process) = command {
        let index = stage.world().members().position(*process).expect("the stage knows the processes");
        lines.push(format!("{:?}", stage.world().state(index)));
    }
    if let Some(violation) = stage.judge().violation().filter(|_| !*told) {
        lines.push(format!("! {}: {}", violation.property, violation.detail));
        *told = true;
    }
    Ok(lines)
}

pub(crate) fn play_blocks(script: &Script, prepared: &Prepared, header: Header) -> Result<Played, PlayError> {
    let mut stage = RecordedRun::new(prepared, header.timing, Some((Recorder::new(), Narrator::new())));
    let mut script = script.clone();
    let mut difference = None;
    let mut told = false;
    let mut marks = Vec::new();
    for block in &mut script.blocks {
        let mut lines = Vec::new();
        for (command, line) in &block.commands {
            let told_now = perform(&mut stage, command, &mut told);
            lines.extend(told_now.map_err(|why| PlayError::Impossible { line: *line, why })?);
        }
        let line = block.commands.first().map_or(0, |(_, line)| *line);
        difference = difference.or_else(|| first_difference(line, &block.recorded, &lines));
        block.recorded = lines;
        marks.push(stage.observer().as_ref().map_or(0, |(recorder, _)| recorder.len()));
    }
    stage.end();
    let violation = stage.judge().violation().cloned();
    let (recorder, _) = stage.observer().take().expect("it was there from the beginning");
    let mut trace = recorder.trace(header, &Words::ERASED);
    if let Some(violation) = &violation {
        append_violation(&mut trace, violation);
    }
    Ok(Played { script, trace, judgements: stage.judge().judgements(), violation, difference, marks })
}

fn first_difference(line: usize, recorded: &[String], came_out: &[String]) -> Option<Difference> {
    let longest = recorded.len().max(came_out.len());
    let place = (0..longest).find(|place| recorded.get(*place) != came_out.get(*place))?;
    Some(Difference { line, recorded: recorded.get(place).cloned(), came_out: came_out.get(place).cloned() })
}

/// Tells in one line what a process did with an input.
#[derive(Clone)]
pub(crate) struct Narrator {
    lines: Vec<String>,
    phases: Vec<Option<&'static str>>,
    parts: Vec<String>,
    /// After how many effects of its step the process that is about to crash was interrupted.
    interrupted: Option<u32>,
}

impl Narrator {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new(), phases: Vec::new(), parts: Vec::new(), interrupted: None }
    }
}

impl Observer<Erased> for Narrator {
    fn send(&mut self, _at: &Moment, transit: &Transit, message: &ErasedMessage) {
        let text = message_text(message);
        self.parts.push(format!("{} => {} {text}", transit.from.id, transit.to.id));
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, message: &ErasedMessage) {
        self.lines.push(format!("{} => {} {} is lost", transit.from.id, transit.to.id, message.kind()));
    }

    fn emit(&mut self, _at: &Moment, process: Process, event: &ErasedEvent) {
        self.parts.push(format!("{} {}", process.id, event.told()));
    }

    fn reject(&mut self, _at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.parts.push(format!("{} rejects {from}: {why}", process.id));
    }

    fn handled(&mut self, _at: &Moment, process: Process, state: &Erased) {
        let phase = state.phase();
        if self.phases.len() <= process.index() {
            self.phases.resize(process.index() + 1, None);
        }
        let last = self.phases[process.index()].replace(phase.name).unwrap_or(Phase::IDLE.name);
        if last != phase.name {
            self.parts.insert(0, format!("{} {last} -> {}", process.id, phase.name));
        }
        if !self.parts.is_empty() {
            self.lines.push(self.parts.join("   "));
            self.parts.clear();
        }
    }

    fn interrupt(&mut self, _at: &Moment, _process: Process, after: u32) {
        self.interrupted = Some(after);
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.lines.push(format!("{} crashes{}", process.id, inside_step(self.interrupted.take())));
        if let Some(phase) = self.phases.get_mut(process.index()) {
            *phase = None;
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, durable: bool) {
        let with = if durable { "with" } else { "without" };
        self.lines.push(format!("{} is up again, {life}, {with} what it saved", process.id));
    }

    fn disturb(&mut self, _at: &Moment, what: &Disturbance) {
        // No command brings the others about.
        if let Disturbance::Join(process) = what {
            self.lines.push(format!("{} joins", process.id));
        }
    }
}

/// Adds the breaking of a promise as the last record.
pub(crate) fn append_violation(trace: &mut Trace, violation: &Violation) {
    let last = trace.records.last();
    let record = Record {
        id: trace.records.len() as u64,
        time: last.map_or(0, |record| record.time),
        process: None,
        what: What::Violation { property: violation.property.into(), detail: violation.detail.clone() },
        phase: String::new(),
        clock: None,
        cause: None,
        lamport: last.map_or(0, |record| record.lamport),
        vector: None,
    };
    trace.records.push(record);
}
