//! Groups to which things are done, one after the other, while programs run inside their locks. A round in the ordinary
//! suite, `CONCLAVE_MINUTES` of them, over all algorithms, by `cargo xtask soak live`.
//!
//! The programs are the judges: each writes lines with its fence into a file of its lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_algorithms::{About, mutex, registry};

use crate::group::Group;
use crate::programs::{lines, overlap};
use crate::until;
use crate::wires::Wire;

/// Minutes of a soak, if it is not told how many.
const MINUTES: u64 = 10;
/// Troubles in a round.
const TROUBLES: usize = 6;

/// What can be done to a process.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Killed, and started again when the others have gone on.
    Kill,
    /// Killed, and started again at once.
    Flicker,
    /// Shut down and started again.
    Restart,
    /// Stopped until the others have gone on.
    Pause,
    /// Cut off from all others until they have gone on.
    Cut,
    /// One of its links is cut: others carry what goes over it, and nobody is left out.
    Link,
    /// Nothing that it says reaches anybody, while it hears everybody, until the others have gone on.
    Mute,
    /// Its disk is full: it ends at its next write, and is started again when there is room.
    Full,
    /// Killed, and started again without its data directory.
    Wipe,
}

use Trouble::{Cut, Flicker, Full, Kill, Link, Mute, Pause, Restart, Wipe};

/// A sequence that differs from run to run of a soak, and not from run to run of the suite.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next(all.len())]
    }
}

/// A group under load.
struct Round {
    group: Group,
    /// How its processes reach each other: from whom, to whom. Nothing in the ordinary suite.
    wires: BTreeMap<(u32, u32), Wire>,
    algorithm: &'static str,
    /// Whether what is held runs out.
    is_view: bool,
    names: usize,
    is_over: AtomicBool,
    /// Programs that ran to their end, by process.
    served: BTreeMap<u32, AtomicU64>,
    /// Programs that were ended because the lock was lost.
    lost: AtomicU64,
}

impl Round {
    fn new(algorithm: &'static str, words: &str, n: u32, names: usize) -> Self {
        // Nobody is to be taken for dead because the machine is busy.
        let group = Group::start(
            algorithm,
            n,
            &format!("{words} --transmission 100ms --suspect-after 2s --no-record"),
        );
        let served = group.ids.iter().map(|id| (*id, AtomicU64::new(0))).collect();
        let is_view = words.contains("mode=view");
        Self {
            group,
            wires: BTreeMap::new(),
            algorithm,
            is_view,
            names,
            is_over: AtomicBool::new(false),
            served,
            lost: AtomicU64::new(0),
        }
    }

    /// The same, in which every process reaches every other by a wire of its own.
    fn wired(algorithm: &'static str, words: &str, n: u32, names: usize) -> Self {
        let round = Self::new(algorithm, words, n, names);
        Self { wires: round.group.wire(), ..round }
    }

    fn file(&self, name: usize) -> PathBuf {
        self.group.home().join(format!("name-{name}"))
    }

    /// Runs programs through a process until the round is over.
    fn load(&self, id: u32) {
        for turn in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            // A stride without a factor in common with the names: each gets its turn.
            let name = (turn * 7 + id as usize) % self.names;
            // Those that could be told to end would be.
            let script = format!(
                "trap '' TERM; i=0; while [ $i -lt 8 ]; do echo {id}-$CONCLAVE_FENCE_ORDER >> {}; i=$((i+1)); sleep 0.005; done",
                self.file(name).display()
            );
            let line = format!("lock name-{name} --via {id} --wait 5s -- sh -c");
            let ran = self.group.command(&line).arg(script).output().expect("the binary runs");
            match ran.status.code() {
                Some(0) => drop(self.served[&id].fetch_add(1, Ordering::Relaxed)),
                Some(3) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
                // Not granted in time, or the process is down.
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Waits until each of these has had a program run to its end once more.
    #[track_caller]
    fn serves(&self, ids: &[u32]) {
        let count = |id: &u32| self.served[id].load(Ordering::Relaxed);
        let before: Vec<u64> = ids.iter().map(count).collect();
        until("all are served again", || ids.iter().zip(&before).all(|(id, before)| count(id) > *before));
    }

    /// Whether nothing that a process says reaches anybody.
    fn mute(&self, id: u32, is_mute: bool) {
        for other in self.group.but(id) {
            self.wires[&(id, other)].hold_there(is_mute);
            self.wires[&(other, id)].hold_back(is_mute);
        }
    }

    /// Fills the disk of a process, as far as it can tell, and has everyone save something. Ends when it has ended.
    fn fill_disk(&self, place: &Path, id: u32) {
        let full = place.join("state.new");
        let log = place.with_extension("log");
        let ends = || std::fs::read_to_string(&log).unwrap_or_default().matches("No space left").count();
        let before = ends();
        // Unless something is being written just now.
        until("its disk is full", || std::os::unix::fs::symlink("/dev/full", &full).is_ok());
        let other = self.group.but(id)[0];
        self.group.order(&format!("kill {other}"));
        self.group.order(&format!("restart {other}"));
        until("it has no room", || ends() > before);
        std::fs::remove_file(&full).expect("it is still there");
    }

    fn strike(&self, trouble: Trouble, id: u32) {
        let (group, others) = (&self.group, self.group.but(id));
        match trouble {
            Kill => {
                group.order(&format!("kill {id}"));
                self.serves(&others);
                group.order(&format!("restart {id}"));
            }
            Flicker => {
                group.order(&format!("kill {id}"));
                group.order(&format!("restart {id}"));
            }
            Restart => drop(group.order(&format!("restart {id}"))),
            Pause => {
                group.order(&format!("pause {id}"));
                self.serves(&others);
                group.order(&format!("resume {id}"));
            }
            Cut => {
                let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                group.order(&format!("cut {id}/{}", others.join(",")));
                self.serves(&self.group.but(id));
                group.order("heal");
            }
            Link => {
                group.order(&format!("cut {id}/{}", others[0]));
                self.serves(&group.ids);
                group.order("heal");
            }
            Mute => {
                self.mute(id, true);
                self.serves(&others);
                self.mute(id, false);
            }
            Full => {
                let place = group.place(id).1;
                self.fill_disk(&place, id);
                self.serves(&others);
                group.order(&format!("restart {id}"));
            }
            Wipe => {
                group.order(&format!("kill {id}"));
                let place = group.place(id).1;
                std::fs::remove_dir_all(&place).expect("it is there");
                // It comes up, is refused, and says with which life it may go on.
                let _ = group.run(&format!("restart {id}"));
                until("it is told with which life to begin", || self.told_life(&place).is_some());
                let file = place.with_extension("toml");
                let text = std::fs::read_to_string(&file).expect("it has a file");
                let text = text.lines().filter(|line| !line.starts_with("life = "));
                let text: String = text.map(|line| format!("{line}\n")).collect();
                let life = self.told_life(&place).expect("it was told");
                std::fs::write(&file, format!("life = {life}\n{text}")).expect("it can be written");
                group.order(&format!("restart {id}"));
            }
        }
        self.serves(&group.ids);
    }

    /// The life that a process is told to begin with, by what it said last.
    fn told_life(&self, place: &Path) -> Option<u32> {
        let log = std::fs::read_to_string(place.with_extension("log")).ok()?;
        let (_, told) = log.lines().rev().take(3).find_map(|line| line.rsplit_once("'life = "))?;
        told.split('\'').next()?.parse().ok()
    }

    /// No fence was given to two programs. Where what is held runs out, no two were inside at once, and fences grow.
    fn judge(&self) -> usize {
        let mut written = 0;
        for name in 0..self.names {
            let lines = lines(&self.file(name));
            written += lines.len();
            let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
            for (owner, fence) in lines.iter().filter_map(|line| line.split_once('-')) {
                let known = owners.entry(fence).or_insert(owner);
                assert_eq!(*known, owner, "{} gave the fence {fence} of name-{name} twice", self.algorithm);
            }
            if self.is_view {
                assert_eq!(overlap(&lines), None, "two programs were inside name-{name}");
                let fences: Vec<&str> =
                    lines.iter().filter_map(|line| Some(line.split_once('-')?.1)).collect();
                assert!(fences.is_sorted(), "the fences of name-{name} went back");
            }
        }
        written
    }
}

/// What a round came to, in a line.
fn endure(round: &Round, dice: &mut Dice, troubles: &[Trouble], count: usize) -> String {
    let began = Instant::now();
    let mut done = Vec::new();
    std::thread::scope(|scope| {
        let over = OnDrop(&round.is_over);
        for id in &round.group.ids {
            scope.spawn(|| round.load(*id));
        }
        round.serves(&round.group.ids);
        for _ in 0..count {
            let (trouble, id) = (dice.pick(troubles), dice.pick(&round.group.ids));
            done.push(format!("{trouble:?} {id}"));
            round.strike(trouble, id);
        }
        drop(over);
    });
    let written = round.judge();
    let served: u64 = round.served.values().map(|count| count.load(Ordering::Relaxed)).sum();
    format!(
        "{:<22} {} processes {:>4} names {served:>5} programs {written:>6} lines {:>3} lost {:>4} s: {}",
        round.algorithm,
        round.group.ids.len(),
        round.names,
        round.lost.load(Ordering::Relaxed),
        began.elapsed().as_secs(),
        done.join(", ")
    )
}

/// Ends the load, also if something fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// With leases: whatever happens, one program at a time.
const SAFE: [Trouble; 8] = [Kill, Flicker, Restart, Pause, Cut, Link, Mute, Full];
/// Without: fences are never given twice.
const ALL: [Trouble; 9] = [Kill, Flicker, Restart, Pause, Cut, Link, Mute, Full, Wipe];

#[test]
fn whatever_is_done_to_processes_programs_take_turns() {
    let is_soak = std::env::var_os("CONCLAVE_SOAK").is_some_and(|value| value == "1");
    if !is_soak {
        let round = Round::new("majority", "--set mode=view", 3, 1);
        println!("{}", endure(&round, &mut Dice(1), &[Flicker], 1));
        return;
    }
    let minutes =
        std::env::var("CONCLAVE_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MINUTES);
    let until_when = Instant::now() + Duration::from_secs(60 * minutes);
    let mut dice = Dice(u64::from(std::process::id()));
    let is_mutex = |about: &&&About| about.family == mutex::FAMILY;
    let algorithms: Vec<&str> = registry::all().iter().filter(is_mutex).map(|about| about.name).collect();
    let mut turn = 0;
    while Instant::now() < until_when {
        let (n, names) = (dice.pick(&[3, 3, 5]), dice.pick(&[1, 3, 5, 1_000]));
        let line = if turn % 2 == 0 {
            endure(&Round::wired("majority", "--set mode=view", n, names), &mut dice, &SAFE, TROUBLES)
        } else {
            let algorithm = algorithms[turn / 2 % algorithms.len()];
            let words = if algorithm == "token-ring" { "--set idle=park" } else { "" };
            endure(&Round::wired(algorithm, words, n, names), &mut dice, &ALL, TROUBLES)
        };
        println!("{line}");
        turn += 1;
    }
}
