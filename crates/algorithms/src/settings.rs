//! Settings of an algorithm as a user gives them: keys and values, checked against what the algorithm declares.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use conclave_core::NodeId;

use crate::{About, RECOVERY_MUTANTS, Synchrony, recorded};

/// One thing that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// What it can be.
    pub values: Values,
    /// What it is if nothing is said.
    pub default: &'static str,
    /// The values that are known to be unsafe: for simulator and checker only.
    pub unsafe_values: &'static [&'static str],
    /// What it does.
    pub help: &'static str,
}

/// What a setting can be.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, with some of which the algorithm relies on time although it usually does not.
    Timed {
        /// All of them.
        words: &'static [&'static str],
        /// Those with which it relies on time.
        timed: &'static [&'static str],
    },
    /// A whole number between the two, both included.
    Number(u64, u64),
    /// The id of a process, or the word that the default is.
    Process,
    /// The id of a process, or one of these words.
    ProcessOr(&'static [&'static str]),
    /// Numbers for processes, `1:5,3:2`, or the word that the default is.
    Numbers,
}

/// Where an algorithm is going to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arena {
    /// In a simulator or checker: everything may be tried.
    Laboratory,
    /// Between real processes: nothing that is known to be unsafe.
    Live,
}

/// Settings that have passed the checks of [`Settings::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
    mutant: Option<&'static str>,
}

/// Why settings are refused; nothing has happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such key.
    #[error("{algorithm} has no setting '{key}'; it has: {known}")]
    UnknownKey {
        /// The algorithm.
        algorithm: &'static str,
        /// The key that was given.
        key: String,
        /// The keys that there are.
        known: String,
    },
    /// The key cannot have this value.
    #[error("{key}={value} is not possible; {key} is {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What it can be.
        expected: String,
    },
    /// No such mutant.
    #[error("{algorithm} has no mutant '{name}'; it has: {known}")]
    UnknownMutant {
        /// The algorithm.
        algorithm: &'static str,
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Known to be unsafe.
    #[error("{what} is known to be unsafe and runs only in the simulator and the checker")]
    Unsafe {
        /// What was asked for.
        what: String,
    },
    /// The settings do not fit the group.
    #[error("{0}")]
    Unfit(String),
}

impl Settings {
    /// Holds settings against what the algorithm declares.
    ///
    /// # Errors
    /// On the first key, value or mutant that does not exist or may not be used in this arena.
    pub fn new<'a>(
        about: &'static About,
        arena: Arena,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
        mutant: Option<&str>,
    ) -> Result<Self, SettingError> {
        let given: Vec<_> = given.into_iter().collect();
        Self::checked(about, arena, &given, mutant)
    }

    /// Not generic, so that it is compiled once.
    fn checked(
        about: &'static About,
        arena: Arena,
        given: &[(&str, &str)],
        mutant: Option<&str>,
    ) -> Result<Self, SettingError> {
        let mut values: BTreeMap<_, _> =
            about.every_setting().map(|s| (s.key, s.default.to_string())).collect();
        for (key, value) in given.iter().copied() {
            // People write skip_known_dead where the key is skip-known-dead.
            let key = key.replace('_', "-");
            let mut known = about.every_setting().chain([const { &recorded::SETTING }]);
            let setting = known.find(|s| s.key == key).ok_or_else(|| SettingError::UnknownKey {
                algorithm: about.name,
                key: key.clone(),
                known: listed(about.every_setting().map(|s| s.key)),
            })?;
            setting.check(value)?;
            if arena == Arena::Live && setting.unsafe_values.contains(&value) {
                return Err(SettingError::Unsafe { what: format!("{key}={value}") });
            }
            values.insert(setting.key, value.to_string());
        }
        let mutant = mutant.map(|name| about.mutant(name)).transpose()?;
        if let (Arena::Live, Some(name)) = (arena, mutant) {
            return Err(SettingError::Unsafe { what: format!("mutant {name}") });
        }
        Ok(Self { values, mutant })
    }

    /// The defaults of an algorithm.
    #[must_use]
    pub fn defaults(about: &'static About) -> Self {
        Self::new(about, Arena::Live, [], None).expect("an algorithm's defaults are safe")
    }

    /// The value of a key that the algorithm declares.
    #[must_use]
    pub fn get(&self, key: &str) -> &str {
        self.values.get(key).expect("an algorithm reads only the settings that it declares")
    }

    /// The value of a number.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).parse().expect("a number was checked when the settings were made")
    }

    /// The value of a process, or nothing if a word stands there.
    #[must_use]
    pub fn process(&self, key: &str) -> Option<NodeId> {
        self.get(key).parse().ok().map(NodeId)
    }

    /// The numbers given for processes; none if the default word stands there.
    #[must_use]
    pub fn numbers(&self, key: &str) -> BTreeMap<NodeId, u64> {
        parse_numbers(self.get(key)).unwrap_or_default()
    }

    /// The mutant that is asked for.
    #[must_use]
    pub fn mutant(&self) -> Option<&'static str> {
        self.mutant
    }

    /// All keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl Setting {
    /// Whether the algorithm relies on time with this value, even if it usually does not.
    fn relies_on_time(&self, value: &str) -> bool {
        matches!(self.values, Values::Timed { timed, .. } if timed.contains(&value))
    }

    fn check(&self, value: &str) -> Result<(), SettingError> {
        let (fits, expected) = match self.values {
            Values::OneOf(words) | Values::Timed { words, .. } => {
                (words.contains(&value), format!("one of: {}", listed(words.iter().copied())))
            }
            Values::Number(min, max) => (
                value.parse().is_ok_and(|number: u64| (min..=max).contains(&number)),
                format!("a whole number from {min} to {max}"),
            ),
            Values::Numbers => (
                value == self.default || parse_numbers(value).is_some(),
                format!("numbers for processes such as 1:5,3:2, or '{}'", self.default),
            ),
            Values::ProcessOr(words) => (
                words.contains(&value) || value.parse::<u32>().is_ok(),
                format!("the id of a process, or one of: {}", listed(words.iter().copied())),
            ),
            Values::Process => (
                value == self.default || value.parse::<u32>().is_ok(),
                format!("the id of a process, or '{}'", self.default),
            ),
        };
        if fits {
            return Ok(());
        }
        Err(SettingError::BadValue { key: self.key, value: value.to_string(), expected })
    }
}

impl About {
    /// What it relies on about time, set up so.
    #[must_use]
    pub fn synchrony_with(&self, settings: &BTreeMap<String, String>) -> Synchrony {
        let is_timed = |setting: &Setting| {
            setting.relies_on_time(settings.get(setting.key).map_or(setting.default, String::as_str))
        };
        if self.every_setting().any(is_timed) { Synchrony::Synchronous } else { self.synchrony }
    }

    /// Its own settings, and those that its whole family has.
    pub fn every_setting(&self) -> impl Iterator<Item = &'static Setting> + use<> {
        self.settings.iter().chain(self.family.settings)
    }

    /// The name of a mutant, as it is declared. Who can recover can be broken in its recovery.
    fn mutant(&self, name: &str) -> Result<&'static str, SettingError> {
        let recovers = self.every_setting().any(|setting| setting.key == "recovery");
        let shared = if recovers { RECOVERY_MUTANTS } else { &[] };
        let found = self.mutants.iter().chain(shared).find(|mutant| mutant.name == name);
        found.map(|mutant| mutant.name).ok_or_else(|| SettingError::UnknownMutant {
            algorithm: self.name,
            name: name.to_string(),
            known: listed(self.mutants.iter().map(|mutant| mutant.name)),
        })
    }
}

/// `1:5,3:2`, each process once.
fn parse_numbers(text: &str) -> Option<BTreeMap<NodeId, u64>> {
    let mut numbers = BTreeMap::new();
    for pair in text.split(',') {
        let (process, number) = pair.split_once(':')?;
        let process = NodeId(process.trim().parse().ok()?);
        if numbers.insert(process, number.trim().parse().ok()?).is_some() {
            return None;
        }
    }
    Some(numbers)
}

/// Words for a sentence; a dash where there are none.
fn listed(words: impl Iterator<Item = &'static str>) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(word);
    }
    if text.is_empty() {
        text.push('-');
    }
    text
}
