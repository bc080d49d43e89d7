//! What makes no sense is refused in a sentence, and nothing is lost by it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask};
use conclave_live::desk::{Wish, Word};

use crate::cluster::{Home, Live, ran};
use crate::locking::{lock, unlock};

#[test]
fn hostile_words_start_nothing() {
    let home = Home::new();
    for (line, why) in [
        ("ricart-agrawalla", "did you mean 'ricart-agrawala'?"),
        ("majority --set mode=literal", "mode=literal"),
        ("central --set no=such", "no"),
        ("maekawa --set quorum=sieve", "sieve"),
        ("central -n 0", "at least 1 process"),
        ("central -n 65", "64"),
        ("central --ids 1,1", "1"),
        ("central --transmission 0s", "time"),
        ("central --cluster ../elsewhere", "cannot be the name of a cluster"),
        ("central --cluster -x", "-x"),
    ] {
        for more in ["", " --detach"] {
            let ran = home.run(&format!("cluster start {line}{more}")).ends(2);
            assert!(ran.err.contains(why), "{line}{more}: {}", ran.err);
            assert!(ran.err.starts_with("error: "), "{line}{more}: {}", ran.err);
        }
    }
    let listed = home.run("cluster list").ends(0).out;
    assert!(!listed.contains("running"), "{listed}");
    home.run("cluster stop").refused("no cluster is running");
    home.run("cluster stop --cluster nobody").refused("there is no cluster 'nobody'");
}

#[test]
fn hostile_files_start_nothing() {
    let home = Home::new();
    let file = home.path().join("node.toml");
    let right = "cluster = \"lab\"\nalgorithm = \"central\"\nid = 1\ndata = \"node-1\"\n\
                 peers = [{ id = 1, address = \"127.0.0.1:1\" }, { id = 2, address = \"127.0.0.1:2\" }]\n";
    for (text, why) in [
        (String::new(), "missing field"),
        ("what?".into(), "node.toml"),
        (right.replace("id = 1\n", "id = 3\n"), "process 3 is not among the peers"),
        (right.replace("id = 2,", "id = 1,"), "process 1 is among the peers twice"),
        (right.replace("central", "centrale"), "did you mean 'central'?"),
        (right.replace("127.0.0.1:1\"", "nowhere\""), "node.toml"),
        (format!("{right}[settings]\nno = \"such\"\n"), "no"),
    ] {
        fs::write(&file, &text).expect("there is room");
        let ran = home.run(&format!("node --config {}", file.display())).ends(2);
        assert!(ran.err.starts_with("error: ") && ran.err.contains(why), "{text}: {}", ran.err);
    }
    home.run("node --config /no/such/file").refused("/no/such/file");
}

/// Orders that name nobody, and names that are none, while somebody is inside.
#[test]
fn hostile_to_a_running_cluster() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 20s");
    let mut holder = live.connect(NodeId(1));
    let fence = lock(&mut holder, "a");
    for (line, why) in [
        ("kill 7", "the cluster has no p7"),
        ("restart 7", "the cluster has no p7"),
        ("lock a --via 7 -- true", "the cluster has no p7"),
        ("kill p0x", "not the id of a process"),
        ("cut 1/9", "9"),
        ("cut 1,2/2", "cannot be on both sides"),
        ("cut 1", "two groups"),
        ("elect", "this algorithm is for locks"),
        ("lock a --via 1 --wait 0s -- true", "time"),
    ] {
        let ran = live.run(line).ends(2);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
    for name in ["with\u{7}bell", "with\nbreak", ""] {
        let mut command = home.command("cluster lock");
        let ran = ran(command.arg(name).args(["--", "true"])).ends(2);
        assert!(ran.err.starts_with("error: ") && !ran.err.contains('\u{7}'), "{}", ran.err);
    }
    still_holds(&live, &mut holder, fence);
    live.stop();
}

/// Nobody got in meanwhile, and everything works as before.
fn still_holds(
    live: &Live<'_>,
    holder: &mut conclave_live::control::Control,
    fence: conclave_algorithms::mutex::Fence,
) {
    let standing = live.status(NodeId(1)).desk.locks;
    assert!(standing.iter().any(|lock| lock.fence == Some(fence)), "{standing:?}");
    live.run("lock a --via 2 --wait 50ms -- true").ends(1);
    unlock(holder, "a");
    live.run("lock a --via 3 --wait 20s -- true").ends(0);
    lock(holder, "a");
    unlock(holder, "a");
}

/// Says something at a control socket and hears what comes back until it is closed, or for a moment.
fn say(live: &Live<'_>, words: &[u8]) -> String {
    let path = live.dir().join("node-1/control.sock");
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a span");
    // A line without end is not read to its end.
    let _ = stream.write_all(words);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8(heard).expect("it answers in text")
}

#[test]
fn hostile_clients_harm_nobody_else() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 20s");
    let mut holder = live.connect(NodeId(1));
    let fence = lock(&mut holder, "a");
    let status = |heard: &str| heard.contains("\"status\"");

    let heard = say(&live, b"what?\n\"status\"\n");
    assert!(heard.contains("this is no request") && status(&heard), "{heard}");
    for garbage in [&b"\n"[..], b"\xff\xfe\x00\n", b"{}\n", b"[1,2]\n", b"{\"wish\":{\"ask\":\"lock\"}}\n"] {
        assert!(say(&live, garbage).contains("this is no request"), "{garbage:?}");
    }
    let bell = b"{\"wish\":{\"ask\":\"lock\",\"name\":\"a\\u0007\"}}\n";
    assert!(say(&live, bell).contains("this is no request"));
    let long = [b"[".repeat(1 << 20), b"\n\"status\"\n".to_vec()].concat();
    assert!(!status(&say(&live, &long)), "who sends a line without end is let go");
    assert!(!status(&say(&live, b"\"status\"")), "half a line is no request");

    // Somebody else's lock cannot be given back, nor asked for twice.
    let foreign = say(&live, b"{\"wish\":{\"ask\":\"unlock\",\"name\":\"a\"}}\n");
    assert!(foreign.contains("neither holds a nor waits for it"), "{foreign}");
    holder
        .ask(&Ask::Wish(Wish::Lock { name: conclave_algorithms::Name::new("a").expect("a name") }))
        .expect("it listens");
    let twice = holder.answer(Some(Duration::from_secs(20))).expect("it answers");
    assert!(matches!(twice, Some(Answer::Word(Word::Refused { .. }))), "{twice:?}");

    // Who asks and does not listen is let go, and harms only itself.
    let path = live.dir().join("node-1/control.sock");
    let mut deaf = UnixStream::connect(path).expect("it listens");
    deaf.set_write_timeout(Some(Duration::from_millis(500))).expect("a span");
    for _ in 0..20_000 {
        if deaf.write_all(b"\"status\"\n").is_err() {
            break;
        }
    }
    still_holds(&live, &mut holder, fence);
    live.stop();
}

#[test]
fn hostile_orders_reach_no_supervisor() {
    let home = Home::new();
    let live = home.start("central -n 3 --suspect-after 20s");
    for order in [&b"what?\n"[..], b"\xff\n", b"", &b"[".repeat(1 << 20)] {
        let mut stream = UnixStream::connect(live.dir().join("cluster.sock")).expect("it listens");
        let _ = stream.write_all(order);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut heard = String::new();
        let _ = stream.read_to_string(&mut heard);
        assert!(heard.is_empty() || heard.contains("this is no order"), "{heard}");
    }
    live.run("lock a --via 2 --wait 20s -- true").ends(0);
    live.stop();
}
