//! What goes over a connection: a length of four bytes, then that many bytes of postcard.
//!
//! Everything here is a pure function over bytes, and none of it trusts them: a length beyond the limit is refused
//! before anything is allocated for it, and bytes that mean nothing are an error, never a panic.

use bytes::BytesMut;
use conclave_core::{Incarnation, NodeId, VectorClock};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::hello::{Hello, Refusal, Welcome};
use crate::secret::{Nonce, Proof};

/// Bytes of the length before each frame.
const PREFIX: usize = 4;

/// One thing that is said over a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// The first of who connects: who I am, and whom I want.
    Hello(Hello),
    /// The first answer in a group with a secret: I know it; do you?
    Challenge {
        /// Never said before.
        nonce: Nonce,
        /// That whoever accepts knows the secret.
        proof: Proof,
    },
    /// The answer to that: I do.
    Proof(Proof),
    /// The answer: go on from here.
    Welcome(Welcome),
    /// The other answer, also later on: why I do not talk to you; the connection is closed.
    Refusal(Refusal),
    /// A message of the algorithm.
    Data {
        /// Its number, from 1, among all from this life of the sender to this life of the receiver.
        seq: u64,
        /// When it was sent in logical time, if the sender records.
        stamp: Option<Stamp>,
        /// The message.
        #[serde(borrow, serialize_with = "as_bytes")]
        body: &'a [u8],
    },
    /// Everything up to this number has arrived.
    Ack {
        /// The number.
        upto: u64,
    },
    /// I am alive; please acknowledge what you have.
    Beat,
    /// This life is over.
    Bye,
    /// Your connection is carried to whom you named.
    Onward,
    /// Whom I hear, and in which life.
    Hears(Vec<(NodeId, Incarnation)>),
}

fn as_bytes<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// The logical time of a send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// By Lamport's clock.
    pub lamport: u64,
    /// By the vector clock.
    pub vector: VectorClock,
}

/// Why bytes are not a frame. The connection cannot go on after it: nobody knows where the next frame begins.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame is announced to be larger than what is allowed; nothing of it was read.
    #[error("a frame of {announced} bytes is announced, and {limit} are allowed")]
    TooLarge {
        /// What it announces.
        announced: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The bytes mean nothing.
    #[error("a frame that means nothing")]
    Garbage,
}

/// Appends a frame, its length first.
pub fn encode(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; PREFIX]);
    let mut bytes = core::mem::take(out);
    bytes = postcard::to_extend(frame, bytes).expect("a vector takes any bytes, and a frame is plain data");
    let length =
        u32::try_from(bytes.len() - start - PREFIX).expect("what is sent is within the limit of a frame");
    bytes[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
    *out = bytes;
}

/// Takes the bytes of the next frame off the buffer, if they are all there.
///
/// # Errors
/// If the frame announces more than `limit` bytes; the buffer is left as it is.
pub fn split(buffer: &mut BytesMut, limit: usize) -> Result<Option<BytesMut>, FrameError> {
    let Some(prefix) = buffer.first_chunk::<PREFIX>() else { return Ok(None) };
    let announced = u32::from_be_bytes(*prefix) as usize;
    if announced > limit {
        return Err(FrameError::TooLarge { announced, limit });
    }
    if buffer.len() < PREFIX + announced {
        // Room for the rest, now that its size is known to be allowed.
        buffer.reserve(PREFIX + announced - buffer.len());
        return Ok(None);
    }
    let mut frame = buffer.split_to(PREFIX + announced);
    let _ = frame.split_to(PREFIX);
    Ok(Some(frame))
}

/// Reads the bytes of one frame.
///
/// # Errors
/// If they mean nothing, or something follows.
pub fn decode(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    match postcard::take_from_bytes(bytes) {
        Ok((frame, [])) => Ok(frame),
        _ => Err(FrameError::Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1 << 16;

    fn frames(body: &[u8]) -> Vec<Frame<'_>> {
        vec![
            Frame::Hello(Hello {
                wire: 1,
                cluster: "c".into(),
                protocol: "p".into(),
                version: 3,
                from: NodeId(1),
                to: NodeId(2),
                life: Incarnation(4),
                directory: crate::store::Directory(5),
                terms: crate::hello::Terms { settings: 9, timing: (1, 2), ring: vec![NodeId(1), NodeId(2)] },
                nonce: Nonce([3; 16]),
                gap: None,
                onward: Some(NodeId(3)),
                via: None,
            }),
            Frame::Refusal(Refusal::Directory { newest: Incarnation(7) }),
            Frame::Welcome(Welcome {
                from: NodeId(2),
                life: Incarnation(1),
                directory: crate::store::Directory(6),
                received: 17,
            }),
            Frame::Refusal(Refusal::Cluster),
            Frame::Data { seq: 300, stamp: None, body },
            Frame::Data { seq: 1, stamp: Some(Stamp { lamport: 5, vector: vec![1, 2].into() }), body },
            Frame::Ack { upto: 12 },
            Frame::Beat,
            Frame::Bye,
            Frame::Onward,
            Frame::Hears(vec![(NodeId(3), Incarnation(2))]),
        ]
    }

    fn read_all(buffer: &mut BytesMut) -> Result<Vec<BytesMut>, FrameError> {
        let mut read = Vec::new();
        while let Some(frame) = split(buffer, LIMIT)? {
            read.push(frame);
        }
        Ok(read)
    }

    /// However the network cuts the bytes, the same frames come out.
    #[test]
    fn frames_survive_being_cut_at_every_byte() {
        let sent = frames(b"hello");
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| encode(frame, &mut bytes));
        for cut in 0..=bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..cut]);
            let mut read = read_all(&mut buffer).unwrap();
            buffer.extend_from_slice(&bytes[cut..]);
            read.extend(read_all(&mut buffer).unwrap());
            let read: Vec<Frame<'_>> = read.iter().map(|frame| decode(frame).unwrap()).collect();
            assert_eq!(read, sent, "cut at {cut}");
        }
    }

    #[test]
    fn four_gigabytes_are_refused_before_anything_is_allocated() {
        let mut buffer = BytesMut::from(&[0xff, 0xff, 0xff, 0xff, 0][..]);
        let refused = split(&mut buffer, LIMIT);
        assert_eq!(refused, Err(FrameError::TooLarge { announced: u32::MAX as usize, limit: LIMIT }));
        assert!(buffer.capacity() < 1_024);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(frame)) = split(&mut buffer, 64) {
                let _ = decode(&frame);
            }
            let _ = decode(&bytes);
        }

        /// A frame that is cut short or has something appended is not a frame.
        #[test]
        fn damaged_frames_are_refused(body in prop::collection::vec(any::<u8>(), 0..40), cut in 0usize..60, which in 0usize..11) {
            let mut bytes = Vec::new();
            encode(&frames(&body)[which], &mut bytes);
            let whole = &bytes[PREFIX..];
            prop_assert!(decode(whole).is_ok());
            if cut < whole.len() {
                prop_assert_eq!(decode(&whole[..cut]), Err(FrameError::Garbage));
            }
            let longer = [whole, &[0]].concat();
            prop_assert_eq!(decode(&longer), Err(FrameError::Garbage));
        }

        #[test]
        fn bodies_come_back(body in prop::collection::vec(any::<u8>(), 0..2_000), seq in any::<u64>()) {
            let mut bytes = Vec::new();
            encode(&Frame::Data { seq, stamp: None, body: &body }, &mut bytes);
            let mut buffer = BytesMut::from(&bytes[..]);
            let frame = split(&mut buffer, LIMIT).unwrap().unwrap();
            prop_assert_eq!(decode(&frame), Ok(Frame::Data { seq, stamp: None, body: &body }));
        }
    }
}
