//! The algorithms that a program knows: those of the registry, and perhaps some of its own.
//!
//! An entry says what can be done with an algorithm, as plain functions. For the algorithms of the registry these look the
//! name up, so that simulator, checker and driver are compiled with them once, in their own crates.

use core::future::Future;
use core::pin::Pin;
use std::collections::BTreeMap;

use conclave_algorithms::family::{Kind, Registered};
use conclave_algorithms::{About, registry};
use conclave_check::{CheckError, Options, Progress, Report};
use conclave_core::Members;
use conclave_live::config::ProcessConfig;
use conclave_live::process::{self, ProcessError};
use conclave_sim::step::Stepper;
use conclave_sim::{Outcome, Plan, PlayError, Played};
use conclave_trace::{Script, Setup};

/// What waits, and ends with this.
type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// What checks all runs.
type Check = fn(&Setup, &Options, &mut dyn FnMut(&Progress)) -> Result<Report, CheckError>;
/// What says whether an algorithm can live with these settings among these processes.
type Fits = fn(&About, &BTreeMap<String, String>, &Members) -> Result<(), ProcessError>;
/// What is a live process, until it is told to stop.
type Run = for<'a> fn(
    &'a ProcessConfig,
    Pending<'a, ()>,
    &'a (dyn Fn() + Sync),
) -> Pending<'a, Result<(), ProcessError>>;

/// An algorithm and what can be done with it.
#[derive(Clone, Copy)]
pub struct Entry {
    pub about: &'static About,
    pub simulate: fn(&Setup, &Plan, bool) -> Result<Outcome, PlayError>,
    pub expected_messages: fn(&Setup, &Plan) -> Result<u64, PlayError>,
    pub shrink: fn(&Setup, &Plan, &str) -> Option<Script>,
    pub play: fn(&Script) -> Result<Played, PlayError>,
    pub step: fn(&Setup) -> Result<Stepper, PlayError>,
    pub check: Check,
    pub fits: Fits,
    pub run: Run,
}

impl Entry {
    /// One of the registry.
    fn registered(about: &'static About) -> Self {
        Self {
            about,
            simulate: conclave_sim::simulate_setup,
            expected_messages: conclave_sim::expected_messages,
            shrink: conclave_sim::shrink,
            play: conclave_sim::play,
            step: Stepper::new,
            check: conclave_check::check,
            fits: |about, settings, members| process::check(about.name, settings, members),
            run: |config, stop, ready| Box::pin(process::run(config, stop, ready)),
        }
    }

    /// One that the registry does not know.
    fn own<R: Registered + 'static>() -> Self {
        Self {
            about: R::ABOUT,
            simulate: |setup, plan, record| Ok(conclave_sim::simulate::<R>(setup, plan, record)?),
            expected_messages: |setup, plan| Ok(conclave_sim::expected_messages_of::<R>(setup, plan)?),
            shrink: conclave_sim::shrink_algorithm::<R>,
            play: conclave_sim::play_algorithm::<R>,
            step: Stepper::of::<R>,
            check: conclave_check::check_algorithm::<R>,
            fits: |_, settings, members| process::check_algorithm::<R>(settings, members),
            run: |config, stop, ready| Box::pin(process::run_algorithm::<R>(config, stop, ready)),
        }
    }
}

/// All algorithms that a program knows.
#[derive(Clone, Default)]
pub struct Catalogue {
    own: Vec<Entry>,
}

impl Catalogue {
    /// Adds an algorithm that the registry does not know.
    ///
    /// # Errors
    /// If it cannot be told from another one by its name, or nobody could type the name.
    pub fn add<R: Registered + 'static>(&mut self) -> Result<(), String> {
        let name = R::ABOUT.name;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_word) {
            return Err(format!(
                "'{name}' cannot be the name of an algorithm: use letters, digits and dashes in ABOUT"
            ));
        }
        if self.own.iter().any(|entry| entry.about.name == name) {
            return Err(format!("two algorithms of this program are called '{name}'; change one ABOUT"));
        }
        if registry::find(name).is_some() {
            return Err(format!(
                "'{name}' is the name of an algorithm that conclave has; give yours another one in ABOUT"
            ));
        }
        self.own.push(Entry::own::<R>());
        Ok(())
    }

    /// The names of those that the registry does not know.
    pub fn own_names(&self) -> Vec<&'static str> {
        self.own.iter().map(|entry| entry.about.name).collect()
    }

    /// All of them, one's own first.
    pub fn all(&self) -> Vec<&'static About> {
        self.own.iter().map(|entry| entry.about).chain(registry::all()).collect()
    }

    /// All families, one's own first.
    pub fn families(&self) -> Vec<Kind> {
        let mut families: Vec<Kind> = Vec::new();
        for family in self.own.iter().map(|entry| entry.about.family).chain(registry::families()) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        families
    }

    /// The one of this name.
    pub fn find(&self, name: &str) -> Option<Entry> {
        let own = self.own.iter().find(|entry| entry.about.name == name);
        own.copied().or_else(|| registry::find(name).map(Entry::registered))
    }

    /// Plays a script of whichever algorithm it names.
    pub fn play(&self, script: &Script) -> Result<Played, PlayError> {
        let Some(setup) = script.setup() else { return Err(PlayError::NoRun) };
        let unknown = || PlayError::UnknownAlgorithm(setup.algorithm.clone());
        (self.find(&setup.algorithm).ok_or_else(unknown)?.play)(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::family::{Use, Wanted};
    use conclave_algorithms::{SettingError, mutex};

    /// An algorithm of which only the name matters.
    macro_rules! nominal {
        ($type:ident, $name:literal) => {
            struct $type;
            impl Registered for $type {
                const ABOUT: &'static About = &About::of($name, mutex::FAMILY);

                fn prepare<U: Use>(_wanted: &mut Wanted<'_>, _user: U) -> Result<U::Output, SettingError> {
                    Err(SettingError::Unfit("it is a name and nothing else".into()))
                }
            }
        };
    }
    nominal!(Mine, "mine");
    nominal!(AlsoMine, "mine");
    nominal!(Taken, "central");
    nominal!(Untypable, "my lock");
    nominal!(LikeAnOption, "--lock");

    #[test]
    fn names_are_told_apart() {
        let mut catalogue = Catalogue::default();
        assert_eq!(catalogue.add::<Mine>(), Ok(()));
        let twice = catalogue.add::<AlsoMine>().unwrap_err();
        assert!(twice.contains("two algorithms of this program are called 'mine'"), "{twice}");
        let taken = catalogue.add::<Taken>().unwrap_err();
        assert!(taken.contains("'central' is the name of an algorithm that conclave has"), "{taken}");
        for wrong in [catalogue.add::<Untypable>(), catalogue.add::<LikeAnOption>()] {
            assert!(wrong.unwrap_err().contains("cannot be the name of an algorithm"));
        }
        assert_eq!(catalogue.own_names(), ["mine"]);
        assert_eq!(catalogue.all().len(), registry::all().len() + 1);
        assert!(catalogue.find("mine").is_some() && catalogue.find("central").is_some());
        assert!(catalogue.find("yours").is_none());
    }
}
