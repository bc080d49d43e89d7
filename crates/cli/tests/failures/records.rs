//! Records that are as large as they may be.

use conclave_live::config::{PeerAddress, ProcessConfig};

use crate::load::lock_once;
use crate::nodes::{Nodes, binary, free_addresses};
use crate::until;

/// A token that never rests fills its records within a second. They end, and nothing else does: not then, and not in the next
/// life.
#[test]
fn a_record_that_is_full_ends_and_its_process_goes_on() {
    let addresses = free_addresses(2);
    let peers: Vec<PeerAddress> = (1..)
        .zip(addresses)
        .map(|(id, address)| PeerAddress { id, address: address.into(), control: None })
        .collect();
    let mut nodes = Nodes::new();
    for life in 1..=2 {
        for id in [1, 2] {
            let config = nodes.config("token-ring", "", id, peers.clone());
            nodes.start(&ProcessConfig { record_mb: 1, ..config }, binary());
        }
        nodes.are_up();
        let places = nodes.places();
        let serves = || places.iter().all(|place| lock_once(place, "a").counter > 0);
        assert!(serves());
        until("the records are full", || places.iter().all(|place| place.1.join("record.closed").exists()));
        assert!(serves());
        for place in &places {
            let size = std::fs::metadata(place.1.join("record-1.jsonl")).expect("it was begun").len();
            assert!(size <= 1 << 20, "{size} bytes");
            assert!(!place.1.join("record-2.jsonl").exists(), "in life {life}");
        }
        let records = nodes.stop();
        let merged = conclave_net::merge_all(&records, std::collections::BTreeSet::new());
        assert!(!merged.expect("they fit together").trace.records.is_empty());
    }
}
