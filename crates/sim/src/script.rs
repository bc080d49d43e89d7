//! Plays golden scripts.

use conclave_algorithms::mutex::{Judgement, Locks, Mutex, Properties, Violation};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Channels, Named, NamedConfig, SettingError};
use conclave_core::{Incarnation, Members, Message, Moment, NodeId, Observer, Phase, Process, Transit};
use conclave_trace::{Carry, Command, Header, Script, Setup, Trace, What, Which, message_text};

use crate::mutual::{append_violation, settings_of};
use crate::recorder::{Recorder, event_text};
use crate::stage::Stage;

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
    let Some(setup) = script.setup() else { unreachable!("a script without `run` is refused by its parser") };
    let name = setup.algorithm.clone();
    registry::visit(&name, Player { script, setup }).ok_or(PlayError::UnknownAlgorithm(name))?
}

struct Player<'a> {
    script: &'a Script,
    setup: &'a Setup,
}

impl Visitor for Player<'_> {
    type Output = Result<Played, PlayError>;

    fn mutex<A: Mutex>(self) -> Self::Output {
        let Cast { members, config, fifo, properties, header } = Cast::<A>::new(self.setup)?;
        if self.setup.locks > 1 {
            let stage = Stage::<Named<A>, _>::new(
                members,
                NamedConfig::new(config),
                fifo,
                properties,
                (Recorder::new(), Narrator::default()),
            );
            return perform(self.script, stage, header);
        }
        let stage =
            Stage::<A, _>::new(members, config, fifo, properties, (Recorder::new(), Narrator::default()));
        perform(self.script, stage, header)
    }
}

/// Everything that a stage for an algorithm needs.
pub(crate) struct Cast<A: Mutex> {
    pub members: Members,
    pub config: A::Config,
    pub fifo: bool,
    pub properties: Properties,
    pub header: Header,
}

impl<A: Mutex> Cast<A> {
    pub fn new(setup: &Setup) -> Result<Self, SettingError> {
        let settings = settings_of::<A>(setup)?;
        let members = Members::listed(setup.nodes.clone());
        let config = A::configure(&settings, &members)?;
        let header = setup.to_header(A::ABOUT.channels.name());
        let fifo = header.channels == Channels::Fifo.name();
        let properties = Properties::new::<A>(&config, &members, setup.locks, None);
        Ok(Self { members, config, fifo, properties, header })
    }
}

fn perform<L: Locks>(
    script: &Script,
    mut stage: Stage<L, (Recorder<L>, Narrator)>,
    header: Header,
) -> Result<Played, PlayError> {
    let mut script = script.clone();
    let mut difference = None;
    let mut told = false;
    for block in &mut script.blocks {
        let mut lines = Vec::new();
        for (command, line) in &block.commands {
            stage.apply(command).map_err(|why| PlayError::Impossible { line: *line, why })?;
            lines.append(&mut stage.observer().1.lines);
            if let Command::Show(process) = command {
                let index =
                    stage.world().members().position(*process).expect("the parser knows the processes");
                lines.push(format!("{:?}", stage.world().state(index)));
            }
            if let Some(violation) = stage.properties().violation().filter(|_| !told) {
                lines.push(format!("! {}: {}", violation.property, violation.detail));
                told = true;
            }
        }
        let line = block.commands.first().map_or(0, |(_, line)| *line);
        difference = difference.or_else(|| first_difference(line, &block.recorded, &lines));
        block.recorded = lines;
    }
    stage.end();
    let violation = stage.properties().violation().cloned();
    let mut trace = stage.observer().0.trace(header);
    if let Some(violation) = &violation {
        append_violation(&mut trace, violation);
    }
    Ok(Played { script, trace, judgements: stage.properties().judgements(), violation, difference })
}

fn first_difference(line: usize, recorded: &[String], came_out: &[String]) -> Option<Difference> {
    let longest = recorded.len().max(came_out.len());
    let place = (0..longest).find(|place| recorded.get(*place) != came_out.get(*place))?;
    Some(Difference { line, recorded: recorded.get(place).cloned(), came_out: came_out.get(place).cloned() })
}

/// Tells in one line what a process did with an input.
#[derive(Clone, Debug, Default)]
struct Narrator {
    lines: Vec<String>,
    phases: Vec<Option<&'static str>>,
    parts: Vec<String>,
}

impl<L: Locks> Observer<L> for Narrator {
    fn send(&mut self, _at: &Moment, transit: &Transit, message: &L::Message) {
        let text = message_text(message.kind(), message);
        self.parts.push(format!("{} => {} {text}", transit.from.id, transit.to.id));
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, message: &L::Message) {
        self.lines.push(format!("{} => {} {} is lost", transit.from.id, transit.to.id, message.kind()));
    }

    fn emit(&mut self, _at: &Moment, process: Process, event: &L::Event) {
        self.parts.push(format!("{} {}", process.id, event_text::<L>(event)));
    }

    fn reject(&mut self, _at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.parts.push(format!("{} rejects {from}: {why}", process.id));
    }

    fn handled(&mut self, _at: &Moment, process: Process, phase: Phase) {
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

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.lines.push(format!("{} crashes", process.id));
        if let Some(phase) = self.phases.get_mut(process.index()) {
            *phase = None;
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, durable: bool) {
        let with = if durable { "with" } else { "without" };
        self.lines.push(format!("{} is up again, {life}, {with} what it saved", process.id));
    }
}

/// The commands that repeat a recorded run.
#[must_use]
pub fn commands_of(trace: &Trace) -> Vec<Command> {
    let mut commands = Vec::new();
    for record in &trace.records {
        let carried = |what, carried: &conclave_trace::Carried| Command::Carry {
            what,
            from: carried.from,
            to: carried.to,
            which: Which::Nth(carried.nth),
        };
        let Some(process) = record.process else { continue };
        commands.push(match &record.what {
            What::Request { request, lock } => {
                Command::Ask { process, request: request.clone(), lock: *lock }
            }
            What::Deliver(message) => carried(Carry::Deliver, message),
            What::Drop(message) => carried(Carry::Drop, message),
            What::Duplicate(message) => carried(Carry::Duplicate, message),
            What::Timer { timer } => Command::Timer { process, timer: timer.clone() },
            What::Crash => Command::Crash(process),
            What::Restart { durable, .. } => Command::Restart { process, amnesia: !durable },
            What::Suspect { peer } => Command::Suspect { process, peer: *peer },
            What::Trust { peer } => Command::Trust { process, peer: *peer },
            What::Start
            | What::Event { .. }
            | What::Send(_)
            | What::Pause
            | What::Resume
            | What::Partition { .. }
            | What::Heal { .. }
            | What::Reject { .. }
            | What::Violation { .. } => continue,
        });
    }
    commands
}
