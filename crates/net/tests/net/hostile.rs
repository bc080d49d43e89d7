//! Peers that mean no good: refused or limited, while honest nodes go on.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use conclave_core::{Incarnation, NodeId};
use conclave_net::frame::{Frame, decode, encode, split};
use conclave_net::hello::{Hello, Terms, WIRE};
use conclave_net::secret::Nonce;
use conclave_net::{Directory, Refusal};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::group::{Group, Member, PATIENCE};

/// What the nodes of a group of so many here take for granted.
pub fn terms(n: u32) -> Terms {
    let group = Group::new(n);
    Terms::of(&group.config(1))
}

/// A connection without a node behind it.
pub struct Raw {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).await.unwrap())
    }

    pub fn of(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    pub async fn send(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        self.write(&bytes).await;
    }

    /// Whoever listens may have closed already.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next frame; none if the connection was closed.
    pub async fn receive(&mut self) -> Option<BytesMut> {
        let receive = async {
            loop {
                if let Some(frame) = split(&mut self.buffer, 1 << 20).unwrap() {
                    return Some(frame);
                }
                if !matches!(self.stream.read_buf(&mut self.buffer).await, Ok(count) if count > 0) {
                    return None;
                }
            }
        };
        timeout(PATIENCE, receive).await.expect("neither a frame nor an end")
    }

    /// Says hello as node 3 in its first life.
    pub async fn introduce(address: SocketAddr) -> Self {
        Self::introduce_in(address, 1).await
    }

    /// Says hello as node 3 in this life.
    pub async fn introduce_in(address: SocketAddr, life: u32) -> Self {
        let mut raw = Self::connect(address).await;
        raw.send(&Frame::Hello(Hello {
            wire: WIRE,
            cluster: "test".into(),
            protocol: "chat".into(),
            version: 1,
            from: NodeId(3),
            to: NodeId(1),
            life: Incarnation(life),
            directory: Directory(3),
            terms: terms(3),
            nonce: Nonce::default(),
            gap: None,
            onward: None,
            via: None,
        }))
        .await;
        let answer = raw.receive().await.unwrap();
        assert!(matches!(decode(&answer), Ok(Frame::Welcome(_))), "{answer:?}");
        raw
    }

    pub async fn note(&mut self, seq: u64, number: u64) {
        let note = crate::chat::Note { number, ballast: Vec::new() };
        let body = postcard::to_stdvec(&note).unwrap();
        self.send(&Frame::Data { seq, stamp: None, body: &body }).await;
    }
}

/// Two honest nodes of a group of three, connected with each other, and the address of the first.
async fn honest_pair() -> (Group, Member, Member) {
    let mut group = Group::new(3);
    group.adjust = |config| {
        config.detector.at_least = Duration::from_secs(20);
        config.detector.grace = Duration::from_secs(60);
        config.limits.handshake = Duration::from_secs(2);
    };
    let (first, second) = (group.start(1).await, group.start(2).await);
    first.until("they are connected", |status| status.peers[&NodeId(2)].connected_from).await;
    second.until("they are connected", |status| status.peers[&NodeId(1)].connected_from).await;
    (group, first, second)
}

async fn they_still_talk(first: &mut Member, second: &mut Member, number: u64) {
    first.say(2, number).await;
    assert_eq!(second.heard().await, (1, number));
    second.say(1, number).await;
    assert_eq!(first.heard().await, (2, number));
}

#[tokio::test]
async fn random_bytes_and_large_frames_are_cut_off() {
    let (group, mut first, mut second) = honest_pair().await;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for round in 0..50 {
        let mut bytes = vec![0; 4 + rng.next_u64() as usize % 2_000];
        rng.fill_bytes(&mut bytes);
        // Four gigabytes, or a length that is right, so that the body is looked at.
        let length = if round % 2 == 0 { u32::MAX } else { bytes.len() as u32 - 4 };
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        let mut raw = Raw::connect(group.address(1)).await;
        raw.write(&bytes).await;
        if let Some(answer) = raw.receive().await {
            assert_eq!(decode(&answer), Ok(Frame::Refusal(Refusal::NoHello)));
        }
    }
    they_still_talk(&mut first, &mut second, 1).await;
    assert!(first.node.status().complaints >= 40);
}

/// After a hello that is welcome, too: nobody is trusted with frames.
#[tokio::test]
async fn a_member_that_talks_nonsense_is_cut_off() {
    let (group, mut first, mut second) = honest_pair().await;
    let nonsense: [&[u8]; 3] =
        [&[0xff, 0xff, 0xff, 0xff], &[0, 0, 0, 3, 99, 99, 99], &[0, 0, 0, 5, 3, 1, 0, 1, 0xff]];
    for bytes in nonsense {
        let mut raw = Raw::introduce(group.address(1)).await;
        raw.write(bytes).await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(decode(&answer), Ok(Frame::Refusal(Refusal::Garbage)));
        assert!(raw.receive().await.is_none());
    }
    they_still_talk(&mut first, &mut second, 1).await;
}

#[tokio::test]
async fn replayed_messages_are_heard_once_and_gaps_are_refused() {
    let (group, mut first, mut second) = honest_pair().await;
    let mut raw = Raw::introduce(group.address(1)).await;
    for seq in [1, 2, 1, 2, 2, 3, 1] {
        raw.note(seq, 100 + seq).await;
    }
    for number in [101, 102, 103] {
        assert_eq!(first.heard().await, (3, number));
    }
    // A second connection of the same life goes on where the first was, and the first is closed.
    let mut again = Raw::introduce(group.address(1)).await;
    assert!(raw.receive().await.is_none());
    again.note(3, 103).await;
    again.note(4, 104).await;
    assert_eq!(first.heard().await, (3, 104));
    again.note(6, 106).await;
    let refused = again.receive().await.unwrap();
    assert_eq!(decode(&refused), Ok(Frame::Refusal(Refusal::Missing)));
    they_still_talk(&mut first, &mut second, 1).await;
    assert_eq!(first.node.status().peers[&NodeId(3)].duplicates, 5);
}

/// A thousand connections that say nothing: all but a few are closed at once, those few after a while, and honest nodes
/// find their way in between.
#[tokio::test]
async fn a_thousand_idle_connections_are_limited() {
    let (mut group, mut first, mut second) = honest_pair().await;
    let mut idle = Vec::new();
    for number in 0..1_000 {
        idle.push(TcpStream::connect(group.address(1)).await.unwrap());
        if number % 200 == 0 {
            they_still_talk(&mut first, &mut second, number).await;
        }
    }
    let third = group.start(3).await;
    third.until_connected().await;
    let mut open = 0;
    for stream in &mut idle {
        let mut byte = [0; 1];
        // Closed connections say so at once.
        match timeout(Duration::from_millis(5), stream.read(&mut byte)).await {
            Ok(_) => {}
            Err(_) => open += 1,
        }
    }
    assert!(open <= 64, "{open} strangers are still there");
    let mut left: Vec<TcpStream> = idle.drain(900..).collect();
    for stream in &mut left {
        let mut byte = [0; 1];
        let end = timeout(PATIENCE, stream.read(&mut byte)).await.expect("a half-open connection is closed");
        assert!(!matches!(end, Ok(count) if count > 0));
    }
    they_still_talk(&mut first, &mut second, 5_000).await;
}

/// Says who it is, byte by byte and slower than anybody honest would.
#[tokio::test]
async fn a_hello_that_takes_too_long_is_cut_off() {
    let (group, mut first, mut second) = honest_pair().await;
    let mut raw = Raw::connect(group.address(1)).await;
    raw.write(&[0, 0, 0, 50, 0]).await;
    assert!(raw.receive().await.is_none());
    they_still_talk(&mut first, &mut second, 1).await;
}
