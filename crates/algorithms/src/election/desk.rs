//! The clients of an election in a live process: whoever wants to know is told who won.

use alloc::vec::Vec;

use conclave_core::NodeId;

use super::family::Electing;
use super::{Election, Event, Request};
use crate::desk::{Client, Deed, Desk, Standing, Wish, Word, asked};
use crate::family::Family as _;

/// One election, of which every client is told.
#[derive(Debug, Default)]
pub struct LeadersDesk {
    leaders: Vec<NodeId>,
    term: u64,
    served: u64,
    /// Who wants to know who wins.
    curious: Vec<Client>,
}

impl<A: Election> Desk<A> for LeadersDesk {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<A>>) {
        match wish {
            Wish::Elect => {
                self.curious.push(client);
                out.push(Deed::Ask(Request::Start));
            }
            Wish::Lock { .. } | Wish::Unlock { .. } => {
                let why = "this algorithm elects, and has no locks".into();
                out.push(Deed::Tell(client, Word::Refused { why }));
            }
            wish @ Wish::Ask { .. } => out.extend(asked(client, &wish, Electing::<A>::parse)),
        }
    }

    fn gone(&mut self, client: Client, _out: &mut Vec<Deed<A>>) {
        self.curious.retain(|curious| *curious != client);
    }

    fn told(&mut self, event: Event, out: &mut Vec<Deed<A>>) {
        let Event::Elected { leaders, term } = event;
        self.leaders = leaders;
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
