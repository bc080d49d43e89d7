use futures_util::StreamExt as _;
use openraft::EntryPayload;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;
use crate::raft::{Entry, Payload};

const LEADER: LeaderId = LeaderId { term: 1, node_id: 1 };

fn id(index: u64) -> LogId {
    LogId::new(LEADER, index)
}

/// A request that follows the entry before, with one of so many bytes, or with nothing but the news of what was decided.
fn request(previous: u64, bytes: Option<usize>, decided: u64) -> AppendEntriesRequest<Types> {
    let payload = |bytes| EntryPayload::Normal(Payload(vec![7; bytes].into()));
    let entry = |bytes| Entry { log_id: id(previous + 1), payload: payload(bytes) };
    AppendEntriesRequest {
        vote: Vote::new_committed(1, 1),
        prev_log_id: Some(id(previous)),
        entries: bytes.map(entry).into_iter().collect(),
        leader_commit: Some(id(decided)),
    }
}

/// What is sent of requests that come all at once: how many entries each has, and what it says was decided.
async fn sent(requests: Vec<AppendEntriesRequest<Types>>) -> Vec<(usize, Option<u64>)> {
    let sent = thrifty(stream::iter(requests));
    sent.map(|request| (request.entries.len(), request.leader_commit.map(|id| id.index))).collect().await
}

#[tokio::test]
async fn what_the_next_request_says_is_left_out() {
    let large = Some(2000);
    let requests = vec![
        request(1, large, 1),
        request(2, None, 2),
        request(2, large, 2),
        request(3, None, 3),
        request(3, None, 3),
        request(3, large, 3),
    ];
    assert_eq!(sent(requests).await, [(1, Some(1)), (1, Some(2)), (1, Some(3))]);
}

#[tokio::test]
async fn with_little_to_do_everything_is_said_at_once() {
    let requests = vec![request(1, Some(50), 1), request(2, None, 2), request(2, Some(50), 2)];
    assert_eq!(sent(requests).await.len(), 3);
}

#[tokio::test]
async fn what_asks_where_a_follower_stands_is_never_left_out() {
    // The first of a stream, and one that does not follow what was sent.
    let requests =
        vec![request(9, None, 1), request(9, Some(2000), 1), request(4, None, 1), request(4, Some(2000), 1)];
    assert_eq!(sent(requests).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn news_that_nobody_else_brings_are_brought() {
    let (say, said) = mpsc::unbounded_channel();
    let mut sent = Box::pin(thrifty(UnboundedReceiverStream::new(said)));
    say.send(request(1, Some(2000), 1)).unwrap();
    say.send(request(2, None, 2)).unwrap();
    assert_eq!(sent.next().await.unwrap().entries.len(), 1);
    let began = Instant::now();
    let news = sent.next().await.unwrap();
    assert_eq!((news.entries.len(), news.leader_commit), (0, Some(id(2))));
    assert_eq!(began.elapsed(), NEWS_CAN_WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_much_in_it_may_take_longer() {
    let limit = Duration::from_millis(400);
    for (bytes, allowed) in [(100, 400), (1 << 20, 1400), (2 << 20, 2400)] {
        let flight = Flight::default();
        let began = Instant::now();
        flight.sent(bytes, LEADER);
        flight.sent(100, LEADER);
        flight.overdue(limit).await;
        assert_eq!(began.elapsed().as_millis(), allowed, "{bytes} bytes");
        flight.landed();
        flight.overdue(limit).await;
        assert_eq!(began.elapsed().as_millis(), allowed, "what was sent behind them had to wait");
    }
    let flight = Flight::default();
    flight.sent(100, LEADER);
    flight.landed();
    assert!(timeout(limit * 10, flight.overdue(limit)).await.is_err(), "what was answered is not overdue");
}
