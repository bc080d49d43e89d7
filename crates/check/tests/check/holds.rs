//! What the algorithms promise holds in every run of these sizes, and there are exactly so many states.

use std::time::Duration;

use conclave_algorithms::election::{self, ChangRoberts};
use conclave_algorithms::{About, mutex};
use conclave_check::{AskBudget, Budgets, CheckError, Limits, Options, Report, check, check_algorithm};
use conclave_core::NodeId;
use conclave_trace::Setup;

fn search(algorithm: &str, n: u32, options: &Options) -> Report {
    let limits = Limits { memory: 2 << 30, ..Limits::default() };
    let options = Options { limits, ..options.clone() };
    check(&Setup::numbered(algorithm, n), &options, &mut |_| {}).expect("it can be searched")
}

/// Complete, nothing broken, and as many states as ever.
fn holds(algorithm: &str, n: u32, options: &Options, states: usize) {
    let report = search(algorithm, n, options);
    let name = format!("{algorithm} n = {n}, {} entries", report.entries);
    assert!(report.complete, "{name}: {:?} {:?}", report.incomplete, report.counterexample.map(|c| c.detail));
    for property in report.properties.iter().filter(|property| property.promised) {
        assert_ne!(property.holds, Some(false), "{name}: {}", property.name);
    }
    assert_eq!(report.states, states, "{name}");
}

fn times(times: u8) -> Options {
    Options { entries: AskBudget::Times(times), ..Options::default() }
}

/// Complete, and nothing broken, with settings.
fn holds_with(algorithm: &str, n: u32, settings: &[(&str, &str)], options: &Options) {
    let settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let limits = Limits { memory: 2 << 30, ..Limits::default() };
    let setup = Setup { settings, ..Setup::numbered(algorithm, n) };
    let report =
        check(&setup, &Options { limits, ..options.clone() }, &mut |_| {}).expect("it can be searched");
    let found = report.counterexample.as_ref().map(|found| found.detail.clone());
    assert!(report.complete && report.all_held(), "{setup}: {:?} {found:?}", report.incomplete);
    println!("{setup}: {} states, depth {}", report.states, report.depth);
}

/// What [`holds`], of every algorithm for locks that is registered.
fn all_hold(counts: &[(&str, usize)], n: u32, options: &Options) {
    these_hold(mutex::all(), counts, n, options);
}

fn these_hold(abouts: Vec<&About>, counts: &[(&str, usize)], n: u32, options: &Options) {
    for about in abouts {
        let counted = counts.iter().find(|(name, _)| *name == about.name);
        let states = counted.map_or_else(|| search(about.name, n, options).states, |(_, states)| *states);
        assert!(counted.is_some(), "a row is missing in this table: (\"{}\", {states}),", about.name);
        holds(about.name, n, options, states);
    }
}

#[test]
fn three_processes_enter_once_each() {
    let counts = [
        ("central", 122),
        ("lamport", 988_881),
        ("ricart-agrawala", 5_315),
        ("carvalho-roucairol", 2_882),
        ("lodha-kshemkalyani", 2_580),
        ("maekawa", 457),
        ("majority", 173_969),
        ("ricart-agrawala-token", 3_224),
        ("suzuki-kasami", 725),
        ("token-ring", 225),
        ("raymond", 158),
        ("singhal", 483),
        ("total-order", 117_857),
    ];
    all_hold(&counts, 3, &times(1));
}

#[test]
fn two_processes_enter_twice_each() {
    let counts = [
        ("central", 80),
        ("lamport", 1_679),
        ("ricart-agrawala", 217),
        ("carvalho-roucairol", 87),
        ("lodha-kshemkalyani", 181),
        ("maekawa", 287),
        ("majority", 278),
        ("ricart-agrawala-token", 79),
        ("suzuki-kasami", 83),
        ("token-ring", 120),
        ("raymond", 87),
        ("singhal", 83),
        ("total-order", 2_761),
    ];
    all_hold(&counts, 2, &times(2));
}

/// Nobody starves, although everyone asks again forever: all runs, not long ones.
#[test]
fn two_processes_enter_forever() {
    let counts = [
        ("central", 53),
        ("lamport", 1_377),
        ("ricart-agrawala", 133),
        ("carvalho-roucairol", 57),
        ("lodha-kshemkalyani", 78),
        ("maekawa", 138),
        ("majority", 134),
        ("ricart-agrawala-token", 50),
        ("suzuki-kasami", 65),
        ("token-ring", 68),
        ("raymond", 58),
        ("singhal", 59),
    ];
    let forever = Options { entries: AskBudget::Forever, ..Options::default() };
    // A sequencer keeps the posts of a view, so that no state comes back.
    let finite = mutex::all().into_iter().filter(|about| about.name != "total-order");
    these_hold(finite.collect(), &counts, 2, &forever);
    holds_with("total-order", 2, &[("order", "isis")], &forever);
    holds_with("total-order", 2, &[("order", "lamport-stamps")], &forever);
}

/// A lock over each order, and one in which somebody crashes inside any step and the group is left to itself.
#[test]
fn a_lock_over_total_order() {
    holds_with("total-order", 2, &[("order", "isis")], &times(2));
    holds_with("total-order", 2, &[("order", "lamport-stamps")], &times(2));
    let crash = Options { budgets: Budgets { crashes: 1, ..Budgets::default() }, ..times(1) };
    holds_with("total-order", 2, &[("recovery", "off")], &crash);
}

/// Requests by reliable multicast: two of three ask, and two of which one crashes inside any step.
#[test]
fn requests_by_reliable_multicast() {
    let reliable = &[("multicast", "reliable")];
    holds_with("ricart-agrawala", 2, reliable, &times(2));
    let two = Options { starters: Some(vec![NodeId(1), NodeId(2)]), ..times(1) };
    holds_with("ricart-agrawala", 3, reliable, &two);
    let crash = Options { budgets: Budgets { crashes: 1, ..Budgets::default() }, ..times(1) };
    holds_with("ricart-agrawala", 2, reliable, &crash);
}

/// Whoever may start does so at any time, or not at all: that is every set of starters.
#[test]
fn elections_end_with_one_leader_whoever_starts() {
    let counts = [
        ("bully", 3, 32_781),
        ("chang-roberts", 4, 1_037),
        ("ring-active-list", 4, 8_912),
        ("ring-list", 4, 219_960),
        ("ring-ballot", 4, 219_640),
    ];
    for (algorithm, n, states) in counts {
        holds(algorithm, n, &times(1), states);
    }
}

/// The same, when nobody calls who has heard of a leader: every set of starters of one election.
#[test]
fn one_election_ends_with_one_leader_whoever_starts() {
    let counts = [
        ("bully", 3, 7_364),
        ("chang-roberts", 4, 195),
        ("ring-active-list", 4, 1_265),
        ("ring-list", 3, 1_244),
        ("ring-ballot", 3, 1_244),
        ("ring-k-leaders", 3, 13_112),
    ];
    for (algorithm, n, states) in counts {
        holds(algorithm, n, &Options { entries: AskBudget::First, ..Options::default() }, states);
    }
}

/// Whoever writes an election of their own has it searched by its type, under any name.
#[test]
fn an_election_needs_no_registry() {
    let (ours, options) = (Setup::numbered("ours", 4), Options::default());
    let known = search("chang-roberts", 4, &options);
    let unknown = check_algorithm::<election::Of<ChangRoberts>>(&ours, &options, &mut |_| {})
        .expect("it can be searched");
    assert!(unknown.complete && unknown.counterexample.is_none());
    assert_eq!((unknown.states, unknown.transitions), (known.states, known.transitions));
    let found = check(&ours, &options, &mut |_| {});
    assert!(matches!(found, Err(CheckError::UnknownAlgorithm(name)) if name == "ours"));
}

/// Numbers, verdict and counterexample are the same for any number of threads.
#[test]
fn threads_change_nothing() {
    let mutant = Setup { mutant: Some("no-sanders".into()), ..Setup::numbered("maekawa", 4) };
    for setup in [Setup::numbered("majority", 3), mutant] {
        let [one, two, three] = [1, 2, 3].map(|threads| {
            let options = Options { threads, ..Options::default() };
            let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
            let script = report.counterexample.map(|found| found.script.to_string());
            (report.states, report.transitions, report.depth, script)
        });
        assert_eq!(one, two);
        assert_eq!(one, three);
    }
}

/// With commuting steps left out there are fewer states, and the same verdicts.
#[test]
fn the_reduction_changes_no_verdict() {
    let mutant =
        |algorithm, n, mutant: &str| Setup { mutant: Some(mutant.into()), ..Setup::numbered(algorithm, n) };
    let setups = [
        Setup::numbered("ricart-agrawala", 3),
        Setup::numbered("majority", 3),
        Setup::numbered("raymond", 3),
        mutant("ricart-agrawala", 2, "no-tie-break"),
        mutant("maekawa", 4, "no-sanders"),
        mutant("raymond", 3, "no-re-ask"),
    ];
    for setup in setups {
        let [reduced, full] = [true, false].map(|reduce| {
            let options = Options { reduce, liveness: false, ..Options::default() };
            check(&setup, &options, &mut |_| {}).expect("it can be searched")
        });
        let verdict = |report: &Report| report.counterexample.as_ref().map(|found| found.property);
        assert_eq!(verdict(&reduced), verdict(&full), "{setup}");
        if full.complete {
            assert!(
                reduced.complete && reduced.states <= full.states,
                "{setup}: {} of {}",
                reduced.states,
                full.states
            );
        }
    }
}

/// A request is overtaken as often as the literature allows, and no more.
#[test]
fn overtaking_is_measured_over_all_schedules() {
    let options = Options { order: true, ..times(2) };
    for (algorithm, most) in [("ricart-agrawala", 1), ("suzuki-kasami", 1), ("central", 1)] {
        let report = search(algorithm, 2, &options);
        assert!(report.complete, "{algorithm}");
        let overtaking = report.overtaking.expect("the order is judged");
        assert_eq!((overtaking.most, overtaking.bound), (most, Some(1)), "{algorithm}");
    }
}

/// How many states there were, and how long it took, at each look at a reduced search.
fn looks(algorithm: &str) -> Vec<(usize, Duration)> {
    let mut seen = Vec::new();
    let options = Options { liveness: false, reduce: true, ..times(1) };
    check(&Setup::numbered(algorithm, 3), &options, &mut |progress| {
        seen.push((progress.states, progress.elapsed));
    })
    .expect("it can be searched");
    seen
}

fn begins_anew(looks: &[(usize, Duration)]) -> bool {
    looks.windows(2).any(|pair| pair[1].0 < pair[0].0)
}

/// A reduced search that has learnt something too late begins again, but its time does not.
#[test]
fn time_goes_on_when_a_reduced_search_begins_anew() {
    let looks = looks("majority");
    assert!(begins_anew(&looks), "it did not begin again");
    assert!(looks.is_sorted_by_key(|(_, elapsed)| *elapsed), "{looks:?}");
}

/// What a few runs tell beforehand spares a search most of that.
#[test]
fn a_reduced_search_knows_beforehand_who_sends_to_whom() {
    assert!(!begins_anew(&looks("ricart-agrawala")), "it begins again");
}

/// A search that may not use more memory says so, and is not complete.
#[test]
fn the_limit_of_memory_ends_a_search_honestly() {
    let limits = Limits { memory: 16 << 20, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let report = check(&Setup::numbered("lamport", 3), &options, &mut |_| {}).expect("it can be searched");
    assert!(!report.complete && report.counterexample.is_none());
    assert!(report.memory < 16 << 20, "{}", report.memory);
}

/// Nor does it stop long before: nothing large is copied while it grows.
#[test]
fn most_of_the_memory_is_used_before_it_is_said_to_be_used_up() {
    let memory = 48 << 20;
    let limits = Limits { memory, ..Limits::default() };
    let options = Options { liveness: false, limits, ..Options::default() };
    let report =
        check(&Setup::numbered("ricart-agrawala", 4), &options, &mut |_| {}).expect("it can be searched");
    assert!(!report.complete && report.memory < memory, "{}", report.memory);
    assert!(report.memory > memory / 2, "it ended at {} of {memory}", report.memory);
}

/// Masters and workers are searched like any other family, and a mutant of theirs is refuted.
#[test]
fn workers_are_searched_too() {
    let crash = Options { budgets: Budgets { crashes: 1, ..Budgets::default() }, ..Options::default() };
    let mut setup = Setup::numbered("workers", 2);
    setup.settings = [("tasks".into(), "1".into())].into();
    let crash = Options { atomic_steps: true, ..crash };
    let report = check(&setup, &crash, &mut |_| {}).expect("it can be searched");
    assert!(report.complete && report.all_held(), "{report:?}");
    let mutant = Setup { mutant: Some("forget-suspected".into()), ..Setup::numbered("workers", 3) };
    let setup = Setup { settings: [("tasks".into(), "1".into())].into(), ..mutant };
    let report = check(&setup, &crash, &mut |_| {}).expect("it can be searched");
    assert_eq!(report.counterexample.map(|found| found.property), Some("W3"));
}

/// One wrong suspicion lets nobody in beside the holder in the first 100,000 states; without the quarantine it does soon. The
/// search has no end, since a lease is renewed for as long as somebody is inside.
#[test]
fn a_view_of_a_majority_survives_a_wrong_suspicion() {
    let options = Options {
        budgets: Budgets { suspicions: 1, ..Budgets::default() },
        limits: Limits { memory: 2 << 30, states: Some(100_000), ..Limits::default() },
        ..Options::default()
    };
    for (mutant, broken) in [(None, None), (Some("no-quarantine"), Some("ME1"))] {
        let mut setup = Setup { mutant: mutant.map(Into::into), ..Setup::numbered("majority", 2) };
        setup.settings.insert("mode".into(), "view".into());
        let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
        assert_eq!(report.counterexample.map(|found| found.property), broken, "{mutant:?}");
    }
}

/// Whoever crashes and comes back, also both at once: no fence is smaller than an earlier one in the first 300,000 states.
/// Without waiting for who went on alone one is.
#[test]
fn fences_do_not_go_back_when_both_have_crashed() {
    let options = Options {
        budgets: Budgets { crashes: 2, restarts: 2, ..Budgets::default() },
        atomic_steps: true,
        liveness: false,
        limits: Limits { memory: 2 << 30, states: Some(300_000), ..Limits::default() },
        ..Options::default()
    };
    for (mutant, broken) in [(None, None), (Some("go-on-alone"), Some("FENCE"))] {
        let setup = Setup { mutant: mutant.map(Into::into), ..Setup::numbered("central", 2) };
        let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
        assert_eq!(report.counterexample.map(|found| found.property), broken, "{mutant:?}");
    }
}

/// Who gives up before a majority has confirmed its grant has no grant when it asks again: without that rule two get in.
#[test]
fn a_grant_that_was_given_up_is_not_confirmed_later() {
    let options = Options {
        entries: AskBudget::Times(2),
        budgets: Budgets { cancels: 1, ..Budgets::default() },
        liveness: false,
        limits: Limits { memory: 2 << 30, states: Some(100_000), ..Limits::default() },
        ..Options::default()
    };
    for (mutant, broken) in [(None, None), (Some("keep-lease"), Some("ME1"))] {
        let mut setup = Setup { mutant: mutant.map(Into::into), ..Setup::numbered("majority", 2) };
        setup.settings.insert("mode".into(), "view".into());
        let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
        assert_eq!(report.counterexample.map(|found| found.property), broken, "{mutant:?}");
    }
}
