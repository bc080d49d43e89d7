//! What a data directory of this format looks like, byte for byte.
//!
//! A node reads what an earlier build of the same format wrote. Whether it does cannot be seen from code that writes and
//! reads with the same types, so the bytes themselves are kept, in `fixtures/`. They stand for a log with one command of
//! every kind, a snapshot with something in every part of the state, and an identity.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use conclave_service::{
    Acquire, Act, Batch, Command, Life, Mode, Name, Outcome, Owner, Patience, Purpose, RequestId, SessionId,
    State, Token, Want,
};
use openraft::Membership;

use crate::disk::{Disk as _, FORMAT, MemoryDisk};
use crate::identity::{self, Identity, Stage};
use crate::raft::{LeaderId, LogId, Node, Snapshot, SnapshotMeta, StoredMembership};
use crate::snapshots::Snapshots;

/// Set to make the fixtures of a new format.
const NEW: &str = "CONCLAVE_NEW_FIXTURES";

/// Makes sure that this is what a file of our format looks like; gives the bytes that an earlier build wrote.
pub(crate) fn assert_golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/format-{FORMAT}"));
    let path = folder.join(format!("{name}.hex"));
    if std::env::var_os(NEW).is_some() && !path.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, written(bytes)).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == written(bytes),
        "a {name} is not written as in fixtures/format-{FORMAT}: what is stored on disk has changed, and directories of \
         earlier builds would be misread. Raise `disk::FORMAT`, run this test with {NEW}=1, which makes the fixtures of \
         the new format, remove those of the old one and commit. A fixture is never changed."
    );
    let digits: Vec<char> = kept.chars().filter(|digit| !digit.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

fn written(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect()
}

fn owner() -> Owner {
    Owner { host: "host".into(), pid: 300, user: "user".into(), label: "label".into() }
}

fn open(reopens: bool) -> Act {
    Act::Open { ttl_ms: 60_000, owner: owner(), ends_with_connection: true, reopens }
}

fn name(text: &str) -> Name {
    Name::from(text)
}

fn acquire(names: &[(&str, Mode)], patience: Patience) -> Acquire {
    let wants = names.iter().map(|(text, mode)| Want { name: name(text), mode: *mode }).collect();
    let (priority, strand, lock_delay_ms) = (-7, 3, 900);
    Acquire { wants, patience, priority, reentrant: true, strand, purpose: Purpose::Lock, lock_delay_ms }
}

fn campaign(value: &[u8]) -> Act {
    let wanted = acquire(&[("chief", Mode::Exclusive)], Patience::Forever);
    Act::Acquire(Acquire { purpose: Purpose::Election { value: value.into() }, ..wanted })
}

/// Which kind of command it is, of how many. A kind that is added has a fixture of its own, since fixtures never change.
fn kind(act: &Act) -> (usize, usize) {
    let kind = match act {
        Act::Open { .. } => 0,
        Act::Renew => 1,
        Act::Close => 2,
        Act::Acquire(_) => 3,
        Act::Cancel(_) => 4,
        Act::Release(_) => 5,
        Act::Convert { .. } => 6,
        Act::Proclaim { .. } => 7,
        Act::Transfer { .. } => 8,
        Act::Force { .. } => 9,
        Act::Disconnected => 10,
        Act::End { .. } => 11,
    };
    (kind, 12)
}

/// A batch with one command of every kind.
pub(crate) fn batch() -> Batch {
    let permits = Mode::Permits { count: 2, limit: 9 };
    let patience = Patience::Millis(1_234);
    let acts = [
        open(true),
        Act::Renew,
        Act::Close,
        Act::Acquire(acquire(&[("a", Mode::Exclusive), ("b", Mode::Shared), ("c", permits)], patience)),
        campaign(b"value"),
        Act::Cancel(RequestId(70_000)),
        Act::Release(Token(1 << 40)),
        Act::Convert { token: Token(9), name: name("a"), mode: permits, patience: Patience::Try },
        Act::Proclaim { token: Token(10), value: b"next".as_slice().into() },
        Act::Transfer { token: Token(11), to: SessionId(12) },
        Act::Force { name: name("a"), token: Some(Token(13)), reason: "because".into() },
        Act::Disconnected,
        Act::End { session: SessionId(14), reason: "because".into() },
    ];
    let kinds: std::collections::BTreeSet<usize> = acts.iter().map(|act| kind(act).0).collect();
    assert_eq!(kinds.len(), kind(&acts[0]).1, "every kind occurs");
    let command = |(place, act): (usize, Act)| Command {
        session: SessionId(u64::MAX - place as u64),
        life: Life(1 << 32 | 5),
        request: RequestId(300 + place as u64),
        acked: RequestId(299),
        settled: vec![RequestId(1), RequestId(200)],
        act,
    };
    Batch { now: 5_000, commands: acts.into_iter().enumerate().map(command).collect(), floor: 1 << 50 }
}

/// A state with something in each of its parts.
fn state() -> State {
    let mut state = State::default();
    let (mut now, mut requests) = (1_000, BTreeMap::new());
    let mut apply = |session: u64, act: Act| {
        now += 10;
        let request: &mut u64 = requests.entry(session).or_default();
        *request += 1;
        let command = Command {
            session: SessionId(session),
            life: Life(1 << 32 | session),
            request: RequestId(*request),
            acked: RequestId(1),
            settled: vec![],
            act,
        };
        // Late enough to raise no token; the first one says which cluster this is.
        let floor = u64::from(now > 1_100);
        state.apply(&Batch { now, commands: vec![command], floor }, &mut Outcome::default());
    };
    let permits = |count| Mode::Permits { count, limit: 9 };
    let lock = |names: &[(&str, Mode)]| Act::Acquire(acquire(names, Patience::Forever));
    for session in 1..=4 {
        apply(session, open(false));
    }
    // Held alone and once more, shared, in part, and strengthened, so that a token was exchanged.
    apply(1, lock(&[("a", Mode::Exclusive), ("b", Mode::Shared)]));
    apply(1, lock(&[("a", Mode::Exclusive)]));
    apply(1, lock(&[("c", permits(2))]));
    apply(
        1,
        Act::Convert { token: Token(2), name: name("c"), mode: permits(3), patience: Patience::Forever },
    );
    // Some wait, one for a limited time, one to convert; and a leader has a candidate behind it.
    apply(2, lock(&[("a", Mode::Shared)]));
    apply(3, Act::Acquire(acquire(&[("b", Mode::Exclusive)], Patience::Millis(90_000))));
    apply(2, lock(&[("s", Mode::Shared)]));
    apply(3, lock(&[("s", Mode::Shared)]));
    apply(
        2,
        Act::Convert { token: Token(4), name: name("s"), mode: Mode::Exclusive, patience: Patience::Forever },
    );
    apply(2, campaign(b"first"));
    apply(3, campaign(b"second"));
    // One was released by force, one was lost and has a lock delay, and one that waited was answered.
    apply(1, lock(&[("f", Mode::Exclusive)]));
    apply(4, lock(&[("f", Mode::Exclusive)]));
    apply(2, Act::Force { name: name("f"), token: None, reason: "because".into() });
    apply(4, lock(&[("d", Mode::Exclusive)]));
    let gone = Act::Disconnected;
    apply(4, lock(&[("busy", Mode::Exclusive)]));
    apply(1, Act::Acquire(acquire(&[("busy", Mode::Exclusive)], Patience::Try)));
    apply(4, gone);
    state.assert_invariants();
    state
}

/// A build for tests says behind the state which fault it has, and here it has none.
const NO_FAULT: &[u8] = if cfg!(feature = "mutants") { &[0] } else { &[] };

#[tokio::test]
async fn a_snapshot_is_written_and_read_as_before() {
    let id = |index| LogId::new(LeaderId { term: 7, node_id: 2 }, index);
    let nodes = [(1, Node::new("one:1")), (2, Node::new("two:2"))];
    let members = Membership::new(vec![[1, 2].into()], BTreeMap::from(nodes)).unwrap();
    let last_membership = StoredMembership::new(Some(id(0)), members);
    let meta = SnapshotMeta { last_log_id: Some(id(40)), last_membership };
    let encoded = postcard::to_stdvec(&state()).unwrap();
    let encoded = encoded.strip_suffix(NO_FAULT).unwrap().to_vec();
    let snapshot = Snapshot { meta: meta.clone(), snapshot: encoded.into() };
    let disk = MemoryDisk::default();
    let snapshots = Snapshots::new(Arc::new(disk.clone()));
    snapshots.keep(move || Ok(snapshot)).await.unwrap();
    let name = disk.list().await.unwrap().remove(0);
    let kept = assert_golden("snapshot", &disk.read(&name).await.unwrap());

    disk.replace(&name, &kept).await.unwrap();
    let read = snapshots.newest().await.unwrap().unwrap();
    assert_eq!(read.meta, meta);
    let encoded: Bytes = [&read.snapshot, NO_FAULT].concat().into();
    assert_eq!(postcard::from_bytes::<State>(&encoded).unwrap(), state());
}

#[tokio::test]
async fn an_identity_is_written_and_read_as_before() {
    let disk = MemoryDisk::default();
    let members = BTreeMap::from([(1, "one:1".to_owned()), (300, "three:3".to_owned())]);
    let of = || Identity::check(Arc::new(disk.clone()), 300, members.clone());
    for (file, stage) in [("identity-new", Stage::New), ("identity-settled", Stage::Settled)] {
        of().await.unwrap().note(stage).await.unwrap();
        let kept = assert_golden(file, &disk.read(identity::NAME).await.unwrap());
        disk.replace(identity::NAME, &kept).await.unwrap();
        let read = of().await.unwrap();
        assert_eq!((read.stage, read.is_noted), (stage, true));
    }
}
