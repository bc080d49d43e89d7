//! What may go wrong in a run.

use core::fmt::{Display, Formatter};
use core::str::FromStr;

use conclave_core::{Members, NodeId, NodeSet};

use crate::rng::Chance;
use crate::span::{Span, parse_time, show_time};

/// Everything that shall go wrong in a run, and who comes and goes.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How likely a message is lost.
    pub loss: Chance,
    /// How likely a message is carried twice.
    pub duplicate: Chance,
    /// Crashes.
    pub crashes: Vec<Crash>,
    /// Pauses.
    pub pauses: Vec<Pause>,
    /// Partitions of the network.
    pub partitions: Vec<Partition>,
    /// When the next token that travels is lost.
    pub lost_tokens: Vec<u64>,
    /// Who joins the group.
    pub joins: Vec<Change>,
    /// Who leaves it.
    pub leaves: Vec<Change>,
    /// What the processes are told about each other's crashes.
    pub detector: Detector,
    /// When the faults that happen by chance stop; if not given, when the run comes to rest.
    pub until: Option<u64>,
}

impl Faults {
    /// Whether anything at all can go wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let chances = self.loss.is_possible() || self.duplicate.is_possible() || self.detector.is_wrong();
        let planned = self.crashes.len() + self.pauses.len() + self.partitions.len() + self.lost_tokens.len();
        !chances && planned == 0 && !self.changes_group()
    }

    /// Whether anybody joins or leaves.
    #[must_use]
    pub fn changes_group(&self) -> bool {
        !self.joins.is_empty() || !self.leaves.is_empty()
    }

    /// Who joins, in the order of the list.
    #[must_use]
    pub fn newcomers(&self) -> Vec<NodeId> {
        self.joins.iter().map(|join| join.process).collect()
    }

    /// Whether a message can be lost although its sender and its receiver are up.
    #[must_use]
    pub fn loses_messages(&self) -> bool {
        let cuts = self.partitions.iter().any(|cut| !cut.hold);
        self.loss.is_possible() || cuts || !self.lost_tokens.is_empty()
    }

    /// Whether there is anything that a group could recover from.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        let failures = !self.crashes.is_empty() || !self.lost_tokens.is_empty() || self.detector.is_wrong();
        failures || self.changes_group()
    }

    /// Every process named by a fault, with the fault as it was written.
    pub fn named(&self) -> impl Iterator<Item = (NodeId, String)> + '_ {
        let crashes = self.crashes.iter().map(|crash| (crash.process, crash.to_string()));
        let pauses = self.pauses.iter().map(|pause| (pause.process, pause.to_string()));
        let sides = self.partitions.iter().flat_map(|cut| {
            cut.sides.iter().flat_map(NodeSet::iter).map(|process| (process, cut.to_string()))
        });
        let changes =
            self.joins.iter().chain(&self.leaves).map(|change| (change.process, change.to_string()));
        crashes.chain(pauses).chain(sides).chain(changes)
    }

    /// What cannot be in a group that begins with these members, as a sentence: who joins must not be there before,
    /// and nothing can happen to it before.
    #[must_use]
    pub fn contradiction(&self, members: &Members) -> Option<String> {
        let twice = |changes: &[Change], verb: &str| {
            let mut seen = NodeSet::new();
            let again = changes.iter().find(|change| !seen.insert(change.process))?;
            Some(format!("process {} {verb} twice", again.process.0))
        };
        let member = self.joins.iter().find(|join| members.contains(join.process));
        if let Some(join) = member {
            return Some(format!(
                "process {} in '{join}' is one of the processes already; only a newcomer can join",
                join.process.0
            ));
        }
        let crashes = self.crashes.iter().map(|crash| (crash.process, crash.at, crash.to_string()));
        let pauses = self.pauses.iter().map(|pause| (pause.process, pause.from, pause.to_string()));
        let leaves = self.leaves.iter().map(|leave| (leave.process, leave.at, leave.to_string()));
        let early = crashes.chain(pauses).chain(leaves).find_map(|(process, at, text)| {
            let join = self.joins.iter().find(|join| join.process == process && at <= join.at)?;
            let when = show_time(join.at);
            Some(format!("process {} in '{text}' is not there yet: it joins at {when}", process.0))
        });
        twice(&self.joins, "joins").or_else(|| twice(&self.leaves, "leaves")).or(early)
    }
}

/// A process joins the group, or leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who.
    pub process: NodeId,
    /// When.
    pub at: u64,
}

/// A process crashes and, perhaps, starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Who.
    pub process: NodeId,
    /// When.
    pub at: u64,
    /// When it is up again, if ever.
    pub restart: Option<u64>,
    /// Whether it has also lost what it saved.
    pub amnesia: bool,
    /// Whether it crashes inside a step, and where.
    pub inside: Option<Inside>,
}

/// Where in a step a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// In the first step that sends more than so many messages: instead of sending the next one.
    After(u32),
    /// Anywhere, by chance; and of each channel a suffix of what was sent and not received is lost, by chance too.
    Chance,
}

/// A process does nothing for a while; what it is sent waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who.
    pub process: NodeId,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// The network is cut for a while: what is sent across is lost, or held until the cut is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The sides; who is on none of them hears everyone.
    pub sides: Vec<NodeSet>,
    /// Whether only messages from an earlier to a later side are stopped.
    pub one_way: bool,
    /// Whether messages are held, not lost.
    pub hold: bool,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

impl Partition {
    /// Whether it stops a message.
    #[must_use]
    pub fn stops(&self, from: NodeId, to: NodeId) -> bool {
        let side = |id| self.sides.iter().position(|side| side.contains(id));
        match (side(from), side(to)) {
            (Some(from), Some(to)) if self.one_way => from < to,
            (Some(from), Some(to)) => from != to,
            _ => false,
        }
    }

    /// The cut without its times: `1,2/3`.
    #[must_use]
    pub fn cut(&self) -> String {
        let side = |side: &NodeSet| side.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
        let sides: Vec<_> = self.sides.iter().map(side).collect();
        sides.join(if self.one_way { ">" } else { "/" })
    }
}

/// The failure detector that every process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// It says nothing.
    #[default]
    None,
    /// It reports every crash, and nothing else, after this time.
    After(Span),
    /// It also suspects the living, now and then.
    Wrong {
        /// After what time it reports a crash.
        latency: Span,
        /// How long it is between two wrong suspicions, anywhere in the group.
        every: Span,
        /// How long a wrong suspicion lasts.
        lasting: Span,
    },
}

impl Detector {
    /// How long it takes to report a crash.
    #[must_use]
    pub fn latency(&self) -> Option<Span> {
        match self {
            Self::None => None,
            Self::After(latency) | Self::Wrong { latency, .. } => Some(*latency),
        }
    }

    fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong { .. })
    }
}

/// `3@100`, `3@100..200`, `3@100..200:amnesia`; `3@100:after=1` and `3@100:inside` crash inside a step.
impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| {
            format!(
                "'{text}' is not a crash ({why}); write NODE@T or NODE@T..T, perhaps with :after=K or :inside, and \
                 with :amnesia"
            )
        };
        let mut words = text.split(':');
        let rest = words.next().unwrap_or_default();
        let (mut amnesia, mut inside) = (false, None);
        for word in words {
            let place = match (word, word.strip_prefix("after=")) {
                ("amnesia", _) if !amnesia => {
                    amnesia = true;
                    continue;
                }
                ("inside", _) => Inside::Chance,
                (_, Some(count)) => Inside::After(parse_messages(count).map_err(wrong)?),
                _ => return Err(wrong(format!("'{word}' does not belong there"))),
            };
            if inside.replace(place).is_some() {
                return Err(wrong("it says twice where in a step".into()));
            }
        }
        let (process, times) = rest.split_once('@').ok_or_else(|| wrong("it has no @".into()))?;
        let process = parse_process(process).map_err(wrong)?;
        let (at, restart) = match times.split_once("..") {
            None => (parse_time(times).map_err(wrong)?, None),
            Some(_) => parse_interval(times).map(|(from, until)| (from, Some(until))).map_err(wrong)?,
        };
        if amnesia && restart.is_none() {
            return Err(wrong("only a process that starts again can have forgotten something".into()));
        }
        Ok(Self { process, at, restart, amnesia, inside })
    }
}

impl Display for Crash {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}", self.process.0, show_time(self.at))?;
        if let Some(restart) = self.restart {
            write!(f, "..{}", show_time(restart))?;
        }
        match self.inside {
            None => {}
            Some(Inside::After(messages)) => write!(f, ":after={messages}")?,
            Some(Inside::Chance) => f.write_str(":inside")?,
        }
        f.write_str(if self.amnesia { ":amnesia" } else { "" })
    }
}

/// `6@100`.
impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("'{text}' does not say who and when ({why}); write NODE@T");
        let (process, at) = text.split_once('@').ok_or_else(|| wrong("it has no @".into()))?;
        let process = parse_process(process).map_err(wrong)?;
        Ok(Self { process, at: parse_time(at).map_err(wrong)? })
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}", self.process.0, show_time(self.at))
    }
}

/// `3@100..200`.
impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("'{text}' is not a pause ({why}); write NODE@T..T");
        let (process, times) = text.split_once('@').ok_or_else(|| wrong("it has no @".into()))?;
        let process = parse_process(process).map_err(wrong)?;
        let (from, until) = parse_interval(times).map_err(wrong)?;
        Ok(Self { process, from, until })
    }
}

impl Display for Pause {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}..{}", self.process.0, show_time(self.from), show_time(self.until))
    }
}

/// `1,2/3@100..200`; `1,2>3@100..200` stops one direction only; `:hold` at the end holds messages back.
impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| {
            format!("'{text}' is not a partition ({why}); write 1,2/3@T..T or 1,2>3@T..T, perhaps with :hold")
        };
        let (rest, hold) = match text.split_once(':') {
            None => (text, false),
            Some((rest, "hold")) => (rest, true),
            Some((_, word)) => return Err(wrong(format!("'{word}' is not 'hold'"))),
        };
        let (cut, times) = rest.split_once('@').ok_or_else(|| wrong("it has no @".into()))?;
        let one_way = cut.contains('>');
        let mut sides = Vec::new();
        let mut all = NodeSet::new();
        for side in cut.split(if one_way { '>' } else { '/' }) {
            let mut members = NodeSet::new();
            for id in side.split(',') {
                let id = parse_process(id).map_err(wrong)?;
                if !all.insert(id) {
                    return Err(wrong(format!("process {} is named twice", id.0)));
                }
                members.insert(id);
            }
            sides.push(members);
        }
        if sides.len() < 2 {
            return Err(wrong("it needs at least two sides".into()));
        }
        let (from, until) = parse_interval(times).map_err(wrong)?;
        Ok(Self { sides, one_way, hold, from, until })
    }
}

impl Display for Partition {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}..{}", self.cut(), show_time(self.from), show_time(self.until))?;
        f.write_str(if self.hold { ":hold" } else { "" })
    }
}

/// `none`, `perfect`, `late:50` (a crash is reported after that time), `wrong:200` (a wrong suspicion about every
/// 200 ms).
impl FromStr for Detector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("'{text}' is not a failure detector{why}; write none, perfect, late:SPAN or wrong:SPAN")
        };
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "perfect" => Ok(Self::After(Span::Constant(0))),
            Some(("late", span)) => Ok(Self::After(span.parse()?)),
            Some(("wrong", span)) => {
                let every: Span = span.parse()?;
                if every.mean() == 0 {
                    return Err(wrong(" (it cannot be wrong all the time)"));
                }
                Ok(Self::Wrong { latency: Span::Constant(0), every, lasting: every })
            }
            _ => Err(wrong("")),
        }
    }
}

/// The id of a process: `3` or `p3`; at most a hundred million, so that a typing error does not ask for a huge table.
fn parse_process(text: &str) -> Result<NodeId, String> {
    let id: Option<NodeId> = text.parse().ok();
    id.filter(|id| id.0 <= 100_000_000).ok_or_else(|| format!("'{text}' is not the id of a process"))
}

/// After how many messages of a step a process crashes.
fn parse_messages(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number of messages"))
}

fn parse_interval(text: &str) -> Result<(u64, u64), String> {
    let (from, until) = text.split_once("..").ok_or_else(|| format!("'{text}' is not an interval T..T"))?;
    let (from, until) = (parse_time(from)?, parse_time(until)?);
    if from >= until {
        return Err(format!("{text} ends before it begins"));
    }
    Ok((from, until))
}

/// The first process named by a fault that does not exist.
#[must_use]
pub fn stranger(faults: &Faults, members: &Members) -> Option<(NodeId, String)> {
    faults.named().find(|(process, _)| !members.contains(*process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_written_alike() {
        for text in [
            "3@100",
            "3@100..200",
            "3@1..2s:amnesia",
            "3@100:after=1",
            "3@100..200:inside",
            "3@1..2:after=0:amnesia",
        ] {
            assert_eq!(text.parse::<Crash>().unwrap().to_string(), text);
        }
        assert_eq!("p6@1.5".parse::<Change>().unwrap().to_string(), "6@1.5");
        assert_eq!("p3@1..2".parse::<Pause>().unwrap().to_string(), "3@1..2");
        for text in ["1,2/3@100..200", "1>2,3@0..5:hold", "1/2/3@1..2"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_faults_are_refused() {
        for wrong in ["", "3", "@5", "3@", "x@5", "3@5..", "3@9..5", "3@5:amnesia", "3@5..6:forget", "-1@5"] {
            assert!(wrong.parse::<Crash>().is_err(), "{wrong}");
        }
        for wrong in ["3@5:after", "3@5:after=", "3@5:after=-1", "3@5:inside:after=1", "3@5:", "3@5:inside=2"]
        {
            assert!(wrong.parse::<Crash>().is_err(), "{wrong}");
        }
        for wrong in ["", "6", "@5", "6@", "6@x", "x@6", "6@5..6"] {
            assert!(wrong.parse::<Change>().is_err(), "{wrong}");
        }
        for wrong in ["", "1/2", "1@1..2", "1,1/2@1..2", "1/@1..2", "1/2@5", "1/2@5..5", "1/2@1..2:x"] {
            assert!(wrong.parse::<Partition>().is_err(), "{wrong}");
        }
        for wrong in ["", "late", "late:", "wrong:0", "sometimes"] {
            assert!(wrong.parse::<Detector>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_joins_was_not_there_before() {
        let changes = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<Change>>();
        let faults = |joins, leaves, crash: &[&str]| Faults {
            joins: changes(joins),
            leaves: changes(leaves),
            crashes: crash.iter().map(|text| text.parse().unwrap()).collect(),
            ..Faults::default()
        };
        let members = Members::numbered(3);
        let why = |faults: Faults| faults.contradiction(&members);
        assert_eq!(why(faults(&["4@5", "5@5"], &["1@2", "4@9"], &["4@6", "1@1"])), None);
        for (faults, sentence) in [
            (faults(&["2@5"], &[], &[]), "process 2 in '2@5' is one of the processes already"),
            (faults(&["4@5", "4@6"], &[], &[]), "process 4 joins twice"),
            (faults(&[], &["1@5", "1@6"], &[]), "process 1 leaves twice"),
            (faults(&["4@5"], &["4@5"], &[]), "process 4 in '4@5' is not there yet: it joins at 5"),
            (faults(&["4@5"], &[], &["4@3..9"]), "process 4 in '4@3..9' is not there yet"),
        ] {
            let found = why(faults).expect(sentence);
            assert!(found.starts_with(sentence), "{found}");
        }
    }

    #[test]
    fn a_partition_stops_what_crosses_it() {
        let both: Partition = "1,2/3@0..1".parse().unwrap();
        let one: Partition = "1,2>3@0..1".parse().unwrap();
        let stops = |cut: &Partition, a, b| cut.stops(NodeId(a), NodeId(b));
        assert!(stops(&both, 1, 3) && stops(&both, 3, 2) && !stops(&both, 1, 2) && !stops(&both, 4, 3));
        assert!(stops(&one, 1, 3) && !stops(&one, 3, 1));
    }
}
