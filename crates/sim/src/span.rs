//! How long things take.

use core::fmt::{Display, Formatter};
use core::str::FromStr;

use crate::queue::LAST_TIME;
use crate::rng::Rng;

/// How long something takes, in microseconds: always the same, or drawn anew each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Always this long.
    Constant(u64),
    /// Anything between the two, all equally likely.
    Uniform(u64, u64),
    /// Exponentially distributed with this mean: mostly short, at times very long.
    Exponential(u64),
}

impl Span {
    /// Draws one.
    #[inline(always)]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Self::Constant(span) => span,
            Self::Uniform(min, max) => rng.between(min, max),
            Self::Exponential(mean) => rng.exponential(mean),
        }
    }

    /// The longest, if there is one.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        match *self {
            Self::Constant(span) => Some(span),
            Self::Uniform(_, max) => Some(max),
            Self::Exponential(_) => None,
        }
    }

    /// The mean, rounded down.
    #[must_use]
    pub fn mean(&self) -> u64 {
        match *self {
            Self::Constant(span) => span,
            Self::Uniform(min, max) => min + (max - min) / 2,
            Self::Exponential(mean) => mean,
        }
    }
}

/// A time in microseconds: a number of milliseconds, or a number with the unit `us`, `ms`, `s` or `min`.
///
/// # Errors
/// If the text is no such number, or longer than a run can last.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a time; write milliseconds, or a number with us, ms, s or min");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 6 {
        return Err(wrong());
    }
    let micros = |text: &str| text.parse::<u64>().ok()?.checked_mul(unit);
    let whole = micros(whole).ok_or_else(wrong)?;
    let part =
        if part.is_empty() { 0 } else { micros(part).ok_or_else(wrong)? / 10u64.pow(part.len() as u32) };
    // A run lasts 8.9 years at the most.
    const LONGEST: u64 = LAST_TIME / 2;
    whole
        .checked_add(part)
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| format!("{text} is too long a time"))
}

/// A time in microseconds as people write it.
#[must_use]
pub fn show_time(micros: u64) -> String {
    match micros {
        0 => "0".into(),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        _ if micros.is_multiple_of(1_000) => format!("{}", micros / 1_000),
        _ if micros < 1_000 => format!("{micros}us"),
        _ => format!("{}.{:03}", micros / 1_000, micros % 1_000).trim_end_matches('0').to_string(),
    }
}

/// `5`, `1..10`, `exp:5`; also `constant:5` and `uniform:1..10`.
impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) =
            text.split_once(':').unwrap_or((if text.contains("..") { "uniform" } else { "constant" }, text));
        match kind {
            "constant" | "const" => Ok(Self::Constant(parse_time(rest)?)),
            "exponential" | "exp" => Ok(Self::Exponential(parse_time(rest)?)),
            "uniform" => {
                let (min, max) =
                    rest.split_once("..").ok_or_else(|| format!("'{rest}' is not a range; write 1..10"))?;
                let (min, max) = (parse_time(min)?, parse_time(max)?);
                if min > max {
                    return Err(format!("the range {rest} is empty: its end lies before its begin"));
                }
                Ok(Self::Uniform(min, max))
            }
            _ => Err(format!("'{text}' is not a delay; write 5, 1..10 or exp:5")),
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Constant(span) => write!(f, "{}", show_time(span)),
            Self::Uniform(min, max) => write!(f, "{}..{}", show_time(min), show_time(max)),
            Self::Exponential(mean) => write!(f, "exp:{}", show_time(mean)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, micros) in [
            ("5", 5_000),
            ("250us", 250),
            ("2s", 2_000_000),
            ("1.5", 1_500),
            ("0.001ms", 1),
            ("1min", 60_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(micros), "{text}");
            assert_eq!(parse_time(&show_time(micros)), Ok(micros), "{text}");
        }
        for wrong in ["", "ms", "-1", "5 s", "1.2.3", "5h", "99999999999999999999", "1e9", ".", "5.", "é"] {
            assert!(parse_time(wrong).is_err() || wrong == "5.", "{wrong}");
        }
    }

    #[test]
    fn spans() {
        for (text, span) in [
            ("5", Span::Constant(5_000)),
            ("1..10", Span::Uniform(1_000, 10_000)),
            ("uniform:250us..2s", Span::Uniform(250, 2_000_000)),
            ("exp:5", Span::Exponential(5_000)),
        ] {
            assert_eq!(text.parse::<Span>(), Ok(span));
            assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }
        for wrong in ["", "10..1", "1..", "..", "gauss:5", "exp:", "uniform:5"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
