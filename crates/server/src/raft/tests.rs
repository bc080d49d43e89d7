//! Messages survive the way there, and nonsense is refused.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 2 }, index)
}

fn batch(index: u64, bytes: Vec<u8>) -> Entry {
    Entry { log_id: id(3, index), payload: EntryPayload::Normal(Payload(bytes.into())) }
}

fn request(entries: Vec<Entry>) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: Vote::new_committed(3, 2),
        prev_log_id: Some(id(2, 6)),
        entries,
        leader_commit: Some(id(2, 5)),
    }
}

fn membership() -> Entry {
    let nodes = [(1, Node::new("one:1")), (2, Node::new("two:2"))];
    let voters = vec![[1, 2].into()];
    let membership = Membership::new(voters, nodes.into_iter().collect::<std::collections::BTreeMap<_, _>>());
    Entry { log_id: id(3, 8), payload: EntryPayload::Membership(membership.unwrap()) }
}

#[test]
fn every_kind_of_entry_arrives() {
    let blank = Entry { log_id: id(3, 7), payload: EntryPayload::Blank };
    let sent = request(vec![blank, membership(), batch(9, vec![1, 2, 3]), batch(10, Vec::new())]);
    let received = decode_append(encode_append(&sent).unwrap()).unwrap();
    assert_eq!(received.entries, sent.entries);
    assert_eq!((received.vote, received.prev_log_id), (sent.vote, sent.prev_log_id));
    assert_eq!(received.leader_commit, sent.leader_commit);
}

#[test]
fn a_batch_is_not_copied_out_of_its_message() {
    let message = encode_append(&request(vec![batch(7, vec![9; 500])])).unwrap();
    let received = decode_append(message.clone()).unwrap();
    let EntryPayload::Normal(Payload(bytes)) = &received.entries[0].payload else { panic!() };
    assert!(message.as_ptr_range().contains(&bytes.as_ptr()));
}

#[test]
fn entries_with_a_gap_are_refused() {
    for indices in [[8, 9], [7, 9], [7, 7], [6, 7]] {
        let entries = indices.map(|index| batch(index, Vec::new())).to_vec();
        let error = decode_append(encode_append(&request(entries)).unwrap()).unwrap_err();
        assert!(error.to_string().contains("was due"), "{error}");
    }
}

proptest! {
    #[test]
    fn nonsense_is_refused_and_nothing_more(bytes in vec(any::<u8>(), 0..300)) {
        // The only claim is that it returns.
        let _ = decode_append(Bytes::from(bytes.clone()));
        let _ = whole_entry(Bytes::from(bytes));
    }

    #[test]
    fn a_message_that_is_cut_off_is_refused(cut in 0usize..100) {
        let message = encode_append(&request(vec![batch(7, vec![7; 40]), batch(8, vec![8; 40])])).unwrap();
        let cut = cut.min(message.len() - 1);
        prop_assert!(decode_append(message.slice(..cut)).is_err());
    }
}
