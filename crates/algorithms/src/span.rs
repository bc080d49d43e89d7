//! How long things take.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{Display, Formatter};
use core::str::FromStr;

/// Where random numbers come from. The algorithms have no randomness; what drives their users has.
pub trait Draw {
    /// Any number.
    fn any(&mut self) -> u64;

    /// A number below `bound`, which must not be 0.
    #[inline(always)]
    fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below bound / 2^64: of no consequence here.
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u64
    }

    /// A number between the two, both included.
    #[inline(always)]
    fn between(&mut self, min: u64, max: u64) -> u64 {
        match (max - min).checked_add(1) {
            Some(width) => min + self.below(width),
            None => self.any(),
        }
    }

    /// An exponentially distributed number with this mean.
    ///
    /// Von Neumann's method: compare uniform numbers, take no logarithm. A first number is accepted if the run of
    /// falling numbers that it begins is of odd length, which happens with probability e^-x; each refusal adds one
    /// whole mean.
    fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0u64;
        loop {
            let first = self.any();
            let (mut last, mut odd) = (first, true);
            loop {
                let next = self.any();
                if next >= last {
                    break;
                }
                (last, odd) = (next, !odd);
            }
            if odd {
                let part = ((u128::from(mean) * u128::from(first)) >> 64) as u64;
                return mean.saturating_mul(whole).saturating_add(part);
            }
            whole += 1;
        }
    }
}

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
    pub fn draw(&self, rng: &mut (impl Draw + ?Sized)) -> u64 {
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

/// No time is longer: a run lasts 8.9 years at the most.
const LONGEST: u64 = (1 << 47) - 1;

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
