//! Any bytes are a packet of the Network Time Protocol or an error, and an answer is taken once.

#![no_main]

use conclave_ntp::{Ignored, PACKET, Packet, Question, Stamp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::decode(bytes) else {
        assert!(bytes.len() < PACKET || bytes.len() % 4 != 0);
        return;
    };
    assert_eq!(packet.encode()[..], bytes[..PACKET]);
    // The question that it would answer.
    let mut question = Question::new(packet.origin.0, Stamp(packet.receive.0.wrapping_sub(1 << 20)));
    let arrived = Stamp(packet.transmit.0.wrapping_add(1 << 20));
    if question.accept(bytes, arrived).is_ok() {
        assert_eq!(question.accept(bytes, arrived), Err(Ignored::Replayed));
    }
});
