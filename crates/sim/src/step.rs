//! A run by hand: one command at a time, with everything that can happen next, and a way back.
//!
//! Terminals and pages drive this. It knows no input and no output: commands come in, lines and values go out.
//!
//! ```
//! use conclave_sim::step::Stepper;
//! use conclave_trace::Setup;
//!
//! let mut run = Stepper::new(&Setup::numbered("central", 2)).unwrap();
//! let request = "request 1".parse().unwrap();
//! assert_eq!(run.take(request).unwrap(), ["p1 idle -> waiting   p1 => p2 Request{1.1}"]);
//! let next = run.choices().remove(0);
//! assert_eq!(next.to_string(), "deliver p1 => p2");
//! assert!(run.back());
//! assert!(run.choices().is_empty());
//! ```

use conclave_algorithms::erased::Prepared;
use conclave_algorithms::family::{Registered, Usage};
use conclave_algorithms::{About, Judgement, Violation};
use conclave_core::{Incarnation, NodeId, Phase, Protocol as _, Timing};
use conclave_trace::{Block, Carry, Command, Script, Setup};

use crate::recorder::Recorder;
use crate::run::{Outline, prepare, prepare_algorithm};
use crate::script::{Narrator, PlayError, Played, RecordedRun, perform, play_blocks};
use crate::scripted::InFlight;
use crate::world::Presence;

type Prepare = fn(&Setup, &[NodeId]) -> Result<Prepared, PlayError>;

/// A run by hand of which nothing is recorded, so that it is cheap to copy: it stands at a moment of a recorded run.
#[derive(Clone)]
pub struct Stage {
    run: RecordedRun,
}

impl Stage {
    /// Carries out one command.
    ///
    /// # Errors
    /// If it is not possible at this moment.
    pub fn apply(&mut self, command: &Command) -> Result<(), String> {
        self.run.apply(command)
    }

    /// The oldest messages in flight, at most so many.
    #[must_use]
    pub fn in_flight(&self, most: usize) -> Vec<InFlight> {
        self.run.oldest_in_flight(most)
    }

    /// How many messages are in flight.
    #[must_use]
    pub fn travelling(&self) -> usize {
        self.run.world().travelling()
    }

    /// The timers that are armed.
    #[must_use]
    pub fn armed(&self) -> Vec<(NodeId, String)> {
        self.run.armed()
    }

    /// Every process as it stands.
    #[must_use]
    pub fn processes(&self) -> Vec<Standing> {
        standings(&self.run)
    }

    /// Everything about a process that a step may change, and how many messages are in flight: the same again if a step did
    /// nothing.
    #[must_use]
    pub fn fingerprint(&self, process: NodeId) -> Option<(String, usize)> {
        let world = self.run.world();
        let place = world.members().position(process)?;
        Some((format!("{:?}", world.state(place)), world.travelling()))
    }

    /// The phase of every process that is up.
    #[must_use]
    pub fn phases(&self) -> Vec<(NodeId, Phase)> {
        let world = self.run.world();
        let up = (0..world.members().len()).filter(|place| world.is_up(*place));
        up.map(|place| (world.process(place).id, world.state(place).phase())).collect()
    }

    /// The properties as they stand; what only the end shows is open.
    #[must_use]
    pub fn judgements(&self) -> Vec<Judgement> {
        self.run.judge().judgements()
    }

    /// The promise that has been broken, if any.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.run.judge().violation()
    }
}

fn standings(run: &RecordedRun) -> Vec<Standing> {
    let world = run.world();
    let places = 0..world.members().len();
    let standing = places.map(|place| Standing {
        id: world.process(place).id,
        presence: world.presence(place),
        life: world.life(place),
        phase: world.state(place).phase(),
        state: values(&format!("{:?}", world.state(place))),
    });
    standing.collect()
}

/// A run that goes on when it is told to.
pub struct Stepper {
    setup: Setup,
    newcomers: Vec<NodeId>,
    prepare: Prepare,
    prepared: Prepared,
    run: RecordedRun,
    /// A broken promise has been told.
    told: bool,
    done: Vec<Done>,
}

/// A command that was carried out, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command.
    pub command: Command,
    /// What came of it, as a script records it.
    pub lines: Vec<String>,
}

/// A process as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub id: NodeId,
    /// Whether it is there.
    pub presence: Presence,
    /// Which of its lives this is.
    pub life: Incarnation,
    /// What it is doing, as far as it is up.
    pub phase: Phase,
    /// Its state, value by value: `desk.holder`, `Some(p3)`. What never changes is left out.
    pub state: Vec<(String, String)>,
}

impl Stepper {
    /// A run of an algorithm of the registry in which nothing has happened yet.
    ///
    /// # Errors
    /// If there is no such algorithm, or it cannot be set up so.
    pub fn new(setup: &Setup) -> Result<Self, PlayError> {
        Self::prepared_by(setup, prepare)
    }

    /// The same for an algorithm that no registry has to know.
    ///
    /// # Errors
    /// If it cannot be set up so.
    pub fn of<R: Registered>(setup: &Setup) -> Result<Self, PlayError> {
        Self::prepared_by(setup, |setup, newcomers| Ok(prepare_algorithm::<R>(setup, newcomers)?))
    }

    fn prepared_by(setup: &Setup, prepare: Prepare) -> Result<Self, PlayError> {
        let prepared = prepare(setup, &[])?;
        let run = recorded(&prepared, setup.timing);
        let (setup, newcomers, done) = (setup.clone(), Vec::new(), Vec::new());
        Ok(Self { setup, newcomers, prepare, prepared, run, told: false, done })
    }

    /// What the algorithm says of itself.
    #[must_use]
    pub fn about(&self) -> &'static About {
        self.prepared.about
    }

    /// What applications may ask for.
    #[must_use]
    pub fn requests(&self) -> &'static [Usage] {
        self.prepared.about.family.requests
    }

    /// Carries out one command, and gives what came of it.
    ///
    /// # Errors
    /// If it is not possible at this moment; then nothing has changed.
    pub fn take(&mut self, command: Command) -> Result<&[String], String> {
        let command = match command {
            Command::Join(process)
                if self.knows(process) && self.requests().iter().any(|usage| usage.verb == "join") =>
            {
                Command::Ask { process, request: "join".into(), lock: 0 }
            }
            command => command,
        };
        match &command {
            Command::Run(_) => return Err("it is running already".into()),
            Command::Ask { lock, .. } if *lock >= self.setup.locks => {
                return Err(format!("lock {lock} does not exist; there are {}", self.setup.locks));
            }
            Command::Join(process) if !self.knows(*process) => self.expect(*process)?,
            _ => {}
        }
        let performed = perform(&mut self.run, &command, &mut self.told);
        // Some commands fail half way, as one that settles what never rests.
        let lines = performed.inspect_err(|_| self.repeat())?;
        self.done.push(Done { command, lines });
        Ok(self.done.last().map_or(&[], |done| &done.lines))
    }

    fn knows(&self, process: NodeId) -> bool {
        self.run.world().members().contains(process)
    }

    /// Makes room for somebody who is going to join: a run has to know it from its beginning.
    fn expect(&mut self, process: NodeId) -> Result<(), String> {
        let newcomers = [&self.newcomers[..], &[process]].concat();
        self.prepared = (self.prepare)(&self.setup, &newcomers).map_err(|error| error.to_string())?;
        self.newcomers = newcomers;
        self.repeat();
        Ok(())
    }

    /// Takes the last command back; says whether there was one.
    pub fn back(&mut self) -> bool {
        let had = self.done.pop().is_some();
        self.repeat();
        had
    }

    /// Does once more what has been done.
    fn repeat(&mut self) {
        self.run = recorded(&self.prepared, self.setup.timing);
        self.told = false;
        for done in &self.done {
            // It was possible before, and nothing has changed since.
            let _ = perform(&mut self.run, &done.command, &mut self.told);
        }
    }

    /// What has been done so far.
    #[must_use]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    /// The messages in flight, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.run.in_flight()
    }

    /// The timers that are armed.
    #[must_use]
    pub fn armed(&self) -> Vec<(NodeId, String)> {
        self.run.armed()
    }

    /// What can happen next by itself: a message arrives, or a timer expires.
    #[must_use]
    pub fn choices(&self) -> Vec<Command> {
        let arriving = self.in_flight().into_iter().filter(|letter| letter.deliverable);
        let arriving = arriving.map(|InFlight { message, which, .. }| Command::Carry {
            what: Carry::Deliver,
            from: message.from,
            to: message.to,
            which,
        });
        let expiring = self.armed().into_iter().map(|(process, timer)| Command::Timer { process, timer });
        arriving.chain(expiring).collect()
    }

    /// Every process as it stands.
    #[must_use]
    pub fn processes(&self) -> Vec<Standing> {
        standings(&self.run)
    }

    /// The beginning of a run of the same setup that these may join, without a record.
    ///
    /// # Errors
    /// If nobody may join.
    pub fn stage(&self, newcomers: &[NodeId]) -> Result<Stage, PlayError> {
        let prepared = (self.prepare)(&self.setup, newcomers)?;
        Ok(Stage { run: RecordedRun::new(&prepared, self.setup.timing, None) })
    }

    /// The properties as they stand; what only the end shows is open.
    #[must_use]
    pub fn judgements(&self) -> Vec<Judgement> {
        self.run.judge().judgements()
    }

    /// The promise that has been broken, if any.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.run.judge().violation()
    }

    /// All of it as a script.
    #[must_use]
    pub fn script(&self) -> Script {
        let mut block = Block { commands: vec![(Command::Run(self.setup.clone()), 0)], ..Block::default() };
        let mut blocks = Vec::new();
        for done in &self.done {
            block.commands.push((done.command.clone(), 0));
            block.recorded.clone_from(&done.lines);
            // What had no visible effect stands with the next that has one.
            if !done.lines.is_empty() {
                blocks.push(core::mem::take(&mut block));
            }
        }
        if !block.commands.is_empty() {
            blocks.push(block);
        }
        Script { blocks }
    }

    /// The whole run, played from its beginning and judged as if this were its end.
    ///
    /// # Errors
    /// None that the commands themselves have not had.
    pub fn played(&self) -> Result<Played, PlayError> {
        let header = Outline::from(&self.prepared).header(&self.setup);
        play_blocks(&self.script(), &self.prepared, header)
    }
}

fn recorded(prepared: &Prepared, timing: Timing) -> RecordedRun {
    RecordedRun::new(prepared, timing, Some((Recorder::new(), Narrator::new())))
}

/// What a process always is, and every reader knows.
const CONSTANT: [&str; 3] = ["id", "members", "config"];

/// The values of a state, by the names of its fields.
///
/// It is read from what `Debug` prints: every state has that, whatever its algorithm.
#[must_use]
pub fn values(state: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather("", state, &mut found);
    found
}

fn gather(path: &str, value: &str, found: &mut Vec<(String, String)>) {
    let Some(fields) = fields(value) else {
        if !path.is_empty() {
            found.push((path.to_owned(), value.to_owned()));
        }
        return;
    };
    for field in pieces(fields) {
        let Some((name, value)) = field.split_once(": ") else { continue };
        if !CONSTANT.contains(&name) {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            gather(&path, value, found);
        }
    }
}

/// What stands in the braces of a value with named fields.
fn fields(value: &str) -> Option<&str> {
    let value = value.strip_prefix("Some(").and_then(|value| value.strip_suffix(')')).unwrap_or(value);
    let (name, rest) = value.split_once(" { ")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    rest.strip_suffix(" }").filter(|_| is_name)
}

/// Parts at commas that stand in no brackets and no quotes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    let mut pieces = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(text[start..].trim());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stepper(text: &str) -> Stepper {
        let script = Script::parse(&format!("run {text}\n---\n")).unwrap();
        Stepper::new(script.setup().unwrap()).unwrap()
    }

    fn take(run: &mut Stepper, line: &str) -> Vec<String> {
        run.take(line.parse().unwrap()).unwrap_or_else(|why| panic!("{line}: {why}")).to_vec()
    }

    fn written(commands: &[Command]) -> Vec<String> {
        commands.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_are_read_from_what_is_printed() {
        let state = r#"Led { id: p1, lead: Some(Desk { holder: None, queue: [(p1, 2), (p2, 3)] }), config: C { a: 1 },
            word: "a, { b", map: {p1: 2}, phase: Idle }"#;
        let state = state.replace("\n            ", " ");
        let found = values(&state);
        let found: Vec<_> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "lead.holder=None",
            "lead.queue=[(p1, 2), (p2, 3)]",
            r#"word="a, { b""#,
            "map={p1: 2}",
            "phase=Idle",
        ];
        assert_eq!(found, expected);
        assert!(values("Unit").is_empty());
    }

    #[test]
    fn what_can_happen_is_offered_and_can_be_taken_back() {
        let mut run = stepper("bully -n 3");
        take(&mut run, "crash 3");
        take(&mut run, "start 1");
        assert_eq!(written(&run.choices()), ["deliver p1 => p2", "deliver p1 => p3", "timer 1 Answer"]);
        take(&mut run, "deliver p1 => p2");
        let after = run.processes();
        assert_eq!(after[1].phase, Phase::ELECTING);
        assert_eq!(after[2].presence, Presence::Down);
        assert!(run.back());
        assert_eq!(run.processes()[1].phase, Phase::IDLE);
        take(&mut run, "deliver p1 => p2");
        assert_eq!(run.processes(), after);
        assert!(run.back() && run.back() && run.back() && !run.back());
        assert!(run.choices().is_empty());
    }

    #[test]
    fn only_the_oldest_of_a_fifo_channel_can_arrive() {
        let mut run = stepper("lamport -n 2");
        for line in ["request 1", "request 2", "deliver p1 => p2"] {
            take(&mut run, line);
        }
        let (flying, choices) = (run.in_flight(), run.choices());
        assert_eq!(flying.len(), 2, "{flying:?}");
        assert_eq!(written(&choices), ["deliver p2 => p1"]);
        let mut unordered = stepper("lamport -n 2 --channels any");
        for line in ["request 1", "request 2", "deliver p1 => p2"] {
            take(&mut unordered, line);
        }
        assert_eq!(written(&unordered.choices()), ["deliver p2 => p1", "deliver p2 => p1 Reply"]);
    }

    #[test]
    fn what_is_not_possible_changes_nothing() {
        // The token goes round, and nobody wants it: this never settles, and gives up half way.
        let mut run = stepper("token-ring -n 3");
        take(&mut run, "wait 1");
        let before = (run.processes(), run.in_flight());
        for wrong in
            ["deliver p3 => p2", "timer 1 Nothing", "restart 1", "request 2 lock 1", "settle", "show 9"]
        {
            assert!(run.take(wrong.parse().unwrap()).is_err(), "{wrong}");
            assert_eq!((run.processes(), run.in_flight()), before, "{wrong}");
        }
        assert_eq!(run.done().len(), 1);
    }

    #[test]
    fn a_script_of_it_plays_and_breaks_the_same() {
        let mut run = stepper("ricart-agrawala -n 2 --mutant no-tie-break");
        for line in ["request 1", "request 2"] {
            take(&mut run, line);
        }
        while let Some(next) = run.choices().into_iter().next() {
            run.take(next).unwrap();
        }
        assert_eq!(run.violation().map(|violation| violation.property), Some("ME1"));
        let text = run.script().to_string();
        let played = crate::play(&Script::parse(&text).unwrap()).unwrap();
        assert_eq!(played.difference, None, "{text}");
        assert_eq!(played.violation, run.played().unwrap().violation);
    }

    #[test]
    fn somebody_may_join_who_was_not_expected() {
        let mut run = stepper("ricart-agrawala -n 3 --set recovery=on");
        take(&mut run, "request 1");
        let lines = take(&mut run, "join 4");
        assert!(lines.iter().any(|line| line == "p4 joins"), "{lines:?}");
        let mut closed = stepper("ricart-agrawala -n 3");
        assert!(closed.take("join 4".parse().unwrap()).is_err());
        assert!(closed.take("request 1".parse().unwrap()).is_ok());
    }
}
