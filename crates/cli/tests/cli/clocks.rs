//! `conclave clock`, plots of clocks, and the order of plain events.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{Desk, line};

/// A server that is ended with the test, and where it listens.
struct Server(Child, String);

impl Server {
    fn start(offset: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["clock", "serve", "--listen", "127.0.0.1:0", "--offset", offset])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut said)
            .expect("it says where");
        let address = said.split([' ', ';']).nth(2).expect("an address").to_owned();
        Self(child, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_is_ahead_is_measured_so() {
    for (offset, ahead) in [("+500ms", 500.0), ("-2s", -2_000.0)] {
        let server = Server::start(offset);
        let report =
            line(&format!("clock query {} --samples 3 --timeout 20s --json", server.1)).ends(0).json();
        let number = |field: &str| report[field].as_f64().expect("a number");
        assert!((number("offset") - ahead).abs() <= number("bound") + 0.001, "{report}");
        assert_eq!((&report["stratum"], &report["answered"]), (&10.into(), &3.into()));
        let page = line(&format!("clock query {} --samples 1 --timeout 20s", server.1)).ends(0).out;
        assert!(page.contains("root distance") && page.contains("answers        1 of 1"), "{page}");
    }
}

#[test]
fn who_is_no_server_is_named() {
    assert!(line("clock query nowhere.invalid").ends(2).err.contains("'nowhere.invalid' is no server"));
    assert!(line("clock serve --offset fast").ends(2).err.contains("'fast' is no offset"));
}

#[test]
fn the_errors_of_clocks_are_plotted() {
    let desk = Desk::new();
    let path = desk.path("errors.svg");
    let run = "sim berkeley -n 3 --clock 1=+25ms --set rounds=3";
    line(&format!("{run} --plot {}", path.display())).ends(0);
    let drawn = std::fs::read_to_string(&path).expect("it was written");
    assert!(drawn.contains("how far each clock is from the true time") && drawn.contains(">p3<"), "{drawn}");
    let none = line(&format!("sim bully -n 3 --plot {}", desk.path("none.svg").display())).ends(2);
    assert!(none.err.contains("nobody reads a clock"), "{}", none.err);
}

/// TV-C5: of its six events just these pairs are concurrent: (a, e), (b, e), (c, e) and (d, e).
#[test]
fn book_tv_c5_e_is_concurrent_with_all_but_f() {
    let desk = Desk::new();
    let (script, trace) = (desk.path("tv-c5.txt"), desk.path("tv-c5.jsonl").display().to_string());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/scripts/tv-c5-events.txt");
    std::fs::copy(golden, &script).expect("the golden script is there");
    line(&format!("replay {} --trace {trace}", script.display())).ends(0);
    let text = std::fs::read_to_string(&trace).expect("it was written");
    let records: Vec<Value> =
        text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |kind: &str, process: u64, words: &str| {
        let is_it = |record: &&Value| {
            let told = record["event"].as_str().is_none_or(|event| event.starts_with(words));
            record["kind"] == kind && record["process"] == process && told
        };
        records.iter().find(is_it).expect("it happened")["id"].as_u64().expect("a number")
    };
    let events = [
        ('a', find("event", 1, "local")),
        ('b', find("send", 1, "")),
        ('c', find("deliver", 2, "")),
        ('d', find("send", 2, "")),
        ('e', find("event", 3, "local")),
        ('f', find("deliver", 3, "")),
    ];
    let mut concurrent = Vec::new();
    for (at, (first, one)) in events.iter().enumerate() {
        for (second, two) in &events[at + 1..] {
            let relation = line(&format!("order {trace} {one} {two} --json")).json();
            match relation["relation"].as_str() {
                Some("concurrent") => concurrent.push(format!("{first}{second}")),
                Some("before") => {}
                other => panic!("{first} and {second}: {other:?}"),
            }
        }
    }
    assert_eq!(concurrent, ["ae", "be", "ce", "de"]);
    let order = line(&format!("order {trace} --total --json")).ends(0).json();
    let order: Vec<u64> =
        order["order"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    let place = |id: u64| order.iter().position(|other| *other == id).expect("it is in the order");
    let path = ['a', 'b', 'c', 'd', 'f']
        .map(|name| events.iter().find(|(other, _)| *other == name).expect("it is there").1);
    assert!(path.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{order:?}");
}
