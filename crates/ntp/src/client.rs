//! Measures the clock of a server over UDP.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

use crate::{Filter, Ignored, PACKET, Question, Sample, Stamp};

/// How a server is asked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often.
    pub samples: u32,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// The pause between an answer and the next question.
    pause: Duration,
}

impl Options {
    /// So many samples; for each answer this long.
    #[must_use]
    pub fn new(samples: u32, timeout: Duration) -> Self {
        Self { samples, timeout, pause: Duration::from_millis(2) }
    }
}

/// What came of asking a server.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The most exact of the last samples.
    pub best: Sample,
    /// How far the others are from it, in nanoseconds.
    pub dispersion: u64,
    /// How many answers there were.
    pub answered: u32,
    /// How many questions.
    pub asked: u32,
}

/// Why a server could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The network refuses.
    #[error("{server}: {error}")]
    Io {
        /// Whom.
        server: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// No question was answered in time.
    #[error("{0} did not answer")]
    Silent(SocketAddr),
    /// What it answered could not be used.
    #[error("{server} gave no time: {why}")]
    Useless {
        /// Whom.
        server: SocketAddr,
        /// What was wrong with the last answer.
        why: Ignored,
    },
}

/// Asks a server several times.
///
/// # Errors
/// If no answer can be used.
pub fn query(server: SocketAddr, options: &Options) -> Result<Measured, QueryError> {
    let failed = |error| QueryError::Io { server, error };
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).map_err(failed)?;
    // Only what comes from the server is received at all.
    socket.connect(server).map_err(failed)?;
    let (mut filter, mut answered, mut last) = (Filter::default(), 0, None);
    for nth in 0..options.samples {
        if nth > 0 {
            std::thread::sleep(options.pause);
        }
        match ask(&socket, options.timeout).map_err(failed)? {
            Ok(sample) => {
                filter.add(sample);
                answered += 1;
            }
            Err(why) => last = why.or(last),
        }
    }
    let none = || last.map_or(QueryError::Silent(server), |why| QueryError::Useless { server, why });
    let best = filter.best().ok_or_else(none)?;
    Ok(Measured { best, dispersion: filter.dispersion(), answered, asked: options.samples })
}

/// One question; the error is why the last answer was ignored, if there was one.
fn ask(socket: &UdpSocket, timeout: Duration) -> io::Result<Result<Sample, Option<Ignored>>> {
    let mut question =
        Question::new(getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?, now());
    socket.send(&question.packet().encode())?;
    // Room for one word more than an answer has: so one that is longer is seen to be.
    let (deadline, mut last, mut bytes) = (Instant::now() + timeout, None, [0; PACKET + 4]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err(last));
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut bytes) {
            Ok(length) => match question.accept(&bytes[..length], now()) {
                Ok(sample) => return Ok(Ok(sample)),
                Err(why) => last = Some(why),
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nobody listens there: that is known at once.
            Err(error) => return Err(error),
        }
    }
}

fn now() -> Stamp {
    Stamp::of(SystemTime::now(), 0)
}
