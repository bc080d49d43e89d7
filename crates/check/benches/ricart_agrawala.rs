//! Ricart and Agrawala's algorithm as a user of stateright writes it.
//!
//! Actors have no applications: a timer stands for the wish to enter, another for the wish to leave. Messages say what
//! those of `conclave_algorithms` say, so that the states are the same.

use std::borrow::Cow;

use stateright::Expectation;
use stateright::actor::{Actor, ActorModel, ActorModelState, Id, Network, Out, model_peers, model_timeout};

/// A process that enters so many times.
#[derive(Clone)]
pub struct Process {
    peers: Vec<Id>,
    entries: u8,
    /// Whether replies carry the clock of their sender.
    tells_clock: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// How often it is yet to ask.
    left: u8,
    clock: u32,
    fence: u32,
    phase: Phase,
    deferred: Vec<(u32, Id)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Released,
    /// Asked at this time; a bit for everyone who has not replied.
    Wanted {
        time: u32,
        pending: u32,
    },
    Held,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    Request { time: u32 },
    Reply { time: u32, clock: u32, fence: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    Enter,
    Leave,
}

impl Process {
    fn reply(&self, state: &State, time: u32, to: Id, o: &mut Out<Self>) {
        let clock = if self.tells_clock { state.clock } else { 0 };
        o.send(to, Message::Reply { time, clock, fence: state.fence });
    }

    fn on_request(&self, id: Id, state: &mut State, src: Id, time: u32, o: &mut Out<Self>) {
        state.clock = state.clock.max(time);
        let we_go_first = match state.phase {
            Phase::Released => false,
            Phase::Wanted { time: mine, .. } => (mine, id) < (time, src),
            Phase::Held => true,
        };
        match we_go_first {
            true => state.deferred.push((time, src)),
            false => self.reply(state, time, src, o),
        }
    }

    fn on_reply(&self, state: &mut State, src: Id, o: &mut Out<Self>) {
        if let Phase::Wanted { pending, .. } = &mut state.phase {
            *pending &= !(1 << usize::from(src));
            if *pending == 0 {
                state.phase = Phase::Held;
                state.fence += 1;
                o.set_timer(Wish::Leave, model_timeout());
            }
        }
    }
}

impl Actor for Process {
    type Msg = Message;
    type Timer = Wish;
    type State = State;
    type Storage = ();
    type Random = ();

    fn on_start(&self, _id: Id, _storage: &Option<()>, o: &mut Out<Self>) -> State {
        o.set_timer(Wish::Enter, model_timeout());
        State { left: self.entries, clock: 0, fence: 0, phase: Phase::Released, deferred: Vec::new() }
    }

    fn on_msg(&self, id: Id, state: &mut Cow<'_, State>, src: Id, msg: Message, o: &mut Out<Self>) {
        let state = state.to_mut();
        match msg {
            Message::Request { time } => self.on_request(id, state, src, time, o),
            Message::Reply { clock, fence, .. } => {
                state.clock = state.clock.max(clock);
                state.fence = state.fence.max(fence);
                self.on_reply(state, src, o);
            }
        }
    }

    fn on_timeout(&self, _id: Id, state: &mut Cow<'_, State>, timer: &Wish, o: &mut Out<Self>) {
        let state = state.to_mut();
        match timer {
            Wish::Enter => {
                state.left -= 1;
                state.clock += 1;
                let pending = self.peers.iter().fold(0, |set, peer| set | 1 << usize::from(*peer));
                state.phase = Phase::Wanted { time: state.clock, pending };
                o.broadcast(&self.peers, &Message::Request { time: state.clock });
            }
            Wish::Leave => {
                state.phase = Phase::Released;
                for (time, process) in std::mem::take(&mut state.deferred) {
                    self.reply(state, time, process, o);
                }
                if state.left > 0 {
                    o.set_timer(Wish::Enter, model_timeout());
                }
            }
        }
    }
}

/// Of so many processes, each of which enters so many times; at most one is inside.
pub fn model(n: usize, entries: u8, tells_clock: bool) -> ActorModel<Process> {
    let process = |place| Process { peers: model_peers(place, n), entries, tells_clock };
    ActorModel::new((), ())
        .actors((0..n).map(process))
        .init_network(Network::new_unordered_nonduplicating([]))
        .property(Expectation::Always, "ME1", |_, state: &ActorModelState<Process>| {
            state.actor_states.iter().filter(|state| state.phase == Phase::Held).count() <= 1
        })
}
