//! What stands between an algorithm and the clients of its process.
//!
//! An algorithm lets a process ask for one entry at a time. A process has any number of clients: they stand in line at its
//! desk, one line per name, and the desk asks on behalf of the first. Desks know nothing of sockets: clients are numbers.

use std::collections::{BTreeMap, VecDeque};

use conclave_algorithms::mutex::{self, Fence, Mutex};
use conclave_algorithms::{Name, Named, NamedEvent, NamedRequest, election};
use conclave_core::{NodeId, Protocol};
use serde::{Deserialize, Serialize};

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

/// How a desk stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The locks that somebody here holds or waits for.
    pub locks: Vec<LockStanding>,
    /// Who was elected last, as far as is known here.
    pub leaders: Vec<NodeId>,
    /// In which term.
    pub term: u64,
    /// How many entries or elections there were.
    pub served: u64,
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

/// Locks, each with its line.
#[derive(Debug, Default)]
pub struct Locks {
    lines: BTreeMap<Name, Line>,
    served: u64,
}

/// The clients who want one lock.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Client>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Outside,
    /// The algorithm was asked. If nobody waits any more when it grants, the lock is given back at once.
    Asked,
    Inside {
        client: Client,
        fence: Fence,
    },
}

impl Line {
    fn is_holding(&self, who: Client) -> bool {
        matches!(self.stage, Stage::Inside { client, .. } if client == who)
    }
}

type LockDeeds<A> = Vec<Deed<Named<A>>>;

fn ask<A: Mutex>(name: &Name, request: mutex::Request) -> Deed<Named<A>> {
    Deed::Ask(NamedRequest { name: name.clone(), request })
}

impl Locks {
    /// Asks the algorithm if somebody waits and it was not asked yet.
    fn go_on<A: Mutex>(&mut self, name: &Name, out: &mut LockDeeds<A>) {
        let Some(line) = self.lines.get_mut(name) else { return };
        if line.stage == Stage::Outside {
            if line.waiting.is_empty() {
                self.lines.remove(name);
            } else {
                line.stage = Stage::Asked;
                out.push(ask::<A>(name, mutex::Request::Acquire));
            }
        }
    }

    /// A client steps out of a line, wherever in it it stands. False if it is not there.
    fn step_out<A: Mutex>(&mut self, name: &Name, client: Client, out: &mut LockDeeds<A>) -> bool {
        let Some(line) = self.lines.get_mut(name) else { return false };
        let place = line.waiting.iter().position(|waiting| *waiting == client);
        if let Some(place) = place {
            line.waiting.remove(place);
        } else if line.is_holding(client) {
            line.stage = Stage::Outside;
            out.push(ask::<A>(name, mutex::Request::Release));
        } else {
            return false;
        }
        self.go_on(name, out);
        true
    }
}

impl<A: Mutex> Desk<Named<A>> for Locks {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut LockDeeds<A>) {
        let word = match wish {
            Wish::Lock { name } => {
                let line = self.lines.entry(name.clone()).or_default();
                if line.is_holding(client) || line.waiting.contains(&client) {
                    Word::Refused { why: format!("this client holds {name} or waits for it already") }
                } else {
                    line.waiting.push_back(client);
                    return self.go_on(&name, out);
                }
            }
            Wish::Unlock { name } if self.step_out(&name, client, out) => Word::Released { name },
            Wish::Unlock { name } => {
                Word::Refused { why: format!("this client neither holds {name} nor waits for it") }
            }
            Wish::Elect => Word::Refused { why: "this algorithm is for locks, and elects nobody".into() },
        };
        out.push(Deed::Tell(client, word));
    }

    fn gone(&mut self, client: Client, out: &mut LockDeeds<A>) {
        let names: Vec<Name> = self.lines.keys().cloned().collect();
        for name in names {
            self.step_out(&name, client, out);
        }
    }

    fn told(&mut self, event: NamedEvent<mutex::Event>, out: &mut LockDeeds<A>) {
        let NamedEvent { name, event } = event;
        let line = self.lines.entry(name.clone()).or_default();
        match event {
            mutex::Event::Granted { fence } => match line.waiting.pop_front() {
                Some(client) => {
                    line.stage = Stage::Inside { client, fence };
                    self.served += 1;
                    out.push(Deed::Tell(client, Word::Granted { name, fence }));
                    return;
                }
                None => {
                    line.stage = Stage::Outside;
                    out.push(ask::<A>(&name, mutex::Request::Release));
                }
            },
            mutex::Event::Lost { fence } => {
                if let Stage::Inside { client, fence: held } = line.stage
                    && held == fence
                {
                    line.stage = Stage::Outside;
                    out.push(Deed::Tell(client, Word::Lost { name: name.clone(), fence }));
                }
            }
            // We ask for nothing that could be refused, and never leave.
            mutex::Event::Refused(_) | mutex::Event::Left => {}
        }
        self.go_on(&name, out);
    }

    fn standing(&self) -> Standing {
        let standing = |(name, line): (&Name, &Line)| LockStanding {
            name: name.clone(),
            fence: match line.stage {
                Stage::Inside { fence, .. } => Some(fence),
                Stage::Outside | Stage::Asked => None,
            },
            waiting: line.waiting.len(),
        };
        Standing {
            locks: self.lines.iter().map(standing).collect(),
            served: self.served,
            ..Standing::default()
        }
    }
}

/// One election, of which every client is told.
#[derive(Debug, Default)]
pub struct Leaders {
    leaders: Vec<NodeId>,
    term: u64,
    served: u64,
    /// Who wants to know who wins.
    curious: Vec<Client>,
}

impl<A: election::Election> Desk<A> for Leaders {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<A>>) {
        match wish {
            Wish::Elect => {
                self.curious.push(client);
                out.push(Deed::Ask(election::Request::Start));
            }
            Wish::Lock { .. } | Wish::Unlock { .. } => {
                let why = "this algorithm elects, and has no locks".into();
                out.push(Deed::Tell(client, Word::Refused { why }));
            }
        }
    }

    fn gone(&mut self, client: Client, _out: &mut Vec<Deed<A>>) {
        self.curious.retain(|curious| *curious != client);
    }

    fn told(&mut self, event: election::Event, out: &mut Vec<Deed<A>>) {
        let election::Event::Elected { leaders, term } = event;
        self.leaders = leaders.clone();
        self.term = term;
        self.served += 1;
        for client in self.curious.drain(..) {
            out.push(Deed::Tell(client, Word::Elected { leaders: self.leaders.clone(), term }));
        }
    }

    fn standing(&self) -> Standing {
        Standing {
            leaders: self.leaders.clone(),
            term: self.term,
            served: self.served,
            ..Standing::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_algorithms::mutex::{Central, Epoch};

    type Deeds = Vec<Deed<Named<Central>>>;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a good name")
    }

    fn fence(counter: u64) -> Fence {
        Fence { epoch: Epoch::FIRST, counter, process: NodeId(1) }
    }

    fn lock(desk: &mut Locks, client: Client) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::wish(desk, client, Wish::Lock { name: name("a") }, &mut out);
        out
    }

    fn unlock(desk: &mut Locks, client: Client) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::wish(desk, client, Wish::Unlock { name: name("a") }, &mut out);
        out
    }

    fn told(desk: &mut Locks, event: mutex::Event) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::told(desk, NamedEvent { name: name("a"), event }, &mut out);
        out
    }

    fn granted(client: Client, counter: u64) -> Deed<Named<Central>> {
        Deed::Tell(client, Word::Granted { name: name("a"), fence: fence(counter) })
    }

    fn asked(request: mutex::Request) -> Deed<Named<Central>> {
        ask::<Central>(&name("a"), request)
    }

    #[test]
    fn clients_get_in_one_by_one_in_the_order_of_their_coming() {
        let mut desk = Locks::default();
        assert_eq!(lock(&mut desk, 1), [asked(mutex::Request::Acquire)]);
        assert_eq!(lock(&mut desk, 2), []);
        assert_eq!(told(&mut desk, mutex::Event::Granted { fence: fence(1) }), [granted(1, 1)]);
        let released = Deed::Tell(1, Word::Released { name: name("a") });
        let both = [asked(mutex::Request::Release), asked(mutex::Request::Acquire), released];
        assert_eq!(unlock(&mut desk, 1), both);
        assert_eq!(told(&mut desk, mutex::Event::Granted { fence: fence(2) }), [granted(2, 2)]);
    }

    #[test]
    fn who_is_gone_gives_back_what_it_has_and_wants_nothing() {
        let mut desk = Locks::default();
        lock(&mut desk, 1);
        lock(&mut desk, 2);
        told(&mut desk, mutex::Event::Granted { fence: fence(1) });
        let mut out = Deeds::new();
        Desk::<Named<Central>>::gone(&mut desk, 2, &mut out);
        assert_eq!(out, []);
        Desk::<Named<Central>>::gone(&mut desk, 1, &mut out);
        assert_eq!(out, [asked(mutex::Request::Release)]);
        assert!(Desk::<Named<Central>>::standing(&desk).locks.is_empty());
    }

    #[test]
    fn a_grant_that_nobody_wants_any_more_is_given_back() {
        let mut desk = Locks::default();
        lock(&mut desk, 1);
        Desk::<Named<Central>>::gone(&mut desk, 1, &mut Deeds::new());
        let back = told(&mut desk, mutex::Event::Granted { fence: fence(1) });
        assert_eq!(back, [asked(mutex::Request::Release)]);
        assert_eq!(lock(&mut desk, 2), [asked(mutex::Request::Acquire)]);
    }

    #[test]
    fn who_has_lost_the_lock_is_told_and_the_next_asks_again() {
        let mut desk = Locks::default();
        lock(&mut desk, 1);
        lock(&mut desk, 2);
        told(&mut desk, mutex::Event::Granted { fence: fence(1) });
        let lost = Deed::Tell(1, Word::Lost { name: name("a"), fence: fence(1) });
        let deeds = told(&mut desk, mutex::Event::Lost { fence: fence(1) });
        assert_eq!(deeds, [lost, asked(mutex::Request::Acquire)]);
        assert!(matches!(&unlock(&mut desk, 1)[..], [Deed::Tell(1, Word::Refused { .. })]));
    }

    #[test]
    fn asking_twice_is_refused() {
        let mut desk = Locks::default();
        lock(&mut desk, 1);
        assert!(matches!(&lock(&mut desk, 1)[..], [Deed::Tell(1, Word::Refused { .. })]));
        assert!(matches!(&unlock(&mut desk, 9)[..], [Deed::Tell(9, Word::Refused { .. })]));
    }
}
