//! Physical time: what a clock shows, how far it is from the truth, and times as people write them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{Display, Formatter};
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// What the clock of a process shows: nanoseconds since the zero of that clock.
///
/// Each process has a clock of its own. It may be wrong, run too fast or too slow, and jump. Two readings of one clock
/// tell how much time passed by that clock; readings of two clocks tell nothing until the clocks were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reading(pub i64);

impl Reading {
    /// The zero of the clock.
    pub const ZERO: Self = Self(0);

    /// Nanoseconds from another reading to this one; negative if this one is smaller.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This many nanoseconds later, or earlier if there are less than none.
    #[must_use]
    pub fn shifted(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// This much later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        self.shifted(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// Until when a process may stay inside, as far as others have confirmed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When everything that runs inside must have ended, by the clock of the process.
    pub until: Reading,
    /// How long before that a program is told to end, unless the lease is renewed first.
    pub notice: Duration,
}

/// What a clock showed at a moment, and what it should have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shown {
    /// The true time, in microseconds.
    pub truth: u64,
    /// How many nanoseconds the clock was ahead of it.
    pub ahead: i64,
}

impl Shown {
    /// What the clock showed.
    #[must_use]
    pub fn reading(self) -> Reading {
        Reading(i64::try_from(self.truth).unwrap_or(i64::MAX).saturating_mul(1_000)).shifted(self.ahead)
    }
}

/// How a clock deviates from the true time, written `+20ms`, `-3ms,50ppm` or `50ppm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviation {
    /// How many nanoseconds it is ahead at the moment at which it is set.
    pub offset: i64,
    /// How many nanoseconds it gains in every second.
    pub drift: i64,
}

impl Deviation {
    /// A clock twice as fast as time, or half as fast, is as wrong as a clock can be.
    const MOST_DRIFT: i64 = 500_000_000;

    /// How far the clock is ahead when this many microseconds have passed since it was set.
    #[must_use]
    pub fn after(&self, micros: u64) -> i64 {
        let drifted = i128::from(self.drift) * i128::from(micros) / 1_000_000;
        let ahead = i128::from(self.offset) + drifted;
        i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX })
    }

    /// How many microseconds of true time pass while this clock counts so many.
    #[must_use]
    pub fn true_span(&self, micros: u64) -> u64 {
        let (second, rate) = (1_000_000_000u128, (1_000_000_000 + self.drift) as u128);
        u64::try_from(u128::from(micros) * second / rate).unwrap_or(u64::MAX)
    }
}

impl FromStr for Deviation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is not what a clock may deviate by; write +20ms, 50ppm or +20ms,50ppm");
        let mut found = (None, None);
        for part in text.split(',') {
            let is_negative = part.starts_with('-');
            let size = part.strip_prefix(['+', '-']).unwrap_or(part);
            let signed = |size: i64| if is_negative { -size } else { size };
            if let Some(ppm) = size.strip_suffix("ppm") {
                let drift = parse_thousandths(ppm).ok_or_else(wrong)?;
                if drift > Self::MOST_DRIFT as u64 {
                    return Err(format!("{part} is too much: a clock drifts by 500000ppm at the most"));
                }
                if found.1.replace(signed(drift as i64)).is_some() {
                    return Err(wrong());
                }
            } else {
                if !size.ends_with(|last: char| last.is_ascii_alphabetic()) && size != "0" {
                    return Err(wrong());
                }
                let nanos = parse_nanos(size).ok_or_else(wrong)?;
                if found.0.replace(signed(nanos)).is_some() {
                    return Err(wrong());
                }
            }
        }
        Ok(Self { offset: found.0.unwrap_or(0), drift: found.1.unwrap_or(0) })
    }
}

/// A time in nanoseconds: whole ones, or any time that people write.
fn parse_nanos(text: &str) -> Option<i64> {
    match text.strip_suffix("ns") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => i64::try_from(parse_time(text).ok()?).ok()?.checked_mul(1_000),
    }
}

/// A number with at most three decimals, in thousandths.
fn parse_thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part)
}

impl Display for Deviation {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let sign = |value: i64| if value < 0 { '-' } else { '+' };
        let micros = self.offset.unsigned_abs() / 1_000;
        let (size, unit) = match micros {
            _ if !self.offset.unsigned_abs().is_multiple_of(1_000) => (self.offset.unsigned_abs(), "ns"),
            _ if micros.is_multiple_of(1_000_000) => (micros / 1_000_000, "s"),
            _ if micros.is_multiple_of(1_000) => (micros / 1_000, "ms"),
            _ => (micros, "us"),
        };
        write!(f, "{}{size}{unit}", sign(self.offset))?;
        if self.drift != 0 {
            let drift = self.drift.unsigned_abs();
            let ppm = format!("{}.{:03}", drift / 1_000, drift % 1_000);
            let ppm = ppm.trim_end_matches('0').trim_end_matches('.');
            write!(f, ",{}{ppm}ppm", sign(self.drift))?;
        }
        Ok(())
    }
}

/// No time is longer: a run lasts 8.9 years at the most.
pub const LONGEST: u64 = (1 << 47) - 1;

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
    fn deviations() {
        for (text, offset, drift) in [
            ("+20ms", 20_000_000, 0),
            ("-3ms,50ppm", -3_000_000, 50_000),
            ("50ppm,-3ms", -3_000_000, 50_000),
            ("-0.5ppm", 0, -500),
            ("1.5s", 1_500_000_000, 0),
            ("+250us,-100ppm", 250_000, -100_000),
            ("0", 0, 0),
            ("-20000050ns,1ppm", -20_000_050, 1_000),
            ("1700000000000000001ns", 1_700_000_000_000_000_001, 0),
        ] {
            let deviation = Deviation { offset, drift };
            assert_eq!(text.parse(), Ok(deviation), "{text}");
            assert_eq!(deviation.to_string().parse(), Ok(deviation), "{text}");
        }
        for wrong in [
            "",
            "20",
            "ns",
            "+1.5ns",
            "-+2ns",
            "99999999999999999999ns",
            "+-3ms",
            "3ms,4ms",
            "1ppm,2ppm",
            "ppm",
            "1.2345ppm",
            "500001ppm",
            "é",
            "+",
            ",",
        ] {
            assert!(wrong.parse::<Deviation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_clock_drifts_from_the_moment_at_which_it_was_set() {
        let fast = Deviation { offset: 20_000_000, drift: 50_000 };
        assert_eq!(fast.after(0), 20_000_000);
        assert_eq!(fast.after(1_000_000), 20_050_000);
        let slow = Deviation { offset: 0, drift: -Deviation::MOST_DRIFT };
        assert_eq!(slow.after(2_000_000), -1_000_000_000);
        assert_eq!(slow.true_span(1_000), 2_000);
        assert_eq!(Deviation { offset: 0, drift: 250_000_000 }.true_span(1_000), 800);
        assert_eq!(Deviation { offset: i64::MAX, drift: 1_000 }.after(u64::MAX), i64::MAX);
    }

    #[test]
    fn readings_saturate() {
        assert_eq!(Reading(5).since(Reading(7)), -2);
        assert_eq!(Reading(i64::MAX).shifted(1), Reading(i64::MAX));
        assert_eq!(Reading::ZERO.after(Duration::from_micros(3)), Reading(3_000));
        assert_eq!(Reading::ZERO.after(Duration::MAX), Reading(i64::MAX));
    }
}
