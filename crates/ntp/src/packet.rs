//! A packet of the Network Time Protocol: 48 bytes (RFC 5905, section 7.3).

use crate::{Short, Stamp};

/// The length of a packet; extensions may follow it.
pub const PACKET: usize = 48;

/// What goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Whether a leap second is near, or the clock was never set.
    pub leap: Leap,
    /// Of the protocol: 1 to 4, and others that nobody speaks.
    pub version: u8,
    /// Who says this to whom.
    pub mode: Mode,
    /// How far from a reference clock: 1 has one, 16 and more have no time, and 0 is a refusal.
    pub stratum: u8,
    /// How often the server is asked: the logarithm of seconds.
    pub poll: i8,
    /// How exactly the clock can be read: the logarithm of seconds.
    pub precision: i8,
    /// The round trip to the reference clock.
    pub root_delay: Short,
    /// How wrong the time of the server can be, beyond half of that.
    pub root_dispersion: Short,
    /// Which reference clock, which server, or why it refuses.
    pub reference_id: [u8; 4],
    /// When the clock was set last.
    pub reference: Stamp,
    /// What the question gave as its time of sending.
    pub origin: Stamp,
    /// When the question arrived.
    pub receive: Stamp,
    /// When this packet left.
    pub transmit: Stamp,
}

/// The first two bits of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leap {
    /// The last minute of the day is as long as any.
    #[default]
    None,
    /// It has 61 seconds.
    Longer,
    /// It has 59.
    Shorter,
    /// The clock was never set.
    Unset,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nobody who is known.
    Reserved,
    /// A peer that would answer and be answered.
    SymmetricActive,
    /// A peer that answers one.
    SymmetricPassive,
    /// A client.
    Client,
    /// A server.
    Server,
    /// A server that speaks to all.
    Broadcast,
    /// A program that manages servers.
    Control,
    /// For private use.
    Private,
}

/// The bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are no packet: it has 48, and extensions of whole words")]
pub struct Malformed(pub usize);

const LEAPS: [Leap; 4] = [Leap::None, Leap::Longer, Leap::Shorter, Leap::Unset];

const MODES: [Mode; 8] = [
    Mode::Reserved,
    Mode::SymmetricActive,
    Mode::SymmetricPassive,
    Mode::Client,
    Mode::Server,
    Mode::Broadcast,
    Mode::Control,
    Mode::Private,
];

impl Packet {
    /// A client's packet in which nothing is said but the time of sending.
    #[must_use]
    pub fn question(transmit: Stamp) -> Self {
        Self {
            leap: Leap::None,
            version: 4,
            mode: Mode::Client,
            stratum: 0,
            poll: 0,
            precision: 0,
            root_delay: Short::default(),
            root_dispersion: Short::default(),
            reference_id: [0; 4],
            reference: Stamp::NONE,
            origin: Stamp::NONE,
            receive: Stamp::NONE,
            transmit,
        }
    }

    /// Reads a packet; what follows it is passed over.
    ///
    /// # Errors
    /// If there are too few bytes, or more that are no extension.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (Some(packet), true) = (bytes.first_chunk::<PACKET>(), bytes.len().is_multiple_of(4)) else {
            return Err(Malformed(bytes.len()));
        };
        let four = |at: usize| [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
        let short = |at: usize| Short(u32::from_be_bytes(four(at)));
        let stamp = |at: usize| {
            let half = |at: usize| u64::from(u32::from_be_bytes(four(at)));
            Stamp(half(at) << 32 | half(at + 4))
        };
        Ok(Self {
            leap: LEAPS[usize::from(packet[0] >> 6)],
            version: packet[0] >> 3 & 7,
            mode: MODES[usize::from(packet[0] & 7)],
            stratum: packet[1],
            poll: packet[2] as i8,
            precision: packet[3] as i8,
            root_delay: short(4),
            root_dispersion: short(8),
            reference_id: four(12),
            reference: stamp(16),
            origin: stamp(24),
            receive: stamp(32),
            transmit: stamp(40),
        })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; PACKET] {
        let mut bytes = [0; PACKET];
        bytes[0] = (self.leap as u8) << 6 | (self.version & 7) << 3 | self.mode as u8;
        bytes[1] = self.stratum;
        bytes[2] = self.poll as u8;
        bytes[3] = self.precision as u8;
        bytes[4..8].copy_from_slice(&self.root_delay.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.root_dispersion.0.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.reference_id);
        for (place, stamp) in [self.reference, self.origin, self.receive, self.transmit].iter().enumerate() {
            bytes[16 + 8 * place..][..8].copy_from_slice(&stamp.0.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a real server said, byte by byte.
    #[test]
    fn an_answer_is_read() {
        let mut bytes = [0; PACKET];
        bytes[..4].copy_from_slice(&[0x24, 10, 6, 0xe7]);
        bytes[8..12].copy_from_slice(&[0, 0, 0x80, 0]);
        bytes[12..16].copy_from_slice(&[127, 127, 1, 1]);
        bytes[24] = 0xe9;
        bytes[47] = 7;
        let packet = Packet::decode(&bytes).expect("it is a packet");
        assert_eq!((packet.leap, packet.version, packet.mode), (Leap::None, 4, Mode::Server));
        assert_eq!((packet.stratum, packet.poll, packet.precision), (10, 6, -25));
        assert_eq!(packet.root_dispersion.nanos(), 500_000_000);
        assert_eq!((packet.origin, packet.transmit), (Stamp(0xe9 << 56), Stamp(7)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            match Packet::decode(&bytes) {
                Ok(packet) => prop_assert_eq!(&packet.encode()[..], &bytes[..PACKET]),
                Err(Malformed(length)) => {
                    prop_assert!(length == bytes.len() && (length < PACKET || length % 4 != 0));
                }
            }
        }
    }
}
