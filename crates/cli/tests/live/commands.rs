//! `conclave cluster lock`: what a command finds, and how it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use conclave_algorithms::Name;
use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask};
use conclave_live::desk::{Wish, Word};
use rustix::process::Signal;

use crate::cluster::{Home, Live, PATIENCE, Ran, ran, signal, until};
use crate::locking::{lock, unlock};

/// Runs a shell script inside a lock.
fn locked(live: &Live<'_>, options: &str, script: &str) -> Ran {
    let line = format!("cluster --cluster {} lock {options} -- sh -c", live.name);
    ran(live.home.command(&line).arg(script))
}

#[test]
fn commands_end_with_a_code_that_tells_how() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 20s");
    assert_eq!(locked(&live, "a --via 1", "exit 0").ends(0).err, "");
    locked(&live, "a --via 2", "exit 42").ends(42);
    locked(&live, "a --via 3", "kill -9 $$").ends(128 + 9);
    locked(&live, "a", "kill -TERM $$").ends(128 + 15);
    let missing = live.run("lock a -- /there/is/no/such/command").ends(127);
    assert!(missing.err.contains("/there/is/no/such/command"), "{}", missing.err);

    // Who does not get in in time has not been in, and is no longer in line.
    let mut holder = live.connect(NodeId(1));
    lock(&mut holder, "a");
    let late = locked(&live, "a --via 2 --wait 50ms", "echo inside").ends(1);
    assert_eq!((late.out.as_str(), late.err.contains("not granted in time")), ("", true), "{}", late.err);
    until("nobody waits", || live.status(NodeId(2)).desk.locks.iter().all(|lock| lock.waiting == 0));
    unlock(&mut holder, "a");
    locked(&live, "a --via 2 --wait 20s", "exit 0").ends(0);
    live.stop();
}

#[test]
fn commands_find_their_fence_and_fences_sort() {
    let home = Home::new();
    let live = home.start("suzuki-kasami -n 3 --suspect-after 20s");
    let mut orders = Vec::new();
    for via in [1, 2, 3, 3, 1] {
        let script = "echo $CONCLAVE_LOCK $CONCLAVE_FENCE $CONCLAVE_FENCE_ORDER";
        let ran = locked(&live, &format!("backup --via {via}"), script).ends(0);
        let words: Vec<&str> = ran.out.split_whitespace().collect();
        assert_eq!((words.len(), words[0]), (3, "backup"), "{}", ran.out);
        assert!(words[1].ends_with(&format!(".{via}")), "{}", ran.out);
        orders.push(words[2].to_owned());
    }
    assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
    live.stop();
}

/// The examples of elections, asked of real processes: what they do is judged like any other trace.
#[test]
fn an_example_is_played_with_real_processes() {
    let home = Home::new();
    let played = ran(&mut home.command("example chang-roberts-worst-starter --live")).ends(0);
    assert!(played.out.contains("p1 elected p5") && played.out.contains("✓ E2"), "{}", played.out);
    assert!(played.out.contains("it came out the same, message by message"), "{}", played.out);
    assert!(played.err.contains("p1 is asked: start"), "{}", played.err);
    // Nothing is left of it.
    assert!(home.run("cluster list").ends(0).out.contains("there are no clusters"));
}

/// Whoever is told to end passes it on to the command; the lock is free only when the command is gone.
#[test]
fn commands_hear_of_signals() {
    let home = Home::new();
    let live = home.start("central -n 3 --suspect-after 20s");
    let (inside, outside) = (home.path().join("inside"), home.path().join("outside"));
    let script = format!(
        "trap 'touch {}; exit 7' TERM; touch {}; while :; do sleep 0.02; done",
        outside.display(),
        inside.display()
    );
    let line = format!("cluster --cluster {} lock a --via 2 -- sh -c", live.name);
    let mut child = home.command(&line).arg(script).spawn().expect("the binary runs");
    until("the command is inside", || inside.exists());
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    assert!(fs::exists(&outside).expect("it can be asked"));
    locked(&live, "a --via 3 --wait 20s", "exit 0").ends(0);
    live.stop();
}

/// A client that dies without a word gives back what it had.
#[test]
fn commands_that_are_killed_leave_the_lock() {
    let home = Home::new();
    let live = home.start("raymond -n 3 --suspect-after 20s");
    let inside = home.path().join("inside");
    let line = format!("cluster --cluster {} lock a --via 2 -- sh -c", live.name);
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 30", inside.display());
    let mut child = home.command(&line).arg(script).spawn().expect("the binary runs");
    until("the command is inside", || inside.exists());
    signal(child.id(), Signal::KILL);
    child.wait().expect("it ends");
    let began = Instant::now();
    locked(&live, "a --via 3 --wait 20s", "exit 0").ends(0);
    assert!(began.elapsed() < Duration::from_secs(10), "the lock came back late");
    // Nor does the command outlive whoever ran it.
    let number = fs::read_to_string(&inside).expect("it wrote its number");
    let orphan = Path::new("/proc").join(number.trim());
    until("the command is gone", || !orphan.exists());
    live.stop();
}

/// The keeper holds the lock as well: it is free when nothing is left of the command, and not when its client is dead. There is
/// so much to be ended here that somebody else would be in first.
#[test]
fn a_lock_is_not_free_before_the_command_of_a_dead_client_has_ended() {
    let home = Home::new();
    let live = home.start("raymond -n 3 --suspect-after 20s");
    let inside = home.path().join("inside");
    let line = format!("cluster --cluster {} lock a --via 2 -- sh -c", live.name);
    let script = format!(
        "for k in $(seq 100); do sleep 60.$$ & done; echo 60.$$ > {0}.new; mv {0}.new {0}; wait",
        inside.display()
    );
    let mut child = home.command(&line).arg(script).spawn().expect("the binary runs");
    until("the command is inside", || inside.exists());
    let mark = fs::read_to_string(&inside).expect("it wrote its mark");
    let left = || {
        let commands = fs::read_dir("/proc").expect("it is Linux").flatten();
        let commands = commands.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
        commands.filter(|command| command.contains(mark.trim())).count()
    };
    until("they run", || left() >= 100);
    let mut next = live.connect(NodeId(3));
    next.ask(&Ask::Wish(Wish::Lock { name: Name::new("a").expect("a name") })).expect("it listens");
    until("it waits", || live.status(NodeId(3)).desk.locks.iter().any(|lock| lock.waiting > 0));
    signal(child.id(), Signal::KILL);
    let granted = next.answer(Some(PATIENCE)).expect("it answers");
    assert_eq!(left(), 0, "it is free, and they still run");
    assert!(matches!(granted, Some(Answer::Word(Word::Granted { .. }))), "{granted:?}");
    child.wait().expect("it ends");
    live.stop();
}

/// A process that stands still takes connections and answers nothing: commands go elsewhere, or say so.
#[test]
fn commands_do_not_wait_for_a_process_that_stands_still() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 500ms");
    live.run("pause 1").ends(0);
    let began = Instant::now();
    locked(&live, "a --wait 30s", "exit 0").ends(0);
    let cut = live.run("cut 1,2/3").ends(2);
    assert!(cut.err.contains("p1 was not told"), "{}", cut.err);
    until("all others were cut off", || live.status(NodeId(2)).peers[&NodeId(3)].cut);
    let healed = live.run("heal").ends(2);
    assert!(healed.err.contains("p1 was not told"), "{}", healed.err);
    until("all others were healed", || !live.status(NodeId(2)).peers[&NodeId(3)].cut);
    assert!(began.elapsed() < Duration::from_secs(50), "somebody waited for it");
    live.run("resume 1").ends(0);
    live.stop();
}

/// In which epoch processes are, with whom, and who leads them.
#[test]
fn status_tells_epoch_roll_and_leader() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 3s");
    let before = live.run("status").ends(0);
    assert!(before.out.contains("p1,p2,p3: epoch 0 of p1,p2,p3, led by p3\n"), "{}", before.out);
    live.run("kill 3").ends(0);
    let seen = |id| live.status(NodeId(id)).group.expect("it recovers as a group");
    until("they are a group of two", || {
        let group = seen(1);
        group.roll == [NodeId(1), NodeId(2)] && group.called_by.is_none() && group == seen(2)
    });
    let after = live.run("status").ends(1);
    assert!(after.out.contains("p1,p2: epoch 1p2 of p1,p2, led by p2\n"), "{}", after.out);
    live.stop();
}

/// Files of a cluster have its secret in them, and its sockets take orders from whoever can reach them.
#[test]
fn nobody_else_can_open_what_belongs_to_a_cluster() {
    let home = Home::new();
    let live = home.start("central -n 1");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let dir = home.dir(&live.name);
    assert_eq!((mode(&dir), mode(&dir.join("node-1"))), (0o700, 0o700));
    assert_eq!(mode(&dir.join("node-1.toml")), 0o600);
    assert_eq!(mode(&dir.join("node-1/control.sock")), 0o600);
    let config = fs::read_to_string(dir.join("node-1.toml")).expect("it can be read");
    assert!(config.contains("secret = "), "{config}");
    live.stop();
}
