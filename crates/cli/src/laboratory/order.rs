//! `conclave order`: what happened before what, and who waited for whom.

use conclave_core::{Causality, NodeId};
use conclave_trace::{Counted, Inconsistency, Order, Record, Script, Trace, Waits, describe, milliseconds};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::{Cut, OrderArgs};
use super::catalogue::Catalogue;
use super::output::{self, indented, terminal_width};
use super::{files, replay};
use crate::failure::{Failure, Verdict};

/// Answers a question about a trace.
pub fn run(args: &OrderArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let trace = read(args, catalogue)?;
    let order = Order::of(&trace).map_err(Failure::new)?;
    let teller = Teller { order: &order, trace: &trace };
    let answer = match (args.events.as_slice(), args.concurrent, args.total, &args.cut, args.waits) {
        ([a, b], ..) => teller.compare(*a, *b),
        ([one], ..) => Err(Failure::new(format!("event {one} is compared with none; name two events"))
            .hint(format!("'--concurrent {one}' shows all events that are concurrent with it"))),
        (_, Some(event), ..) => teller.concurrent(event),
        (_, _, true, ..) => Ok(teller.total()),
        (_, _, _, Some(Cut(frontier)), _) => teller.cut(frontier),
        (.., Some(time)) => Ok(teller.waits(time)),
        _ => Ok(teller.all(args.count.into())),
    };
    let Answer { page, json, verdict } = answer?;
    if args.json {
        output::show_json(&json)?;
    } else {
        output::show(&page)?;
    }
    Ok(verdict)
}

/// The trace of a file; a script is played for it.
fn read(args: &OrderArgs, catalogue: &Catalogue) -> Result<Trace, Failure> {
    let text = files::read(&args.file)?;
    let named = |error: &dyn core::fmt::Display| Failure::new(format!("{}: {error}", args.file.display()));
    if text.trim_start().starts_with('{') {
        return Trace::read_jsonl(&text).map_err(|error| named(&error));
    }
    let script = Script::parse(&text).map_err(|error| named(&error))?;
    let played = catalogue.play(&script).map_err(|error| replay::unplayable(error, &named, catalogue))?;
    Ok(played.trace)
}

/// What is printed, and how the command ends.
struct Answer {
    page: String,
    json: Value,
    verdict: Verdict,
}

struct Teller<'a> {
    order: &'a Order<'a>,
    trace: &'a Trace,
}

impl Teller<'_> {
    /// An event in a line: its number, its time, what happened.
    fn line(&self, id: u64) -> String {
        let Some(record) = usize::try_from(id).ok().and_then(|at| self.trace.records.get(at)) else {
            return String::new();
        };
        let label = format!("  {:<6}{:<11}", id, format!("{} ms", milliseconds(record.time)));
        indented(&label, &describe(record))
    }

    fn lines(&self, ids: &[u64]) -> String {
        ids.iter().map(|id| self.line(*id)).collect()
    }

    fn compare(&self, a: u64, b: u64) -> Result<Answer, Failure> {
        let causality = self.order.compare(a, b).map_err(Failure::new)?;
        let (word, sentence) = match causality {
            Causality::Before => ("before", format!("{a} happened before {b}")),
            Causality::After => ("after", format!("{b} happened before {a}")),
            Causality::Equal => ("equal", format!("{a} is one event")),
            Causality::Concurrent => {
                ("concurrent", format!("{a} and {b} are concurrent: neither could know of the other"))
            }
        };
        let (from, to) = if causality == Causality::After { (b, a) } else { (a, b) };
        let way = self.turns(&self.order.way(from, to));
        let mut page = self.lines(&[a, b]);
        page += &format!("\n{}\n", sentence.bold());
        if way.len() > 2 {
            page += &format!("\n  {}\n{}", "because of".dimmed(), self.lines(&way));
        }
        let json = json!({ "a": a, "b": b, "relation": word, "way": way });
        Ok(Answer { page, json, verdict: Verdict::of(causality == Causality::Before) })
    }

    /// Of a way, where it begins, where it changes the process, and where it ends.
    fn turns(&self, way: &[u64]) -> Vec<u64> {
        let process = |id: u64| self.trace.records[id as usize].process;
        let last = way.len().saturating_sub(1);
        let is_turn = |at: usize| {
            at == 0
                || at == last
                || process(way[at - 1]) != process(way[at])
                || process(way[at]) != process(way[at + 1])
        };
        (0..way.len()).filter(|at| is_turn(*at)).map(|at| way[at]).collect()
    }

    fn concurrent(&self, id: u64) -> Result<Answer, Failure> {
        let found = self.order.concurrent(id).map_err(Failure::new)?;
        let mut page = self.line(id);
        page += &match found.as_slice() {
            [] => "\nno event is concurrent with it\n".into(),
            found => format!("\n{} events are concurrent with it:\n{}", found.len(), self.lines(found)),
        };
        let json = json!({ "event": id, "concurrent": found });
        Ok(Answer { page, json, verdict: Verdict::of(!found.is_empty()) })
    }

    fn total(&self) -> Answer {
        let order = self.order.linear();
        Answer { page: self.lines(&order), json: json!({ "order": order }), verdict: Verdict::Held }
    }

    fn cut(&self, frontier: &std::collections::BTreeMap<NodeId, u64>) -> Result<Answer, Failure> {
        let answer = match self.order.cut(frontier).map_err(Failure::new)? {
            Ok(flying) => {
                let mut page = format!("{}\n", "the cut is consistent".bold());
                page += &match flying.as_slice() {
                    [] => "  nothing is in flight there\n".into(),
                    flying => format!("  in flight there:\n{}", self.lines(flying)),
                };
                Answer {
                    page,
                    json: json!({ "consistent": true, "in_flight": flying }),
                    verdict: Verdict::Held,
                }
            }
            Err(Inconsistency { arrival, send }) => {
                let mut page = format!("{}\n", "the cut is not consistent".bold());
                page += &format!("  it has the arrival and not the send:\n{}", self.lines(&[arrival, send]));
                let json = json!({ "consistent": false, "arrival": arrival, "send": send });
                Answer { page, json, verdict: Verdict::Failed }
            }
        };
        Ok(answer)
    }

    fn waits(&self, time: u64) -> Answer {
        let waits = self.order.waits(time);
        let mut page = format!("at {} ms\n", milliseconds(time));
        for waiter in &waits.waiters {
            let since = self.trace.records.get(waiter.since as usize).map_or(0, |record| record.time);
            let mut facts = vec![format!("{} since {} ms", waiter.phase, milliseconds(since))];
            facts.extend(
                (!waiter.silent.is_empty()).then(|| format!("no answer from {}", names(&waiter.silent))),
            );
            facts.extend(
                (!waiter.answering.is_empty())
                    .then(|| format!("in flight to it from {}", names(&waiter.answering))),
            );
            page += &indented(&format!("  {:<5} ", waiter.process.to_string()), &facts.join("; "));
        }
        let Waits { waiters, holders, down, receiving: _ } = &waits;
        for (those, word) in [(holders, "has it"), (down, "is down")] {
            for process in those {
                page += &format!("  {:<5} {word}\n", process.to_string());
            }
        }
        if waiters.is_empty() {
            page += "  nobody waits\n";
        }
        let circle = waits.circle();
        if let Some(circle) = &circle {
            let sentence =
                format!("{} wait for each other, and nothing in flight can free them", names(circle));
            page += &indented("✗ ", &sentence).red().to_string();
        }
        let waiting: Vec<_> = waiters
            .iter()
            .map(|waiter| {
                json!({
                    "process": waiter.process, "phase": waiter.phase, "since": waiter.since,
                    "silent": waiter.silent, "answering": waiter.answering,
                })
            })
            .collect();
        let json =
            json!({ "time": time, "waiting": waiting, "holding": holders, "down": down, "circle": circle });
        Answer { page, json, verdict: Verdict::Held }
    }

    /// Every event with its stamps.
    fn all(&self, counted: Counted) -> Answer {
        let mut stamped = self.trace.clone();
        stamped.stamp_counting(counted, true);
        let n = self.trace.header.nodes.len();
        let events: Vec<&Record> =
            self.order.events().map(|event| &stamped.records[event.id as usize]).collect();
        let vector = |record: &Record| {
            let vector = record.vector.clone().unwrap_or_default();
            (0..n).map(|place| vector.get(place)).collect::<Vec<u64>>()
        };
        let texts = events.iter().map(|record| vector_text(&vector(record)));
        let widest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        // In a large group the vectors stand below the events.
        let beside = terminal_width().is_none_or(|width| widest + 60 <= width);
        let width = if beside { widest + 2 } else { 0 };
        let head = format!(
            "  {:<6}{:<11}{:<9}{:<width$}",
            "event",
            "time",
            "Lamport",
            if beside { "vector" } else { "" }
        );
        let mut page = format!("{}\n", head.trim_end().dimmed());
        for record in &events {
            let text = vector_text(&vector(record));
            let stamp = if beside { text.as_str() } else { "" };
            let time = format!("{} ms", milliseconds(record.time));
            let label = format!("  {:<6}{time:<11}{:<9}{stamp:<width$}", record.id, record.lamport);
            page += &indented(&label, &describe(record));
            if !beside {
                page += &indented("        ", &text).dimmed().to_string();
            }
        }
        let json = events.iter().map(|record| {
            json!({
                "event": record.id, "time": record.time, "process": record.process, "what": describe(record),
                "lamport": record.lamport, "vector": vector(record),
            })
        });
        Answer { page, json: json.collect(), verdict: Verdict::Held }
    }
}

fn vector_text(entries: &[u64]) -> String {
    let entries: Vec<_> = entries.iter().map(u64::to_string).collect();
    format!("[{}]", entries.join(","))
}

fn names(processes: &[NodeId]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
