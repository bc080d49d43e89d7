//! Logical clocks that do not begin at zero: the setting `stamps`.
//!
//! The texts tell their stories with stamps such as 1021, 8 and 12. Where every clock begins is free: the algorithms rely
//! only on what happens afterwards.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use conclave_core::{LamportClock, Members, NodeId};

use crate::settings::{Setting, Values};
use crate::{SettingError, Settings};

/// The setting, for those who stamp their requests with a Lamport clock.
pub const STAMPS: Setting = Setting {
    key: "stamps",
    values: Values::Numbers,
    default: "zero",
    unsafe_values: &[],
    help: "what the logical clocks show at the start, as process:time pairs; the first request of a process is stamped \
           with the next number",
};

/// No clock begins later than this: the rest is for counting.
const LATEST: u64 = 1 << 32;

/// What the clocks show at the start: zero, but for those that are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamps(Option<Arc<[(NodeId, u64)]>>);

impl Stamps {
    /// As the setting says.
    ///
    /// # Errors
    /// If it names a process that does not take part, or a time that is too late.
    pub fn of(settings: &Settings, members: &Members) -> Result<Self, SettingError> {
        let given: Vec<_> = settings.numbers(STAMPS.key).into_iter().collect();
        for (process, time) in &given {
            if !members.contains(*process) {
                let why = format!("stamps names process {}, which is not one of the processes", process.0);
                return Err(SettingError::Unfit(why));
            }
            if *time > LATEST {
                return Err(SettingError::Unfit(format!(
                    "a clock begins at {LATEST} at the latest, not at {time}"
                )));
            }
        }
        Ok(Self((!given.is_empty()).then(|| given.into())))
    }

    /// The clock of a process at its start.
    pub fn clock(&self, process: NodeId) -> LamportClock {
        let mut clock = LamportClock::default();
        let named = self.0.iter().flat_map(|given| given.iter()).find(|(id, _)| *id == process);
        clock.witness(named.map_or(0, |(_, time)| *time));
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::RicartAgrawala;
    use crate::{Algorithm as _, Arena};

    fn stamps(text: &str) -> Result<Stamps, SettingError> {
        let settings = Settings::new(&RicartAgrawala::ABOUT, Arena::Live, [("stamps", text)], None)?;
        Stamps::of(&settings, &Members::numbered(4))
    }

    #[test]
    fn a_clock_begins_where_it_is_told_to() {
        let stamps = stamps("4:1020,2:7").unwrap();
        let times = [1, 2, 3, 4].map(|id| stamps.clock(NodeId(id)).time());
        assert_eq!(times, [0, 7, 0, 1020]);
        assert_eq!(self::stamps("zero"), Ok(Stamps::default()));
    }

    #[test]
    fn strangers_and_the_end_of_time_are_refused() {
        for wrong in ["5:1", "4:4294967297", "4=7", "4", "4:x"] {
            assert!(stamps(wrong).is_err(), "{wrong}");
        }
    }
}
