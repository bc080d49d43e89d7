//! What the lab refuses, and to whom.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::client::Lab;

#[test]
fn every_error_has_its_status_and_its_code() {
    let lab = Lab::start();
    let run = lab.make(&json!({ "algorithm": "central" }));
    let id = run["id"].as_str().unwrap();
    let json_type = "Content-Type: application/json\r\n";
    let posted = |headers: &str, body: &str| lab.asked("POST", "/api/v1/runs", headers, body).code();
    assert_eq!(posted("", "{}"), "415 media");
    assert_eq!(posted("Content-Type: text/plain\r\n", "{}"), "415 media");
    assert_eq!(posted(json_type, "{"), "400 malformed");
    assert_eq!(posted(json_type, "{}"), "400 malformed");
    assert_eq!(posted(json_type, "{\"algorithm\": 7}"), "400 malformed");
    assert_eq!(posted(json_type, &" ".repeat((1 << 20) + 1)), "413 too_long");
    for (body, code) in [
        (json!({ "algorithm": "centrl" }), "404 unknown"),
        (json!({ "example": "none" }), "404 unknown"),
        (json!({ "algorithm": "central", "options": { "n": "many" } }), "422 refused"),
        (json!({ "algorithm": "central", "options": { "svg": "/tmp/file" } }), "422 refused"),
        (json!({ "algorithm": "central", "options": { "start": "1" } }), "422 refused"),
        (json!({ "algorithm": "central", "options": { "n": [] , "paranoid": "yes" } }), "400 malformed"),
        (json!({ "script": "request 1\n---\n" }), "422 refused"),
        (json!({ "script": "run central -n 2\nrelease 7\n---\n" }), "422 refused"),
        (json!({ "algorithm": "central", "forks": [{ "at": 9999 }] }), "422 refused"),
        (json!({ "algorithm": "central", "forks": [{ "at": 0, "do": ["dance 1"] }] }), "422 refused"),
        (json!({ "algorithm": "central", "options": { "n": 1_000_000_000 } }), "422 too_large"),
        (
            json!({ "algorithm": "central", "options": { "n": 1_000 , "entries": 1_000_000 } }),
            "422 too_large",
        ),
        (json!({ "script": "run central -n 100000\n---\n" }), "422 too_large"),
        (json!({ "algorithm": "central", "forks": vec![json!({ "at": 0 }); 5_000] }), "422 too_large"),
    ] {
        assert_eq!(lab.post("runs", &body).code(), code, "{body}");
    }
    for (path, code) in [
        ("runs/0123456789abcdef", "404 gone"),
        ("jobs/j99", "404 gone"),
        ("nothing", "404 unknown"),
        ("lessons/none", "404 unknown"),
        ("runs/%ff", "400 malformed"),
        (&format!("runs/{id}/at/soon"), "400 malformed"),
        (&format!("runs/{id}/at/99999"), "422 refused"),
        (&format!("runs/{id}/order/99999"), "422 refused"),
        (&format!("runs/{id}/events?limit=all"), "400 malformed"),
        (&format!("runs/{id}/export/pdf"), "404 unknown"),
        (&format!("runs/{id}/export/svg?axis=sideways"), "422 refused"),
        (&format!("runs/{id}/export/svg?trace=file"), "422 refused"),
    ] {
        assert_eq!(lab.get(path).code(), code, "{path}");
    }
    for path in ["checks", "clusters"] {
        assert_eq!(lab.post(path, &json!({ "algorithm": "centrl" })).code(), "404 unknown", "{path}");
    }
    assert_eq!(lab.asked("PUT", "/api/v1/runs", json_type, "{}").code(), "405 method");
    assert_eq!(lab.asked("POST", "/", json_type, "{}").code(), "405 method");
    let huge = lab.post("runs", &json!({ "algorithm": "central", "options": { "n": 1_000_000_000 } })).json();
    assert_eq!(huge["error"]["cost"]["processes"], 1_000_000_000, "{huge}");
}

#[test]
fn files_that_would_take_gigabytes_are_refused() {
    let lab = Lab::start();
    let run = lab.make(&json!({ "algorithm": "central", "options": { "n": 1_000, "entries": 4 } }));
    let export = |file: &str| lab.get(&format!("runs/{}/export/{file}", run["id"].as_str().unwrap()));
    assert_eq!(export("svg").code(), "422 too_large");
    assert_eq!(export("shiviz").code(), "422 too_large");
    assert_eq!(export("svg?window=0..2").status, 200);
    assert_eq!(export("mermaid").status, 200);
}

#[test]
fn nobody_else_may_ask() {
    let lab = Lab::start();
    let host = &lab.host;
    let asked = |headers: &str| {
        let body = "{\"algorithm\":\"central\"}";
        let head = format!(
            "POST /api/v1/runs HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        lab.raw(format!("{head}{body}").as_bytes())
    };
    let port = host.rsplit_once(':').unwrap().1;
    for foreign in [
        format!("Host: evil.example:{port}\r\n"),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: {host}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {host}\r\nOrigin: null\r\n"),
        format!("Host: {host}\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("Host: {host}\r\nSec-Fetch-Site: same-site\r\n"),
    ] {
        assert_eq!(asked(&foreign).code(), "403 foreign", "{foreign}");
    }
    let own = asked(&format!("Host: {host}\r\nOrigin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n"));
    assert_eq!(own.status, 200, "{}", own.text());
    assert!(own.head.contains("content-security-policy: default-src 'none'"), "{}", own.head);
    assert!(
        !own.head.contains("unsafe") && own.head.contains("x-content-type-options: nosniff"),
        "{}",
        own.head
    );
}

#[test]
fn off_loopback_the_address_has_a_secret() {
    let lab = Lab::listening_on("0.0.0.0:0");
    assert!(lab.base.len() > 30, "{}", lab.base);
    for path in ["/", "/api/v1", "/0123456789abcdef0123456789abcdef/api/v1", "/style.css"] {
        assert_eq!(lab.asked("GET", path, "", "").code(), "403 foreign", "{path}");
    }
    assert_eq!(lab.get("").json()["api"], 1);
    let page = lab.asked("GET", &lab.base, "", "");
    assert!(page.status == 200 && page.head.contains("text/html"), "{}", page.head);
    assert_eq!(lab.asked("GET", &format!("{}style.css", lab.base), "", "").status, 200);
    let short = lab.asked("GET", lab.base.trim_end_matches('/'), "", "");
    assert!(short.status == 308 && short.head.contains(&format!("location: {}", lab.base)), "{}", short.head);
}

#[test]
fn ten_heavy_runs_do_not_starve_a_light_one() {
    let lab = Lab::start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let heavy: Vec<_> = (0..10)
            .map(|seed| {
                let recipe = json!({ "algorithm": "lamport",
                    "options": { "n": 12, "entries": 14, "seed": seed } });
                let lab = &lab;
                scope.spawn(move || lab.post("runs", &recipe).status)
            })
            .collect();
        // Light ones are answered while the heavy ones stand in line.
        let light = scope.spawn(|| {
            let mut answered = 0;
            while !over.load(Ordering::Relaxed) {
                let run = lab.make(&json!({ "algorithm": "central", "options": { "seed": answered } }));
                assert_eq!(lab.get(&format!("runs/{}/at/1", run["id"].as_str().unwrap())).status, 200);
                answered += 1;
            }
            answered
        });
        let statuses: Vec<u16> = heavy.into_iter().map(|run| run.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let answered = light.join().unwrap();
        assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
        assert!(answered >= 3, "only {answered} light runs were answered beside ten heavy ones");
    });
}

#[test]
fn work_that_nobody_waits_for_is_given_up() {
    let lab = Lab::start();
    let requests: String = (1..=100).map(|process| format!("request {process}\n")).collect();
    // It would take hours.
    let endless = json!({ "script": format!("run lamport -n 1000\n{requests}settle\n---\n") });
    let asked: Vec<_> = (0..4).map(|_| lab.begun("runs", &endless)).collect();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(lab.get("examples").status, 200, "what takes little time does not stand in line behind it");
    drop(asked);
    let heavy = json!({ "algorithm": "lamport", "options": { "n": 8, "entries": 40 } });
    assert_eq!(lab.post("runs", &heavy).status, 200, "the place of what takes long is free again");
}
