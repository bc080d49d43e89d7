//! The bytes of a log, as an earlier build of the same format wrote them; see [`crate::golden`].

use std::collections::BTreeMap;

use openraft::Membership;

use super::*;
use crate::golden::{assert_golden, batch};
use crate::log::format::{Record, open_frame, seal_frame};
use crate::raft::Node;

const SALT: u64 = 0x0123_4567_89ab_cdef;

/// One of everything that a log remembers, in three frames.
fn frames() -> [Vec<Record>; 3] {
    let members = Membership::new(vec![[1].into()], BTreeMap::from([(1, Node::new("one:1"))])).unwrap();
    let bytes = postcard::to_stdvec(&batch()).unwrap();
    let at = |index, payload| Record::Entry(Entry { log_id: id(2, index), payload });
    let records = vec![
        Record::Vote(vote(2)),
        Record::Vote(elected(2)),
        at(0, EntryPayload::Membership(members)),
        at(1, EntryPayload::Blank),
        at(2, EntryPayload::Normal(Payload(bytes.into()))),
        at(3, EntryPayload::Normal(Payload(vec![7; 600].into()))),
        Record::Truncate(Some(id(2, 2))),
        Record::Committed(Some(id(2, 1))),
        Record::Committed(None),
        Record::Purge(id(2, 0)),
        Record::Truncate(None),
    ];
    [records, vec![Record::Closed], vec![Record::Continued]]
}

/// Every kind of record occurs. One that is added must be added here, and above.
fn kind(record: &Record) -> usize {
    match record {
        Record::Entry(_) => 0,
        Record::Vote(_) => 1,
        Record::Truncate(_) => 2,
        Record::Purge(_) => 3,
        Record::Committed(_) => 4,
        Record::Closed => 5,
        Record::Continued => 6,
    }
}

#[test]
fn a_log_is_written_and_read_as_before() {
    let kinds: std::collections::BTreeSet<usize> = frames().iter().flatten().map(kind).collect();
    assert_eq!(kinds.len(), 7);
    let head = SegmentHead { number: 3, salt: SALT, size: SEGMENT };
    let mut bytes = head.encode().to_vec();
    for (sequence, records) in (9..).zip(frames()) {
        let (mut frame, mut sectors) = (open_frame(), Vec::new());
        records.iter().for_each(|record| record.put(&mut frame).unwrap());
        seal_frame(&mut frame, (SALT, bytes.len() as u64), sequence, &mut sectors).unwrap();
        bytes.extend(sectors);
    }
    let kept = assert_golden("log", &bytes);

    assert_eq!(SegmentHead::decode(&kept), Ok(head));
    let mut at = SEGMENT_HEAD;
    for (sequence, records) in (9..).zip(frames()) {
        let Found::Frame(mut frame) = frame_at(&kept, at, SALT).unwrap() else { panic!("no frame at {at}") };
        assert_eq!(frame.sequence, sequence);
        let read: Vec<Record> = std::iter::from_fn(|| {
            (!frame.records.is_empty()).then(|| Record::take(&mut frame.records).unwrap())
        })
        .collect();
        assert_eq!(read, records);
        for record in read {
            if let Record::Entry(Entry { payload: EntryPayload::Normal(payload), log_id }) = record
                && log_id.index == 2
            {
                assert_eq!(postcard::from_bytes::<conclave_service::Batch>(&payload.0).unwrap(), batch());
            }
        }
        at = frame.end;
    }
    assert_eq!(frame_at(&kept, at, SALT), Ok(Found::Nothing));
}
