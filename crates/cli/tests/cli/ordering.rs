//! `conclave order`.

use super::{Desk, line};

/// A trace of three processes, and its path.
fn recorded(desk: &Desk) -> String {
    let path = desk.path("run.jsonl").display().to_string();
    line(&format!("sim lamport -n 3 --entries 1 --trace {path}")).ends(0);
    path
}

#[test]
fn stamps_begin_where_the_book_begins() {
    let desk = Desk::new();
    let path = recorded(&desk);
    let page = line(&format!("order {path}")).ends(0).out;
    assert!(page.contains("4     0 ms       1        [1,0,0]     p1 sends Request{1} to p2"), "{page}");
    let all = line(&format!("order {path} --count all")).ends(0).out;
    assert!(all.contains("4     0 ms       3        [3,0,0]     p1 sends Request{1} to p2"), "{all}");
    let events = line(&format!("order {path} --json")).ends(0).json();
    assert_eq!(events[4]["vector"], serde_json::json!([1, 0, 0]));
}

#[test]
fn before_after_and_concurrent() {
    let desk = Desk::new();
    let path = recorded(&desk);
    let ask = |question: &str| line(&format!("order {path} {question}"));
    let page = ask("3 16").ends(0).out;
    assert!(page.contains("3 happened before 16"), "{page}");
    assert!(ask("16 3").ends(1).out.contains("3 happened before 16"));
    assert!(ask("3 6").ends(1).out.contains("3 and 6 are concurrent"));
    assert_eq!(ask("4 12 --json").json()["relation"], "concurrent");
    // From a send over a receipt to another process: the way is told.
    let before = ask("10 15").ends(0).out;
    assert!(before.contains("because of") && before.contains("p1 receives Request{1} from p3"), "{before}");
    let concurrent = ask("--concurrent 4 --json").ends(0).json();
    let found = concurrent["concurrent"].as_array().expect("a list");
    assert!(found.contains(&7.into()) && !found.contains(&5.into()), "{concurrent}");
}

#[test]
fn one_order_of_all_and_cuts() {
    let desk = Desk::new();
    let path = recorded(&desk);
    let order = line(&format!("order {path} --total --json")).ends(0).json();
    let order: Vec<u64> =
        order["order"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_u64).collect();
    let place = |id| order.iter().position(|other| *other == id).expect("it is in the order");
    for (first, second) in [(10, 14), (11, 12), (12, 13), (14, 15), (3, 4)] {
        line(&format!("order {path} {first} {second}")).ends(0);
        assert!(place(first) < place(second), "{first} before {second}");
    }
    assert!(line(&format!("order {path} --cut 3=11")).ends(0).out.contains("in flight there"));
    let wrong = line(&format!("order {path} --cut 2=12")).ends(1).out;
    assert!(wrong.contains("not consistent") && wrong.contains("p3 sends Request{1} to p2"), "{wrong}");
    let waits = line(&format!("order {path} --waits 1")).ends(0).out;
    assert!(waits.contains("p2    waiting since 0 ms; in flight to it from p1, p3"), "{waits}");
}

#[test]
fn a_script_has_an_order_too() {
    let desk = Desk::new();
    let script = line("example majority-deadlock --print").ends(0).out;
    let path = desk.put("deadlock.txt", &script);
    let waits = line(&format!("order {path} --waits 1s --json")).ends(0).json();
    let waiting = waits["waiting"].as_array().expect("a list");
    let processes: Vec<_> = waiting.iter().map(|waiter| waiter["process"].as_u64()).collect();
    assert_eq!(processes, [Some(0), Some(1)], "{waits}");
    // Everybody has answered, if only that they have to wait.
    assert!(waiting.iter().all(|waiter| waiter["silent"] == serde_json::json!([])), "{waits}");
}

/// Who takes part in an election on a ring waits for the next one, all round; while a message is in flight that is no deadlock.
#[test]
fn a_circle_is_told_only_where_nothing_can_free_it() {
    let desk = Desk::new();
    let path = desk.path("run.jsonl").display().to_string();
    line(&format!("sim chang-roberts -n 4 --start all --trace {path}")).ends(0);
    for time in [1, 5, 10, 15, 20, 25, 30] {
        let page = line(&format!("order {path} --waits {time}")).ends(0).out;
        assert!(page.contains("electing") && !page.contains("wait for each other"), "at {time}:\n{page}");
    }
    let script = "run chang-roberts -n 3\nstart 1\ndeliver p1 => p2\ndeliver p2 => p3\ndrop p3 => p1\n---\n";
    let lost = desk.put("lost.txt", script);
    let page = line(&format!("order {lost} --waits 1s")).ends(0).out;
    assert!(page.contains("p1, p2, p3 wait for each other, and nothing in flight can free them"), "{page}");
}

#[test]
fn what_is_no_event_is_refused() {
    let desk = Desk::new();
    let path = recorded(&desk);
    line(&format!("order {path} 1 100000")).refused("there is no event 100000");
    line(&format!("order {path} --cut 2=4")).refused("event 4 is one of p1, not of p2");
    line(&format!("order {path} --cut 2")).refused("write PROCESS=EVENT");
    line("order /nowhere").refused("cannot read");
    line(&format!("order {path} 4")).refused("event 4 is compared with none; name two events");
    line(&format!("order {path} 1 2 3")).refused("'3' is one argument too many");
    let text = desk.put("no.txt", "nonsense\n");
    line(&format!("order {text}")).refused("line 1");
}
