//! What stands between an algorithm and the clients of a live process.
//!
//! An algorithm may let a process ask for one thing at a time, and a process has any number of clients. A desk decides what
//! is asked on behalf of whom, and who is told. Desks know nothing of sockets: clients are numbers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::marker::PhantomData;

use conclave_core::{NodeId, Protocol};
use serde::{Deserialize, Serialize};

use crate::Name;
use crate::family::{EventOf, Family};
use crate::mutex::Fence;

/// A client of this process.
pub type Client = u64;

/// What a client may ask of a desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Wish {
    /// Let me in, however long it takes.
    Lock {
        /// Which lock.
        name: Name,
    },
    /// I am out, or want to get in no more.
    Unlock {
        /// Which lock.
        name: Name,
    },
    /// Hold an election, and say who won.
    Elect,
    /// Ask the algorithm for this, in the words of its family.
    Ask {
        /// For what: `propose 7`.
        words: String,
    },
}

/// What a client is told by a desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum Word {
    /// You are in.
    Granted {
        /// Which lock.
        name: Name,
        /// The proof of it.
        fence: Fence,
    },
    /// You are out.
    Released {
        /// Which lock.
        name: Name,
    },
    /// You are no longer in, and somebody else may be.
    Lost {
        /// Which lock.
        name: Name,
        /// The proof that no longer counts.
        fence: Fence,
    },
    /// Somebody was elected.
    Elected {
        /// Who, the first of them first.
        leaders: Vec<NodeId>,
        /// The number of the reign; 0 where reigns are not numbered.
        term: u64,
    },
    /// The algorithm was asked.
    Asked,
    /// The algorithm says something.
    Event {
        /// What, in the words of its family.
        text: String,
    },
    /// That makes no sense here.
    Refused {
        /// Why.
        why: String,
    },
}

/// What a desk wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed<P: Protocol> {
    /// Ask the algorithm.
    Ask(P::Request),
    /// Tell a client.
    Tell(Client, Word),
}

/// A desk for the clients of one process.
pub trait Desk<P: Protocol>: Send {
    /// A client wants something.
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<P>>);

    /// A client is gone: what it has is given back, what it waits for it no longer wants.
    fn gone(&mut self, client: Client, out: &mut Vec<Deed<P>>);

    /// The algorithm says something.
    fn told(&mut self, event: P::Event, out: &mut Vec<Deed<P>>);

    /// How it stands, for people.
    fn standing(&self) -> Standing;
}

impl<P: Protocol, D: Desk<P> + ?Sized> Desk<P> for Box<D> {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<P>>) {
        (**self).wish(client, wish, out);
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<P>>) {
        (**self).gone(client, out);
    }

    fn told(&mut self, event: P::Event, out: &mut Vec<Deed<P>>) {
        (**self).told(event, out);
    }

    fn standing(&self) -> Standing {
        (**self).standing()
    }
}

/// How a desk stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The locks that somebody here holds or waits for.
    pub locks: Vec<LockStanding>,
    /// Who was elected last, as far as is known here.
    pub leaders: Vec<NodeId>,
    /// In which term.
    pub term: u64,
    /// How many entries, elections or other events there were.
    pub served: u64,
    /// What the algorithm said last, where that is all there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

/// How one lock stands at a desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockStanding {
    /// Which.
    pub name: Name,
    /// The proof of the client who is inside, if one of ours is.
    pub fence: Option<Fence>,
    /// How many of ours wait.
    pub waiting: usize,
}

/// A desk for families whose clients do not compete: whatever a client asks is asked, and the last answer is remembered.
pub struct PlainDesk<F> {
    served: u64,
    last: Option<String>,
    family: PhantomData<fn() -> F>,
}

impl<F> Default for PlainDesk<F> {
    fn default() -> Self {
        Self { served: 0, last: None, family: PhantomData }
    }
}

impl<F: Family> Desk<F::Protocol> for PlainDesk<F> {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<F::Protocol>>) {
        out.extend(asked(client, &wish, F::parse));
    }

    fn gone(&mut self, _client: Client, _out: &mut Vec<Deed<F::Protocol>>) {}

    fn told(&mut self, event: EventOf<F>, _out: &mut Vec<Deed<F::Protocol>>) {
        self.served += 1;
        self.last = Some(F::told(&event).to_string());
    }

    fn standing(&self) -> Standing {
        Standing { served: self.served, last: self.last.clone(), ..Standing::default() }
    }
}

/// What comes of a wish that is a request in words, or of one that this family does not know.
pub fn asked<P: Protocol>(
    client: Client,
    wish: &Wish,
    parse: fn(&str, usize) -> Option<P::Request>,
) -> Vec<Deed<P>> {
    let refused = |why: String| alloc::vec![Deed::Tell(client, Word::Refused { why })];
    match wish {
        Wish::Ask { words } => match parse(words, 0) {
            Some(request) => alloc::vec![Deed::Ask(request), Deed::Tell(client, Word::Asked)],
            None => refused(format!("'{words}' is not a request of this algorithm")),
        },
        Wish::Lock { .. } | Wish::Unlock { .. } => refused("this algorithm has no locks".into()),
        Wish::Elect => refused("this algorithm elects nobody".into()),
    }
}
