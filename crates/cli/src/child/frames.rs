//! What the runner and the keeper say to each other, in frames of one size: a pipe carries each whole or not at all.

use nix::sys::signal::Signal;

use super::boot::Boot;

/// The size of a frame in bytes.
pub const SIZE: usize = 24;

/// When the command must be told to end, and when it must be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// SIGTERM.
    pub tell_at: Boot,
    /// SIGKILL.
    pub kill_at: Boot,
}

/// The command was stopped, as by Ctrl-Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Which process.
    pub pid: i32,
    /// What stopped it.
    pub signal: Signal,
    /// How many stops there have been.
    pub count: u64,
}

impl Stop {
    fn fields(self) -> [u64; 2] {
        [self.signal as u64 | u64::from(self.pid.unsigned_abs()) << 8, self.count]
    }

    fn from_fields(both: u64, count: u64) -> Option<Self> {
        Some(Self { pid: i32::try_from(both >> 8).ok()?, signal: signal(both & 0xff)?, count })
    }
}

fn signal(number: u64) -> Option<Signal> {
    i32::try_from(number).ok().and_then(|number| Signal::try_from(number).ok())
}

/// What the runner asks of the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lease was renewed, or was lost.
    Deadlines(Deadlines),
    /// Send a signal to the command.
    Forward(Signal),
    /// Let the command go on after this stop, unless there has been another.
    Resume(Stop),
    /// Let the command begin: what arrived before it was in its process group has been forwarded.
    Begin,
}

/// What the keeper tells the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process that becomes the command is in its process group, and waits for [`Order::Begin`].
    Ready,
    /// The command could not be started.
    NotStarted { errno: i32 },
    /// The command was stopped.
    Stopped(Stop),
    /// A deadline passed: the command and everything it started was told to end.
    Ending,
    /// The command ended with this code, and so many processes that it started still run.
    Ended { code: u8, left: u32 },
    /// Nothing is left to be waited for. The last event.
    Gone,
}

/// A tag and two numbers.
type Fields = [u64; 3];

fn to_bytes(fields: Fields) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    for (chunk, field) in bytes.chunks_exact_mut(8).zip(fields) {
        chunk.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

fn to_fields(bytes: [u8; SIZE]) -> Fields {
    let mut fields = [0; 3];
    for (field, chunk) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
        *field = chunk.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    }
    fields
}

impl Order {
    /// As a frame.
    pub fn encode(self) -> [u8; SIZE] {
        to_bytes(match self {
            Self::Deadlines(Deadlines { tell_at, kill_at }) => [1, tell_at.to_nanos(), kill_at.to_nanos()],
            Self::Forward(signal) => [2, signal as u64, 0],
            Self::Resume(stop) => {
                let [both, count] = stop.fields();
                [3, both, count]
            }
            Self::Begin => [4, 0, 0],
        })
    }

    /// From a frame; nothing if it makes no sense.
    pub fn decode(bytes: [u8; SIZE]) -> Option<Self> {
        match to_fields(bytes) {
            [1, tell_at, kill_at] => Some(Self::Deadlines(Deadlines {
                tell_at: Boot::from_nanos(tell_at),
                kill_at: Boot::from_nanos(kill_at),
            })),
            [2, number, _] => signal(number).map(Self::Forward),
            [3, both, count] => Stop::from_fields(both, count).map(Self::Resume),
            [4, ..] => Some(Self::Begin),
            _ => None,
        }
    }
}

impl Event {
    /// As a frame.
    pub fn encode(self) -> [u8; SIZE] {
        to_bytes(match self {
            Self::Ending => [1, 0, 0],
            Self::Ended { code, left } => [2, u64::from(code), u64::from(left)],
            Self::Gone => [3, 0, 0],
            Self::NotStarted { errno } => [4, u64::from(errno.unsigned_abs()), 0],
            Self::Stopped(stop) => {
                let [both, count] = stop.fields();
                [5, both, count]
            }
            Self::Ready => [6, 0, 0],
        })
    }

    /// From a frame; nothing if it makes no sense.
    pub fn decode(bytes: [u8; SIZE]) -> Option<Self> {
        match to_fields(bytes) {
            [1, ..] => Some(Self::Ending),
            [2, code, left] => {
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                Some(Self::Ended { code: u8::try_from(code).ok()?, left })
            }
            [3, ..] => Some(Self::Gone),
            [5, both, count] => Stop::from_fields(both, count).map(Self::Stopped),
            [4, errno, _] => Some(Self::NotStarted { errno: i32::try_from(errno).ok()? }),
            [6, ..] => Some(Self::Ready),
            _ => None,
        }
    }
}

/// Cuts what was read into frames; the rest stays for later.
pub fn take_frames(read: &mut Vec<u8>) -> Vec<[u8; SIZE]> {
    let (frames, rest) = read.as_chunks();
    let (frames, rest) = (frames.to_vec(), rest.to_vec());
    *read = rest;
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_what_was_put_in() {
        let deadlines = Deadlines { tell_at: Boot::from_nanos(1 << 60), kill_at: Boot::from_nanos(u64::MAX) };
        let stop = Stop { pid: 4_194_303, signal: Signal::SIGTSTP, count: 3 };
        for order in
            [Order::Deadlines(deadlines), Order::Forward(Signal::SIGUSR2), Order::Resume(stop), Order::Begin]
        {
            assert_eq!(Order::decode(order.encode()), Some(order));
        }
        let ended = Event::Ended { code: 255, left: 70_000 };
        let failed = Event::NotStarted { errno: 11 };
        for event in [Event::Ready, Event::Ending, ended, Event::Gone, failed, Event::Stopped(stop)] {
            assert_eq!(Event::decode(event.encode()), Some(event));
        }
        assert_eq!(Order::decode([9; SIZE]), None);
        assert_eq!(Event::decode([9; SIZE]), None);
    }

    #[test]
    fn half_a_frame_waits_for_the_other_half() {
        let mut read = [Event::Ending.encode(), Event::Gone.encode()].concat();
        let late = read.split_off(30);
        assert_eq!(take_frames(&mut read), [Event::Ending.encode()]);
        read.extend(late);
        assert_eq!(take_frames(&mut read), [Event::Gone.encode()]);
        assert!(read.is_empty());
    }
}
