use conclave_check::*;
use conclave_trace::Setup;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get =
        |k: &str, d: usize| args.iter().position(|a| a == k).map_or(d, |i| args[i + 1].parse().unwrap());
    let has = |k: &str| args.iter().any(|a| a == k);
    let n = get("-n", 3) as u32;
    let mut setup = Setup::numbered(&args[1], n);
    for (i, a) in args.iter().enumerate() {
        if a == "--set" {
            let (k, v) = args[i + 1].split_once('=').unwrap();
            setup.settings.insert(k.into(), v.into());
        }
        if a == "--mutant" {
            setup.mutant = Some(args[i + 1].clone());
        }
        if a == "--channels" {
            setup.channels = Some(args[i + 1].clone());
        }
    }
    let options = Options {
        entries: if has("--forever") { Entries::Forever } else { Entries::Times(get("--entries", 1) as u8) },
        budgets: Budgets {
            crashes: get("--crashes", 0) as u8,
            restarts: get("--restarts", 0) as u8,
            drops: get("--drops", 0) as u8,
            duplicates: get("--duplicates", 0) as u8,
            suspicions: get("--suspicions", 0) as u8,
            cancels: get("--cancels", 0) as u8,
            amnesia: false,
        },
        liveness: !has("--safety") && !has("--reduce"),
        reduce: has("--reduce"),
        order: has("--order"),
        untimed: has("--untimed"),
        ticks: get("--ticks", 1) as u16,
        threads: get("--threads", 1),
        limits: Limits {
            memory: get("--memory", 8000) << 20,
            time: Some(std::time::Duration::from_secs(get("--time", 60) as u64)),
            ..Limits::default()
        },
        ..Options::default()
    };
    match check(&setup, &options, &mut |_| {}) {
        Ok(report) => {
            println!(
                "{} n={} states {} transitions {} depth {} complete {} ({:?}) mem {} MB ({} B/state) {:.2}s {}/s",
                report.algorithm,
                n,
                report.states,
                report.transitions,
                report.depth,
                report.complete,
                report.incomplete,
                report.memory >> 20,
                report.memory / report.states,
                report.wall_seconds,
                report.states_per_second
            );
            if let Some(o) = report.overtaking {
                println!("{o:?}");
            }
            for p in &report.properties {
                if p.holds != Some(true) {
                    println!("  {} {} {:?} {}", p.name, p.promised, p.holds, p.detail);
                }
            }
            if let Some(c) = &report.counterexample {
                println!(
                    "{} {} steps {} circle {:?} unavoidable {:?}\n{}",
                    c.property, c.detail, c.steps, c.circle, c.unavoidable_after, c.script
                );
            }
        }
        Err(e) => println!("{e}"),
    }
}
