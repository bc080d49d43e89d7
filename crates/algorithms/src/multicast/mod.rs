//! Multicast: one operation reaches a group of processes.
//!
//! Processes `join` and `leave` the group; any process may `send`, inside the group or not. What an algorithm adds to
//! plain sending is which members deliver a post if some do, and in which order they deliver.
//!
//! | algorithm | a post is delivered | messages for one post |
//! |---|---|---|
//! | [`basic`] | when it arrives | n − 1 |
//! | [`reliable`] | after it was passed on to all others | n(n − 1) |
//! | [`fifo`] | after those that its sender sent before | that of the layer below |
//! | [`causal`] | after those that its sender knew when it sent | that of the layer below |
//! | [`sequencer`] | in the order that one process decides | 2(n − 1) |
//! | [`isis`] | in the order of the largest number that a member proposed | 3(n − 1) |
//! | [`lamport_stamps`] | in the order of its stamp, when no smaller one can come | n(n − 1) |
//! | [`views`] | in one view, by all who install the next | n − 1 |

use alloc::string::{String, ToString};
use core::fmt::{Debug, Display, Formatter};
use core::str::FromStr;

use conclave_core::{Counter, Incarnation, NodeId, Space};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod any;
pub mod basic;
pub mod causal;
mod family;
pub mod fifo;
pub mod isis;
pub mod lamport_stamps;
mod layered;
mod ledger;
mod meter;
pub mod reliable;
mod roster;
pub mod sequencer;
pub mod views;

pub use any::{AnyConfig, AnyDurable, AnyMessage, AnyMulticast, AnyTimer};
pub(crate) use family::visit_any;
pub use family::{Basic, Causal, FAMILY, Fifo, Isis, LamportStamps, Multicast, Multicasting, Of, Reliable};
pub use family::{Sequencer, Views, Visitor, all, visit};
pub use layered::{Layered, LayeredConfig, LayeredMessage};
pub use ledger::{Delivery, Promises, Survives};
pub use meter::{MulticastMeter, MulticastReport};

/// What the application of a process may ask.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Become a member of the group.
    Join,
    /// Be a member no longer.
    Leave,
    /// Send this to the group.
    Send(String),
}

/// What everyone asks in a search.
impl Default for Request {
    fn default() -> Self {
        Self::Send("m".into())
    }
}

/// What the application of a process is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The process is a member: it delivers whatever is sent from now on.
    Joined,
    /// Somebody sent this to the group.
    Delivered(Post),
    /// A view of the group: all that was sent in the one before has been delivered.
    View {
        /// Its number; one more than that of the view before.
        number: u64,
        /// Its members, in ascending order.
        group: alloc::vec::Vec<NodeId>,
    },
}

/// What is sent to a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Post {
    /// Which.
    pub id: Id,
    /// What it says.
    pub text: String,
}

/// The name of a post: who sent it, and the how manyth of its sender it is.
///
/// Where people read it, it is one word: `2.1` is the first post of p2, `2.3.1` the first of its third life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Who sent it.
    pub source: Source,
    /// Counted from 1 in each life.
    pub number: u64,
}

/// One life of a process: who comes back begins to count anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The process.
    pub process: NodeId,
    /// Which life.
    pub life: Incarnation,
}

impl Source {
    /// The post of this number.
    #[must_use]
    pub fn post(self, number: u64) -> Id {
        Id { source: self, number }
    }

    /// A number of a post of this sender, for the visitor of counters.
    fn counter(self, number: &mut u64) -> Counter<'_> {
        Counter::exact(Space::of("post", self.process), number)
    }
}

impl Id {
    fn counter(&mut self) -> Counter<'_> {
        self.source.counter(&mut self.number)
    }
}

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let Source { process, life } = self.source;
        write!(f, "{}.", process.0)?;
        if life != Incarnation::FIRST {
            write!(f, "{}.", life.0)?;
        }
        write!(f, "{}", self.number)
    }
}

impl Debug for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        Display::fmt(self, f)
    }
}

/// A text that does not name a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a post is named 2.1, or 2.3.1 if its sender was in its third life")]
pub struct NotAPost;

impl FromStr for Id {
    type Err = NotAPost;

    fn from_str(text: &str) -> Result<Self, NotAPost> {
        let (process, rest) = text.split_once('.').ok_or(NotAPost)?;
        let (life, number) = rest.split_once('.').unwrap_or(("1", rest));
        let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        if ![process, life, number].into_iter().all(is_plain) {
            return Err(NotAPost);
        }
        let process = NodeId(process.parse().map_err(|_| NotAPost)?);
        let life = Incarnation(life.parse().map_err(|_| NotAPost)?);
        Ok(Source { process, life }.post(number.parse().map_err(|_| NotAPost)?))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            (self.source.process, self.source.life, self.number).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?.parse().map_err(D::Error::custom);
        }
        let (process, life, number) = Deserialize::deserialize(deserializer)?;
        Ok(Source { process, life }.post(number))
    }
}

/// A text that does not say what the application of a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a multicast tells 'joined', 'delivered 2.1 \"text\"' or 'view 2 p1,p3'")]
pub struct NotAnEvent;

/// Reads what records and tails say.
impl FromStr for Event {
    type Err = NotAnEvent;

    fn from_str(text: &str) -> Result<Self, NotAnEvent> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "joined" if rest.is_empty() => Some(Self::Joined),
            "delivered" => delivered(rest),
            "view" => view(rest),
            _ => None,
        }
        .ok_or(NotAnEvent)
    }
}

fn delivered(words: &str) -> Option<Event> {
    let (id, text) = words.split_once(' ')?;
    Some(Event::Delivered(Post { id: id.parse().ok()?, text: unquoted(text)? }))
}

fn view(words: &str) -> Option<Event> {
    let (number, group) = words.split_once(' ')?;
    let member = |word: &str| word.strip_prefix('p')?.parse().ok().map(NodeId);
    Some(Event::View {
        number: number.parse().ok()?,
        group: group.split(',').map(member).collect::<Option<_>>()?,
    })
}

/// Reads a text in quotes, with `\"`, `\\`, `\n`, `\t`, `\r` and `\u{..}`, or one without quotes as it stands.
fn unquoted(words: &str) -> Option<String> {
    let Some(inner) = words.strip_prefix('"') else {
        return (!words.is_empty()).then(|| words.to_string());
    };
    let mut text = String::new();
    let mut rest = inner.strip_suffix('"').filter(|_| words.len() > 1)?.chars();
    while let Some(char) = rest.next() {
        text.push(match char {
            '"' => return None,
            '\\' => escaped(&mut rest)?,
            plain => plain,
        });
    }
    Some(text)
}

/// The character that the rest of an escape stands for.
fn escaped(rest: &mut core::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'u' => {
            let (number, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
            *rest = after.chars();
            char::from_u32(u32::from_str_radix(number, 16).ok()?)?
        }
        same @ ('"' | '\\' | '\'') => same,
        _ => return None,
    })
}

/// A text in quotes, in one line and without two blanks in a row, so that a script keeps it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    let mut after_blank = true;
    for char in text.chars() {
        match char {
            ' ' if after_blank => out.push_str("\\u{20}"),
            ' ' => out.push(' '),
            char => out.extend(char.escape_debug()),
        }
        after_blank = char == ' ';
    }
    if after_blank && out.len() > 1 && out.ends_with(' ') {
        out.pop();
        out.push_str("\\u{20}");
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::family::Family;

    #[test]
    fn a_text_comes_back_as_it_was() {
        for text in ["", "m", " ", "  two  blanks ", "\"quoted\" \\ \n\t\r\u{1}", "a lock 2", "grüße"] {
            let words = Multicasting::show(&Request::Send(text.into())).0;
            assert!(!words.contains("  ") && !words.contains('\n'), "{words}");
            assert_eq!(Multicasting::parse(&words, 0), Some(Request::Send(text.into())), "{words}");
        }
        assert_eq!(Multicasting::parse("send plain words", 0), Some(Request::Send("plain words".into())));
        for wrong in ["send", "send \"", "send \"a\"b\"", "send \"\\x\"", "join 3", "leave now", "shout m"] {
            assert_eq!(Multicasting::parse(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_told_comes_back_as_it_was() {
        let id = Source { process: NodeId(2), life: Incarnation(3) }.post(7);
        let post = |text: &str| Event::Delivered(Post { id, text: text.into() });
        let view = Event::View { number: 4, group: [1, 30].map(NodeId).into() };
        for event in [Event::Joined, post("m"), post(""), post(" two  lines\n\"\u{1b}[2J"), view] {
            assert_eq!(Multicasting::told(&event).to_string().parse(), Ok(event));
        }
        for wrong in ["", "joined 2", "delivered 2.1", "delivered p2 m", "view 1", "view 1 2", "view x p1"] {
            assert_eq!(wrong.parse::<Event>(), Err(NotAnEvent), "{wrong}");
        }
    }

    #[test]
    fn a_name_comes_back_as_it_was() {
        for (process, life, number) in [(1, 1, 1), (7, 2, 30), (u32::MAX, u32::MAX, u64::MAX)] {
            let id = Source { process: NodeId(process), life: Incarnation(life) }.post(number);
            assert_eq!(id.to_string().parse(), Ok(id));
            let bytes = postcard::to_allocvec(&id).unwrap();
            assert_eq!(postcard::from_bytes(&bytes), Ok(id));
        }
        assert_eq!(Source { process: NodeId(2), life: Incarnation(3) }.post(1).to_string(), "2.3.1");
        for wrong in ["", "1", "p1.1", "1.", ".1", "1.1.1.1", "1.-1", "+1.1"] {
            assert_eq!(wrong.parse::<Id>(), Err(NotAPost), "{wrong}");
        }
    }
}
