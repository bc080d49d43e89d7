//! How long things take.

use alloc::format;
use alloc::string::String;
use core::fmt::{Display, Formatter};
use core::str::FromStr;

pub use conclave_core::{parse_time, show_time};

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

/// How long something takes, in microseconds: always the same, or drawn again each time.
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
    use alloc::string::ToString as _;

    use super::*;

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
