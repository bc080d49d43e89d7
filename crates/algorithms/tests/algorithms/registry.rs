//! What the algorithms say of themselves can be relied upon.

use std::collections::BTreeSet;

use crate::common::every_setting;
use crate::visit::visit;
use conclave_algorithms::consensus::{self, Consensus};
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::family::Registered;
use conclave_algorithms::multicast::{self, Multicast};
use conclave_algorithms::mutex::{self, Mutex};
use conclave_algorithms::registry;
use conclave_algorithms::workers::ElectedWorkers;
use conclave_algorithms::{About, Algorithm, Arena, Recovering, SettingError, Settings, Values};
use conclave_core::Members;

#[test]
fn every_algorithm_is_there_once() {
    let all = registry::all();
    let names: BTreeSet<_> = all.iter().map(|about| about.name).collect();
    assert_eq!(names.len(), all.len(), "two algorithms have one name");
    for about in all {
        assert!(registry::find(about.name).is_some(), "{}", about.name);
    }
    assert!(registry::find("lamprot").is_none());
}

#[test]
fn names_and_keys_are_unique_and_words() {
    let word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    for about in registry::all() {
        let keys: BTreeSet<_> = about.settings.iter().map(|setting| setting.key).collect();
        assert_eq!(keys.len(), about.settings.len(), "{}", about.name);
        let mutants: BTreeSet<_> = about.mutants.iter().map(|mutant| mutant.name).collect();
        assert_eq!(mutants.len(), about.mutants.len(), "{}", about.name);
        assert!(keys.into_iter().chain(mutants).all(word), "{}", about.name);
    }
}

/// A mutant and its name: the name configures that mutant, not another, and not the algorithm as it is.
struct Mutated;

impl mutex::Visitor for Mutated {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        mutants_differ::<A>();
        mutants_differ::<Recovering<A>>();
    }
}

impl election::Visitor for Mutated {
    type Output = ();

    fn visit<A: Election>(self) {
        mutants_differ::<A>();
    }
}

impl consensus::Visitor for Mutated {
    type Output = ();

    fn visit<A: Consensus + Algorithm>(self) {
        mutants_differ::<A>();
    }
}

fn mutants_differ<A: Algorithm>() {
    let members = Members::numbered(4);
    let configured = |mutant| {
        let settings = Settings::new(&A::ABOUT, Arena::Laboratory, [], mutant).expect("declared");
        A::configure(&settings, &members).expect("the defaults fit")
    };
    let names = A::ABOUT.mutants.iter().map(|mutant| Some(mutant.name)).chain([None]);
    let configs: Vec<_> = names.map(|name| (name, configured(name))).collect();
    for (place, (name, config)) in configs.iter().enumerate() {
        let twice = configs[..place].iter().find(|(_, other)| other == config);
        assert!(
            twice.is_none(),
            "{}: {name:?} and {:?} are the same",
            A::ABOUT.name,
            twice.map(|same| same.0)
        );
    }
}

/// The same of multicasts, which share a protocol.
struct MulticastMutants;

impl multicast::Visitor for MulticastMutants {
    type Output = ();

    fn visit<A: Multicast>(self) {
        let about = multicast::all().into_iter().find(|about| about.name == A::ABOUT.name).expect("listed");
        let configured = |mutant| {
            let settings = Settings::new(about, Arena::Laboratory, [], mutant).expect("declared");
            A::configure(&settings, &Members::numbered(4)).expect("the defaults fit")
        };
        let names = about.mutants.iter().map(|mutant| Some(mutant.name)).chain([None]);
        let configs: Vec<_> = names.map(configured).collect();
        for (place, config) in configs.iter().enumerate() {
            assert!(!configs[..place].contains(config), "{}: mutant {place} is another one", about.name);
        }
    }
}

#[test]
fn every_mutant_is_configured_as_itself() {
    for about in crate::visit::all() {
        visit(about.name, Mutated).expect("listed");
    }
    mutants_differ::<ElectedWorkers>();
    for about in consensus::all() {
        consensus::visit(about.name, Mutated).expect("listed");
    }
    for about in multicast::all() {
        multicast::visit(about.name, MulticastMutants).expect("listed");
    }
}

#[test]
fn every_algorithm_has_doubles() {
    for about in registry::all() {
        assert!(about.mutants.len() >= 2, "{}", about.name);
        assert!(about.mutants.iter().all(|mutant| mutant.nodes >= 2), "{}", about.name);
    }
}

#[test]
fn defaults_are_declared_and_safe() {
    for about in registry::all() {
        for setting in about.settings {
            assert!(!setting.unsafe_values.contains(&setting.default), "{} {}", about.name, setting.key);
            if let Values::OneOf(words) | Values::Timed { words, .. } = setting.values {
                assert!(words.contains(&setting.default), "{} {}", about.name, setting.key);
                assert!(setting.unsafe_values.iter().all(|value| words.contains(value)));
            }
        }
        assert_eq!(Settings::defaults(about).iter().count(), about.every_setting().count());
    }
}

#[test]
fn nothing_unsafe_goes_live() {
    for about in registry::all() {
        for mutant in about.mutants {
            let refused = Settings::new(about, Arena::Live, [], Some(mutant.name));
            assert!(matches!(refused, Err(SettingError::Unsafe { .. })), "{} {}", about.name, mutant.name);
            assert!(Settings::new(about, Arena::Laboratory, [], Some(mutant.name)).is_ok());
        }
        for setting in about.settings {
            for value in setting.unsafe_values {
                let given = [(setting.key, *value)];
                let refused = Settings::new(about, Arena::Live, given, None);
                assert!(matches!(refused, Err(SettingError::Unsafe { .. })), "{} {given:?}", about.name);
                assert!(Settings::new(about, Arena::Laboratory, given, None).is_ok());
            }
        }
    }
}

fn refused(about: &'static About, given: &[(&str, &str)], mutant: Option<&str>) -> String {
    Settings::new(about, Arena::Laboratory, given.iter().copied(), mutant).expect_err("refused").to_string()
}

#[test]
fn what_does_not_exist_is_refused_in_a_sentence() {
    let about = registry::find("majority").expect("listed");
    assert_eq!(
        refused(about, &[("quorum", "grid")], None),
        "majority has no setting 'quorum'; it has: mode, doublings, queued, retries, \
         stamps, recovery, monitor, silence, poll, election, elect"
    );
    assert_eq!(
        refused(about, &[("mode", "loud")], None),
        "mode=loud is not possible; mode is one of: voting, view, backoff, literal"
    );
    assert_eq!(
        refused(about, &[], Some("tired")),
        "majority has no mutant 'tired'; it has: no-recall, revote, half-is-enough, shrinking, no-clock"
    );
    let central = registry::find("central").expect("listed");
    assert_eq!(
        refused(central, &[("coordinator", "lowest")], None),
        "coordinator=lowest is not possible; coordinator is the id of a process, or one of: highest, elected"
    );
}

/// Every declared value and every mutant, in groups of every small size.
struct Configures;

impl mutex::Visitor for Configures {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        configure_all::<A>();
    }
}

impl election::Visitor for Configures {
    type Output = ();

    fn visit<A: Election>(self) {
        configure_all::<A>();
    }
}

fn configure_all<A: Algorithm>() {
    for n in 1..=16 {
        let members = Members::numbered(n);
        let mutants = A::ABOUT.mutants.iter().map(|mutant| Some(mutant.name)).chain([None]);
        for mutant in mutants {
            for given in every_setting(&A::ABOUT) {
                let settings = Settings::new(&A::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
                let config = A::configure(&settings.expect("declared"), &members);
                let no_plane = given.contains(&("quorum", "plane")) && ![3, 7, 13].contains(&n);
                // A tree that is given must be given.
                let no_tree = given.contains(&("tree", "given"));
                let no_replies =
                    given.contains(&("replies", "suppressed")) && given.contains(&("enter", "acks"));
                match config {
                    Ok(_) => assert!(!no_plane && !no_tree && !no_replies, "{given:?} n={n}"),
                    Err(SettingError::Unfit(why)) => {
                        assert!(no_plane || no_tree || no_replies, "{} {given:?}: {why}", A::ABOUT.name);
                    }
                    Err(other) => panic!("{}: {other}", A::ABOUT.name),
                }
            }
        }
    }
}

#[test]
fn every_setting_can_be_had() {
    for name in crate::visit::all().iter().map(|about| about.name) {
        visit(name, Configures).expect("listed");
    }
}

/// A visitor is called with the algorithm that was named.
struct Title;

impl registry::Visitor for Title {
    type Output = &'static str;

    fn visit<R: Registered>(self) -> &'static str {
        R::ABOUT.title
    }
}

#[test]
fn a_visitor_meets_the_one_that_was_named() {
    for about in registry::all() {
        assert_eq!(registry::visit(about.name, Title), Some(about.title));
    }
    assert_eq!(registry::visit("nobody", Title), None);
}

/// What an algorithm says of its family is what the registry lists.
#[test]
fn every_family_is_there_once() {
    let names: Vec<_> = registry::families().iter().map(|family| family.name).collect();
    assert_eq!(names, ["mutex", "election", "workers", "multicast", "consensus", "memory", "clock", "order"]);
    for about in registry::all() {
        assert!(names.contains(&about.family.name), "{}", about.name);
        assert!(!about.family.requests.is_empty());
    }
}
