//! Commands that no honest client sends: whatever the numbers, nothing panics and the state stays sound.

use conclave_service::{
    Acquire, Act, Batch, Command, Life, Mode, Name, Outcome, Owner, Patience, Purpose, RequestId, SessionId,
    State, Token, Want,
};
use proptest::prelude::*;

/// Numbers at the edges, and small ones, which have a chance to mean something.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..12, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1), 1 => any::<u64>()]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..5, 1 => Just(u32::MAX), 1 => 400u32..2000, 1 => any::<u32>()]
}

fn name() -> impl Strategy<Value = Name> {
    let text =
        prop_oneof![8 => "[ab]", 1 => Just(String::new()), 1 => "\\PC{0,4}", 1 => Just("x".repeat(600))];
    text.prop_map(|text| Name(text.into()))
}

fn mode() -> impl Strategy<Value = Mode> {
    let permits = (small(), small()).prop_map(|(count, limit)| Mode::Permits { count, limit });
    prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared), permits]
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![Just(Patience::Try), small().prop_map(Patience::Millis), Just(Patience::Forever)]
}

fn acquire() -> impl Strategy<Value = Acquire> {
    let want = (name(), mode()).prop_map(|(name, mode)| Want { name, mode });
    let wants = prop::collection::vec(want, 0..4);
    let priority = prop_oneof![Just(0), Just(i32::MIN), Just(i32::MAX)];
    let purpose = prop_oneof![
        3 => Just(Purpose::Lock),
        1 => (0usize..20_000).prop_map(|bytes| Purpose::Election { value: vec![0; bytes].into() }),
    ];
    (wants, patience(), priority, any::<bool>(), small(), purpose, small()).prop_map(
        |(wants, patience, priority, reentrant, strand, purpose, lock_delay_ms)| Acquire {
            wants,
            patience,
            priority,
            reentrant,
            strand,
            purpose,
            lock_delay_ms,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let token = || number().prop_map(Token);
    let open = (small(), "[a-z]{0,3}", any::<bool>(), any::<bool>());
    let convert = (token(), name(), mode(), patience());
    prop_oneof![
        4 => open.prop_map(|(ttl_ms, host, ends_with_connection, reopens)| {
            let owner = Owner { host: host.into(), ..Owner::default() };
            Act::Open { ttl_ms, owner, ends_with_connection, reopens }
        }),
        1 => Just(Act::Renew),
        1 => Just(Act::Close),
        12 => acquire().prop_map(Act::Acquire),
        2 => number().prop_map(|request| Act::Cancel(RequestId(request))),
        3 => token().prop_map(Act::Release),
        3 => convert.prop_map(|(token, name, mode, patience)| Act::Convert { token, name, mode, patience }),
        1 => token().prop_map(|token| Act::Proclaim { token, value: [].into() }),
        1 => (token(), number()).prop_map(|(token, to)| Act::Transfer { token, to: SessionId(to) }),
        1 => (name(), prop::option::of(token()))
            .prop_map(|(name, token)| Act::Force { name, token, reason: "r".into() }),
        1 => Just(Act::Disconnected),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let life = prop_oneof![6 => Just(1), 1 => number()];
    let settled = prop::collection::vec(number().prop_map(RequestId), 0..3);
    (0u64..4, life, number(), prop_oneof![5 => Just(0), 1 => number()], settled, act()).prop_map(
        |(session, life, request, acked, settled, act)| Command {
            session: SessionId(session),
            life: Life(life),
            request: RequestId(request),
            acked: RequestId(acked),
            settled,
            act,
        },
    )
}

fn batch() -> impl Strategy<Value = Batch> {
    let now = prop_oneof![30 => 0u64..5000, 1 => Just(u64::MAX)];
    let floor = prop_oneof![20 => Just(0), 4 => 0u64..5000, 1 => any::<u64>()];
    (now, prop::collection::vec(command(), 0..12), floor).prop_map(|(now, commands, floor)| Batch {
        now,
        commands,
        floor,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_from_outside_breaks_the_state(batches in prop::collection::vec(batch(), 1..30)) {
        let mut state = State::default();
        let mut out = Outcome::default();
        for batch in &batches {
            state.apply(batch, &mut out);
            state.assert_invariants();
            prop_assert!(state.next_deadline().is_none_or(|at| at > state.now()), "nothing is overdue");
            for summary in state.names("", None) {
                let view = state.name(&summary.name);
                prop_assert_eq!(view.map(|view| view.summary), Some(summary));
            }
            for session in (0..4).map(SessionId) {
                prop_assert_eq!(state.session(session).is_some(), state.has_session(session));
                prop_assert!(state.why_session(session).len() <= 64);
            }
        }
    }
}
