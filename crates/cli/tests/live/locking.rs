//! Many clients of every algorithm for mutual exclusion, on several names at once.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use conclave_algorithms::mutex::Fence;
use conclave_algorithms::{Name, mutex};
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};

use crate::cluster::{Home, Live, PATIENCE};
use crate::cost;

const PROCESSES: u32 = 5;
const CLIENTS: usize = 4;
const NAMES: [&str; 3] = ["backup", "deploy/eu", "x"];
/// Of each client, on each name.
const ENTRIES: usize = 10;

/// An algorithm that never rests would fill the disk; if it has a way to rest, it is taken.
pub fn restful(algorithm: &str) -> &'static str {
    if cost::is_restless(algorithm, PROCESSES) { "--set idle=park" } else { "" }
}

pub fn lock(control: &mut Control, name: &str) -> Fence {
    let name = Name::new(name).expect("a good name");
    control.ask(&Ask::Wish(Wish::Lock { name: name.clone() })).expect("it listens");
    match control.answer(Some(PATIENCE)).expect("it answers") {
        Some(Answer::Word(Word::Granted { name: granted, fence })) if granted == name => fence,
        other => panic!("{name} was not granted: {other:?}"),
    }
}

pub fn unlock(control: &mut Control, name: &str) {
    let name = Name::new(name).expect("a good name");
    control.ask(&Ask::Wish(Wish::Unlock { name: name.clone() })).expect("it listens");
    let answer = control.answer(Some(PATIENCE)).expect("it answers");
    assert_eq!(answer, Some(Answer::Word(Word::Released { name })));
}

/// Writes one line, in one piece.
fn append(file: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("it can be opened");
    file.write_all(format!("{line}\n").as_bytes()).expect("there is room");
}

/// Everybody who was inside left a line when coming and one when going: nobody came while another was in, and every
/// fence is larger than the last.
fn check_file(file: &Path, entries: usize) {
    let text = fs::read_to_string(file).expect("it is there");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * entries, "{}", file.display());
    let mut last = "";
    for pair in lines.chunks(2) {
        let (enter, leave) = (pair[0].strip_prefix("enter "), pair[1].strip_prefix("leave "));
        assert!(enter.is_some() && enter == leave, "two were inside: {pair:?}");
        assert!(last < enter.unwrap_or_default(), "the fence is not larger than {last}: {pair:?}");
        last = enter.unwrap_or_default();
    }
}

/// All clients at once, each with a connection of its own.
fn press(live: &Live<'_>, file: impl Fn(&str) -> std::path::PathBuf + Sync) {
    std::thread::scope(|scope| {
        for (client, process) in live.ids().repeat(CLIENTS).into_iter().enumerate() {
            let (mut control, file) = (live.connect(process), &file);
            scope.spawn(move || {
                for turn in 0..ENTRIES * NAMES.len() {
                    let name = NAMES[(client + turn) % NAMES.len()];
                    let fence = lock(&mut control, name).sortable();
                    append(&file(name), &format!("enter {fence}"));
                    append(&file(name), &format!("leave {fence}"));
                    unlock(&mut control, name);
                }
            });
        }
    });
}

/// Presses on an algorithm and holds everything it did against what it promises.
fn try_out(algorithm: &str) {
    let (home, began) = (Home::new(), Instant::now());
    // Nobody is to be taken for dead because the machine is busy.
    let options = format!("-n {PROCESSES} --transmission 1s --suspect-after 20s {}", restful(algorithm));
    let live = home.start(&format!("{algorithm} {options}"));
    let file = |name: &str| home.path().join(name.replace('/', "-"));
    press(&live, file);
    let pressed = began.elapsed();

    let entries = CLIENTS * PROCESSES as usize * ENTRIES;
    for name in NAMES {
        check_file(&file(name), entries);
    }
    let all = entries * NAMES.len();
    let trace = live.settled(2 * all);
    let report = live.judged();
    let holds = |property: &str| {
        let properties = report["properties"].as_array().expect("a list");
        properties.iter().any(|found| found["name"] == property && found["holds"] == true)
    };
    assert!(["ME1", "FENCE", "RES", "GRANT", "LOST", "ME2"].into_iter().all(holds), "{report}");

    let statuses = live.statuses();
    let served: u64 = statuses.iter().map(|status| status.desk.served).sum();
    assert_eq!(served, all as u64);
    assert!(statuses.iter().all(|status| status.complaints == 0), "{statuses:?}");
    let (messages, formula) = (cost::messages(&trace), cost::formula(&trace));
    let counted: u64 = statuses.iter().flat_map(|status| status.messages.values()).sum();
    assert_eq!(counted, messages, "what the processes count is what they wrote down");
    let limits = format!("{} to {:?} ({})", formula.low, formula.high, formula.text);
    println!(
        "{algorithm}: {all} entries in {pressed:?}, {messages} messages, {limits}, all in {:?}",
        began.elapsed()
    );
    assert!(formula.admits(messages), "{algorithm} took {messages} messages for {all} entries, not {limits}");
    live.stop();
}

/// One test per algorithm, so that a failure names it, and one that says if one is missing.
macro_rules! algorithms {
    ($($test:ident $name:literal)+) => {
        const TRIED: &[&str] = &[$($name),+];

        $(
            #[test]
            fn $test() {
                try_out($name);
            }
        )+
    };
}

algorithms! {
    locking_central "central"
    locking_lamport "lamport"
    locking_ricart_agrawala "ricart-agrawala"
    locking_carvalho_roucairol "carvalho-roucairol"
    locking_lodha_kshemkalyani "lodha-kshemkalyani"
    locking_maekawa "maekawa"
    locking_majority "majority"
    locking_ricart_agrawala_token "ricart-agrawala-token"
    locking_suzuki_kasami "suzuki-kasami"
    locking_token_ring "token-ring"
    locking_raymond "raymond"
    locking_singhal "singhal"
    locking_total_order "total-order"
}

/// A new algorithm is pressed upon without being named here.
#[test]
fn locking_whatever_else_is_registered() {
    for about in mutex::all() {
        if !TRIED.contains(&about.name) {
            try_out(about.name);
        }
    }
}

/// A token that never rests: a few entries, and what it promises holds while it goes round.
#[test]
fn locking_while_a_token_goes_round() {
    let home = Home::new();
    let live = home.start("token-ring -n 3 --transmission 1s --suspect-after 20s");
    let file = home.path().join("shared");
    for process in live.ids() {
        let mut control = live.connect(process);
        for _ in 0..5 {
            let fence = lock(&mut control, "a").sortable();
            append(&file, &format!("enter {fence}"));
            append(&file, &format!("leave {fence}"));
            unlock(&mut control, "a");
        }
    }
    check_file(&file, 15);
    let messages: u64 = live.statuses().iter().flat_map(|status| status.messages.values()).sum();
    assert!(messages >= 16, "1 for every entry and 1 at the beginning, not {messages}");
    // While it goes round, what the processes wrote does not fit together for long.
    live.stop();
    let report = home.run("cluster --cluster token-ring trace --json").ends(0).json();
    assert_eq!(report["same"], true, "{report}");
}
