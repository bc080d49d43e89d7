//! What people and programs say to a process through its control socket: one JSON value per line.
//!
//! The socket is a file in the data directory, so that whoever may open the directory may give orders, and nobody else.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_algorithms::Name;
use conclave_algorithms::desk::{Standing, Wish, Word};
use conclave_core::NodeId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The name of the socket in a data directory.
pub const SOCKET: &str = "control.sock";

/// A process that takes longer to answer stands still.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a process may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Something that the algorithm is for. What a client has is given back when its connection ends.
    Wish(Wish),
    /// Tell me everything that the algorithm says from now on.
    Tail,
    /// How do you stand?
    Status,
    /// For how long may what I have of this name be held, if it is not confirmed again?
    Left {
        /// Which lock.
        name: Name,
    },
    /// Have no links with these.
    Cut(Vec<NodeId>),
    /// Have links with these again.
    Heal(Vec<NodeId>),
    /// Shut down.
    Stop,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// From the desk.
    Word(Word),
    /// How it stands.
    Status(Box<Status>),
    /// How much time is left, from the question on: whoever counts from when it asked is never late.
    Left {
        /// Which lock.
        name: Name,
        /// In microseconds; nothing if what is held does not run out.
        micros: Option<u64>,
        /// So long before the end, in microseconds, a program is to be told of it.
        notice: u64,
    },
    /// It is done, or will be.
    Done,
    /// It cannot be.
    Wrong(String),
}

/// How a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub id: NodeId,
    /// Its number for the operating system.
    pub pid: u32,
    /// Which of its lives this is.
    pub life: u32,
    /// What it runs.
    pub algorithm: String,
    /// What its clients have and want.
    pub desk: Standing,
    /// How it stands with the others.
    pub peers: BTreeMap<NodeId, PeerStatus>,
    /// The algorithm's messages that it sent, by kind.
    pub messages: BTreeMap<String, u64>,
    /// The same of messages that are counted apart.
    pub overhead_messages: BTreeMap<String, u64>,
    /// How often somebody did on the wire what is not allowed.
    pub complaints: u64,
}

/// How a process stands with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Whether there are connections both ways.
    pub connected: bool,
    /// Whether it is suspected.
    pub suspected: bool,
    /// Whether the links with it are cut.
    pub cut: bool,
    /// Messages to it that it has not acknowledged.
    pub waiting: usize,
    /// Messages that were sent to it again.
    pub resent: u64,
    /// Why it is not talked to.
    pub refused: Option<String>,
}

/// Why a process did not answer.
#[derive(Debug, Error)]
pub enum ControlError {
    /// It is not there.
    #[error("nobody answers at {path}: {error}")]
    Silent {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is there, and says nothing.
    #[error("nobody answers at {0}: the process stands still, or has too much to do")]
    Slow(PathBuf),
    /// It went away.
    #[error("the process went away")]
    Gone,
    /// It said something that means nothing.
    #[error("the process said what means nothing: {0}")]
    Strange(String),
}

/// A connection to a process.
#[derive(Debug)]
pub struct Control {
    lines: BufReader<UnixStream>,
    path: PathBuf,
}

impl Control {
    /// Connects to the process that has this data directory.
    ///
    /// # Errors
    /// If there is none.
    pub fn connect(data: &Path) -> Result<Self, ControlError> {
        let path = data.join(SOCKET);
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Self { lines: BufReader::new(stream), path }),
            Err(error) => Err(ControlError::Silent { path, error }),
        }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn ask(&mut self, ask: &Ask) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(ask).map_err(|error| ControlError::Strange(error.to_string()))?;
        line.push(b'\n');
        self.lines.get_mut().write_all(&line).map_err(|error| self.failed(error))
    }

    /// Waits for the next answer; nothing if it does not come in time.
    ///
    /// # Errors
    /// If the process is gone, or says what means nothing.
    pub fn answer(&mut self, within: Option<Duration>) -> Result<Option<Answer>, ControlError> {
        let stream = self.lines.get_ref();
        // A span of zero would mean forever.
        let within = within.map(|span| span.max(Duration::from_millis(1)));
        stream.set_read_timeout(within).map_err(|error| self.failed(error))?;
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err(ControlError::Gone),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|error| ControlError::Strange(error.to_string())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// What ends the connection while somebody waits for an answer; what the client has is given back then.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn closer(&self) -> Result<Closer, ControlError> {
        self.lines.get_ref().try_clone().map(Closer).map_err(|error| self.failed(error))
    }

    /// What asks while somebody waits for an answer.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn asker(&self) -> Result<Asker, ControlError> {
        self.lines.get_ref().try_clone().map(Asker).map_err(|error| self.failed(error))
    }

    /// Another end of the connection: as long as it is open, what the client has is not given back.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn hold(&self) -> Result<OwnedFd, ControlError> {
        self.lines.get_ref().try_clone().map(OwnedFd::from).map_err(|error| self.failed(error))
    }

    /// Asks, and waits for the answer, but not for long.
    ///
    /// # Errors
    /// If the process is gone, stands still, or says what means nothing.
    pub fn call(&mut self, ask: &Ask) -> Result<Answer, ControlError> {
        self.ask(ask)?;
        self.answer(Some(PATIENCE))?.ok_or_else(|| ControlError::Slow(self.path.clone()))
    }

    fn failed(&self, error: io::Error) -> ControlError {
        ControlError::Silent { path: self.path.clone(), error }
    }
}

/// Asks on a connection whose answers are read elsewhere.
#[derive(Debug)]
pub struct Asker(UnixStream);

impl Asker {
    /// Asks for something; false if nobody listens any more.
    pub fn ask(&mut self, ask: &Ask) -> bool {
        serde_json::to_vec(ask).is_ok_and(|mut line| {
            line.push(b'\n');
            self.0.write_all(&line).is_ok()
        })
    }
}

/// Ends a connection when it is dropped.
#[derive(Debug)]
pub struct Closer(UnixStream);

impl Drop for Closer {
    fn drop(&mut self) {
        // If it has ended already, so much the better.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
