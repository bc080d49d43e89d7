use tokio::io::{DuplexStream, duplex};

use super::*;
use crate::v1;

const TERMS: Terms =
    Terms { largest: 1 << 20, ask_after: Duration::from_secs(10), answer_within: Duration::from_secs(5) };

/// The two ends of a wire that takes so many bytes.
fn wire(bytes: usize) -> (Connection, DuplexStream) {
    let (near, far) = duplex(bytes);
    (Connection::new(near), far)
}

/// A client and a node that have met.
async fn both(bytes: usize) -> (Direct, Direct) {
    let (near, far) = wire(bytes);
    let mut client = Direct::greet(near, TERMS);
    let meeting = Direct::meet(Connection::new(far), TERMS);
    let (sent, met) = tokio::join!(client.send(), meeting);
    sent.unwrap();
    let Ok(Arrival::Direct(node)) = met else { panic!("it greets") };
    (client, node)
}

/// A client that has greeted, of which every byte is ours.
async fn raw(bytes: usize) -> (Direct, DuplexStream) {
    let (near, mut far) = wire(bytes);
    far.write_all(GREETING).await.unwrap();
    let Ok(Arrival::Direct(node)) = Direct::meet(near, TERMS).await else { panic!("it greets") };
    (node, far)
}

fn said(length: usize) -> v1::ToServer {
    let act = v1::command::Act::Proclaim(v1::Proclaim { token: 7, value: vec![5; length].into() });
    v1::ToServer { commands: vec![v1::Command { session: 1, act: Some(act), ..v1::Command::default() }] }
}

fn told(length: usize) -> v1::ToClient {
    let lost = v1::event::Told::Lost(v1::Lost { token: 7, why: "x".repeat(length) });
    v1::ToClient { events: vec![v1::Event { session: 1, life: 1, told: Some(lost) }], welcome: None }
}

/// Time stands still for as long as there is something to do.
#[tokio::test(start_paused = true)]
async fn messages_arrive_in_order_and_whole_in_whatever_pieces_they_come() {
    const LENGTHS: [usize; 5] = [0, 3, 200_000, 1, 70_000];
    for bytes in [7, 4_096, 1 << 20] {
        let (mut client, mut node) = both(bytes).await;
        LENGTHS.iter().for_each(|length| client.put(&said(*length)));
        let asking = async {
            let mut answers = Vec::new();
            while answers.len() < LENGTHS.len() {
                answers.extend(client.next::<v1::ToClient>().await.unwrap());
            }
            answers
        };
        let answering = async {
            for length in LENGTHS {
                assert_eq!(node.next().await.unwrap(), Some(said(length)));
                node.put(&told(length));
            }
            node.send().await.unwrap();
            node
        };
        let (answers, mut node) = tokio::join!(asking, answering);
        assert_eq!(answers, LENGTHS.map(told), "by {bytes} bytes");
        let moment = Duration::from_millis(1);
        assert!(timeout(moment, client.next::<v1::ToClient>()).await.is_err());
        assert!(timeout(moment, node.next::<v1::ToServer>()).await.is_err());
        for room in [&mut client.outbox, &mut client.inbox, &mut node.outbox, &mut node.inbox] {
            assert!(!room.try_reclaim(UNSENT_BYTES + 1), "room for much is given back");
        }
    }
}

#[tokio::test]
async fn whoever_greets_otherwise_is_handed_on_with_all_that_was_said() {
    for greeting in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"conclave talk, frames 2\n", b"c?"] {
        let (near, mut far) = wire(64);
        far.write_all(greeting).await.unwrap();
        let Ok(Arrival::Other(mut other)) = Direct::meet(near, TERMS).await else { panic!("it is another") };
        far.write_all(b" and more").await.unwrap();
        drop(far);
        let mut heard = Vec::new();
        other.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, [greeting, b" and more"].concat());
    }
    let (near, mut far) = wire(64);
    far.write_all(b"conclave").await.unwrap();
    drop(far);
    assert!(Direct::meet(near, TERMS).await.is_err(), "it left before it had said what it wants");
}

/// A connection costs a place, whatever is said on it.
#[tokio::test(start_paused = true)]
async fn whoever_connects_and_says_nothing_is_not_waited_for() {
    for greeting in [&b""[..], b"conclave talk"] {
        let (near, mut far) = wire(64);
        far.write_all(greeting).await.unwrap();
        let began = Instant::now();
        let met = timeout(Duration::from_secs(300), Direct::meet(near, TERMS)).await.expect("it gives up");
        assert_eq!(met.err().map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        assert!(began.elapsed() <= TERMS.ask_after + Duration::from_millis(1), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_says_nothing_is_asked_and_one_that_lives_says_so() {
    let (mut client, mut node) = both(64).await;
    let began = Instant::now();
    let quiet = async {
        tokio::select! {
            heard = client.next::<v1::ToClient>() => panic!("{heard:?}"),
            heard = node.next::<v1::ToServer>() => panic!("{heard:?}"),
        }
    };
    assert!(timeout(Duration::from_secs(300), quiet).await.is_err(), "both live on");
    // Nobody is there any more, and the wire does not say so.
    let lives = began.elapsed();
    let given_up = client.next::<v1::ToClient>().await.unwrap_err();
    assert_eq!(given_up.message(), "the connection is silent");
    let took = began.elapsed() - lives;
    assert!(took <= TERMS.ask_after + TERMS.answer_within, "{took:?}");
    drop(node);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_heard_is_not_asked() {
    let (mut node, mut far) = raw(1 << 16).await;
    for _ in 0..100 {
        let waiting = timeout(TERMS.ask_after / 4, node.next::<v1::ToServer>());
        assert!(waiting.await.is_err());
        far.write_all(&[ANSWER, 0, 0, 0, 0]).await.unwrap();
    }
    assert!(timeout(Duration::from_secs(1), far.read_u8()).await.is_err(), "it was asked");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_before_it_has_come() {
    let (mut node, mut far) = raw(64).await;
    let length = (TERMS.largest as u32 + 1).to_be_bytes();
    far.write_all(&[&[MESSAGE], &length[..]].concat()).await.unwrap();
    let refused = node.next::<v1::ToServer>().await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(refused.message(), "a message of 1048577 bytes: 1048576 at most");
}

#[tokio::test]
async fn what_is_announced_takes_no_memory_before_it_comes() {
    let (mut node, mut far) = raw(64).await;
    let length = (TERMS.largest as u32).to_be_bytes();
    far.write_all(&[&[MESSAGE], &length[..], b"some of it"].concat()).await.unwrap();
    let waiting = timeout(Duration::from_millis(20), node.next::<v1::ToServer>());
    assert!(waiting.await.is_err());
    assert!(node.inbox.capacity() <= 2 * READ_BYTES, "{} bytes", node.inbox.capacity());
}

#[tokio::test]
async fn what_is_no_frame_is_told_from_its_first_byte() {
    // HTTP/2 begins with a length.
    for words in [&[0][..], b"<html>", &[MESSAGE, 0, 0, 0, 1, 0xff]] {
        let (mut node, mut far) = raw(64).await;
        far.write_all(words).await.unwrap();
        let refused = node.next::<v1::ToServer>().await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().ends_with("use the same version of conclave on both sides"), "{refused}");
    }
}

#[tokio::test]
async fn an_end_says_why_and_a_broken_connection_is_told_from_it() {
    let (mut client, mut node) = both(64).await;
    // What was said and not read does not keep the reason from arriving.
    client.put(&said(10));
    client.send().await.unwrap();
    node.put_end(&Status::aborted("another node leads"));
    let (end, ()) = tokio::join!(client.next::<v1::ToClient>(), node.close());
    let end = end.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Aborted, "another node leads"));

    let (mut node, far) = raw(64).await;
    drop(far);
    assert_eq!(node.next::<v1::ToServer>().await.unwrap(), None);

    let (mut node, mut far) = raw(64).await;
    far.write_all(&[MESSAGE, 0, 0]).await.unwrap();
    drop(far);
    assert_eq!(node.next::<v1::ToServer>().await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn whoever_asks_and_never_reads_is_not_answered_without_end() {
    let (mut node, mut far) = raw(1 << 20).await;
    let asking = async {
        for _ in 0..400 {
            far.write_all(&[ASK, 0, 0, 0, 0].repeat(1_000)).await.unwrap();
        }
    };
    tokio::select! {
        heard = node.next::<v1::ToServer>() => panic!("{heard:?}"),
        () = asking => {}
    }
    assert!(node.outbox.len() <= UNSENT_BYTES + HEAD, "{} bytes", node.outbox.len());
}
