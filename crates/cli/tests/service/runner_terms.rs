//! Commands that run while leading.

use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::Service;
use crate::runs::Running;
use crate::until;

impl Service {
    /// The numbers in a file.
    fn numbers(&self, name: &str) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a number")).collect()
    }

    /// What a run has printed so far, line by line.
    fn printed(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_leader_campaigns_again_when_told_to() {
    let service = Service::one();
    let leader = service.begin("elect a --again", "echo $CONCLAVE_TERM >> terms; exec sleep 60");
    until("it leads", || service.numbers("terms").len() == 1);
    service.conclave("release a --force --reason rotation").ends(0);
    until("it leads again", || service.numbers("terms").len() == 2);
    let terms = service.numbers("terms");
    assert!(terms[1] > terms[0], "{terms:?}");
    // Its own end, and a signal, are no loss.
    leader.signal(Signal::TERM);
    let ran = leader.end().ends(128 + 15);
    assert!(ran.err.contains("rotation") && ran.err.contains("campaigning again"), "{}", ran.err);
    service.shell("elect b --again", "exit 4").ends(4);
}

#[test]
fn a_leader_whose_probe_fails_does_not_go_on() {
    let service = Service::one();
    std::fs::write(service.path("healthy"), "").expect("there is room");
    let mut command = service.client(&["elect", "a", "--ttl", "3s", "--probe-every", "200ms"]);
    command.args(["--probe", "test -e healthy", "--", "/bin/sh", "-c", "echo in > in; exec sleep 60"]);
    let leader = Running::start(command);
    service.written("in");
    let next = service.begin("elect a", "exit 3");
    service.has_waiters("a", 1);
    std::fs::remove_file(service.path("healthy")).expect("it was there");
    let ran = leader.end().ends(122);
    assert!(ran.err.contains("the probe fails") && ran.err.contains("'a' is lost"), "{}", ran.err);
    next.end().ends(3);
}

#[test]
fn whoever_is_not_well_does_not_campaign() {
    let service = Service::one();
    let mut command = service.client(&["elect", "a", "--again", "--probe-every", "50ms", "--probe"]);
    // A term of somebody around it is none of its own.
    command.env("CONCLAVE_TERM", "7");
    let probe = r#"test -z "$CONCLAVE_TERM" || echo "$CONCLAVE_TERM" > probed; test -e healthy"#;
    command.args([probe, "--", "/bin/sh", "-c", "echo $CONCLAVE_TERM > in; exec sleep 60"]);
    let leader = Running::with_errors_in(command, &service.path("errors"));
    assert_eq!(service.written("errors"), "note: the probe fails: not campaigning until it succeeds\n");
    assert!(service.show("a").is_null(), "it campaigns");
    std::fs::write(service.path("healthy"), "").expect("there is room");
    let term = service.written("in");
    let said = service.printed("errors");
    assert_eq!(said[1..], ["note: the probe succeeds: campaigning"], "it is told once each");
    // From now on it is about the command.
    assert_eq!(service.written("probed"), term);
    leader.let_go();
}

#[test]
fn a_candidate_says_once_that_nobody_answers_and_once_that_somebody_does() {
    let mut service = Service::absent(1);
    let candidate = |name: &str, options: &[&str]| {
        let mut command = service.client(&["elect", name, "--again", "--connect-wait", "100ms"]);
        command.args(options).args(["--", "/bin/sh", "-c", &format!("echo in > {name}-in; exec sleep 60")]);
        Running::with_errors_in(command, &service.path(name))
    };
    let candidates = [candidate("plain", &[]), candidate("verbose", &["-v"])];
    let count = |name: &str, beginning: &str| {
        service.printed(name).iter().filter(|line| line.starts_with(beginning)).count()
    };
    until("it has tried again and again", || count("verbose", "note: still: no node answers at ") >= 2);
    until("the other one has told it, too", || count("plain", "note: campaigning again as soon as ") == 1);
    service.run(1);
    for name in ["plain", "verbose"] {
        service.written(&format!("{name}-in"));
        let said = service.printed(name);
        let begins = |beginning: &str| said.iter().any(|line| line.starts_with(beginning));
        assert!(begins("note: campaigning again as soon as the service answers"), "{said:?}");
        assert!(begins("note: the service answers again"), "{said:?}");
        // A node that starts is another reason than one that is not there.
        let errors: Vec<&String> = said.iter().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors[0].starts_with("error: no node answers at "), "{said:?}");
        assert!(errors.windows(2).all(|pair| pair[0] != pair[1]), "the same twice: {said:?}");
        assert_eq!(begins("note: still: "), name == "verbose", "{said:?}");
    }
    candidates.into_iter().for_each(Running::let_go);
}

#[test]
fn observers_see_leaders_and_vacancies() {
    let service = Service::one();
    let told = Running::into_file(service.client(&["observe", "a"]), &service.path("told"));
    let json = Running::into_file(service.client(&["observe", "a", "--json"]), &service.path("json"));
    let sees = |count: usize| {
        let both = || [service.printed("told").len(), service.printed("json").len()] == [count; 2];
        until(&format!("{count} lines are printed"), both);
    };
    sees(1);
    service.hold("elect a --value first", "one").let_go();
    sees(3);
    service.hold("elect a --value second", "two").let_go();
    sees(5);
    drop((told, json));

    let told = service.printed("told");
    for (index, value) in [(1, "first"), (3, "second")] {
        assert!(told[index].contains(" leads in term ") && told[index].ends_with(value), "{told:?}");
        assert_eq!(told[index - 1], "nobody leads");
    }
    assert_eq!(told[4], "nobody leads");
    let json: Vec<Value> = service.printed("json").iter().map(|line| line.parse().expect("JSON")).collect();
    assert!([0, 2, 4].iter().all(|index| json[*index]["leader"].is_null()), "{json:?}");
    assert_eq!(json[1]["leader"]["value"], "first");
    assert_eq!(json[3]["leader"]["value"], "second");
    let term = |index: usize| json[index]["leader"]["term"].as_u64().expect("a term");
    assert!(term(3) > term(1), "{json:?}");
    assert_eq!(service.numbers("two"), [term(3)]);
    assert!(
        json.windows(2).all(|pair| pair[0]["revision"].as_u64() < pair[1]["revision"].as_u64()),
        "{json:?}"
    );
}
