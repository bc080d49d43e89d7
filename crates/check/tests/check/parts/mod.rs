//! Recovery verified in parts: every lock from every roll, and the group around any lock, under any election.

mod assembled;
mod rebuilt;

use std::collections::BTreeMap;

use assembled::Assembled;
use conclave_algorithms::mutex::{self, Standing};
use conclave_check::{Budgets, Limits, Options, Report, check_algorithm};
use conclave_core::{Members, NodeId};
use conclave_trace::{Command, Setup};
use rebuilt::{Rebuilt, rolls};

fn setting(key: &str, value: usize) -> (String, String) {
    (key.to_owned(), value.to_string())
}

/// Everyone who waits or is inside says so; after that whoever is idle may ask once.
fn from_roll(lock: usize, roll: usize, nodes: u32) -> Report {
    let about = mutex::all()[lock];
    let members = Members::numbered(nodes);
    let roll_of = &rolls(&members)[roll];
    let stand = |id: &NodeId| roll_of.standing(*id).expect("everyone is in the roll");
    let (idle, mut busy): (Vec<_>, Vec<_>) = members.iter().partition(|id| stand(id) == Standing::Idle);
    busy.sort_by_key(|id| !matches!(stand(id), Standing::Inside { .. }));
    let ask = |process| Command::Ask { process, request: "acquire".into(), lock: 0 };
    let setup = Setup {
        settings: BTreeMap::from([setting("lock", lock), setting("roll", roll)]),
        channels: Some(about.channels.name().into()),
        ..Setup::numbered("rebuilt", nodes)
    };
    let options = Options {
        lead: busy.into_iter().map(ask).collect(),
        starters: Some(idle),
        limits: Limits { memory: 2 << 30, ..Limits::default() },
        ..Options::default()
    };
    check_algorithm::<Rebuilt>(&setup, &options, &mut |_| {}).expect("it can be searched")
}

/// All searches of a lock from the rolls of so many processes: how many states they have, and the largest of them.
fn from_every_roll(lock: usize, nodes: u32) -> (usize, usize) {
    let name = mutex::all()[lock].name;
    let states = (0..rolls(&Members::numbered(nodes)).len()).map(|roll| {
        let report = from_roll(lock, roll, nodes);
        assert!(report.complete && report.all_held(), "{name} -n {nodes}, roll {roll}: {report:?}");
        report.states
    });
    states.fold((0, 0), |(sum, most), states| (sum + states, most.max(states)))
}

/// Whoever is inside leaves before anybody gets in, whoever waits gets in, and then whoever was idle. Without optimisation the
/// locks with many states are left out.
#[test]
fn every_lock_goes_on_from_every_roll() {
    const FEW_STATES: usize = 50_000;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/checking.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let number = |text: &str| text.trim().replace(',', "").parse::<usize>().expect("a number");
    for (lock, about) in mutex::all().into_iter().enumerate() {
        let mut rows = page.lines().filter_map(|line| line.strip_prefix(&format!("| `{}` | ", about.name)));
        let row = rows.next().unwrap_or_else(|| panic!("the page has no row of {}", about.name));
        let written: Vec<_> = row.trim_end_matches('|').split('|').map(number).collect();
        assert_eq!(from_every_roll(lock, 2).0, written[0], "{}", about.name);
        if written[1] <= FEW_STATES || !cfg!(debug_assertions) {
            assert_eq!(from_every_roll(lock, 3), (written[1], written[2]), "{}", about.name);
        }
    }
}

fn assembled(nodes: u32, settings: &[(&str, &str)], mutant: Option<&str>, options: &Options) -> Report {
    let mut setup = Setup { mutant: mutant.map(Into::into), ..Setup::numbered("assembled", nodes) };
    setup.settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    check_algorithm::<Assembled>(&setup, options, &mut |_| {}).expect("it can be searched")
}

/// One of three crashes, each is told once that anybody leads, and rolls are called one after the other: as many as `calls`.
fn one_of_three_crashes(askers: u32, calls: u32, mutant: Option<&str>) -> Report {
    let calls = calls.to_string();
    let settings = [("names", "1"), ("patience", "0"), ("calls", calls.as_str())];
    let options = Options {
        budgets: Budgets { crashes: 1, ..Budgets::default() },
        starters: Some((1..=askers).map(NodeId).collect()),
        atomic_steps: true,
        liveness: false,
        limits: Limits { memory: 4 << 30, states: Some(2_000_000), ..Limits::default() },
        ..Options::default()
    };
    assembled(3, &settings, mutant, &options)
}

/// Whoever is called a leader, and whenever: two are never inside, fences grow, and there is one token. Two who ask make more
/// states than a search without optimisation is for.
#[test]
fn a_group_recovers_under_any_election() {
    let searches: &[(u32, u32)] = if cfg!(debug_assertions) { &[(1, 2)] } else { &[(1, 2), (1, 3), (2, 2)] };
    for (askers, calls) in searches {
        let report = one_of_three_crashes(*askers, *calls, None);
        assert!(report.complete && report.all_held(), "{askers} {calls}: {report:?}");
    }
}

#[test]
fn a_group_whose_epochs_mix_is_refuted() {
    for (mutant, broken) in [("keep-going", "LOST"), ("old-messages", "TOK")] {
        let report = one_of_three_crashes(2, 2, Some(mutant));
        assert_eq!(report.counterexample.map(|found| found.property), Some(broken), "{mutant}");
    }
}
