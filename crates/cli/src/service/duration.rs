//! Lengths of time on the command line of the service.

use std::time::Duration;

/// What a number may be followed by, and how many microseconds that is.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];

/// `500ms`, `5s`, `1.5s`, `5m`, `1h`. A bare number is refused: whoever knows `flock -w 5` means seconds, and others do not.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let wrong = || format!("'{text}' is not a length of time; write 500ms, 5s, 5m or 1h");
    let value: f64 = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() {
        return Err(format!("{text} what? write {text}s, {text}ms, {text}m or {text}h"));
    }
    let (_, micros) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let micros = (value * micros as f64).round();
    if micros < 1.0 {
        return Err("this must take some time".into());
    }
    if micros > 1e15 {
        return Err(format!("{text} is too long"));
    }
    Ok(Duration::from_micros(micros as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_needed() {
        for (text, micros) in [
            ("500ms", 500_000),
            ("5s", 5_000_000),
            ("1.5s", 1_500_000),
            ("5m", 300_000_000),
            ("5min", 300_000_000),
            ("1h", 3_600_000_000),
            ("250us", 250),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in
            ["5", "", "s", "-3s", "5 s", "5d", "0s", "1e3s", "..s", "inf", "NaNs", "99999999999999999h"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("5").unwrap_err(), "5 what? write 5s, 5ms, 5m or 5h");
    }
}
