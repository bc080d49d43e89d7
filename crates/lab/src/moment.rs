//! A moment of a run: the state of every process, what is in flight, what may be done.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use conclave_core::{NodeId, Phase};
use conclave_sim::step::{Stage, Standing};
use conclave_sim::world::Presence;
use conclave_trace::{Carry, Command, Record, Scene, Waiter, Waits, What, describe};
use serde_json::{Value, json};

use crate::Problem;
use crate::run::{Moments, Run, band, judgements_json, not_judged, time_text};

/// The states of so many processes are given without being asked for.
const FEW: usize = 64;
/// So many messages in flight are told, and so many commands.
const MOST: usize = 500;

impl Moments {
    /// Plays the run from its beginning, and keeps every so many moments.
    pub fn of(run: &Run, mut stage: Stage) -> Self {
        let n = run.trace().header.nodes.len().max(1);
        // In most algorithms the state of a process grows with the group.
        let most = (4_000_000 / (n * n)).clamp(4, 400);
        let interval = (run.steps() / most + 1).max(64);
        let begins = run.trace().records[..run.events_at(0)].iter().any(|record| record.what == What::Start);
        if begins {
            // That time passes is a command like others: whoever has not started does so first.
            let _ = stage.apply(&Command::Wait(0));
        }
        let mut scene = Scene::default();
        let mut seen = note(&mut scene, run, 0, 0);
        let mut kept = vec![(stage.clone(), scene.clone())];
        let (mut reach, mut failed) = (0, None);
        for (at, command) in (1..).zip(&run.commands) {
            if let Err(why) = stage.apply(command) {
                failed = Some(format!("'{command}' cannot be repeated: {why}"));
                break;
            }
            seen = note(&mut scene, run, seen, at);
            reach = at;
            if at % interval == 0 {
                kept.push((stage.clone(), scene.clone()));
            }
        }
        Self { kept: Mutex::new(kept), interval, reach, why: failed }
    }
}

/// Takes the records up to a moment into account; says how many there are.
fn note(scene: &mut Scene, run: &Run, seen: usize, moment: usize) -> usize {
    let end = run.events_at(moment);
    run.trace().records[seen..end].iter().for_each(|record| scene.note(record, run.trace()));
    end
}

impl Run {
    /// The stage and the scene of a moment.
    pub(crate) fn stage_at(&self, moment: usize) -> Result<(Stage, Scene), Problem> {
        if moment > self.steps() {
            return Err(Problem::refused(format!(
                "there is no moment {moment}; they go from 0 to {}",
                self.steps()
            )));
        }
        if moment > self.moments.reach {
            let why = self.moments.why.as_deref().unwrap_or_default();
            return Err(Problem::refused(format!("the states of moment {moment} are not known: {why}")));
        }
        let place = moment / self.moments.interval;
        let (mut stage, mut scene) =
            self.moments.kept.lock().unwrap_or_else(PoisonError::into_inner)[place].clone();
        let first = place * self.moments.interval;
        for command in &self.commands[first..moment] {
            stage.apply(command).map_err(Problem::refused)?;
        }
        note(&mut scene, self, self.events_at(first), moment);
        Ok((stage, scene))
    }

    /// Everything about a moment; of a large group the states of these processes.
    pub(crate) fn at(&self, moment: usize, of: &BTreeSet<NodeId>) -> Result<Value, Problem> {
        let (stage, scene) = self.stage_at(moment)?;
        let before = match moment.checked_sub(1) {
            Some(before) => self.stage_at(before)?.0.processes(),
            None => Vec::new(),
        };
        let (begin, end) =
            (moment.checked_sub(1).map_or(0, |before| self.events_at(before)), self.events_at(moment));
        let happened = &self.trace().records[begin..end];
        let processes = stage.processes();
        let asks = Asks { run: self, stage: &stage };
        let few = processes.len() <= FEW;
        let mut commands = Vec::new();
        let in_flight = self.in_flight(&stage, &mut commands);
        let timers = stage.armed().into_iter().map(|(process, timer)| {
            let command = Command::Timer { process, timer: timer.clone() }.to_string();
            commands.push(command.clone());
            json!({ "process": process.0, "timer": timer, "command": command })
        });
        let timers: Vec<_> = timers.collect();
        let mut listed = Vec::new();
        for (place, standing) in processes.iter().enumerate() {
            let earlier = before.get(place);
            let changed = moment > 0 && earlier != Some(standing);
            let shown = few || changed || of.contains(&standing.id);
            let requests = if shown { asks.of(standing) } else { Vec::new() };
            commands.extend(requests.iter().cloned());
            commands.extend(match standing.presence {
                Presence::Up => Some(Command::Crash(standing.id).to_string()),
                Presence::Down => Some(Command::Restart { process: standing.id, amnesia: false }.to_string()),
                Presence::Absent => Some(Command::Join(standing.id).to_string()),
                Presence::Gone => None,
            });
            listed.push(process_json(standing, earlier, changed, shown, &requests));
        }
        let properties = self.properties_at(moment, &stage);
        let broken = self.broken_at().is_some_and(|step| step as usize <= moment);
        commands.truncate(MOST);
        Ok(json!({
            "at": moment,
            "steps": self.steps(),
            "time": self.time_at(moment),
            "events": [begin, end],
            "command": moment.checked_sub(1).map(|step| self.commands[step].to_string()),
            "happened": happened.iter().map(describe).collect::<Vec<_>>(),
            "processes": listed,
            "in_flight": in_flight,
            "in_flight_total": stage.travelling(),
            "timers": timers,
            "properties": properties,
            "violation": if broken { self.violation_json() } else { Value::Null },
            "waits": self.waits_json(&scene.waits(&self.trace().header.nodes)),
            "commands": commands,
        }))
    }

    /// The properties so far; at the end of the run what it has shown.
    fn properties_at(&self, moment: usize, stage: &Stage) -> Value {
        if moment == self.steps() {
            return self.properties.clone();
        }
        let mut properties = judgements_json(stage.judgements());
        let excused = |record: &Record| matches!(record.what, What::Pause | What::Partition { .. });
        if self.trace().records[..self.events_at(moment)].iter().any(excused) {
            not_judged(
                &mut properties,
                "there were pauses or cuts, and these states are played without them",
            );
        }
        properties
    }

    fn in_flight(&self, stage: &Stage, commands: &mut Vec<String>) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let letters = stage.in_flight(MOST).into_iter().map(|letter| {
            let message = letter.message;
            let (from, to, nth) = (message.from, message.to, message.nth);
            let command = |what| Command::Carry { what, from, to, which: letter.which.clone() }.to_string();
            let [deliver, drop, duplicate] = [Carry::Deliver, Carry::Drop, Carry::Duplicate].map(command);
            let possible = [&deliver, &drop, &duplicate].into_iter().filter(|what| letter.deliverable || *what != &deliver);
            commands.extend(possible.cloned());
            json!({
                "from": from.0, "to": to.0, "message": message.message, "text": message.label(), "fields": message.fields,
                "nth": nth, "send": self.send(from, to, nth), "deliverable": letter.deliverable,
                "copy": !seen.insert((from, to, nth)), "deliver": deliver, "drop": drop, "duplicate": duplicate,
                "name": format!("{from} => {to} #{nth}"),
            })
        });
        letters.collect()
    }

    fn waits_json(&self, waits: &Waits) -> Value {
        let waiters = waits.waiters.iter().map(|waiter| {
            json!({
                "process": waiter.process.0, "phase": waiter.phase, "since": waiter.since, "silent": numbers(&waiter.silent),
                "answering": numbers(&waiter.answering), "sentence": self.waiting(waiter, waits),
            })
        });
        let edges = waits
            .waiters
            .iter()
            .flat_map(|waiter| waiter.silent.iter().map(|peer| [waiter.process.0, peer.0]));
        json!({
            "waiters": waiters.collect::<Vec<_>>(),
            "holders": numbers(&waits.holders),
            "down": numbers(&waits.down),
            "edges": edges.collect::<Vec<_>>(),
            "circle": waits.circle().map(|circle| numbers(&circle)),
        })
    }

    /// Why a process waits, in a sentence.
    fn waiting(&self, waiter: &Waiter, waits: &Waits) -> String {
        let since = self.trace().records.get(waiter.since as usize).map_or(0, |record| record.time);
        let mut text = format!("{} is {} since {}", waiter.process, waiter.phase, time_text(since));
        let mut facts = Vec::new();
        if !waiter.silent.is_empty() {
            facts.push(format!("no answer from {}", names(&waiter.silent)));
        }
        let with = |those: &[NodeId]| -> Vec<NodeId> {
            waiter.silent.iter().copied().filter(|peer| those.contains(peer)).collect()
        };
        for (those, is, are) in [(&waits.holders, "has it", "have it"), (&waits.down, "is down", "are down")]
        {
            match with(those).as_slice() {
                [] => {}
                [one] => facts.push(format!("{one} {is}")),
                many => facts.push(format!("{} {are}", names(many))),
            }
        }
        if !waiter.answering.is_empty() {
            facts.push(format!("in flight to it from {}", names(&waiter.answering)));
        }
        if !facts.is_empty() {
            text += &format!(": {}", facts.join("; "));
        }
        text
    }
}

fn names(processes: &[NodeId]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn numbers(processes: &[NodeId]) -> Vec<u32> {
    processes.iter().map(|process| process.0).collect()
}

/// What applications may ask for at a moment.
struct Asks<'a> {
    run: &'a Run,
    stage: &'a Stage,
}

impl Asks<'_> {
    /// What this process can be asked without a value: whatever is understood, changes something and breaks nothing by itself.
    fn of(&self, standing: &Standing) -> Vec<String> {
        if standing.presence != Presence::Up {
            return Vec::new();
        }
        let usages = self.run.about.family.requests.iter();
        let plain = usages.filter(|usage| usage.values.is_empty() || usage.values.starts_with('['));
        let asks = plain.map(|usage| format!("{} {}", usage.verb, standing.id.0));
        asks.filter(|ask| ask.parse().is_ok_and(|command| self.matters(&command, standing.id))).collect()
    }

    fn matters(&self, command: &Command, process: NodeId) -> bool {
        let mut stage = self.stage.clone();
        let before = (stage.fingerprint(process), stage.violation().is_some());
        // An assertion of the algorithm is a no, like any other.
        let tried = catch_unwind(AssertUnwindSafe(|| stage.apply(command).is_ok())).unwrap_or(false);
        tried && stage.violation().is_some() == before.1 && stage.fingerprint(process) != before.0
    }
}

fn process_json(
    standing: &Standing,
    before: Option<&Standing>,
    changed: bool,
    shown: bool,
    requests: &[String],
) -> Value {
    let Standing { id, presence, life, phase, state } = standing;
    let earlier: BTreeMap<&str, &str> = before
        .iter()
        .flat_map(|before| &before.state)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let values = state.iter().filter(|_| shown).map(|(name, value)| {
        let was = earlier.get(name.as_str()).copied();
        let changed = changed && was.is_some_and(|was| was != value);
        json!({ "name": name, "value": value, "before": was, "changed": changed })
    });
    let values: Vec<_> = values.collect();
    let is_up = *presence == Presence::Up;
    let Phase { name: phase, .. } = phase;
    json!({
        "id": id.0, "presence": presence_word(*presence), "life": life.0, "phase": is_up.then_some(phase),
        "band": is_up.then(|| band(phase)), "changed": changed, "state": values, "requests": requests,
    })
}

fn presence_word(presence: Presence) -> &'static str {
    match presence {
        Presence::Up => "up",
        Presence::Down => "down",
        Presence::Absent => "absent",
        Presence::Gone => "gone",
    }
}
