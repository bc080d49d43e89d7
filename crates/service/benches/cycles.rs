//! How long the state machine itself takes: uncontended cycles, hand-offs, and a release with ten thousand waiting.
//!
//! `cargo bench -p conclave-service`

use std::time::Instant;

use conclave_service::{
    Acquire, Act, Batch, Command, Life, Mode, Outcome, Owner, Patience, Purpose, Reply, RequestId, SessionId,
    State, Token, Told, Want,
};

fn main() {
    report("acquire and release, 64 clients, 64 names", || uncontended(64, 1));
    report("acquire and release, 64 clients, 64,000 names", || uncontended(64, 1000));
    report("hand-off, 8 clients", || hand_off(8));
    report("hand-off, 10,000 clients", || hand_off(10_000));
}

/// The best of several rounds tells the cost, the median how busy the machine was.
fn report(what: &str, round: impl Fn() -> f64) {
    let mut rounds: Vec<f64> = (0..9).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{what}: {:.2} µs each (median of 9 rounds {:.2})", rounds[0], rounds[4]);
}

const ROUNDS: usize = 1000;

struct Client {
    session: SessionId,
    request: u64,
}

impl Client {
    fn new(session: u64) -> Self {
        Self { session: SessionId(session), request: 0 }
    }

    fn send(&mut self, act: Act) -> Command {
        self.request += 1;
        Command {
            session: self.session,
            life: Life(1),
            request: RequestId(self.request),
            acked: RequestId(self.request),
            settled: vec![],
            act,
        }
    }

    fn open(&mut self) -> Command {
        let owner = Owner { host: "bench".into(), ..Owner::default() };
        self.send(Act::Open { ttl_ms: 60_000, owner, ends_with_connection: false, reopens: false })
    }

    fn lock(&mut self, name: &str) -> Command {
        self.send(Act::Acquire(Acquire {
            wants: vec![Want { name: name.into(), mode: Mode::Exclusive }],
            patience: Patience::Forever,
            priority: 0,
            reentrant: false,
            strand: 0,
            purpose: Purpose::Lock,
            lock_delay_ms: 0,
        }))
    }
}

fn open_all(state: &mut State, clients: &mut [Client]) {
    let commands = clients.iter_mut().map(Client::open).collect();
    state.apply(&Batch { now: 1, commands, floor: 0 }, &mut Outcome::default());
}

/// Each client takes a name of its own and gives it back; all clients share a batch, as they do in the log.
fn uncontended(clients: u64, names: u64) -> f64 {
    let mut state = State::default();
    let mut clients: Vec<Client> = (1..=clients).map(Client::new).collect();
    open_all(&mut state, &mut clients);
    let names: Vec<String> =
        (0..names * clients.len() as u64).map(|name| format!("bench/name/{name}")).collect();
    let mut batches = Vec::new();
    let mut token = 0;
    for round in 0..ROUNDS {
        let mut locks = Vec::new();
        let mut releases = Vec::new();
        for (place, client) in clients.iter_mut().enumerate() {
            token += 1;
            locks.push(client.lock(&names[(round * 64 + place * 7919) % names.len()]));
            releases.push(client.send(Act::Release(Token(token))));
        }
        batches.push(Batch { now: round as u64, commands: locks, floor: 0 });
        batches.push(Batch { now: round as u64, commands: releases, floor: 0 });
    }
    let mut out = Outcome::default();
    let start = Instant::now();
    for batch in &batches {
        state.apply(batch, &mut out);
    }
    let cycles = ROUNDS * clients.len();
    let each = start.elapsed().as_secs_f64() * 1e6 / cycles as f64;
    assert_eq!(state.totals().grants, cycles as u64, "everything asked for was granted");
    each
}

/// All clients want one name; whoever has it gives it back and asks again.
fn hand_off(clients: u64) -> f64 {
    let mut state = State::default();
    let mut clients: Vec<Client> = (1..=clients).map(Client::new).collect();
    open_all(&mut state, &mut clients);
    let mut out = Outcome::default();
    for client in &mut clients {
        let commands = vec![client.lock("bench")];
        state.apply(&Batch { now: 1, commands, floor: 0 }, &mut out);
    }
    let hand_offs = 50_000;
    let (mut holder, mut token) = (SessionId(1), Token(1));
    let start = Instant::now();
    for now in 0..hand_offs {
        let client = &mut clients[holder.0 as usize - 1];
        let commands = vec![client.send(Act::Release(token)), client.lock("bench")];
        state.apply(&Batch { now: 1 + now / 1000, commands, floor: 0 }, &mut out);
        let granted = out.messages.iter().find_map(|message| match &message.told {
            Told::Reply { reply: Reply::Granted { token, .. }, .. } => Some((message.to, *token)),
            Told::Reply { .. } | Told::Notice(_) => None,
        });
        (holder, token) = granted.expect("a release grants to the next");
    }
    start.elapsed().as_secs_f64() * 1e6 / hand_offs as f64
}
