//! Messages per entry are exactly what the literature says, under random delays.

use crate::common::{LOADS, plan, run_well, setup, variants};
use conclave_algorithms::mutex::Load;

/// n in 1..=16, three loads, 20 seeds each: every variant keeps its formula, which is exact wherever the
/// literature is.
#[test]
fn formulas_hold_for_all_sizes_and_loads() {
    for (algorithm, settings) in variants() {
        for n in 1..=16 {
            let setup = setup(algorithm, n, settings);
            for load in LOADS {
                for seed in 1..=20 {
                    let report = run_well(&setup, &plan(n, load, seed)).report;
                    assert_eq!(
                        report.formula.agrees,
                        Some(true),
                        "{algorithm} {settings:?} -n {n} {load:?} --seed {seed}: {} messages for {} entries, {:?}",
                        report.messages,
                        plan(n, load, seed).entries * u64::from(n),
                        report.formula,
                    );
                }
            }
        }
    }
}

/// The same numbers once more, from the tables of the literature and not from the registry's formulas.
#[test]
fn the_numbers_of_the_literature() {
    for n in 1..=16u32 {
        let others = u64::from(n) - 1;
        for load in LOADS {
            for seed in 1..=20 {
                let plan = plan(n, load, seed);
                let messages = |algorithm: &str, settings| {
                    let report = run_well(&setup(algorithm, n, settings), &plan).report;
                    (
                        report.messages,
                        report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries,
                    )
                };
                assert_eq!(
                    messages("lamport", &[]),
                    (plan.entries * (others + 1) * 3 * others, plan.entries * (others + 1))
                );
                assert_eq!(messages("ricart-agrawala", &[]).0, plan.entries * (others + 1) * 2 * others);
                assert!(messages("carvalho-roucairol", &[]).0 <= plan.entries * (others + 1) * 2 * others);
                // The coordinator is the highest id; its own entries cost nothing.
                assert_eq!(messages("central", &[]).0, plan.entries * others * 3);
                if load == Load::Light {
                    assert_eq!(messages("majority", &[]).0, plan.entries * (others + 1) * 3 * others);
                }
            }
        }
    }
}

/// An entry costs n messages, n - 1 requests and the token, or none: counted from what was sent, not from the formula.
#[test]
fn a_token_costs_nothing_or_n_messages() {
    for algorithm in ["ricart-agrawala-token", "suzuki-kasami"] {
        for n in 1..=16u32 {
            for load in LOADS {
                for seed in 1..=20 {
                    let report = run_well(&setup(algorithm, n, &[]), &plan(n, load, seed)).report;
                    let entries = report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries;
                    let sent = |kind| report.messages_by_kind.get(kind).copied().unwrap_or(0);
                    let (requests, tokens) = (sent("Request"), sent("Token"));
                    assert_eq!(requests, tokens * (u64::from(n) - 1));
                    assert_eq!(report.messages, tokens * u64::from(n));
                    assert!(tokens <= entries, "{tokens} tokens for {entries} entries");
                    // Under pressure only p1, which begins with it, and the last of all find it at hand.
                    if load == Load::Saturated && n > 1 {
                        assert!(tokens + 2 >= entries, "{algorithm} {n} {seed}: {tokens} of {entries}");
                    }
                }
            }
        }
    }
}

/// A coordinator that answers sends one message more for each request that had to wait, and only for those.
#[test]
fn an_answering_coordinator_pays_for_those_who_wait() {
    for (variant, answer) in [("denied", "Denied"), ("queued", "Queued")] {
        for n in 2..=9 {
            for load in LOADS {
                for seed in 1..=20 {
                    let setup = setup("central", n, &[("variant", variant)]);
                    let report = run_well(&setup, &plan(n, load, seed)).report;
                    let locks = report.part::<conclave_algorithms::mutex::LockReport>().unwrap();
                    let others = locks.entries - locks.entries_by_process[n as usize - 1];
                    let answers = report.messages_by_kind.get(answer).copied().unwrap_or(0);
                    assert_eq!(report.messages, 3 * others + answers);
                    assert!(answers <= locks.waited, "{answers} answers, {} waited", locks.waited);
                    if load == Load::Light {
                        assert_eq!(answers, 0);
                    }
                }
            }
        }
    }
}

/// Maekawa on the Fano plane and on the 3×3 grid, alone: 6 and 12 messages (TV-M1).
#[test]
fn book_tv_m1_quorums_cost_three_times_their_size() {
    for (n, settings, per_entry) in [(7, [("quorum", "plane")], 6.0), (9, [("quorum", "grid")], 12.0)] {
        let report = run_well(&setup("maekawa", n, &settings), &plan(n, Load::Light, 1)).report;
        assert_eq!(
            report.part::<conclave_algorithms::mutex::LockReport>().unwrap().messages_per_entry,
            Some(per_entry)
        );
        assert_eq!(report.formula.exact, Some(per_entry));
    }
}

/// Fano plane, all seven at once, three rounds: all 21 served with at most 315 messages (TV-M2).
#[test]
fn book_tv_m2_seven_at_once_stay_below_the_bound() {
    for seed in 1..=300 {
        let mut plan = plan(7, Load::Saturated, seed);
        plan.entries = 3;
        let report = run_well(&setup("maekawa", 7, &[("quorum", "plane")]), &plan).report;
        assert_eq!(report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries, 21);
        assert!(report.messages <= 315, "seed {seed}: {} messages", report.messages);
    }
}

/// Client and synchronization delays of the literature, in hops, at constant delay.
#[test]
fn delays_are_those_of_the_literature() {
    use conclave_sim::span::Span;
    // Who is its own arbiter saves a hop: the coordinator's entries, and votes that stay at home.
    for (algorithm, client, sync) in [
        ("central", 2.0, 1.6..=2.0),
        ("lamport", 2.0, 1.0..=1.0),
        ("ricart-agrawala", 2.0, 1.0..=1.0),
        ("lodha-kshemkalyani", 2.0, 1.0..=1.0),
        ("maekawa", 2.0, 1.0..=2.0),
        ("majority", 2.0, 1.0..=2.0),
        ("ricart-agrawala-token", 2.0, 1.0..=1.0),
        ("suzuki-kasami", 2.0, 1.0..=1.0),
        // From leaf to leaf, there and back; on its walk round seven processes the token takes twelve steps.
        ("raymond", 8.0, 1.7..=1.72),
        ("singhal", 2.0, 1.0..=1.0),
    ] {
        let mut alone = plan(7, Load::Light, 1);
        alone.delay = Span::Constant(5_000);
        let report = run_well(&setup(algorithm, 7, &[]), &alone).report;
        let longest = report.part::<conclave_algorithms::mutex::LockReport>().unwrap().client_delay.max / 5.0;
        assert_eq!(longest, client, "{algorithm}: client delay");

        let mut pressed = plan(7, Load::Saturated, 1);
        pressed.delay = Span::Constant(5_000);
        pressed.hold = Some(Span::Constant(20_000));
        pressed.entries = 20;
        let report = run_well(&setup(algorithm, 7, &[]), &pressed).report;
        let hops = report
            .part::<conclave_algorithms::mutex::LockReport>()
            .unwrap()
            .sync_delay_hops
            .expect("there was a queue all the time");
        assert!(sync.contains(&hops), "{algorithm}: synchronization delay {hops}");
    }
}
