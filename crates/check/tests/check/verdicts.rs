//! What a search says it has judged, it has judged in every run; of the rest it says why not.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use conclave_check::{AskBudget, Budgets, Limits, Options, Report, Stopped, check};
use conclave_core::NodeId;
use conclave_trace::Setup;

fn search(setup: &Setup, options: &Options) -> Report {
    let limits = Limits { memory: 2 << 30, ..options.limits.clone() };
    check(setup, &Options { limits, ..options.clone() }, &mut |_| {}).expect("it can be searched")
}

fn mutant(algorithm: &str, n: u32, mutant: &str) -> Setup {
    Setup { mutant: Some(mutant.into()), ..Setup::numbered(algorithm, n) }
}

fn failing(budgets: Budgets) -> Options {
    Options { budgets, ..Options::default() }
}

/// Of what is not said to hold, there is a reason.
#[track_caller]
fn gives_reasons(report: &Report) {
    for property in &report.properties {
        assert!(property.holds == Some(true) || !property.detail.is_empty(), "{property:?}");
    }
}

#[track_caller]
fn is_open(report: &Report, name: &str, why: &str) {
    let property = report.property(name).unwrap_or_else(|| panic!("{name} is a property"));
    assert_eq!(property.holds, None, "{property:?}");
    assert!(property.detail.contains(why), "{property:?}");
}

#[test]
fn what_was_not_seen_to_the_end_does_not_hold() {
    let cut = |limits| Options { limits, ..Options::default() };
    let depth = cut(Limits { depth: Some(4), ..Limits::default() });
    let states = cut(Limits { states: Some(100), ..Limits::default() });
    let crowded = cut(Limits { in_flight: Some(1), ..Limits::default() });
    let crowded = Options { entries: AskBudget::Times(2), ..crowded };
    for (n, options, why) in
        [(3, depth, Stopped::Depth), (3, states, Stopped::States), (2, crowded, Stopped::Crowded)]
    {
        let report = search(&Setup::numbered("ricart-agrawala", n), &options);
        assert_eq!((report.incomplete, report.complete), (Some(why), false));
        assert!(report.properties.iter().all(|property| property.holds.is_none()), "{report:?}");
        is_open(&report, "ME1", &format!("not broken in what was seen; {why}"));
        is_open(&report, "ME3", &why.to_string());
        gives_reasons(&report);
    }
}

/// What was seen up to then is reported.
#[test]
fn an_interrupted_search_reports_what_it_saw() {
    let interrupt = Some(Arc::new(AtomicBool::new(true)));
    let options = Options { limits: Limits { interrupt, ..Limits::default() }, ..Options::default() };
    let report = search(&Setup::numbered("majority", 3), &options);
    assert_eq!(report.incomplete, Some(Stopped::Interrupted));
    assert!(report.states > 1 && report.transitions > 0, "{report:?}");
    is_open(&report, "ME1", "interrupted");
}

/// One that stops at a broken promise has not judged the others.
#[test]
fn a_broken_promise_ends_the_search_for_the_others() {
    let report = search(&mutant("ricart-agrawala", 2, "no-tie-break"), &Options::default());
    assert_eq!(report.property("ME1").map(|property| property.holds), Some(Some(false)));
    is_open(&report, "ME2", "the search ended before");
    gives_reasons(&report);
}

/// A larger budget of failures finds no less.
#[test]
fn tokens_are_counted_until_a_message_is_doubled() {
    let once = Budgets { duplicates: 1, ..Budgets::default() };
    let options = Options { starters: Some(vec![NodeId(2)]), ..failing(once) };
    let report = search(&mutant("suzuki-kasami", 2, "keep-token"), &options);
    assert_eq!(report.counterexample.map(|found| found.property), Some("TOK"));
    let report = search(&Setup::numbered("suzuki-kasami", 2), &options);
    assert!(report.complete, "{report:?}");
    is_open(&report, "TOK", "judged only before the first doubled message");
    let report = search(&Setup::numbered("suzuki-kasami", 2), &Options::default());
    assert_eq!(report.property("TOK").map(|property| property.holds), Some(Some(true)));
}

/// The ledger forgets the order of requests at the first failure.
#[test]
fn the_order_of_grants_is_judged_only_before_failures() {
    let crash = Budgets { crashes: 1, ..Budgets::default() };
    let options = Options { order: true, atomic_steps: true, ..failing(crash) };
    let report = search(&Setup::numbered("central", 2), &options);
    assert!(report.complete && report.all_held(), "{report:?}");
    for name in ["ME4", "ME5-FCFS"] {
        is_open(&report, name, "judged only before the first failure");
    }
    let report = search(&Setup::numbered("central", 2), &Options { order: true, ..Options::default() });
    assert_eq!(report.property("ME4").map(|property| property.holds), Some(Some(true)));
}

/// A request that is served only when somebody else asks again waits forever in the run in which nobody does.
#[test]
fn who_may_ask_forever_may_also_stay_away() {
    // A dead end is a matter of safety; and nobody asks when it could no longer be avoided.
    let options = Options { entries: AskBudget::Forever, liveness: false, ..Options::default() };
    let found = search(&mutant("singhal", 3, "no-return-request"), &options).counterexample;
    let found = found.expect("it is refuted");
    assert_eq!(found.property, "ME2");
    let played = conclave_sim::play(&found.script).expect("the simulator plays it");
    assert_eq!(played.violation.map(|violation| violation.property), Some("ME2"));
}

/// A new life begins at zero, not where the numbers of the others have been moved to.
#[test]
fn numbers_are_not_moved_down_where_lives_begin_anew() {
    let budgets = Budgets { crashes: 1, restarts: 1, ..Budgets::default() };
    let limits = Limits { depth: Some(6), ..Limits::default() };
    let options = Options { entries: AskBudget::Forever, limits, liveness: false, ..failing(budgets) };
    let mut setup = Setup::numbered("suzuki-kasami", 2);
    setup.settings.insert("recovery".into(), "off".into());
    assert!(!search(&setup, &options).normalised);
    let crash = Budgets { restarts: 0, ..budgets };
    assert!(search(&setup, &Options { budgets: crash, ..options }).normalised);
}

fn met(report: &Report, situation: &str, after: &str) -> bool {
    let mut coverage = report.coverage.iter();
    let found = coverage.find(|coverage| (coverage.situation, coverage.after) == (situation, after));
    found.unwrap_or_else(|| panic!("no {situation} {after} in {:?}", report.coverage)).met
}

/// Of two processes one crashes: nobody is left to compete with. Of three, two are.
#[test]
fn a_search_says_what_it_never_met() {
    let crash = failing(Budgets { crashes: 1, ..Budgets::default() });
    let crash = Options { atomic_steps: true, liveness: false, ..crash };
    let two = search(&Setup::numbered("central", 2), &crash);
    assert!(two.complete, "{two:?}");
    assert!(met(&two, "two wait at once", "") && !met(&two, "two wait at once", "after a crash"));
    assert!(met(&two, "somebody is inside in a later epoch", "after a crash"));
    let states = Some(200_000);
    let some = Options {
        mortals: Some(vec![NodeId(3)]),
        starters: Some(vec![NodeId(1), NodeId(2)]),
        limits: Limits { states, ..Limits::default() },
        ..crash
    };
    assert!(met(&search(&Setup::numbered("central", 3), &some), "two wait at once", "after a crash"));
    let alone = Options { starters: Some(vec![NodeId(2)]), ..Options::default() };
    let report = search(&Setup::numbered("central", 2), &alone);
    assert!(!met(&report, "somebody waits while another is inside", ""), "{:?}", report.coverage);
    let elected = search(&Setup::numbered("chang-roberts", 3), &Options::default());
    assert!(elected.coverage.iter().all(|coverage| coverage.met), "{:?}", elected.coverage);
}

/// What the verdicts rely on is part of the report.
#[test]
fn a_report_names_its_assumptions() {
    let crash = failing(Budgets { crashes: 1, ..Budgets::default() });
    let limits = Limits { depth: Some(2), ..Limits::default() };
    let crash = Options { limits: limits.clone(), ..crash };
    let assumes = |options: &Options| search(&Setup::numbered("central", 2), options).assumes;
    let says = |options: &Options, words: &str| assumes(options).iter().any(|other| other == words);
    assert!(says(&crash, "every crash is reported, and nobody else is suspected"), "{:?}", assumes(&crash));
    assert!(says(&crash, "messages take at most 1 tick, steps no time, and timers are exact"));
    assert!(says(&crash, "no message is lost or doubled") && says(&crash, "what was saved is kept"));
    assert!(!says(&crash, "crashes fall between steps"));
    assert!(says(&Options { atomic_steps: true, ..crash.clone() }, "crashes fall between steps"));
    assert!(says(&Options { detector: false, ..crash }, "no crash is reported"));
    let plain = Options { limits, ..Options::default() };
    assert_eq!(assumes(&plain), ["nobody crashes", "no message is lost or doubled"]);
}

/// A multicast that promises no order is not searched for one, and says so.
#[test]
fn what_is_not_looked_for_is_not_said_to_hold() {
    let report = search(&Setup::numbered("basic", 2), &Options::default());
    assert!(report.complete, "{report:?}");
    for name in ["FIFO", "CAUSAL", "TOTAL"] {
        is_open(&report, name, "not judged in a search where it is not promised");
    }
    let report = search(&Setup::numbered("sequencer", 2), &Options::default());
    assert_eq!(report.property("TOTAL").map(|property| property.holds), Some(Some(true)));
    gives_reasons(&report);
}

/// A layer around an algorithm hides nothing of what was met.
#[test]
fn a_search_of_a_recorded_algorithm_says_what_it_met() {
    let mut setup = Setup::numbered("central", 2);
    let plain = search(&setup, &Options::default());
    setup.settings.insert("snapshots".into(), "on".into());
    let recorded = search(&setup, &Options { snapshots: vec![NodeId(1)], ..Options::default() });
    assert!(!plain.coverage.is_empty());
    assert_eq!(recorded.coverage, plain.coverage);
}

/// Who waits for an answer relies on time, although the same algorithm does not where it does without answers.
#[test]
fn handoffs_that_are_acknowledged_rely_on_time() {
    for algorithm in ["token-ring", "chang-roberts"] {
        let mut setup = Setup::numbered(algorithm, 2);
        assert_eq!(search(&setup, &Options::default()).ticks, None);
        setup.settings.insert("handoff".into(), "acked".into());
        // The hops of a token grow without end.
        let limits = Limits { states: Some(5_000), ..Limits::default() };
        let report = search(&setup, &Options { limits, ..Options::default() });
        assert!(report.all_held(), "{algorithm}: {report:?}");
        assert_eq!(report.ticks, Some(1));
        assert!(
            report
                .assumes
                .contains(&"messages take at most 1 tick, steps no time, and timers are exact".into()),
            "{:?}",
            report.assumes
        );
    }
    let mut setup = Setup::numbered("token-ring", 2);
    setup.settings.insert("handoff".into(), "acked".into());
    let untimed = search(&setup, &Options { untimed: true, ..Options::default() });
    assert_eq!(untimed.counterexample.map(|found| found.property), Some("TOK"));
}

/// Nobody is owed a leader by an election of which all who had a part are dead.
#[test]
fn an_election_whose_callers_are_dead_is_over() {
    let crashes = |crashes| Budgets { crashes, ..Budgets::default() };
    let mut hardened = Setup::numbered("bully", 3);
    hardened.settings.insert("mode".into(), "hardened".into());
    let one = Options { starters: Some(vec![NodeId(1)]), ..failing(crashes(1)) };
    let two = failing(crashes(2));
    for (setup, options) in [(hardened, one), (Setup::numbered("chang-roberts", 3), two)] {
        let report = search(&setup, &options);
        assert!(report.complete && report.all_held(), "{}: {report:?}", setup.algorithm);
    }
}

/// A leader that is back before anybody has heard of its end was announced in its former life.
#[test]
fn rings_elect_one_leader_although_one_comes_back_unnoticed() {
    for algorithm in ["chang-roberts", "ring-list", "ring-active-list", "ring-k-leaders", "ring-ballot"] {
        let budgets = Budgets { crashes: 1, restarts: 1, ..Budgets::default() };
        let report = search(&Setup::numbered(algorithm, 2), &failing(budgets));
        assert!(report.complete && report.all_held(), "{algorithm}: {report:?}");
    }
}

/// However often somebody is overtaken: a search in which requests have no end comes to one.
#[test]
fn overtaking_is_counted_up_to_a_ceiling() {
    let forever = Options { entries: AskBudget::Forever, order: true, ..Options::default() };
    let report = search(&Setup::numbered("raymond", 3), &forever);
    assert!(report.complete && report.all_held(), "{report:?}");
    let overtaking = report.overtaking.expect("the order is judged");
    assert_eq!((overtaking.most, overtaking.bound), (3, None));
}
