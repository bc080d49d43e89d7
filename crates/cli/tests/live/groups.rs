//! `conclave group`: members that are started by hand, one command each, and what is said to them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{Home, Ran, ran, signal, until};

/// So patient that a machine with much else to do is not taken for a dead member.
const PATIENT: &str = "--transmission 1s --suspect-after 6s";

/// A member in a terminal of its own.
struct Member {
    child: Child,
    said: PathBuf,
    is_over: bool,
}

impl Member {
    /// Starts one; the line goes on with its options.
    fn join(home: &Home, line: &str) -> Self {
        let count = fs::read_dir(home.path()).expect("a directory").count();
        let said = home.path().join(format!("member-{count}.said"));
        let out = File::create(&said).expect("there is room for a file");
        let err = File::create(said.with_extension("err")).expect("there is room for a file");
        let mut command = home.command(&format!("group join {line}"));
        let child = command.stdout(out).stderr(err).spawn().expect("the binary runs");
        Self { child, said, is_over: false }
    }

    fn lines(&self) -> Vec<String> {
        let said = fs::read_to_string(&self.said).expect("it is there");
        said.lines().map(str::to_owned).collect()
    }

    /// The posts among them.
    fn posts(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("--")).collect()
    }

    #[track_caller]
    fn until_says(&mut self, what: &str) {
        let child = &mut self.child;
        let said = &self.said;
        until(&format!("a member says '{what}'"), || {
            assert!(child.try_wait().expect("it can be asked").is_none(), "it has ended: {}", errors(said));
            fs::read_to_string(said).expect("it is there").lines().any(|line| line.contains(what))
        });
    }

    #[track_caller]
    fn until_posts(&self, count: usize) {
        until(&format!("{count} posts are delivered"), || self.posts().len() >= count);
    }

    /// Ctrl-C.
    fn leave(mut self) {
        signal(self.child.id(), Signal::INT);
        self.is_over = true;
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", errors(&self.said));
    }

    fn kill(mut self) {
        self.is_over = true;
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

fn errors(said: &std::path::Path) -> String {
    fs::read_to_string(said.with_extension("err")).unwrap_or_default()
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let _ = write!(std::io::stderr(), "{:?}\n{}", self.lines(), errors(&self.said));
        }
    }
}

/// Runs a command with something on its standard input.
fn fed(mut command: Command, text: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("it has one");
    let text = text.to_owned();
    // Who does not read to the end says why.
    let feeding = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("it was fed");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    Ran {
        code: output.status.code().expect("it ends by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A word that may have blanks in it, after a line without.
fn send(home: &Home, line: &str, text: &str) -> Ran {
    ran(home.command(&format!("group send {line}")).arg(text))
}

fn all_of(home: &Home, line: &str) -> Vec<Value> {
    let tail = home.run(&format!("group tail {line} --json")).ends(0);
    tail.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["text"].as_str()).collect()
}

/// Three terminals, three senders at a time: one order everywhere, also after the process that numbers the posts was killed, and for
/// a member that comes back. What they lived through is one trace.
#[test]
fn members_started_by_hand_deliver_in_one_order() {
    let home = Home::new();
    let patient = format!("chat {PATIENT}");
    let mut members: Vec<Member> = (0..3).map(|_| Member::join(&home, &patient)).collect();
    members.iter_mut().for_each(|member| member.until_says(": p1, p2, p3"));
    std::thread::scope(|scope| {
        for via in 1..=3 {
            let home = &home;
            scope.spawn(move || {
                let lines: String = (0..10).map(|k| format!("{via} says {k}\n")).collect();
                let ran = fed(home.command(&format!("group send chat --via {via}")), &lines).ends(0);
                assert_eq!(ran.out, "10 sent\n");
            });
        }
    });
    members.iter().for_each(|member| member.until_posts(30));
    let order = members[0].posts();
    assert!(members.iter().all(|member| member.posts() == order), "{order:?}");
    for via in 1..=3 {
        let own: Vec<_> = order.iter().filter(|post| post.starts_with(&format!("p{via}: "))).collect();
        let expected: Vec<String> = (0..10).map(|k| format!("p{via}: {via} says {k}")).collect();
        assert!(own.into_iter().eq(&expected), "{order:?}");
    }

    // The highest member numbers the posts.
    let highest = home.run("group tail chat --via 3 --all --count 1").ends(0);
    assert!(highest.out.starts_with("-- view"), "{}", highest.out);
    let third = members.iter().position(|member| errors(&member.said).contains("this is p3")).expect("p3");
    members.remove(third).kill();
    members.iter_mut().for_each(|member| member.until_says(": p1, p2"));
    until("both have a view without p3", || {
        members.iter().all(|member| member.lines().iter().any(|line| line.ends_with(": p1, p2")))
    });
    home.run("group send chat --via 1 one goes on").ends(0);
    home.run("group send chat --via 2 another, too").ends(0);
    members.iter().for_each(|member| member.until_posts(32));
    assert_eq!(members[0].posts(), members[1].posts());

    let mut back = Member::join(&home, "chat");
    back.until_says(": p1, p2, p3");
    home.run("group send chat --via 3 here again").ends(0);
    back.until_posts(1);
    members.iter().for_each(|member| member.until_posts(33));
    assert!(back.posts() == ["p3: here again"] && members[0].posts()[32] == "p3: here again");

    let file = home.path().join("groups/chat/group.toml");
    back.leave();
    members.iter_mut().for_each(|member| {
        let (child, said) = (&mut member.child, &member.said);
        until("p3 has left", || {
            assert!(child.try_wait().expect("it can be asked").is_none(), "{}", errors(said));
            let text = fs::read_to_string(said).expect("it is there");
            text.lines().rfind(|line| line.starts_with("-- view")).is_some_and(|l| l.ends_with(": p1, p2"))
        });
    });
    members.into_iter().for_each(Member::leave);
    let left = fs::read_to_string(home.path().join("groups/chat/node-3/record-2.jsonl")).expect("its record");
    assert!(left.contains("\"request\":\"leave\""), "the group was told, and not left to find out");
    let trace = format!("cluster --config {} trace --json", file.display());
    let report = home.run(&trace).ends(0).json();
    assert_eq!(report["same"], true, "{report}");
    for property in report["properties"].as_array().expect("a list") {
        assert_ne!(property["holds"], false, "{report}");
    }
}

/// A member that comes later gets what is sent from then on; nobody waits for one that never came.
#[test]
fn who_joins_later_delivers_what_is_sent_from_then_on() {
    let home = Home::new();
    let order = format!("chat --order causal {PATIENT}");
    let mut early = [Member::join(&home, &order), Member::join(&home, &order)];
    early.iter_mut().for_each(|member| member.until_says("-- joined"));
    send(&home, "chat", "early").ends(0);
    early.iter().for_each(|member| member.until_posts(1));
    let mut late = Member::join(&home, &order);
    late.until_says("-- joined");
    send(&home, "chat --via 1", "late").ends(0);
    late.until_posts(1);
    early.iter().for_each(|member| member.until_posts(2));
    assert_eq!(late.posts(), ["p1: late"]);
    let events = all_of(&home, "chat --via 2 --all --count 3");
    assert_eq!(events[0], json!({ "event": "joined" }));
    assert_eq!(texts(&events), ["early", "late"]);
    assert_eq!((&events[2]["from"], &events[2]["life"]), (&json!(1), &json!(1)));
    // A fourth has no place, and the places have names.
    home.run(&format!("group join {order}")).refused("all 3 members of the group 'chat' run already");
    home.run(&format!("group join {order} --id 2")).refused("p2 of the group 'chat' runs already");
    late.leave();
    early.into_iter().for_each(Member::leave);
}

/// Whatever a text says, it arrives as it was; what is too long for a member is refused, and the member goes on.
#[test]
fn texts_arrive_as_they_were_sent() {
    let home = Home::new();
    let mut alone = Member::join(&home, "chat -n 1");
    alone.until_says("-- view");
    let texts_sent =
        ["", " two  blanks ", "a\nb\tc", "\"quoted\" \\ 'x'", "grüße, \u{1f980}\u{202e}", "--help"];
    for text in texts_sent {
        assert_eq!(send(&home, "chat --", text).ends(0).out, "sent\n");
    }
    let long = "x".repeat(12_000);
    send(&home, "chat", &long).ends(0);
    let refused = send(&home, "chat", &"\n".repeat(12_000)).ends(2);
    assert!(refused.err.contains("a process hears") && refused.err.contains("in pieces"), "{}", refused.err);
    assert_eq!(home.run("group send chat several words are one text").ends(0).out, "sent\n");
    let lines = fed(home.command("group send chat"), "first line\n\nthird, without an end").ends(0);
    assert_eq!(lines.out, "3 sent\n");
    let expected: Vec<&str> = texts_sent
        .into_iter()
        .chain([&long[..], "several words are one text", "first line", "", "third, without an end"])
        .collect();
    // A view, and then the posts.
    let events = all_of(&home, &format!("chat --all --count {}", expected.len() + 1));
    assert_eq!(texts(&events), expected);
    alone.until_posts(expected.len());
    assert_eq!(alone.posts()[2], r#"p1: "a\nb\tc""#, "a line is a post");
    alone.leave();
}

/// A reader that stops reading misses nothing, and one that goes away ends the command.
#[test]
fn a_slow_reader_misses_nothing() {
    const MANY: usize = 3_000;
    let home = Home::new();
    let mut alone = Member::join(&home, "chat -n 1 --order fifo --quiet");
    until("it runs", || home.run("group send chat first").code == 0);
    let mut tail = home.command(&format!("group tail chat --all --json --count {}", MANY + 2));
    let mut child = tail.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("that it has joined");
    let lines: String = (0..MANY).map(|k| format!("{k} {}\n", "x".repeat(200))).collect();
    // Far more than a pipe and a socket hold.
    fed(home.command("group send chat"), &lines).ends(0);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let events: Vec<Value> = rest.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers = texts(&events).into_iter().skip(1).map(|text| text.split(' ').next().expect("a number"));
    assert!(numbers.eq((0..MANY).map(|k| k.to_string())), "{} events", events.len());
    assert!(child.wait().expect("it ends").success());

    let script = format!("'{}' group tail chat --all | head -n 2", env!("CARGO_BIN_EXE_conclave"));
    let head = Command::new("sh").args(["-c", &script]).env("CONCLAVE_HOME", home.path()).output();
    let head = head.expect("there is a shell");
    assert_eq!(String::from_utf8_lossy(&head.stdout).lines().count(), 2);
    assert_eq!(String::from_utf8_lossy(&head.stderr), "");
    assert_eq!(alone.lines(), Vec::<String>::new(), "it was told to be quiet");
    assert!(alone.child.try_wait().expect("it can be asked").is_none());

    let mut watching = home.command("group tail chat");
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| watching.wait_with_output().expect("it ends"));
        // It may not listen yet; then it finds nobody.
        alone.leave();
        let code = ended.join().expect("it ends").status.code();
        assert!(matches!(code, Some(1 | 2)), "{code:?}");
    });
}

/// More than a message holds is sent; then a member leaves, and all report to each other what they know of the view. Nothing is recorded, since
/// a busy machine takes long to write so much down.
#[test]
fn what_is_sent_in_a_view_fits_into_a_message() {
    const MANY: usize = 130;
    let home = Home::new();
    let patient = "bulk --transmission 1s --suspect-after 30s --no-record";
    let mut members: Vec<Member> = (0..3).map(|_| Member::join(&home, patient)).collect();
    members.iter_mut().for_each(|member| member.until_says(": p1, p2, p3"));
    let lines: String = (0..MANY).map(|k| format!("{k} {}\n", "x".repeat(9_000))).collect();
    assert_eq!(fed(home.command("group send bulk --via 1"), &lines).ends(0).out, format!("{MANY} sent\n"));
    members.iter().for_each(|member| member.until_posts(MANY));
    let order = members[0].posts();
    assert!(members.iter().all(|member| member.posts() == order));
    let sender = members.iter().position(|member| errors(&member.said).contains("this is p1")).expect("p1");
    members.remove(sender).leave();
    members.iter_mut().for_each(|member| member.until_says(": p2, p3"));
    members.into_iter().for_each(Member::leave);
}

/// A group of addresses, from the point of view of each member.
#[test]
fn members_find_each_other_by_their_addresses() {
    let home = Home::new();
    let ports = conclave_live::supervisor::free_ports(2).expect("there are some");
    let [a, b] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
    let mut one = Member::join(&home, &format!("pair --order fifo --listen {b} --peers {a} {PATIENT}"));
    let mut other = Member::join(&home, &format!("pair --order fifo --listen {a} --peers {b} {PATIENT}"));
    one.until_says("-- joined");
    other.until_says("-- joined");
    send(&home, "pair", "hello").ends(0);
    one.until_posts(1);
    other.until_posts(1);
    let elsewhere = "group join pair --listen 127.0.0.1:1 --peers 127.0.0.1:2";
    home.run(elsewhere).refused("the group 'pair' has members at");
    home.run("group join wide --listen 10.0.0.1:7001 --peers 10.0.0.2:7001").refused("other machines, too");
    one.leave();
    other.leave();
}

#[test]
fn mistakes_are_told_in_a_sentence() {
    let home = Home::new();
    home.run("group send chat hello").refused("there is no group 'chat' on this machine");
    home.run("group tail ../chat").refused("cannot be the name of a group");
    home.run("group join chat --order casual").refused("did you mean 'causal'?");
    home.run("group join chat --order bully").refused("'bully' is no multicast");
    home.run("group join chat --set over=both").refused("over");
    home.run("group join chat --listen 127.0.0.1:1").ends(2);
    let mut alone = Member::join(&home, "chat -n 1 --order fifo");
    alone.until_says("-- joined");
    home.run("group send chta hello").refused("did you mean 'chat'?");
    home.run("group send chat --via 4 hello").refused("the group 'chat' has no p4: its members are p1");
    home.run("group join chat --order total").refused("the group 'chat' has 'fifo', and not 'sequencer'");
    home.run("group join chat -n 3").refused("the group 'chat' has -n 1, and not -n 3");
    home.run("group join chat --set over=basic").refused("over=its default, and not over=basic");
    home.run("group join chat --new").refused("p1 of the group 'chat' is up");
    let file = home.path().join("groups/chat/group.toml");
    let wrong = format!("group send lobby --config {} hello", file.display());
    home.run(&wrong).refused("is the file of the group 'chat', and not 'lobby'");
    let named = format!("group send chat --config {} hello", file.display());
    home.run(&named).ends(0);
    alone.leave();
    home.run("group send chat hello").refused("no member of the group 'chat' runs here");
    home.run("group tail chat --via 1").refused("p1 of the group 'chat' does not run here");
    // Nothing is left of the earlier group.
    let mut again = Member::join(&home, "chat --new -n 1 --order total");
    again.until_says("-- view");
    again.leave();

    let other = fs::read_to_string(&file).expect("it is there").replace("\"sequencer\"", "\"bully\"");
    let path = home.path().join("bully.toml");
    fs::write(&path, other).expect("there is room for a file");
    let join = format!("group join chat --config {}", path.display());
    home.run(&join).refused("'chat' runs 'bully', which is no multicast");
}
