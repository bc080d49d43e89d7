//! What `ls`, `show`, `why`, `release` and `status` say, to people and to programs.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use unicode_width::UnicodeWidthStr as _;

use crate::nodes::Service;
use crate::runs::Running;
use crate::until;

#[test]
fn names_and_their_holders_are_shown() {
    let service = Service::one();
    assert_eq!(service.conclave("ls").ends(0).out, "no names are in use\n");
    assert_eq!(service.conclave("ls --json").ends(0).out, "");
    assert_eq!(
        service.conclave("show db/a").ends(1).out,
        "'db/a' is free: no holder, no waiters, no history\n"
    );
    assert_eq!(service.conclave("show db/a --json").ends(1).out, "null\n");

    let holder = service.hold("lock db/a --label nightly", "in");
    let waiter = service.begin("lock db/a --wait 1min --priority 3", "exit 0");
    let leader = service.hold("elect chief --value here", "lead");
    service.has_waiters("db/a", 1);
    let token = service.written("in").trim().to_owned();

    let listed = service.conclave("ls").ends(0).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].trim_start().starts_with("NAME"), "{listed}");
    assert!(lines[1].trim_start().starts_with("chief") && lines[1].contains("leader"), "{listed}");
    assert!(lines[2].trim_start().starts_with("db/a") && lines[2].contains("nightly on "), "{listed}");
    assert!(lines[2].split_whitespace().any(|word| word == token), "{listed}");
    let under = service.conclave("ls db/ --json").ends(0).json();
    assert_eq!(under.len(), 1);
    assert_eq!(under[0]["name"], "db/a");
    assert_eq!((&under[0]["holders"], &under[0]["waiters"]), (&1.into(), &1.into()));
    assert_eq!(under[0]["first"]["token"].to_string(), token);

    let shown = service.conclave("show db/a").ends(0).out;
    for part in ["db/a (lock)", "held by ", "nightly on ", "exclusive", "1. ", "priority 3", "gives up in "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = service.show("db/a");
    assert_eq!(shown["holders"][0]["owner"]["label"], "nightly");
    assert_eq!(shown["holders"][0]["owner"]["pid"], holder.pid());
    assert_eq!(shown["queue"][0]["owner"]["pid"], waiter.pid());
    assert_eq!(service.show("chief")["value"], "here");
    assert!(service.conclave("show chief").ends(0).out.contains("here"));

    holder.let_go();
    waiter.end().ends(0);
    leader.let_go();
    let history = service.show("db/a")["history"].clone();
    assert_eq!(history.as_array().map(Vec::len), Some(2), "{history}");
    assert!(service.conclave("show db/a").ends(0).out.contains("held by nobody"));
}

/// What a command shows on a terminal with so many columns; 0 if it was given no size.
fn shown_on_terminal(service: &Service, words: &[&str], columns: u16) -> String {
    let size = nix::pty::Winsize { ws_row: 24 * columns.min(1), ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).expect("there are terminals");
    let mut command = service.client(words);
    command.stdout(pty.slave).env("NO_COLOR", "1");
    let mut running = command.spawn().expect("the binary runs");
    drop(command);
    // It ends with an error when the other side is closed.
    let mut shown = Vec::new();
    let _ = File::from(pty.master).read_to_end(&mut shown);
    assert!(running.wait().expect("it ends").success());
    String::from_utf8(shown).expect("it prints text").replace('\r', "")
}

#[test]
fn tables_fit_the_terminal_whatever_is_in_them() {
    let service = Service::one();
    let long = "日本語の名前".repeat(8);
    let turned = "evil\u{202e}gpj";
    let holders = [long.as_str(), "短い", turned].map(|name| service.hold(&format!("lock {name}"), name));
    for columns in [80, 0] {
        let shown = shown_on_terminal(&service, &["ls"], columns);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        let kinds: Vec<usize> = shown
            .lines()
            .map(|line| line.find(" lock ").or(line.find(" KIND ")).map_or(0, |at| line[..at].width()))
            .collect();
        assert!(kinds.iter().all(|at| *at == kinds[0]), "{kinds:?}\n{shown}");
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
        assert!(shown.contains("…"), "{shown}");
    }
    for words in [&["ls"][..], &["show", turned]] {
        let shown = shown_on_terminal(&service, words, 200);
        assert!(shown.contains("evil\\u{202e}gpj") && !shown.contains('\u{202e}'), "{shown}");
    }
    holders.into_iter().for_each(Running::let_go);
}

/// What scripts go by.
#[test]
fn exit_codes_say_what_was_found() {
    let service = Service::one();
    service.shell("lock used", "exit 0").ends(0);
    for (line, code) in [
        ("ls", 0),
        ("ls nothing/begins/so", 0),
        ("show used", 0),
        ("show never-used", 1),
        ("why used", 1),
        ("status", 0),
        ("status --json", 0),
        ("status --endpoints 127.0.0.1:1 --connect-wait 100ms", 1),
        ("ls --nonsense", 2),
        ("show", 2),
        ("observe", 2),
        ("status more", 2),
        ("status --endpoints nowhere", 2),
    ] {
        let ran = service.conclave(line);
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }
    let nobody = Service::absent(1);
    for (line, code) in [("ls", 123), ("show a", 123), ("observe a", 123), ("status", 1)] {
        let ran = nobody.conclave(&format!("{line} --connect-wait 100ms"));
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }
}

#[test]
fn changes_are_shown_as_they_happen() {
    let service = Service::one();
    let watching = Running::into_file(service.client(&["ls", "a", "--watch"]), &service.path("told"));
    let told = |part: &str| {
        let is_told = || std::fs::read_to_string(service.path("told")).is_ok_and(|text| text.contains(part));
        until(&format!("'{part}' is told"), is_told);
    };
    // Whoever watches is told all that changes from then on; so changes go on until it is told of one.
    until("it watches", || {
        service.shell("lock a", "exit 0").ends(0);
        std::fs::read_to_string(service.path("told")).is_ok_and(|text| !text.is_empty())
    });
    let holder = service.hold("lock a --label mine", "in");
    told("held by mine on ");
    let waiter = service.begin("lock a", "exit 0");
    told("1 waiting");
    holder.let_go();
    waiter.end().ends(0);
    told("a: free");
    drop(watching);
}

#[test]
fn why_somebody_waits_is_told_to_the_end_of_the_chain() {
    let service = Service::one();
    assert_eq!(service.conclave("why a").ends(1).out, "nobody waits for 'a'\n");
    assert_eq!(service.conclave("why a --json").ends(1).out, "[]\n");
    let holder = service.hold("lock a", "in");
    let first = service.begin("lock a b", "exit 0");
    service.has_waiters("a", 1);
    let second = service.begin("lock b", "exit 0");
    service.has_waiters("b", 2);
    let chain = service.conclave("why b --json").ends(0).json().remove(0);
    let session = service.show("b")["queue"][1]["session"].as_str().expect("16 digits").to_owned();
    let of_session = service.conclave(&format!("why {session} --json")).ends(0).json().remove(0);
    // The second waits behind the first, who waits for the holder.
    assert_eq!(of_session[0]["owner"]["pid"], second.pid(), "{of_session}");
    assert_eq!(of_session[0]["holds"], false, "{of_session}");
    assert_eq!(of_session[1]["owner"]["pid"], first.pid(), "{of_session}");
    assert_eq!(
        (&of_session[1]["name"], &of_session[1]["holds"]),
        (&"a".into(), &true.into()),
        "{of_session}"
    );
    assert_eq!(chain[0]["owner"]["pid"], first.pid(), "{chain}");
    let told = service.conclave(&format!("why {session}")).ends(0).out;
    assert_eq!(told.lines().count(), 2, "{told}");
    let (behind, held) = (told.lines().next().unwrap_or_default(), told.lines().last().unwrap_or_default());
    assert!(behind.contains("waits for 'b', behind ") && behind.contains(", who has waited for "), "{told}");
    let holder_pid = format!("pid {}) for ", holder.pid());
    assert!(held.contains("waits for 'a', held by ") && held.contains(&holder_pid), "{told}");
    assert!(held.ends_with(&format!("token {}", service.written("in").trim())), "{told}");
    assert_eq!(of_session[1]["behind_owner"]["pid"], holder.pid(), "{of_session}");
    holder.let_go();
    first.end().ends(0);
    second.end().ends(0);
}

#[test]
fn force_takes_only_what_is_meant() {
    let service = Service::one();
    service.conclave("release a --force --reason why").explains(1, "a");
    let holder = service.hold("lock a", "in");
    let token: u64 = service.written("in").trim().parse().expect("a number");
    service.conclave(&format!("release a --force --reason why --token {}", token + 1)).ends(1);
    service.shell("lock a --try", "exit 0").ends(120);
    let taken = service.conclave(&format!("release a --force --reason why --token {token}")).ends(0);
    assert_eq!(taken.out, "'a' was taken from its holder\n");
    holder.end().explains(122, "why");
    let shown = service.conclave("show a").ends(0).out;
    assert!(shown.contains("why"), "the history tells it: {shown}");
    let nobody = Service::absent(1);
    for line in ["release a --force --reason why", "ls", "ls --watch", "show a", "why a", "observe a"] {
        let ran = nobody.conclave(&format!("{line} --connect-wait 100ms")).ends(123);
        let sentence = format!("error: no node answers at {} (connection refused)\n", nobody.endpoints());
        assert!(ran.err.starts_with(&sentence), "{line}: {}", ran.err);
        assert!(
            ran.err.contains("hint: start one with 'conclave serve', or set CONCLAVE_ENDPOINTS"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_state_of_every_node_is_shown() {
    let mut service = Service::three();
    let holder = service.hold("lock a", "in");
    let leader = service.leader().expect("it is served");
    // One endpoint is enough to find the others.
    let line = format!("status --json --endpoints {}", service.address(leader));
    let status = service.conclave(&line).ends(0).json().remove(0);
    assert_eq!(status["served"], true);
    let nodes = status["nodes"].as_array().expect("a list").clone();
    assert_eq!(nodes.len(), 3, "{status}");
    let own = nodes.iter().find(|node| node["node"] == leader).expect("it is there");
    assert_eq!(
        (&own["leader"], &own["held"], &own["sessions"]),
        (&leader.into(), &1.into(), &1.into()),
        "{own}"
    );
    let (leader, followers) = service.roles();
    until("all of them are shown", || {
        let text = service.conclave("status").out;
        let clocks = text.lines().last().is_some_and(|line| line.starts_with("clocks beside node "));
        text.lines().count() == 5
            && clocks
            && text.contains(" leads ")
            && text.contains(&format!("follows {leader}"))
    });
    holder.let_go();
    let follower = followers[0];
    service.kill(follower);
    let text = service.conclave("status --connect-wait 1s").ends(0).out;
    let line = text.lines().find(|line| line.contains(service.address(follower))).expect("it is shown");
    assert!(line.starts_with(&format!("{follower} ")), "its number is known: {text}");
    assert!(line.ends_with("down (connection refused)"), "{text}");
    service.ids().into_iter().filter(|id| *id != follower).for_each(|id| service.kill(id));
    let none = service.conclave("status --json --connect-wait 100ms").ends(1).json().remove(0);
    assert_eq!(none["served"], false);
}

#[test]
fn who_follows_something_ends_with_its_reader() {
    let service = Service::one();
    for words in
        [&["observe", "a"][..], &["observe", "a", "--json"], &["ls", "--watch"], &["ls", "--watch", "--json"]]
    {
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let mut command = service.client(words);
        let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().expect("the binary runs");
        let mut ended = None;
        until("it ends", || {
            // There is news for it until it ends.
            service.shell("elect a", "exit 0").ends(0);
            ended = child.try_wait().expect("it can be asked");
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{words:?}");
    }
}

#[test]
fn the_words_of_others_do_not_redraw_the_terminal() {
    let service = Service::one();
    let mut command = service.client(&["lock", "a", "--label", "\u{1b}[2Jmine\nelse", "--"]);
    command.args(["/bin/sh", "-c", "echo in > in; exec sleep 60"]);
    let holder = Running::start(command);
    service.written("in");
    let waiter = service.begin("lock a", "exit 0");
    service.has_waiters("a", 1);
    for line in ["ls", "show a", "why a"] {
        let out = service.conclave(line).ends(0).out;
        assert!(out.contains("mine"), "{line}: {out:?}");
        assert!(!out.contains('\u{1b}') && !out.contains("\nelse"), "{line}: {out:?}");
    }
    let busy = service.shell("lock a --try", "exit 0").ends(120);
    assert!(!busy.err.contains('\u{1b}') && busy.err.lines().count() == 1, "{:?}", busy.err);
    let mut force = service.client(&["release", "a", "--force", "--reason", "\u{1b}[2Jbecause\nelse"]);
    crate::runs::ran(&mut force).ends(0);
    let lost = holder.end().ends(122);
    assert!(lost.err.contains("because") && !lost.err.contains('\u{1b}'), "{:?}", lost.err);
    waiter.end().ends(0);
    let shown = service.conclave("show a").ends(0).out;
    assert!(shown.contains("because") && !shown.contains('\u{1b}'), "{shown:?}");
}
