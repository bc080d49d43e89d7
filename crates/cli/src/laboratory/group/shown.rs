//! What a member tells, for people and for programs.

use conclave_algorithms::multicast::{Event, Post};
use conclave_core::NodeId;
use serde_json::{Value, json};

use super::output;
use crate::failure::{Failure, one_line};

/// Prints events, each in a line.
pub struct Printer {
    pub json: bool,
}

impl Printer {
    /// False if nobody reads any more.
    pub fn show(&mut self, event: &Event) -> Result<bool, Failure> {
        let line = if self.json { in_json(event).to_string() } else { in_words(event) };
        output::show_to_reader(&format!("{line}\n"))
    }
}

fn in_words(event: &Event) -> String {
    match event {
        Event::Joined => "-- joined".to_owned(),
        Event::Delivered(Post { id, text }) => format!("{}: {}", id.source.process, in_one_line(text)),
        Event::View { number, group } => {
            let names: Vec<String> = group.iter().map(NodeId::to_string).collect();
            format!("-- view {number}: {}", names.join(", "))
        }
    }
}

/// As it is, or, where that would be more than a line or would not be seen, in quotes with escapes.
fn in_one_line(text: &str) -> String {
    if one_line(text) == text { text.to_owned() } else { format!("{text:?}") }
}

fn in_json(event: &Event) -> Value {
    match event {
        Event::Joined => json!({ "event": "joined" }),
        Event::Delivered(Post { id, text }) => json!({
            "event": "delivered",
            "from": id.source.process,
            "life": id.source.life,
            "number": id.number,
            "text": text,
        }),
        Event::View { number, group } => json!({ "event": "view", "number": number, "members": group }),
    }
}

#[cfg(test)]
mod tests {
    use conclave_algorithms::multicast::Source;
    use conclave_core::Incarnation;

    use super::*;

    fn post(text: &str) -> Event {
        let id = Source { process: NodeId(2), life: Incarnation(3) }.post(1);
        Event::Delivered(Post { id, text: text.into() })
    }

    #[test]
    fn a_text_takes_one_line_whatever_it_says() {
        for (text, line) in [
            ("two  blanks, grüße", "p2: two  blanks, grüße"),
            ("", "p2: "),
            ("say \"yes\"", "p2: say \"yes\""),
            ("a\nb\u{1b}[2J", r#"p2: "a\nb\u{1b}[2J""#),
            ("evil\u{202e}gpj", r#"p2: "evil\u{202e}gpj""#),
        ] {
            assert_eq!(in_words(&post(text)), line);
            assert_eq!(in_json(&post(text))["text"], text);
        }
    }

    #[test]
    fn programs_find_who_and_what() {
        let delivered = json!({ "event": "delivered", "from": 2, "life": 3, "number": 1, "text": "m" });
        assert_eq!(in_json(&post("m")), delivered);
        let view = Event::View { number: 4, group: [1, 3].map(NodeId).into() };
        assert_eq!(in_json(&view), json!({ "event": "view", "number": 4, "members": [1, 3] }));
        assert_eq!(in_words(&view), "-- view 4: p1, p3");
    }
}
