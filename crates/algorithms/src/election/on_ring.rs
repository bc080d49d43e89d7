//! What all elections on a ring do with an input in the same way: strangers, acknowledgements, and processes that come back.
//!
//! Each of them says what is its own by [`OnRing`]; [`handle`] does the rest.

use alloc::vec::Vec;

use conclave_core::{Effects, Input, NodeId, Protocol};

use super::handoff::{Handed, Handoff, RingTimer, Signal};
use super::ring::{Ring, Round};
use super::{Event, Request};
use crate::STRANGER;

/// An election on a ring.
pub(super) trait OnRing:
    Protocol<Message: Handed, Request = Request, Event = Event, Timer = RingTimer>
{
    fn ring(&self) -> &Ring;
    fn round(&self) -> Round;
    fn handoff(&mut self) -> &mut Handoff<Self::Message>;
    /// Whether this is not its first life.
    fn is_back(&self) -> bool;

    /// What is wrong with a message, if no honest process can have sent it.
    fn objection(&self, message: &Self::Message) -> Option<&'static str>;
    /// A message of the election arrives.
    fn receive(&mut self, message: Self::Message, out: &mut impl Effects<Self>);
    /// Somebody asks for an election.
    fn on_call(&mut self, out: &mut impl Effects<Self>);
    /// Begins the next round.
    fn start(&mut self, out: &mut impl Effects<Self>);
    fn retire(&mut self, out: &mut impl Effects<Self>);
    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>);
    fn on_peer_up(&mut self, peer: NodeId, out: &mut impl Effects<Self>);
    /// Acked: bypasses a process that is dead, and sends on what it has not acknowledged.
    fn lose(&mut self, peer: NodeId, unsent: Vec<Self::Message>, out: &mut impl Effects<Self>);
}

/// The fields that each of them has.
macro_rules! seated {
    () => {
        fn ring(&self) -> &Ring {
            &self.ring
        }

        fn round(&self) -> Round {
            self.round
        }

        fn handoff(&mut self) -> &mut Handoff<Self::Message> {
            &mut self.handoff
        }
    };
}
pub(super) use seated;

/// The `handle` of every election on a ring.
pub(super) fn handle<P: OnRing>(process: &mut P, input: Input<P>, out: &mut impl Effects<P>) {
    match input {
        Input::Receive { from, .. } if !process.ring().is_peer(from) => out.reject(from, STRANGER),
        Input::Receive { from, message } => match message.signal() {
            Some(_) if !process.handoff().is_acked() => {
                out.reject(from, "on this ring nothing is acknowledged");
            }
            Some(Signal::Ack(receipt)) => {
                if process.handoff().on_ack(from, receipt, out) {
                    process.on_peer_up(from, out);
                }
            }
            Some(Signal::CheckIn) => check_in(process, from, out),
            None => receive(process, from, message, out),
        },
        // A process that comes back has forgotten who leads, and may be the one who should.
        Input::Start if process.is_back() => {
            if process.handoff().is_acked() {
                let others = process.ring().members().others(process.ring().id());
                out.send_all(others, &P::Message::check_in());
            }
            process.start(out);
        }
        Input::Start => {}
        Input::Request(Request::Start) => process.on_call(out),
        Input::Request(Request::Retire) => process.retire(out),
        // The group is fixed.
        Input::Request(Request::Leave | Request::Reweigh(_)) => {}
        Input::PeerDown { peer, .. } => process.on_peer_down(peer, out),
        Input::PeerUp { peer, .. } => process.on_peer_up(peer, out),
        Input::Expire(RingTimer::Handoff) => {
            let round = process.round();
            if let Some((peer, unsent)) = process.handoff().silence(round, out) {
                process.lose(peer, unsent, out);
            }
        }
    }
}

fn receive<P: OnRing>(process: &mut P, from: NodeId, message: P::Message, out: &mut impl Effects<P>) {
    if let Some(why) = process.objection(&message) {
        return out.reject(from, why);
    }
    let receipt = message.receipt();
    process.receive(message, out);
    process.handoff().acknowledge(from, receipt, out);
}

/// A process is back from a crash. Of its last life nobody may have told us.
fn check_in<P: OnRing>(process: &mut P, from: NodeId, out: &mut impl Effects<P>) {
    if !process.ring().is_down(from) {
        process.on_peer_down(from, out);
    }
    process.on_peer_up(from, out);
}
