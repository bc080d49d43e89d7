//! Messages and times as short text.

use core::fmt::{Formatter, Write};

use conclave_core::Message;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The short text of a message: its kind and the values of its fields, `Request{1}`.
///
/// A JSON object does not keep the order in which fields were declared; where the message itself is at hand,
/// [`message_text`] does.
#[must_use]
pub fn compact(kind: &str, fields: &Value) -> String {
    Tree::from(fields).under(kind)
}

/// The short text of a message, its fields in the order of their declaration: `Reply{1,1,0}`. What only carries it is left
/// out but for its mark: `Request{3.1}@1p5` is said in the epoch `1p5`.
#[must_use]
pub fn message_text(message: &impl Message) -> String {
    let mut text = text_of(message.kind(), message.envelopes(), message);
    write_word(&message.postmark(), &mut text);
    text
}

fn text_of(kind: &str, envelopes: u32, message: &impl Serialize) -> String {
    // Through JSON text and not through a JSON value, because only the text keeps the order of the fields.
    let tree = serde_json::to_string(message).ok().and_then(|json| serde_json::from_str(&json).ok());
    let letter = (0..envelopes).fold(tree.unwrap_or(Tree::Nothing), |tree, _| tree.opened());
    letter.untagged().under(kind)
}

/// The fields of a message in serde's form for an enum: `{"Request":{"time":1}}` gives `{"time":1}`, and a variant
/// without fields gives null.
#[must_use]
pub fn fields_of(value: Value) -> Value {
    match value {
        Value::String(_) => Value::Null,
        Value::Object(map) if map.len() == 1 && map.keys().all(|key| is_variant(key)) => {
            map.into_iter().next().map_or(Value::Null, |(_, fields)| fields)
        }
        other => other,
    }
}

/// A time in milliseconds, without needless digits: 1200 µs is `1.2`.
#[must_use]
pub fn milliseconds(micros: u64) -> String {
    let text = format!("{}.{:03}", micros / 1000, micros % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Variants are told from fields by their capital: there is no other difference in JSON.
fn is_variant(key: &str) -> bool {
    key.starts_with(|first: char| first.is_uppercase())
}

/// A value as JSON has it, with its fields in the order in which they came.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Nothing,
    Word(String),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

impl Tree {
    /// What is left when the name of the variant is taken away.
    fn untagged(self) -> Self {
        match self {
            Self::Word(_) => Self::Nothing,
            Self::Fields(fields) if fields.len() == 1 && is_variant(&fields[0].0) => {
                fields.into_iter().next().map_or(Self::Nothing, |(_, inner)| inner)
            }
            other => other,
        }
    }

    /// What is left when an envelope is taken away: the name of a variant, and all fields but the message.
    fn opened(self) -> Self {
        match self {
            Self::Fields(fields) if fields.len() == 1 && is_variant(&fields[0].0) => {
                let inner = fields.into_iter().next().map_or(Self::Nothing, |(_, inner)| inner);
                match inner {
                    Self::Fields(_) => inner.letter(),
                    _ => inner,
                }
            }
            other => other.letter(),
        }
    }

    /// The field called `message`, if there is one.
    fn letter(self) -> Self {
        match self {
            Self::Fields(mut fields) => match fields.iter().position(|(name, _)| name == "message") {
                Some(place) => fields.swap_remove(place).1,
                None => Self::Fields(fields),
            },
            other => other,
        }
    }

    /// These fields behind a name.
    fn under(&self, name: &str) -> String {
        let mut out = name.to_owned();
        self.write_under(&mut out);
        out
    }

    fn write_under(&self, out: &mut String) {
        match self {
            Self::Nothing => {}
            Self::List(items) if items.is_empty() => {}
            Self::Fields(fields) if fields.is_empty() => {}
            Self::List(items) => write_between('{', items.iter(), '}', out),
            Self::Fields(fields) if !(fields.len() == 1 && is_variant(&fields[0].0)) => {
                write_between('{', fields.iter().map(|(_, value)| value), '}', out);
            }
            Self::Word(_) | Self::Fields(_) => write_between('{', core::iter::once(self), '}', out),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Nothing => out.push('-'),
            Self::Word(word) => write_word(word, out),
            Self::List(items) => write_between('[', items.iter(), ']', out),
            Self::Fields(fields) if fields.len() == 1 && is_variant(&fields[0].0) => {
                out.push_str(&fields[0].0);
                fields[0].1.write_under(out);
            }
            // A stamp, a fence, a numbered request: numbers that only together name something.
            Self::Fields(fields) if fields.len() > 1 && fields.iter().all(|(_, value)| value.is_part()) => {
                for (place, (_, number)) in fields.iter().enumerate() {
                    if place > 0 {
                        out.push('.');
                    }
                    number.write(out);
                }
            }
            Self::Fields(fields) => write_between('{', fields.iter().map(|(_, value)| value), '}', out),
        }
    }

    /// A number, or one with a process behind it: `7`, `1p5`.
    fn is_part(&self) -> bool {
        let Self::Word(word) = self else { return false };
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match word.split_once('p') {
            None => number(word),
            Some((before, process)) => number(before) && number(process),
        }
    }
}

/// A line break would break every format that this text goes into.
fn write_word(word: &str, out: &mut String) {
    out.extend(word.chars().map(|c| if c.is_control() { ' ' } else { c }));
}

fn write_between<'a>(open: char, items: impl Iterator<Item = &'a Tree>, close: char, out: &mut String) {
    out.push(open);
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(',');
        }
        item.write(out);
    }
    out.push(close);
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(yes) => Self::Word(yes.to_string()),
            Value::Number(number) => Self::Word(number.to_string()),
            Value::String(text) => Self::Word(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(map) => Self::Fields(map.iter().map(|(k, v)| (k.clone(), Self::from(v))).collect()),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Tree, E> {
        Ok(Tree::Word(yes.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Word(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Word(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Word(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Word(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Fields(fields))
    }
}

/// How many columns a text takes where every sign has the same width.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

/// East Asian signs and pictures take two columns; too many counted is better than too few.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{1f000}'..='\u{1faff}' | '\u{20000}'..)
}

/// The beginning of a text that fits into so many columns, with `…` where something is missing.
pub(crate) fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(ellipsis));
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += if is_wide(c) { 2 } else { 1 };
        if used > room {
            break;
        }
        out.push(c);
    }
    if width >= columns(ellipsis) {
        out.push_str(ellipsis);
    }
    out
}

/// Text inside XML: marks escaped, control signs, which XML has no way to write, replaced.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A text that stands on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Appends formatted text; writing to a `String` cannot fail.
pub(crate) fn put(out: &mut String, text: core::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize)]
    enum Message {
        Release,
        Request { time: u64 },
        Reply { time: u64, fence: u64 },
        Token(Vec<u64>, Option<u64>),
        Empty {},
        Inside { lock: u64, inner: Box<Message>, flag: bool },
        Wrapped(Box<Message>),
        Granted { fence: Fence },
    }

    #[derive(Serialize)]
    struct Fence {
        epoch: &'static str,
        counter: u64,
        process: u32,
    }

    #[test]
    fn fields_keep_the_order_of_their_declaration() {
        let reply = || Box::new(Message::Reply { time: 7, fence: 2 });
        let cases = [
            (Message::Release, "Kind"),
            (Message::Request { time: 1 }, "Kind{1}"),
            // Alphabetically it would be the other way round.
            (Message::Reply { time: 7, fence: 2 }, "Kind{7,2}"),
            (Message::Token(vec![1, 2], None), "Kind{[1,2],-}"),
            (Message::Empty {}, "Kind"),
            (Message::Inside { lock: 3, inner: reply(), flag: true }, "Kind{3,Reply{7,2},true}"),
            (Message::Wrapped(reply()), "Kind{Reply{7,2}}"),
            (Message::Wrapped(Box::new(Message::Release)), "Kind{Release}"),
            (Message::Granted { fence: Fence { epoch: "0", counter: 3, process: 1 } }, "Kind{0.3.1}"),
            (Message::Granted { fence: Fence { epoch: "1p5", counter: 3, process: 1 } }, "Kind{1p5.3.1}"),
            (Message::Granted { fence: Fence { epoch: "p5", counter: 3, process: 1 } }, "Kind{{p5,3,1}}"),
        ];
        for (message, expected) in cases {
            assert_eq!(text_of("Kind", 0, &message), expected);
        }
    }

    #[test]
    fn envelopes_are_left_out() {
        let request = json!({ "Request": { "time": 1 } });
        let cases = [
            (1, json!({ "Election": "Kind" }), "Kind"),
            (1, json!({ "Election": { "Election": { "uid": 3 } } }), "Kind{3}"),
            (1, json!({ "name": "a", "message": request }), "Kind{1}"),
            (2, json!({ "Application": { "Part": { "epoch": "0", "message": request } } }), "Kind{1}"),
            (
                2,
                json!({ "name": "a", "message": { "Application": { "Gather": { "ballot": "1p5" } } } }),
                "Kind{1p5}",
            ),
        ];
        for (envelopes, message, expected) in cases {
            assert_eq!(text_of("Kind", envelopes, &message), expected);
        }
    }

    #[test]
    fn compact_text_of_json() {
        let cases = [
            (json!(null), "Kind"),
            (json!({}), "Kind"),
            (json!({"time": 1}), "Kind{1}"),
            (json!([1, [2, 3], {"a": -4, "b": 0.5}]), "Kind{1,[2,3],{-4,0.5}}"),
            (json!("a\nb"), "Kind{a b}"),
            (json!({"inner": {"Request": {"time": 1}}}), "Kind{Request{1}}"),
        ];
        for (fields, expected) in cases {
            assert_eq!(compact("Kind", &fields), expected);
        }
    }

    #[test]
    fn the_outer_tag_is_taken_away_once() {
        let cases = [
            (json!("Release"), json!(null)),
            (json!({"Request": {"time": 1}}), json!({"time": 1})),
            (json!({"Wrapped": {"Request": {"time": 1}}}), json!({"Request": {"time": 1}})),
            (json!({"Token": [1, 2]}), json!([1, 2])),
            (json!({"time": 1}), json!({"time": 1})),
            (json!({"Up": 1, "Down": 2}), json!({"Up": 1, "Down": 2})),
        ];
        for (value, expected) in cases {
            assert_eq!(fields_of(value), expected);
        }
    }

    #[test]
    fn times_have_no_needless_digits() {
        let cases = [
            (0, "0"),
            (1, "0.001"),
            (1_000, "1"),
            (1_200, "1.2"),
            (10_000, "10"),
            (u64::MAX, "18446744073709551.615"),
        ];
        for (micros, expected) in cases {
            assert_eq!(milliseconds(micros), expected);
        }
    }

    #[test]
    fn cutting_counts_columns() {
        let cases =
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 4, "日…"), ("abcd", 1, "…"), ("abcd", 0, "")];
        for (text, width, expected) in cases {
            assert_eq!(cut(text, width, "…"), expected);
        }
    }

    #[test]
    fn xml_text_holds_no_marks_and_no_control_signs() {
        assert_eq!(escape_xml("a<b>&\"c\"\u{0}\u{1b}\n"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\u{fffd}\n");
    }
}
