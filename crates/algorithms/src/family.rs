//! What a driver must know of a family of algorithms to talk to them, to judge them and to write down what they say.

use alloc::format;
use alloc::string::{String, ToString};
use core::marker::PhantomData;

use conclave_core::Protocol;

use crate::election::{self, Election};
use crate::mutex::{self, Locks};
use crate::{Judge, Ledger};

/// A family of algorithms, seen from a driver.
pub trait Family {
    /// The protocols of the family.
    type Protocol: Protocol;
    /// What judges a single run of them.
    type Judge: Judge<Self::Protocol> + Clone;
    /// What a checker remembers in order to judge them.
    type Ledger: Ledger<Self::Protocol>;

    /// The request that a script means by a word, for this lock.
    fn read(word: &str, lock: usize) -> Option<RequestOf<Self>>;

    /// A request as scripts and traces write it, and the lock that it is for.
    fn write(request: &RequestOf<Self>) -> (&'static str, usize);

    /// An event as traces write it.
    fn told(event: &EventOf<Self>) -> Told;

    /// The name of the lock that a request is for, where locks have names.
    fn lock_asked(_request: &RequestOf<Self>) -> Option<String> {
        None
    }

    /// The name of the lock that an event is about, where locks have names.
    fn lock_told(_event: &EventOf<Self>) -> Option<String> {
        None
    }

    /// Whether a process that says so has left, and does nothing any more.
    fn has_left(_event: &EventOf<Self>) -> bool {
        false
    }

    /// Whether there is a token that moves.
    fn is_token_based() -> bool {
        false
    }

    /// The token that a process has; of several locks, that of the first.
    fn token(_state: &Self::Protocol) -> Option<mutex::Epoch> {
        None
    }

    /// The token that a message carries, of whichever lock.
    fn token_in(_message: &MessageOf<Self>) -> Option<mutex::Epoch> {
        None
    }
}

/// The requests of a family.
pub type RequestOf<F> = <<F as Family>::Protocol as Protocol>::Request;
/// The messages of a family.
pub type MessageOf<F> = <<F as Family>::Protocol as Protocol>::Message;
/// The events of a family.
pub type EventOf<F> = <<F as Family>::Protocol as Protocol>::Event;

/// An event in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What was told: `granted`, `elected p3`.
    pub event: String,
    /// The proof that came with it, if any.
    pub fence: String,
    /// About which lock.
    pub lock: usize,
}

/// In one line, as a script has it.
impl core::fmt::Display for Told {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.event)?;
        if self.lock > 0 {
            write!(f, " lock {}", self.lock)?;
        }
        if self.fence.is_empty() { Ok(()) } else { write!(f, " {}", self.fence) }
    }
}

/// Mutual exclusion, on one lock or several.
pub struct Locking<L>(PhantomData<L>);

impl<L: Locks> Family for Locking<L> {
    type Protocol = L;
    type Judge = mutex::Properties;
    type Ledger = mutex::Ledger;

    fn read(word: &str, lock: usize) -> Option<L::Request> {
        let request = match word {
            "acquire" => mutex::Request::Acquire,
            "release" => mutex::Request::Release,
            "cancel" => mutex::Request::Cancel,
            "leave" => mutex::Request::Leave,
            _ => return None,
        };
        Some(L::ask(lock, request))
    }

    fn write(request: &L::Request) -> (&'static str, usize) {
        let (lock, request) = L::asked(request);
        (lock_word(request), lock)
    }

    fn told(event: &L::Event) -> Told {
        match L::told(event) {
            (lock, mutex::Event::Granted { fence }) => {
                Told { event: "granted".into(), fence: fence.to_string(), lock }
            }
            (lock, mutex::Event::Lost { fence }) => {
                Told { event: "lost".into(), fence: fence.to_string(), lock }
            }
            (lock, mutex::Event::Left) => Told { event: "left".into(), fence: String::new(), lock },
            (lock, mutex::Event::Refused(request)) => {
                Told { event: format!("refused {}", lock_word(*request)), fence: String::new(), lock }
            }
        }
    }

    fn lock_asked(request: &L::Request) -> Option<String> {
        L::name_asked(request).map(ToString::to_string)
    }

    fn lock_told(event: &L::Event) -> Option<String> {
        L::name_told(event).map(ToString::to_string)
    }

    fn has_left(event: &L::Event) -> bool {
        matches!(L::told(event), (_, mutex::Event::Left))
    }

    fn is_token_based() -> bool {
        L::MOVES_TOKEN
    }

    fn token(state: &L) -> Option<mutex::Epoch> {
        state.token(0)
    }

    fn token_in(message: &L::Message) -> Option<mutex::Epoch> {
        L::token_in(message).map(|(_, epoch)| epoch)
    }
}

fn lock_word(request: mutex::Request) -> &'static str {
    match request {
        mutex::Request::Acquire => "acquire",
        mutex::Request::Release => "release",
        mutex::Request::Cancel => "cancel",
        mutex::Request::Leave => "leave",
    }
}

/// Elections.
pub struct Electing<A>(PhantomData<A>);

impl<A: Election> Family for Electing<A> {
    type Protocol = A;
    type Judge = election::Properties<A>;
    type Ledger = election::Ledger<A>;

    fn read(word: &str, _lock: usize) -> Option<election::Request> {
        match word {
            "start" => Some(election::Request::Start),
            "retire" => Some(election::Request::Retire),
            _ => None,
        }
    }

    fn write(request: &election::Request) -> (&'static str, usize) {
        match request {
            election::Request::Start => ("start", 0),
            election::Request::Retire => ("retire", 0),
        }
    }

    fn told(event: &election::Event) -> Told {
        let election::Event::Elected { leaders, term } = event;
        let mut event = String::from("elected");
        for (place, leader) in leaders.iter().enumerate() {
            event.push_str(if place == 0 { " " } else { "," });
            event.push_str(&leader.to_string());
        }
        if *term > 0 {
            event.push_str(&format!(" term {term}"));
        }
        Told { event, ..Told::default() }
    }
}

/// The name of a timer, as scripts and traces write it: in one word.
#[must_use]
pub fn timer_word<T: core::fmt::Debug>(timer: &T) -> String {
    format!("{timer:?}").replace(' ', "")
}
