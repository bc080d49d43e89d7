//! A data directory that is not what it was: the node says what is wrong with it and leaves it alone.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use conclave_client::{Campaign, SessionOptions};

use crate::hostile::runtime;
use crate::nodes::Service;
use crate::runs::{BINARY, Running, ran};
use crate::until;

/// All files of a directory.
type Contents = BTreeMap<PathBuf, Vec<u8>>;

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("it is a directory");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.sort();
    files
}

fn contents(dir: &Path) -> Contents {
    files(dir)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).expect("it can be read")))
        .collect()
}

/// A node that has stopped, and has all there can be in a data directory: a snapshot, and several files of a log.
fn stopped() -> Service {
    let mut service = Service::absent(1);
    let mut command = service.serve(1);
    command.args(["--snapshot-every", "1"]);
    service.run_by(1, command);
    service.is_served();
    service.shell("lock kept", "exit 0").ends(0);
    runtime().block_on(async {
        let client = service.library();
        let session = client.session(SessionOptions::default()).await.expect("it is served");
        let leads = session.campaign(Campaign::new("chief", "here")).await.expect("it is free");
        // So much that the log begins again, in writes of which several fill a file.
        while named(&service, "log-00000000000000000000").len() == 1 {
            let shows = (0..4).map(|_| leads.proclaim(vec![b' '; 16 * 1024]));
            for shown in futures_util::future::join_all(shows).await {
                shown.expect("it leads");
            }
        }
        leads.resign().await.expect("it leads");
        session.close().await.expect("it is served");
    });
    assert_eq!(service.stop(1).code(), Some(0));
    service
}

/// The files with names that begin so, in order.
fn named(service: &Service, beginning: &str) -> Vec<PathBuf> {
    let is_named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    files(&service.data(1)).into_iter().filter(is_named).collect()
}

/// It does not start, says why, and has changed nothing.
#[track_caller]
fn is_refused(service: &Service, why: &[&str]) {
    let before = contents(&service.data(1));
    let ran = Running::start(service.serve(1)).end().ends(2);
    let said: String = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
    for part in why {
        assert!(said.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(said.matches("error: ").count(), 1, "{}", ran.err);
    assert!(contents(&service.data(1)) == before, "something was changed");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it can be read");
    bytes[at] ^= 0x40;
    fs::write(path, bytes).expect("there is room");
}

fn cut(path: &Path, length: usize) {
    let bytes = fs::read(path).expect("it can be read");
    fs::write(path, &bytes[..length]).expect("there is room");
}

/// Where the last thing that was written to a file of the log ends.
fn end_of(log: &[u8]) -> usize {
    log.iter().rposition(|&byte| byte != 0).expect("it was written to") + 1
}

/// The file that a node writes its log to.
fn last_log(service: &Service, id: u64) -> PathBuf {
    let is_used = |path: &PathBuf| {
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        // What is behind the first sector was written by somebody who had something to say.
        name.starts_with("log-") && fs::read(path).is_ok_and(|bytes| end_of(&bytes) > 512)
    };
    files(&service.data(id)).into_iter().rfind(is_used).expect("it has one")
}

/// Flips one bit of the last thing that a node has written; gives in which file, and in which sector.
fn flip_last(service: &Service, id: u64) -> (String, usize) {
    let path = last_log(service, id);
    let at = end_of(&fs::read(&path).expect("it can be read")) - 1;
    flip(&path, at);
    (path.file_name().expect("it has a name").to_string_lossy().into_owned(), at / 512 * 512)
}

#[test]
fn an_acknowledged_grant_is_not_forgotten_for_one_bit() {
    let mut service = Service::one();
    let holder = service.hold("lock a --ttl 60s", "token");
    let token = service.written("token");
    service.kill(1);
    let path = last_log(&service, 1);
    let sound = fs::read(&path).expect("it can be read");
    // Any bit of the last four writes, each of which has a sector of its own.
    let (name, last) = flip_last(&service, 1);
    for at in (last - 3 * 512..last + 512).step_by(171) {
        fs::write(&path, &sound).expect("there is room");
        flip(&path, at);
        is_refused(&service, &[&name, &format!("is damaged at byte {} ", at / 512 * 512)]);
    }
    let mut repair = service.serve(1);
    repair.arg("--repair");
    let said = Running::start(repair).end().ends(2);
    assert!(said.err.contains("error: a single node cannot be repaired"), "{}", said.err);

    // Whoever restores it has everything again, and nobody gets the same token.
    fs::write(&path, &sound).expect("there is room");
    service.run(1);
    service.is_served();
    assert_eq!(service.show("a")["holders"].as_array().map(Vec::len), Some(1));
    assert_ne!(service.conclave("lock a --try -- true").code, 0, "it is held");
    holder.let_go();
    let again = service.shell("lock a --wait 20s", "echo $CONCLAVE_TOKEN").ends(0);
    let number = |text: &str| text.trim().parse::<u64>().expect("a token is a number");
    assert!(number(&again.out) > number(&token), "{} after {token}", again.out);
}

#[test]
fn an_acknowledged_grant_is_not_forgotten_for_a_missing_file() {
    let mut service = Service::absent(1);
    let mut command = service.serve(1);
    command.args(["--snapshot-every", "1"]);
    service.run_by(1, command);
    service.is_served();
    runtime().block_on(async {
        let client = service.library();
        let session = client.session(SessionOptions::default()).await.expect("it is served");
        let leads = session.campaign(Campaign::new("chief", "here")).await.expect("it is free");
        while last_log(&service, 1) == named(&service, "log-")[0] {
            leads.proclaim(vec![b' '; 16 * 1024]).await.expect("it leads");
        }
    });
    service.kill(1);
    let last = last_log(&service, 1);
    assert!(named(&service, "log-")[0] < last, "there is one before it");
    for path in named(&service, "log-").into_iter().filter(|path| *path >= last) {
        fs::remove_file(path).expect("it was there");
    }
    let name = last.file_name().expect("it has a name").to_string_lossy().into_owned();
    is_refused(&service, &[&name, "is missing"]);
}

#[test]
fn a_damaged_node_is_repaired_from_the_others() {
    let mut service = Service::three();
    let held: Vec<Running> =
        ["a", "b"].map(|name| service.hold(&format!("lock {name} --ttl 60s"), name)).into();
    let (leader, followers) = service.roles();
    let [damaged, other] = followers[..] else { panic!("three nodes") };
    let due = service.applied(leader).expect("it answers");
    service.kill(damaged);
    let (name, sector) = flip_last(&service, damaged);
    let before = contents(&service.data(damaged));
    let refused = Running::start(service.serve(damaged)).end().ends(2);
    assert!(refused.err.contains(&format!("{name} is damaged at byte {sector} ")), "{}", refused.err);
    assert!(refused.err.contains("hint: start the node with --repair"), "{}", refused.err);
    assert!(contents(&service.data(damaged)) == before, "something was changed");

    let mut repair = service.serve(damaged);
    repair.arg("--repair");
    service.run_by(damaged, repair);
    until("it has caught up", || service.applied(damaged).is_some_and(|applied| applied >= due));
    let parts = || service.log(damaged).matches("this node takes part").count();
    until("it takes part once more", || parts() == 2);
    let log = service.log(damaged);
    let moved = log.lines().find(|line| line.contains("moved all files of this node aside"));
    let moved = moved.unwrap_or_else(|| panic!("{log}"));
    assert!(moved.contains(&format!("{name} is damaged at byte {sector} ")), "{moved}");
    assert!(moved.contains("damaged-1") && !moved.contains("nothing was changed"), "{moved}");
    let aside = service.data(damaged).join("damaged-1");
    for (path, bytes) in before {
        let name = path.file_name().expect("it has a name");
        if name != "lock" {
            assert!(fs::read(aside.join(name)).expect("it is kept") == bytes, "{}", path.display());
        }
    }
    // From now on it is as good as the others: without it there would be no majority.
    service.kill(other);
    service.is_served();
    for name in ["a", "b"] {
        assert_eq!(service.show(name)["holders"].as_array().map(Vec::len), Some(1));
        assert_ne!(service.conclave(&format!("lock {name} --try -- true")).code, 0, "it is held");
    }
    held.into_iter().for_each(Running::let_go);
    assert_eq!(service.stop(damaged).code(), Some(0));
    let mut again = service.serve(damaged);
    again.arg("--repair");
    let said = Running::start(again).end().ends(2);
    assert!(said.err.contains("error: nothing to repair: "), "{}", said.err);
}

#[test]
fn a_damaged_directory_is_left_alone() {
    let mut service = stopped();
    let sound = contents(&service.data(1));
    let logs = named(&service, "log-");
    let [first, .., last] = logs.as_slice() else { panic!("{logs:?}") };
    let snapshots = named(&service, "snapshot-");
    let snapshot = snapshots.last().expect("it has one");
    let identity = service.data(1).join("identity");
    let name = |path: &Path| path.file_name().expect("it has a name").to_string_lossy().into_owned();

    for path in [first, last, snapshot, &identity] {
        let length = sound[path].len();
        let somewhere = if path == last { end_of(&sound[path]) - 1 } else { length / 3 };
        for at in [0, 9, 30, somewhere] {
            println!("{} with byte {at} changed", path.display());
            flip(path, at.min(length - 1));
            is_refused(&service, &[&name(path)]);
            fs::write(path, &sound[path]).expect("there is room");
        }
        for length in [0, 7, somewhere] {
            println!("{} cut off at {length}", path.display());
            cut(path, length);
            is_refused(&service, &[&name(path)]);
            fs::write(path, &sound[path]).expect("there is room");
        }
    }
    let used = last_log(&service, 1);
    for path in [first, &used, snapshot, &identity] {
        println!("{} removed", path.display());
        fs::remove_file(path).expect("it was there");
        is_refused(&service, &["is missing"]);
        fs::write(path, &sound[path]).expect("there is room");
    }
    fs::write(first, b"a letter to somebody").expect("there is room");
    is_refused(&service, &[&name(first), "damaged"]);
    fs::write(first, &sound[first]).expect("there is room");
    // What is not ours is not touched, and is in nobody's way.
    let letter = service.data(1).join("letter.txt");
    fs::write(&letter, b"a letter to somebody").expect("there is room");
    service.run(1);
    service.is_served();
    assert_eq!(service.show("kept")["history"].as_array().map(Vec::len), Some(1));
    assert_eq!(fs::read(&letter).expect("it is there"), b"a letter to somebody");
}

#[test]
fn the_directory_of_another_node_is_left_alone() {
    let mut service = Service::one();
    // The same node again, and another one at its address.
    ran(&mut service.serve(1)).refused("is in use by another process");
    let elsewhere = Service::absent(1);
    let mut beside = Command::new(BINARY);
    beside.args(["serve", "--listen", service.address(1), "--data"]).arg(elsewhere.path("beside"));
    ran(&mut beside).refused(&format!("cannot listen on {}", service.address(1)));
    assert!(!elsewhere.path("beside").exists(), "a directory was left behind");
    service.still_serves();
    assert_eq!(service.stop(1).code(), Some(0));

    fs::create_dir_all(elsewhere.data(1)).expect("there is room");
    for (path, bytes) in contents(&service.data(1)) {
        fs::write(elsewhere.data(1).join(path.file_name().expect("it has a name")), bytes)
            .expect("there is room");
    }
    is_refused(&elsewhere, &["identity", "belongs to node 1", service.address(1)]);

    let no_directory = Service::absent(1);
    fs::write(no_directory.data(1), "a letter to somebody").expect("there is room");
    ran(&mut no_directory.serve(1)).refused("node-1");
    assert_eq!(fs::read(no_directory.data(1)).expect("it is there"), b"a letter to somebody");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let service = Service::absent(1);
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let address = taken.local_addr().expect("it is bound").to_string();
    // This one belongs to no machine.
    for (line, why) in [
        (format!("--listen {address}"), format!("cannot listen on {address}")),
        ("--listen 192.0.2.1:7400 --insecure".to_owned(), "cannot listen on 192.0.2.1:7400".to_owned()),
        (
            format!("--listen {} --repair", service.address(1)),
            "there is no directory 'above/data'".to_owned(),
        ),
        (
            format!("--listen {} --id 2 --cluster 1=127.0.0.1:1", service.address(1)),
            "node 2 is not in".to_owned(),
        ),
    ] {
        service.conclave(&format!("serve --data above/data {line}")).refused(&why);
        assert_eq!(files(service.home()), [] as [PathBuf; 0], "{line}");
    }
    // What was there before stays.
    fs::create_dir(service.path("above")).expect("there is room");
    service.conclave(&format!("serve --data above/data --listen {address}")).refused("cannot listen");
    assert_eq!(files(service.home()), [service.path("above")]);
    assert_eq!(files(&service.path("above")), [] as [PathBuf; 0]);
}

#[test]
fn nodes_that_do_not_belong_together_say_so_once() {
    let mut service = Service::absent(3);
    let mut two = Command::new(BINARY);
    let members: Vec<String> = [1, 2].map(|id| format!("{id}={}", service.address(id))).into();
    two.args(["serve", "--id", "2", "--cluster", &members.join(","), "--data"]).arg(service.data(2));
    service.run(1);
    service.run_by(2, two);
    let said = |id| service.log(id).matches("a node refuses this one").count();
    until("both say so", || said(1) > 0 && said(2) > 0);
    // They ask each other again all the time, which nobody wants to read.
    let elsewhere = Service::one();
    drop(elsewhere);
    assert_eq!((said(1), said(2)), (1, 1));
    assert!(service.log(1).contains("the nodes were given different lists of members"));
}
