//! ZooKeeper's wire format, as much of it as a lock needs: big-endian numbers, strings and buffers with a length in
//! front, and a length in front of every packet.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::target::TargetError;

/// The number under which notifications of watches arrive.
pub const NOTIFICATION: i32 = -1;
/// The number under which pings are answered.
pub const PING: i32 = -2;

/// Error of a node that is not there.
pub const NO_NODE: i32 = -101;
/// Error of a node that is there already.
pub const NODE_EXISTS: i32 = -110;

/// What is asked, by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Op {
    /// Makes a node.
    Create = 1,
    /// Removes one.
    Delete = 2,
    /// Reads one, and watches it.
    GetData = 4,
    /// Lists what is under one.
    GetChildren = 8,
    /// Keeps the session.
    Ping = 11,
    /// Ends the session.
    Close = -11,
}

/// How long a created node lives and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Flags {
    /// Until it is deleted.
    Persistent = 0,
    /// As long as the session, with a number after its name that grows.
    EphemeralSequential = 3,
}

/// A packet that is being written.
#[derive(Debug)]
pub struct Packet(BytesMut);

impl Packet {
    /// One that begins with the number of the request and what it is.
    pub fn request(xid: i32, op: Op) -> Self {
        Self::empty().int(xid).int(op as i32)
    }

    /// The first packet of a new session.
    pub fn connect(timeout_ms: i32) -> Self {
        let (version, last_seen, session) = (0, 0, 0);
        Self::empty().int(version).long(last_seen).int(timeout_ms).long(session).buffer(&[0; 16]).flag(false)
    }

    fn empty() -> Self {
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_i32(0);
        Self(bytes)
    }

    /// Appends a number of four bytes.
    pub fn int(mut self, value: i32) -> Self {
        self.0.put_i32(value);
        self
    }

    fn long(mut self, value: i64) -> Self {
        self.0.put_i64(value);
        self
    }

    /// Appends bytes with their length in front.
    pub fn buffer(mut self, bytes: &[u8]) -> Self {
        self.0.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.put_slice(bytes);
        self
    }

    /// Appends a string.
    pub fn text(self, text: &str) -> Self {
        self.buffer(text.as_bytes())
    }

    /// Appends a yes or no.
    pub fn flag(mut self, value: bool) -> Self {
        self.0.put_u8(u8::from(value));
        self
    }

    /// Appends the permissions that let everyone do everything.
    pub fn open_to_all(self) -> Self {
        let (entries, all) = (1, 31);
        self.int(entries).int(all).text("world").text("anyone")
    }

    /// The whole, with its length in front.
    pub fn finish(mut self) -> Bytes {
        let length = i32::try_from(self.0.len() - 4).unwrap_or(i32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0.freeze()
    }
}

/// Cuts one packet off the front, without its length.
pub fn take_packet(buffer: &mut BytesMut) -> Result<Option<Bytes>, TargetError> {
    let Some(length) = buffer.first_chunk::<4>().map(|head| i32::from_be_bytes(*head)) else {
        return Ok(None);
    };
    let length = usize::try_from(length).map_err(|_| short())?;
    if buffer.len() - 4 < length {
        return Ok(None);
    }
    buffer.advance(4);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// What an answer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the request, or one of the reserved ones.
    pub xid: i32,
    /// 0, or what went wrong.
    pub error: i32,
}

/// Reads the head of an answer.
pub fn head(packet: &mut Bytes) -> Result<Head, TargetError> {
    let xid = int(packet)?;
    let _transaction = packet.try_get_i64().map_err(|_| short())?;
    Ok(Head { xid, error: int(packet)? })
}

/// Reads a number of four bytes.
pub fn int(packet: &mut Bytes) -> Result<i32, TargetError> {
    packet.try_get_i32().map_err(|_| short())
}

/// Reads a string.
pub fn text(packet: &mut Bytes) -> Result<String, TargetError> {
    let length = usize::try_from(int(packet)?).map_err(|_| short())?;
    if packet.len() < length {
        return Err(short());
    }
    String::from_utf8(packet.split_to(length).to_vec()).map_err(|_| short())
}

/// Reads a list of strings.
pub fn texts(packet: &mut Bytes) -> Result<Vec<String>, TargetError> {
    let count = int(packet)?;
    (0..count).map(|_| text(packet)).collect()
}

fn short() -> TargetError {
    TargetError::Garbled("a packet that does not hold what it should".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_carry_their_length_and_are_read_back() {
        let sent = Packet::request(7, Op::GetData).text("/a").flag(true).finish();
        assert_eq!(&sent[..], [0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 2, b'/', b'a', 1]);
        let mut buffer = BytesMut::from(&sent[..10]);
        assert_eq!(take_packet(&mut buffer), Ok(None), "not whole yet");
        buffer.extend_from_slice(&sent[10..]);
        let mut packet = take_packet(&mut buffer).expect("well-formed").expect("whole");
        assert_eq!((int(&mut packet), int(&mut packet)), (Ok(7), Ok(4)));
        assert_eq!(text(&mut packet), Ok("/a".to_owned()));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert!(take_packet(&mut BytesMut::from(&[0xff, 0xff, 0xff, 0xff][..])).is_err());
        let lying: &[u8] = &[0x7f, 0xff, 0xff, 0xff, b'x'];
        assert!(text(&mut Bytes::from_static(lying)).is_err());
        assert!(texts(&mut Bytes::from_static(lying)).is_err());
        assert!(head(&mut Bytes::from_static(lying)).is_err());
    }
}
