//! What people and programs say to a process through its control socket: one JSON value per line.
//!
//! The socket is a file in the data directory, so that whoever may open the directory may give orders, and nobody else. From
//! other machines it is TCP, and whoever knows the secret of the group may.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_algorithms::Name;
use conclave_algorithms::desk::{Standing, Wish, Word};
use conclave_core::{Group, NodeId};
use conclave_net::secret::{Nonce, Side};
use conclave_net::{Address, Resolver, Secret};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::seal::{HERE, Seal, nonce_line, read_nonce};

/// The name of the socket in a data directory.
pub const SOCKET: &str = "control.sock";

/// No line of a client is longer.
pub(crate) const LONGEST_LINE: usize = 16 << 10;
/// What is asked may have so many bytes: the proof of the secret takes some of a line, too.
const LONGEST_ASK: usize = LONGEST_LINE - 512;

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
    /// What have you written down in this life, from this byte on?
    Record {
        /// Which life.
        life: u32,
        /// From where.
        offset: u64,
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
    /// So much of it; nothing more if it is empty, and no record if there is none.
    Record(Option<String>),
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
    /// The epoch that it is in, who belongs to that and who leads, where processes recover as a group.
    pub group: Option<Group>,
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
    /// Who carries the connection to it, if it cannot be reached straight.
    pub via: Option<NodeId>,
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
    /// It would not have listened to the end.
    #[error("this takes {0} bytes to ask for, and a process hears {LONGEST_ASK} at the most")]
    TooLong(usize),
    /// What it said was not said by a process of the group.
    #[error("the answer has no proof of the secret; is the secret of the file that of the cluster?")]
    Forged,
    /// It said something that means nothing.
    #[error("the process said what means nothing: {0}")]
    Strange(String),
}

/// A connection to a process: on this machine by its socket, on another one by TCP, sealed with the secret of the group.
#[derive(Debug)]
pub struct Control {
    lines: BufReader<Wire>,
    line: Vec<u8>,
    speech: Arc<Mutex<Option<Seal>>>,
    hearing: Option<Seal>,
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
            Ok(stream) => Ok(Self::over(Wire::Unix(stream), None, path)),
            Err(error) => Err(ControlError::Silent { path, error }),
        }
    }

    /// Connects to a process on another machine.
    ///
    /// # Errors
    /// If nobody answers there, or not as a process does.
    pub fn reach(address: &Address, secret: &Secret) -> Result<Self, ControlError> {
        let path = PathBuf::from(address.to_string());
        let silent = |error| ControlError::Silent { path: path.clone(), error };
        let stream = dial(address).map_err(silent)?;
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).map_err(silent)?;
        let mut control = Self::over(Wire::Tcp(stream), None, path.clone());
        control.read_line().map_err(silent)?;
        let theirs = read_nonce(&core::mem::take(&mut control.line));
        let theirs = theirs.ok_or_else(|| ControlError::Strange("no nonce came first".into()))?;
        let ours = Nonce::random();
        control.lines.get_mut().write_all(&nonce_line(ours)).map_err(silent)?;
        let mut seal = Seal::new(secret.clone(), Side::Connects, [theirs, ours]);
        control.read_line().map_err(silent)?;
        if seal.open(&core::mem::take(&mut control.line)) != Some(HERE) {
            return Err(ControlError::Forged);
        }
        Ok(Self { speech: Arc::new(Mutex::new(Some(seal.clone()))), hearing: Some(seal), ..control })
    }

    fn over(wire: Wire, seal: Option<Seal>, path: PathBuf) -> Self {
        let speech = Arc::new(Mutex::new(seal.clone()));
        Self { lines: BufReader::new(wire), line: Vec::new(), speech, hearing: seal, path }
    }

    /// Reads on until there is a whole line; what was read before it took too long is kept.
    fn read_line(&mut self) -> io::Result<usize> {
        self.lines.read_until(b'\n', &mut self.line)
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn ask(&mut self, ask: &Ask) -> Result<(), ControlError> {
        let length = serde_json::to_vec(ask).map_or(0, |line| line.len());
        if length > LONGEST_ASK {
            return Err(ControlError::TooLong(length));
        }
        let mut asker = self.asker()?;
        asker.try_ask(ask).map_err(|error| self.failed(error))
    }

    /// Waits for the next answer; nothing if it does not come in time.
    ///
    /// # Errors
    /// If the process is gone, or says what means nothing.
    pub fn answer(&mut self, within: Option<Duration>) -> Result<Option<Answer>, ControlError> {
        // A span of zero would mean forever.
        let within = within.map(|span| span.max(Duration::from_millis(1)));
        self.lines.get_ref().set_read_timeout(within).map_err(|error| self.failed(error))?;
        match self.read_line() {
            Ok(0) => return Err(ControlError::Gone),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(self.failed(error)),
        }
        let line = core::mem::take(&mut self.line);
        let said = match &mut self.hearing {
            Some(seal) => seal.open(&line).ok_or(ControlError::Forged)?,
            None => &line,
        };
        serde_json::from_slice(said).map(Some).map_err(|error| ControlError::Strange(error.to_string()))
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
        let wire = self.lines.get_ref().try_clone().map_err(|error| self.failed(error))?;
        Ok(Asker { wire, speech: Arc::clone(&self.speech) })
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

    /// The record of a life, as far as it has been written; nothing if there is none.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn record(&mut self, life: u32) -> Result<Option<String>, ControlError> {
        let mut text = String::new();
        loop {
            let offset = text.len() as u64;
            match self.call(&Ask::Record { life, offset })? {
                Answer::Record(Some(piece)) if piece.is_empty() => return Ok(Some(text)),
                Answer::Record(Some(piece)) => text += &piece,
                Answer::Record(None) => return Ok(None),
                other => return Err(ControlError::Strange(format!("{other:?}"))),
            }
        }
    }

    fn failed(&self, error: io::Error) -> ControlError {
        ControlError::Silent { path: self.path.clone(), error }
    }
}

/// Connects to where a process is found now: the first of its addresses that answers.
fn dial(address: &Address) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for found in Resolver::default().look_up(address)? {
        match TcpStream::connect_timeout(&found, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Asks on a connection whose answers are read elsewhere.
#[derive(Debug)]
pub struct Asker {
    wire: Wire,
    speech: Arc<Mutex<Option<Seal>>>,
}

impl Asker {
    /// Asks for something; false if nobody listens any more.
    pub fn ask(&mut self, ask: &Ask) -> bool {
        self.try_ask(ask).is_ok()
    }

    fn try_ask(&mut self, ask: &Ask) -> io::Result<()> {
        let mut line = serde_json::to_vec(ask).map_err(io::Error::other)?;
        line.push(b'\n');
        // Lines are numbered, and written in the order of their numbers.
        let mut speech = self.speech.lock().unwrap_or_else(PoisonError::into_inner);
        let line = speech.as_mut().map_or(line.clone(), |seal| seal.close(&line));
        self.wire.write_all(&line)
    }
}

/// What carries the lines.
#[derive(Debug)]
enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn set_read_timeout(&self, within: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(within),
            Self::Tcp(stream) => stream.set_read_timeout(within),
        }
    }

    fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}

impl From<Wire> for OwnedFd {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Unix(stream) => stream.into(),
            Wire::Tcp(stream) => stream.into(),
        }
    }
}

impl io::Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a connection when it is dropped.
#[derive(Debug)]
pub struct Closer(Wire);

impl Drop for Closer {
    fn drop(&mut self) {
        // If it has ended already, so much the better.
        let _ = self.0.shutdown();
    }
}
