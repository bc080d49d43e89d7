//! Answers questions about the time over UDP.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::SystemTime;

use crate::{Leap, Mode, Packet, Short, Stamp};

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// How far its clock is ahead of that of the machine, in nanoseconds.
    pub offset: i64,
    /// Its distance from a reference clock, 1 to 15.
    pub stratum: u8,
}

impl Default for ServerOptions {
    /// As far away as servers that have only the clock of their machine usually say they are.
    fn default() -> Self {
        Self { offset: 0, stratum: 10 }
    }
}

/// A server that has the clock of the machine.
#[derive(Debug)]
pub struct Server {
    socket: UdpSocket,
    options: ServerOptions,
}

/// The clock can be read to a microsecond, about.
const PRECISION: i8 = -20;
/// The clock of the machine: so servers call it that have nothing else.
const LOCAL: [u8; 4] = [127, 127, 1, 1];

impl Server {
    /// Listens there.
    ///
    /// # Errors
    /// If the address is not to be had.
    pub fn bind(address: SocketAddr, options: ServerOptions) -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind(address)?, options })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers without end.
    ///
    /// # Errors
    /// If nothing can be received any more.
    pub fn run(&self) -> io::Result<()> {
        let mut bytes = [0; 512];
        loop {
            let (length, client) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                // Somebody to whom an answer was sent no longer listens.
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            };
            let received = self.now();
            let Ok(question) = Packet::decode(&bytes[..length]) else { continue };
            if let Some(packet) = answer(&question, received, self.now(), self.options.stratum) {
                // Who does not get it asks again.
                let _ = self.socket.send_to(&packet.encode(), client);
            }
        }
    }

    fn now(&self) -> Stamp {
        Stamp::of(SystemTime::now(), self.options.offset)
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted)
}

/// The answer to a client; others are not answered.
#[must_use]
pub fn answer(question: &Packet, received: Stamp, transmit: Stamp, stratum: u8) -> Option<Packet> {
    if question.mode != Mode::Client || !(1..=4).contains(&question.version) {
        return None;
    }
    Some(Packet {
        leap: Leap::None,
        version: question.version,
        mode: Mode::Server,
        stratum,
        poll: question.poll,
        precision: PRECISION,
        root_delay: Short::default(),
        root_dispersion: Short::of_nanos(1_000),
        reference_id: LOCAL,
        reference: received,
        origin: question.transmit,
        receive: received,
        transmit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_are_answered() {
        let question = Packet::question(Stamp(7));
        let reply = answer(&question, Stamp(8), Stamp(9), 10).expect("it is a question");
        assert_eq!((reply.mode, reply.origin, reply.receive), (Mode::Server, Stamp(7), Stamp(8)));
        for wrong in [
            Packet { mode: Mode::Server, ..question },
            Packet { mode: Mode::Control, ..question },
            Packet { version: 0, ..question },
            Packet { version: 7, ..question },
        ] {
            assert_eq!(answer(&wrong, Stamp(8), Stamp(9), 10), None);
        }
    }
}
