//! Any bytes, read as frames of a connection: each is read or refused; what is read writes to a frame that reads the same.

#![no_main]

use bytes::BytesMut;
use conclave_net::frame::{decode, encode, split};
use libfuzzer_sys::fuzz_target;

/// As a stranger is allowed.
const LIMIT: usize = 4_096;

fuzz_target!(|data: &[u8]| {
    let mut buffer = BytesMut::from(data);
    while let Ok(Some(bytes)) = split(&mut buffer, LIMIT) {
        let Ok(frame) = decode(&bytes) else { continue };
        let mut written = Vec::new();
        encode(&frame, &mut written);
        let mut again = BytesMut::from(&written[..]);
        let bytes = split(&mut again, LIMIT).expect("it is not longer than it was").expect("it is whole");
        assert_eq!(decode(&bytes), Ok(frame));
    }
    // Room is made only for what is allowed.
    assert!(buffer.capacity() <= 2 * (data.len() + LIMIT + 4) + 64);
});
