//! Tokens do not start over where the state does.

use std::time::Duration;

use conclave_service::{
    Acquire, Act, Batch, Command, Fault, Life, Mode, Outcome, Owner, Patience, Purpose, Reply, RequestId,
    SessionId, State, Token, Told, Want,
};

/// What 10 o'clock on some day is since 1970.
const TEN: Duration = Duration::from_secs(1_800_000_000);

fn command(request: u64, act: Act) -> Command {
    let (session, life, request) = (SessionId(1), Life(1), RequestId(request));
    Command { session, life, request, acked: request, settled: Vec::new(), act }
}

fn open() -> Command {
    let owner = Owner::default();
    command(1, Act::Open { ttl_ms: 10_000, owner, ends_with_connection: false, reopens: false })
}

fn lock(request: u64) -> Command {
    let acquire = Acquire {
        wants: vec![Want { name: format!("name-{request}").as_str().into(), mode: Mode::Exclusive }],
        patience: Patience::Try,
        priority: 0,
        reentrant: false,
        strand: 0,
        purpose: Purpose::Lock,
        lock_delay_ms: 0,
    };
    command(request, Act::Acquire(acquire))
}

/// One batch with a request for a name that is free; gives its token.
fn token(state: &mut State, request: u64, floor: u64) -> u64 {
    let mut out = Outcome::default();
    state.apply(&Batch { now: 1, commands: vec![open(), lock(request)], floor }, &mut out);
    let token = out.messages.iter().find_map(|message| match message.told {
        Told::Reply { reply: Reply::Granted { token, .. }, .. } => Some(token.0),
        _ => None,
    });
    token.expect("the name is free")
}

/// A service that loses everything, twice, and has clocks that go back.
fn tokens(new: impl Fn() -> State) -> Vec<u64> {
    let at = |time: Duration| Token::floor_at(time).unwrap();
    let mut tokens = Vec::new();
    let mut state = new();
    tokens.push(token(&mut state, 2, at(TEN)));
    tokens.push(token(&mut state, 3, 0));
    // Another leader's clock is behind.
    tokens.push(token(&mut state, 4, at(TEN - Duration::from_secs(3600))));
    let copy = state.clone();
    tokens.push(token(&mut state, 5, 0));
    // An empty directory, a moment later.
    let mut state = new();
    tokens.push(token(&mut state, 2, at(TEN + Duration::from_millis(5))));
    // A copy of before, restored.
    let mut state = copy;
    tokens.push(token(&mut state, 6, at(TEN + Duration::from_secs(60))));
    tokens
}

#[test]
fn tokens_grow_through_lost_and_restored_states_and_clocks_that_go_back() {
    let tokens = tokens(State::default);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(tokens[1], tokens[0] + 1, "no numbers are wasted within a leadership");
    assert!(tokens.iter().all(|token| *token < 1 << 53), "{tokens:?}");
}

#[test]
fn a_service_that_lets_a_floor_lower_tokens_is_noticed() {
    assert!(!tokens(|| State::with_fault(Fault::LowerTokens)).is_sorted_by(|one, next| one < next));
}

#[test]
fn a_clock_that_is_far_off_is_ignored() {
    let centuries = |count: u64| Duration::from_secs(count * 365 * 24 * 3600 * 100);
    assert!(Token::floor_at(centuries(1)).is_some());
    assert_eq!(Token::floor_at(centuries(3)), None);
    assert_eq!(Token::floor_at(Duration::MAX), None);
    assert_eq!(Token::floor_at(Duration::ZERO), Some(0));
    let mut state = State::default();
    assert_eq!(token(&mut state, 2, u64::MAX), 1);
    assert_eq!(token(&mut state, 3, Token::HIGHEST_FLOOR + 1), 2);
    assert_eq!(token(&mut state, 4, Token::HIGHEST_FLOOR), Token::HIGHEST_FLOOR + 1);
    state.assert_invariants();
    assert_eq!(state.totals().grants, 3, "grants are counted, not tokens");
}
