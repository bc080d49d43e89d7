//! The commands of a script.

use core::fmt::{Display, Formatter};
use core::str::FromStr;

use conclave_core::{Deviation, Incarnation, NodeId, parse_time, show_time};

use super::{Mistake, Setup};

/// One command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// What runs; the first command of every script.
    Run(Setup),
    /// The application of a process asks for something.
    Ask {
        /// Which process.
        process: NodeId,
        /// For what, as it stands in a trace: `"acquire"`, `"release"`, `"cancel"`, `"leave"`.
        request: String,
        /// For which lock.
        lock: usize,
    },
    /// The network does something to a message in flight.
    Carry {
        /// What it does.
        what: Carry,
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which of the messages between the two.
        which: Which,
    },
    /// Everything is delivered, the oldest first, until nothing is in flight.
    Settle,
    /// Here begins what repeats forever.
    Loop,
    /// Everything is as it was at [`Loop`](Self::Loop), but for numbers that only grow: it repeats forever.
    Again,
    /// A timer expires.
    Timer {
        /// Whose.
        process: NodeId,
        /// Its name.
        timer: String,
    },
    /// A process crashes.
    Crash(NodeId),
    /// A process crashes inside its next step.
    CrashInside {
        /// Which.
        process: NodeId,
        /// After how many effects of that step: messages, events, values saved. At its end, if it has no more.
        after: u32,
    },
    /// A process comes up again.
    Restart {
        /// Which.
        process: NodeId,
        /// Whether it has lost what it had saved.
        amnesia: bool,
    },
    /// A process that was not there from the beginning comes up and asks to be let in.
    Join(NodeId),
    /// The failure detector of a process suspects a peer.
    Suspect {
        /// Whose detector.
        process: NodeId,
        /// Whom.
        peer: NodeId,
        /// Which of its lives; the present one if none is named.
        life: Option<Incarnation>,
    },
    /// The failure detector of a process trusts a peer again.
    Trust {
        /// Whose detector.
        process: NodeId,
        /// Whom.
        peer: NodeId,
        /// Which of its lives; the present one if none is named.
        life: Option<Incarnation>,
    },
    /// Time passes, in microseconds: the clocks go on. Timers run out only when they are told to.
    Wait(u64),
    /// The clock of a process is set.
    Clock {
        /// Whose.
        process: NodeId,
        /// How far from the time of the script it is from now on.
        deviation: Deviation,
        /// The time of the script becomes this first, in microseconds.
        at: Option<u64>,
    },
    /// The state of a process is printed.
    Show(NodeId),
}

/// What the network does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// It brings it.
    Deliver,
    /// It loses it.
    Drop,
    /// It makes a second copy of it.
    Duplicate,
}

/// Which of the messages on the way from one process to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that was sent first.
    Oldest,
    /// The oldest of this kind.
    Kind(String),
    /// The nth ever sent between the two, counted from 1.
    Nth(u64),
}

/// What an application may ask: the command, and its name in a trace.
const ASKS: [(&str, &str); 6] = [
    ("request", "acquire"),
    ("release", "release"),
    ("cancel", "cancel"),
    ("leave", "leave"),
    ("start", "start"),
    ("retire", "retire"),
];

const CARRIES: [(&str, Carry); 3] =
    [("deliver", Carry::Deliver), ("drop", Carry::Drop), ("duplicate", Carry::Duplicate)];

/// How each command is written; its first word is its name.
const USAGES: [&str; 22] = [
    "run ALGORITHM -n N [--ids 3,17,4] [--set KEY=VALUE] [--channels fifo|any] [--mutant NAME] [--locks K]",
    "request P [lock K]",
    "release P [lock K]",
    "cancel P [lock K]",
    "leave P [lock K]",
    "start P",
    "retire P",
    "deliver P => P [KIND | #N]",
    "drop P => P [KIND | #N]",
    "duplicate P => P [KIND | #N]",
    "settle",
    "loop",
    "again",
    "timer P NAME",
    "crash P [after N]",
    "restart P [amnesia]",
    "join P",
    "suspect P PEER [life N]",
    "trust P PEER [life N]",
    "wait TIME",
    "clock P +20ms[,50ppm] [at TIME]",
    "show P",
];

fn name_of(usage: &'static str) -> &'static str {
    usage.split(' ').next().unwrap_or(usage)
}

impl FromStr for Command {
    type Err = Mistake;

    fn from_str(line: &str) -> Result<Self, Mistake> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let Some(usage) = USAGES.into_iter().find(|usage| name_of(usage) == name) else {
            return other_request(name, &words)
                .ok_or_else(|| Mistake::UnknownCommand { name: name.to_owned(), nearest: nearest(name) });
        };
        parse(name, &words).map_err(|why| Mistake::Usage { usage, why })
    }
}

/// Reads what stands after the name. An error says what is wrong; how it should be is known from the usage.
fn parse(name: &str, words: &[&str]) -> Result<Command, String> {
    if let Some((_, request)) = ASKS.into_iter().find(|(verb, _)| *verb == name) {
        return parse_ask(request, words);
    }
    if let Some((_, what)) = CARRIES.into_iter().find(|(verb, _)| *verb == name) {
        return parse_carry(what, words);
    }
    match (name, words) {
        ("run", words) => Setup::parse(words).map(Command::Run),
        ("settle", []) => Ok(Command::Settle),
        ("loop", []) => Ok(Command::Loop),
        ("again", []) => Ok(Command::Again),
        ("timer", [process, timer]) => {
            Ok(Command::Timer { process: parse_process(process)?, timer: (*timer).to_owned() })
        }
        ("crash", [process]) => parse_process(process).map(Command::Crash),
        ("crash", [process, "after", after]) => {
            let after = after.parse().map_err(|_| format!("`{after}` is not a number of effects"))?;
            Ok(Command::CrashInside { process: parse_process(process)?, after })
        }
        ("restart", [process]) => Ok(Command::Restart { process: parse_process(process)?, amnesia: false }),
        ("restart", [process, "amnesia"]) => {
            Ok(Command::Restart { process: parse_process(process)?, amnesia: true })
        }
        ("join", [process]) => parse_process(process).map(Command::Join),
        ("suspect", [process, peer, life @ ..]) => {
            let (process, peer) = (parse_process(process)?, parse_process(peer)?);
            Ok(Command::Suspect { process, peer, life: parse_life(life)? })
        }
        ("trust", [process, peer, life @ ..]) => {
            let (process, peer) = (parse_process(process)?, parse_process(peer)?);
            Ok(Command::Trust { process, peer, life: parse_life(life)? })
        }
        ("wait", [time]) => parse_time(time).map(Command::Wait),
        ("clock", [process, deviation]) => {
            Ok(Command::Clock { process: parse_process(process)?, deviation: deviation.parse()?, at: None })
        }
        ("clock", [process, deviation, "at", time]) => {
            let (process, at) = (parse_process(process)?, Some(parse_time(time)?));
            Ok(Command::Clock { process, deviation: deviation.parse()?, at })
        }
        ("show", [process]) => parse_process(process).map(Command::Show),
        (_, []) => Err("something is missing".to_owned()),
        (_, words) => Err(format!("`{}` does not fit", words.join(" "))),
    }
}

fn parse_ask(request: &str, words: &[&str]) -> Result<Command, String> {
    let (process, lock) = match words {
        [process] => (process, 0),
        [process, "lock", lock] => (process, lock.parse().map_err(|_| format!("`{lock}` is not a lock"))?),
        [] => return Err("the process is missing".to_owned()),
        [_, rest @ ..] => return Err(format!("`{}` does not fit", rest.join(" "))),
    };
    Ok(Command::Ask { process: parse_process(process)?, request: request.to_owned(), lock })
}

/// A request of a family that scripts know nothing of: a word, a process, and values if there are any. What is only a
/// slip away from a command is no such word.
fn other_request(name: &str, words: &[&str]) -> Option<Command> {
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let [process, values @ ..] = words else { return None };
    if !is_word || values.first() == Some(&"=>") || slips(name).is_some_and(|(slips, _)| slips <= 1) {
        return None;
    }
    let process = parse_process(process).ok()?;
    let lock = match values {
        [values @ .., "lock", lock] => lock.parse().ok().map(|lock| (values, lock)),
        _ => None,
    };
    // What is not a number belongs to the request, which may be a text.
    let (values, lock) = lock.unwrap_or((values, 0));
    let request = [&[name], values].concat().join(" ");
    Some(Command::Ask { process, request, lock })
}

fn parse_carry(what: Carry, words: &[&str]) -> Result<Command, String> {
    // Diagrams draw the arrow, and people copy it.
    let words: Vec<&str> = words.iter().map(|word| if *word == "→" { "=>" } else { *word }).collect();
    let (from, to, which) = match words.as_slice() {
        [from, "=>", to] => (from, to, Which::Oldest),
        [from, "=>", to, which] => (from, to, parse_which(which)?),
        [_, "=>"] => return Err("the receiver is missing".to_owned()),
        [_, "=>", _, _, rest @ ..] => return Err(format!("`{}` does not fit", rest.join(" "))),
        _ => return Err("`=>` is missing between sender and receiver".to_owned()),
    };
    Ok(Command::Carry { what, from: parse_process(from)?, to: parse_process(to)?, which })
}

fn parse_which(word: &str) -> Result<Which, String> {
    let Some(nth) = word.strip_prefix('#') else { return Ok(Which::Kind(word.to_owned())) };
    match nth.parse() {
        Ok(nth) if nth > 0 => Ok(Which::Nth(nth)),
        _ => Err(format!("`{word}` is not the number of a message; they are counted from #1")),
    }
}

/// What may stand behind a peer.
fn parse_life(words: &[&str]) -> Result<Option<Incarnation>, String> {
    match words {
        [] => Ok(None),
        ["life", life] => match life.parse() {
            Ok(life) if life > 0 => Ok(Some(Incarnation(life))),
            _ => Err(format!("`{life}` is not the number of a life; they are counted from 1")),
        },
        words => Err(format!("`{}` does not fit", words.join(" "))),
    }
}

/// A process is written `1` or `p1`.
pub(super) fn parse_process(word: &str) -> Result<NodeId, String> {
    word.parse().map_err(|_| format!("`{word}` is not a process"))
}

impl Command {
    /// The processes that the command names. `run` names them all, and is not asked.
    pub(super) fn processes(&self) -> impl Iterator<Item = NodeId> {
        let named = match self {
            Self::Run(_) | Self::Settle | Self::Loop | Self::Again | Self::Wait(_) => [None, None],
            Self::Ask { process, .. }
            | Self::Timer { process, .. }
            | Self::Crash(process)
            | Self::CrashInside { process, .. }
            | Self::Restart { process, .. }
            | Self::Join(process)
            | Self::Clock { process, .. }
            | Self::Show(process) => [Some(*process), None],
            Self::Carry { from, to, .. } => [Some(*from), Some(*to)],
            Self::Suspect { process, peer, .. } | Self::Trust { process, peer, .. } => {
                [Some(*process), Some(*peer)]
            }
        };
        named.into_iter().flatten()
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Run(setup) => write!(f, "run {setup}"),
            Self::Ask { process, request, lock } => {
                let (word, values) = request.split_once(' ').unwrap_or((request, ""));
                let verb = ASKS.iter().find(|(_, name)| *name == word).map_or(word, |(verb, _)| verb);
                write!(f, "{verb} {}", process.0)?;
                if !values.is_empty() {
                    write!(f, " {values}")?;
                }
                if *lock == 0 { Ok(()) } else { write!(f, " lock {lock}") }
            }
            Self::Carry { what, from, to, which } => write!(f, "{what} {from} => {to}{which}"),
            Self::Settle => write!(f, "settle"),
            Self::Loop => write!(f, "loop"),
            Self::Again => write!(f, "again"),
            Self::Timer { process, timer } => write!(f, "timer {} {timer}", process.0),
            Self::Crash(process) => write!(f, "crash {}", process.0),
            Self::CrashInside { process, after } => write!(f, "crash {} after {after}", process.0),
            Self::Restart { process, amnesia: false } => write!(f, "restart {}", process.0),
            Self::Restart { process, amnesia: true } => write!(f, "restart {} amnesia", process.0),
            Self::Join(process) => write!(f, "join {}", process.0),
            Self::Suspect { process, peer, life } => {
                write!(f, "suspect {} {}{}", process.0, peer.0, of_life(*life))
            }
            Self::Trust { process, peer, life } => {
                write!(f, "trust {} {}{}", process.0, peer.0, of_life(*life))
            }
            Self::Wait(time) => write!(f, "wait {}", show_time(*time)),
            Self::Clock { process, deviation, at: None } => write!(f, "clock {} {deviation}", process.0),
            Self::Clock { process, deviation, at: Some(at) } => {
                write!(f, "clock {} {deviation} at {}", process.0, show_time(*at))
            }
            Self::Show(process) => write!(f, "show {}", process.0),
        }
    }
}

/// With a blank before it, since the present life is not named.
fn of_life(life: Option<Incarnation>) -> String {
    life.map_or_else(String::new, |life| format!(" {life}"))
}

impl Display for Carry {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Deliver => "deliver",
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
        })
    }
}

impl Display for Which {
    /// With a blank before it, since the oldest is not named.
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Oldest => Ok(()),
            Self::Kind(kind) => write!(f, " {kind}"),
            Self::Nth(nth) => write!(f, " #{nth}"),
        }
    }
}

/// The command whose name is at most two slips away.
fn nearest(name: &str) -> Option<&'static str> {
    slips(name).filter(|(slips, nearest)| *slips <= 2 && *slips < nearest.len()).map(|(_, nearest)| nearest)
}

/// The nearest command, and how many slips away it is.
fn slips(name: &str) -> Option<(usize, &'static str)> {
    let names = USAGES.into_iter().map(name_of);
    names.map(|known| (strsim::levenshtein(name, known), known)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        assert_eq!(nearest("delivr"), Some("deliver"));
        assert_eq!(nearest("sart"), Some("start"));
        assert_eq!(nearest("elephant"), None);
    }

    #[test]
    fn requests_of_any_family_can_be_written() {
        for (line, words) in
            [("begin 1", "begin"), ("propose p2 7", "propose 7"), ("send 3 hello 2", "send hello 2")]
        {
            let command: Command = line.parse().unwrap();
            let Command::Ask { request, lock: 0, .. } = &command else { panic!("{command:?}") };
            assert_eq!(request, words);
            assert_eq!(command.to_string().parse(), Ok(command), "{line}");
        }
        for wrong in ["begin", "begin nobody", "delivr 1 => 2", "relase 1", "7 1"] {
            assert!(matches!(wrong.parse::<Command>(), Err(Mistake::UnknownCommand { .. })), "{wrong}");
        }
    }

    #[test]
    fn every_usage_is_known_to_the_parser() {
        let written = [
            "run central -n 2",
            "request 1",
            "release 1",
            "cancel 1",
            "leave 1",
            "start 1",
            "retire 1",
            "deliver 1 => 2",
            "drop 1 => 2",
            "duplicate 1 => 2",
            "settle",
            "loop",
            "again",
            "timer 1 retry",
            "crash 1",
            "restart 1",
            "join 3",
            "suspect 1 2 life 3",
            "trust 1 2",
            "wait 5ms",
            "clock 1 +20ms,50ppm",
            "show 1",
        ];
        let repeated = "clock 1 -20000050ns at 4.5";
        assert_eq!(repeated.parse::<Command>().expect("it is a command").to_string(), repeated);
        assert_eq!(written.map(name_of), USAGES.map(name_of));
        for line in written {
            assert!(line.parse::<Command>().is_ok(), "{line}");
        }
    }
}
