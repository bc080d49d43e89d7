//! Requests that are refused for their size or shape, each with a sentence, and without a trace in the state.

use std::sync::Arc;

use crate::common::Desk;
use conclave_service::{
    Acquire, Act, Command, Life, Mode, Outcome, Patience, Purpose, Reply, RequestId, SessionId, Token, Told,
    Want, limits,
};

struct Bench {
    desk: Desk,
    request: u64,
}

impl Bench {
    fn new() -> Self {
        let mut desk = Desk::default();
        desk.batch("s1 open & s2 open");
        Self { desk, request: 1 }
    }

    fn ask(&mut self, act: Act) -> String {
        self.ask_as(SessionId(1), act)
    }

    /// The same without words, where much is asked.
    fn is_granted(&mut self, session: SessionId, act: Act) -> bool {
        let out = self.apply(session, act);
        out.messages
            .iter()
            .any(|message| matches!(message.told, Told::Reply { reply: Reply::Granted { .. }, .. }))
    }

    fn apply(&mut self, session: SessionId, act: Act) -> Outcome {
        self.request += 1;
        let request = RequestId(self.request);
        let command = Command { session, life: Life(1), request, acked: request, settled: vec![], act };
        self.desk.apply_unchecked(vec![command])
    }

    fn ask_as(&mut self, session: SessionId, act: Act) -> String {
        let out = self.apply(session, act);
        crate::common::describe(&out).split_once(' ').expect("a reply").1.to_owned()
    }

    /// Acknowledges the reply to a request that waited.
    fn settle(&mut self, settled: RequestId) {
        self.request += 1;
        let request = RequestId(self.request);
        let (session, settled) = (SessionId(1), vec![settled]);
        let command = Command { session, life: Life(1), request, acked: request, settled, act: Act::Renew };
        self.desk.apply_unchecked(vec![command]);
    }

    fn lock(&mut self, names: &[&str], strand: u32) -> String {
        self.ask(Act::Acquire(lock(names, strand)))
    }
}

fn lock(names: &[&str], strand: u32) -> Acquire {
    Acquire {
        wants: names.iter().map(|name| Want { name: (*name).into(), mode: Mode::Exclusive }).collect(),
        patience: Patience::Forever,
        priority: 0,
        reentrant: false,
        strand,
        purpose: Purpose::Lock,
        lock_delay_ms: 0,
    }
}

#[test]
fn names_have_a_size_and_no_control_characters() {
    let mut bench = Bench::new();
    assert_eq!(bench.lock(&[""], 0), "failed: a name has 1 to 512 bytes, not 0");
    assert_eq!(bench.lock(&[&"x".repeat(513)], 0), "failed: a name has 1 to 512 bytes, not 513");
    assert_eq!(bench.lock(&[&"x".repeat(1 << 20)], 0), "failed: a name has 1 to 512 bytes, not 1048576");
    assert_eq!(bench.lock(&["a\nb"], 0), "failed: a name has no control characters");
    assert_eq!(bench.lock(&["a\u{85}b"], 0), "failed: a name has no control characters");
    let (name, patience) = ("x".repeat(513).as_str().into(), Patience::Forever);
    let convert = Act::Convert { token: Token(1), name, mode: Mode::Shared, patience };
    assert_eq!(bench.ask(convert), "failed: a name has 1 to 512 bytes, not 513");
    let force = Act::Force { name: "".into(), token: None, reason: "".into() };
    assert_eq!(bench.ask(force), "failed: a name has 1 to 512 bytes, not 0");
    assert_eq!(bench.desk.state.totals().names, 0);
    assert_eq!(bench.lock(&[&"x".repeat(512), "ä", " "], 0), "granted 1");
}

#[test]
fn an_acquisition_has_one_to_sixty_four_names() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..65).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(bench.lock(&[], 0), "failed: it takes 1 to 64 names at once, not 0");
    assert_eq!(bench.lock(&names, 0), "failed: it takes 1 to 64 names at once, not 65");
    assert_eq!(bench.lock(&names[1..], 0), "granted 1");
    assert_eq!(bench.lock(&["a", "b", "a"], 0), "failed: 'a' is asked for twice");
}

#[test]
fn values_reasons_and_delays_have_a_size() {
    let mut bench = Bench::new();
    let value = |bytes: usize| -> Arc<[u8]> { vec![7; bytes].into() };
    let campaign = |bytes| Acquire { purpose: Purpose::Election { value: value(bytes) }, ..lock(&["e"], 0) };
    let refused = "failed: a value has 16384 bytes at most, not 16385";
    assert_eq!(bench.ask(Act::Acquire(campaign(16_385))), refused);
    assert!(bench.ask(Act::Acquire(campaign(16_384))).starts_with("granted 1"));
    assert_eq!(bench.ask(Act::Proclaim { token: Token(1), value: value(16_385) }), refused);
    let reason = "r".repeat(1025).into();
    let force = Act::Force { name: "e".into(), token: None, reason };
    assert_eq!(bench.ask(force), "failed: a reason has 1024 bytes at most, not 1025");
    let delayed = Acquire { lock_delay_ms: 3_600_001, ..lock(&["x"], 0) };
    assert_eq!(
        bench.ask(Act::Acquire(delayed)),
        "failed: a lock delay is 3600000 ms at most, not 3600001 ms"
    );
}

#[test]
fn permits_make_sense() {
    let mut bench = Bench::new();
    let mut permits = |count, limit| {
        let wants = vec![Want { name: "p".into(), mode: Mode::Permits { count, limit } }];
        bench.ask(Act::Acquire(Acquire { wants, ..lock(&[], 0) }))
    };
    assert_eq!(permits(0, 3), "failed: it takes one permit at least");
    assert_eq!(permits(0, 0), "failed: it takes one permit at least");
    assert_eq!(permits(4, 3), "failed: 4 permits of 3 can never be granted");
    assert_eq!(permits(u32::MAX, u32::MAX), "granted 1");
    assert_eq!(
        permits(u32::MAX, u32::MAX),
        "failed: waiting would close a cycle: s1 waits for 'p', held by s1"
    );
}

#[test]
fn a_session_holds_so_many_grants() {
    let mut bench = Bench::new();
    for number in 1..=limits::MAX_GRANTS_PER_SESSION {
        assert_eq!(bench.lock(&[&format!("n{number}")], 0), format!("granted {number}"));
    }
    let refused = "failed: limit reached: a session holds 10000 grants at most";
    assert_eq!(bench.lock(&["one more"], 0), refused);
    bench.ask(Act::Release(Token(1)));
    assert_eq!(bench.lock(&["one more"], 0), "granted 10001");
}

#[test]
fn a_session_waits_for_so_many_things() {
    let mut bench = Bench::new();
    bench.desk.batch("s2 lock x");
    for strand in 1..=u32::try_from(limits::MAX_WAITS_PER_SESSION).expect("a small number") {
        assert!(bench.lock(&["x"], strand).contains("queued"));
    }
    let refused = "failed: limit reached: 10000 requests of a session wait at most";
    assert_eq!(bench.lock(&["x"], 0), refused);
    bench.ask(Act::Cancel(RequestId(2)));
    // The reply to what was cancelled is remembered until the client has it.
    assert_eq!(bench.lock(&["x"], 0), refused);
    bench.settle(RequestId(2));
    assert_eq!(bench.lock(&["x"], 0), "queued 9999");
    bench.desk.state.assert_invariants();
}

#[test]
fn one_session_accounts_for_so_many_bytes_and_all_together_for_so_many() {
    let mut bench = Bench::new();
    // Shared by all who show it, so that the test is not as large as what it fills.
    let value: Arc<[u8]> = vec![7; limits::MAX_VALUE_BYTES].into();
    let campaign = |name: String| {
        let wants = vec![Want { name: name.as_str().into(), mode: Mode::Exclusive }];
        let purpose = Purpose::Election { value: Arc::clone(&value) };
        Act::Acquire(Acquire { wants, purpose, ..lock(&[], 0) })
    };
    let refused_one =
        "failed: limit reached: names and values of a session have 16777216 bytes together at most";
    let refused_all =
        "failed: limit reached: names, values and owners have 1073741824 bytes together at most";
    let of_one = limits::MAX_BYTES_PER_SESSION / limits::MAX_VALUE_BYTES - 1;
    for number in 0..of_one {
        assert!(bench.is_granted(SessionId(1), campaign(format!("1-{number}"))), "{number}");
    }
    assert_eq!(bench.ask(campaign("one more".to_owned())), refused_one);
    // What is released makes room, and a shorter value too.
    let shorter = Act::Proclaim { token: Token(1), value: value[1..].into() };
    assert!(bench.ask(shorter).starts_with("done"));
    let longer = Act::Proclaim { token: Token(1), value: Arc::clone(&value) };
    assert!(bench.ask(longer).starts_with("done"));
    assert!(bench.ask(Act::Release(Token(1))).starts_with("done"));
    assert!(bench.ask(campaign("one more".to_owned())).starts_with("granted"));

    'filling: for session in 2..=limits::MAX_BYTES / limits::MAX_BYTES_PER_SESSION + 1 {
        let open = vec![bench.desk.command(&format!("s{session} open"))];
        bench.desk.apply_unchecked(open);
        for number in 0..of_one {
            if !bench.is_granted(SessionId(session as u64), campaign(format!("{session}-{number}"))) {
                break 'filling;
            }
        }
    }
    let last = limits::MAX_BYTES / limits::MAX_BYTES_PER_SESSION + 1;
    let beyond = campaign("beyond".to_owned());
    assert_eq!(bench.ask_as(SessionId(last as u64), beyond), refused_all);
    let held = bench.desk.state.totals().held as usize * limits::MAX_VALUE_BYTES;
    assert!(held < limits::MAX_BYTES && held > limits::MAX_BYTES / 100 * 98, "{held} bytes are held");
    assert!(bench.ask(Act::Release(Token(2))).starts_with("done"), "a release is never refused");
    assert!(bench.is_granted(SessionId(1), campaign("in its place".to_owned())));
}

#[test]
fn what_is_remembered_for_a_client_has_so_many_bytes() {
    // Each refusal names a long cycle, and the client acknowledges none of them.
    let mut desk = Desk::default();
    let long = |id: u64| format!("{id:0>500}");
    for id in 1..=64 {
        desk.batch(&format!("s{id} open & s{id} lock {}", long(id)));
    }
    for id in 1..64 {
        desk.batch(&format!("s{id} lock {}", long(id + 1)));
    }
    let mut refusals = 0;
    let last = loop {
        let told = desk.batch(&format!("s64 lock {}", long(1)));
        if !told.contains("would close a cycle") {
            break told;
        }
        refusals += 1;
    };
    assert!(last.contains("too many replies to this session are unacknowledged"), "{last}");
    let bytes = refusals * 64 * 500;
    assert!(
        (limits::MAX_REMEMBERED_BYTES..limits::MAX_REMEMBERED_BYTES * 11 / 10).contains(&bytes),
        "{bytes}"
    );
    assert!(desk.batch("s64 release 64").contains("done"), "a release is never refused");
}

#[test]
fn so_many_wait_for_one_name() {
    let mut desk = Desk::default();
    desk.batch("s1 open & s1 lock x");
    let per_session = limits::MAX_WAITS_PER_SESSION;
    for session in 0..limits::MAX_WAITERS_PER_NAME / per_session {
        let session = 10 + session;
        let mut commands = vec![desk.command(&format!("s{session} open"))];
        commands.extend((0..per_session).map(|_| desk.command(&format!("s{session} lock x"))));
        desk.apply_unchecked(commands);
    }
    assert_eq!(desk.state.totals().waiting, limits::MAX_WAITERS_PER_NAME as u64);
    let more = vec![desk.command("s2 open"), desk.command("s2 lock x")];
    let told = crate::common::describe(&desk.apply_unchecked(more));
    assert!(told.ends_with("limit reached: 100000 wait for x already"), "{told}");
}

#[test]
fn so_many_names_are_in_use() {
    let mut bench = Bench::new();
    let per_request = limits::MAX_NAMES_AT_ONCE;
    let names: Vec<String> = (0..limits::MAX_NAMES_IN_USE).map(|number| format!("n{number}")).collect();
    for (number, some) in names.chunks(per_request).enumerate() {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        let session = SessionId(1 + number as u64 % 2);
        bench.ask_as(session, Act::Acquire(lock(&some, 0)));
    }
    assert_eq!(bench.desk.state.totals().names, limits::MAX_NAMES_IN_USE as u64);
    let refused = "failed: limit reached: 1000000 names are in use already";
    assert_eq!(bench.lock(&["one more"], 1), refused);
    assert!(bench.lock(&["n1"], 1).contains("queued"), "one that is in use can still be asked for");
}
