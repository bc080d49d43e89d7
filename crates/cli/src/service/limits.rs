//! What the service would refuse whatever its state, refused where it is typed.

use std::time::Duration;

use conclave_service::limits::{
    MAX_LOCK_DELAY_MS, MAX_NAME_BYTES, MAX_NAMES_AT_ONCE, MAX_OWNER_BYTES, MAX_REASON_BYTES, MAX_TTL_MS,
    MAX_VALUE_BYTES, MIN_TTL_MS,
};

use super::duration::parse_duration;
use crate::failure::Failure;

/// The name of a lock or leadership.
pub fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a name must not be empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("a name must not have control characters".to_owned());
    }
    no_longer_than(text, MAX_NAME_BYTES)
}

/// The names of one acquisition.
pub fn check_names(names: &[String]) -> Result<(), Failure> {
    if names.len() > MAX_NAMES_AT_ONCE {
        return Err(Failure::new(format!(
            "{} names are too many: at most {MAX_NAMES_AT_ONCE} are granted together",
            names.len()
        )));
    }
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => Err(Failure::new(format!("'{twice}' is given twice: name each lock once"))),
        None => Ok(()),
    }
}

/// What a holder calls itself.
pub fn parse_label(text: &str) -> Result<String, String> {
    no_longer_than(text, MAX_OWNER_BYTES)
}

/// What a leader shows.
pub fn parse_value(text: &str) -> Result<String, String> {
    no_longer_than(text, MAX_VALUE_BYTES)
}

/// Why something is taken by force.
pub fn parse_reason(text: &str) -> Result<String, String> {
    no_longer_than(text, MAX_REASON_BYTES)
}

/// How long a session lives without a heartbeat.
pub fn parse_ttl(text: &str) -> Result<Duration, String> {
    let (least, most) = (millis(MIN_TTL_MS), millis(MAX_TTL_MS));
    let ttl = parse_duration(text)?;
    match ttl {
        ttl if ttl < least => Err(format!("{text} is too short: a TTL is {least:?} at least")),
        ttl if ttl > most => Err(format!("{text} is too long: a TTL is {}h at most", most.as_secs() / 3_600)),
        ttl => Ok(ttl),
    }
}

/// How long nobody is granted what its holder lost.
pub fn parse_lock_delay(text: &str) -> Result<Duration, String> {
    let most = millis(MAX_LOCK_DELAY_MS);
    match parse_duration(text)? {
        delay if delay > most => {
            Err(format!("{text} is too long: a lock delay is {}h at most", most.as_secs() / 3_600))
        }
        delay => Ok(delay),
    }
}

/// The number of a session, as it is printed.
pub fn parse_session(text: &str) -> Result<u64, String> {
    let is_hex = text.len() == 16 && text.chars().all(|digit| digit.is_ascii_hexdigit());
    match u64::from_str_radix(text, 16) {
        Ok(id @ 1..) if is_hex => Ok(id),
        _ => Err(format!(
            "'{text}' is not a session: 16 hexadecimal digits, as 'conclave sessions' prints them"
        )),
    }
}

/// The number of a node.
pub fn parse_node(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("nodes are numbered from 1; 0 stands for no node".to_owned()),
        Ok(id) => Ok(id),
        Err(_) => Err(format!("'{text}' is not the number of a node")),
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn no_longer_than(text: &str, bytes: usize) -> Result<String, String> {
    if text.len() > bytes {
        return Err(format!("this is {} bytes long, and {bytes} at most are possible", text.len()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_service() {
        use conclave_service::{Act, Name, Owner, limits};
        let opens = |ttl: Duration| {
            let owner = Owner::default();
            let ttl_ms = u32::try_from(ttl.as_millis()).expect("it fits");
            let open = Act::Open { ttl_ms, owner, ends_with_connection: false, reopens: false };
            limits::check(&open).is_ok()
        };
        for (text, is_possible) in [("499ms", false), ("500ms", true), ("24h", true), ("1441m", false)] {
            let parsed = parse_ttl(text);
            assert_eq!(parsed.is_ok(), is_possible, "{text}: {parsed:?}");
            assert_eq!(opens(parse_duration(text).expect("it is a time")), is_possible, "{text}");
        }
        let forces = |name: &str| {
            let act = Act::Force { name: Name(name.into()), token: None, reason: "".into() };
            limits::check(&act).is_ok()
        };
        for (name, is_possible) in [
            ("", false),
            ("a b", true),
            ("bell\u{7}", false),
            (&"x".repeat(512), true),
            (&"x".repeat(513), false),
        ] {
            assert_eq!(parse_name(name).is_ok(), is_possible, "{name:?}");
            assert_eq!(forces(name), is_possible, "{name:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(parse_ttl("100ms").unwrap_err(), "100ms is too short: a TTL is 500ms at least");
        assert_eq!(parse_ttl("25h").unwrap_err(), "25h is too long: a TTL is 24h at most");
        assert_eq!(parse_lock_delay("61m").unwrap_err(), "61m is too long: a lock delay is 1h at most");
        assert_eq!(parse_lock_delay("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(
            parse_label(&"x".repeat(257)).unwrap_err(),
            "this is 257 bytes long, and 256 at most are possible"
        );
        for id in ["0", "-1", "x", ""] {
            assert!(parse_node(id).is_err(), "{id}");
        }
        assert_eq!(parse_node("7"), Ok(7));
        assert_eq!(parse_session("00000000000000fF"), Ok(255));
        for session in
            ["", "1", "0000000000000000", "+00000000000000f", "000000000000000g", "00000000000000000f"]
        {
            assert!(parse_session(session).is_err(), "{session}");
        }
    }

    #[test]
    fn each_name_is_given_once() {
        let check =
            |names: &[&str]| check_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(check(&["a", "b", "aa"]), Ok(()));
        assert!(check(&["a", "b", "a"]).is_err());
        let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        assert!(check_names(&many).is_err() && check_names(&many[..64]).is_ok());
    }
}
