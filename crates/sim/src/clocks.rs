//! The clocks of the processes, and how they deviate from the time of the run.

use core::fmt::{Display, Formatter};
use core::str::FromStr;

use conclave_core::{Deviation, NodeId, Shown};

use crate::span::{parse_time, show_time};

/// The clock of a process is set wrong, written `3=+20ms,50ppm`, or later than at the beginning, `3@40=-5ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSetting {
    /// Whose clock.
    pub process: NodeId,
    /// When.
    pub at: u64,
    /// How far it is from the truth then, and from then on.
    pub deviation: Deviation,
}

impl FromStr for ClockSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' sets no clock; write 3=+20ms, 3=50ppm or 3@40=+20ms,50ppm");
        let (who, deviation) = text.split_once('=').ok_or_else(wrong)?;
        let (process, at) = who.split_once('@').map_or((who, None), |(process, at)| (process, Some(at)));
        Ok(Self {
            process: process.parse().map_err(|_| wrong())?,
            at: at.map_or(Ok(0), parse_time)?,
            deviation: deviation.parse()?,
        })
    }
}

impl Display for ClockSetting {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let Self { process, at, deviation } = self;
        match at {
            0 => write!(f, "{}={deviation}", process.0),
            at => write!(f, "{}@{}={deviation}", process.0, show_time(*at)),
        }
    }
}

/// The clocks of all processes, by place. Those that were never set show the time of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    set: Vec<Option<(u64, Deviation)>>,
}

impl Clocks {
    /// From now on the clock at a place deviates so.
    pub fn set(&mut self, place: usize, now: u64, deviation: Deviation) {
        if self.set.len() <= place {
            self.set.resize(place + 1, None);
        }
        self.set[place] = Some((now, deviation));
    }

    fn at(&self, place: usize) -> Option<(u64, Deviation)> {
        self.set.get(place).copied().flatten()
    }

    /// What the clock at a place shows when the run has lasted so many microseconds.
    pub fn read(&self, place: usize, now: u64) -> Shown {
        let ahead = self.at(place).map_or(0, |(since, deviation)| deviation.after(now.saturating_sub(since)));
        Shown { truth: now, ahead }
    }

    /// How many microseconds pass while the clock at a place counts so many.
    pub fn true_span(&self, place: usize, micros: u64) -> u64 {
        self.at(place).map_or(micros, |(_, deviation)| deviation.true_span(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_core::Reading;

    #[test]
    fn clocks_are_set_as_they_are_written() {
        for text in ["3=+20ms", "3@40=-5ms,+50ppm", "12@1s=+0s,-0.5ppm"] {
            let setting: ClockSetting = text.parse().unwrap();
            assert_eq!(setting.to_string(), text);
        }
        for wrong in ["3", "x=+20ms", "3@=+20ms", "3@40", "3=20", "=+20ms"] {
            assert!(wrong.parse::<ClockSetting>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_clock_deviates_from_the_moment_at_which_it_is_set() {
        let mut clocks = Clocks::default();
        clocks.set(1, 1_000_000, Deviation { offset: 5_000, drift: 1_000_000 });
        assert_eq!(clocks.read(0, 3_000_000).reading(), Reading(3_000_000_000));
        assert_eq!(clocks.read(1, 3_000_000).reading(), Reading(3_000_000_000 + 5_000 + 2_000_000));
        assert_eq!((clocks.true_span(0, 1_001), clocks.true_span(1, 1_001)), (1_001, 1_000));
    }
}
