//! A porter has the only key. Who wants to enter asks the porter for it, and brings it back.

use std::collections::VecDeque;

use conclave_algorithms::mutex::{Epoch, Event, Fence, FenceCounter, Mutex, Request, Roll, Standing};
use conclave_algorithms::{About, Algorithm, Mutant, SettingError, Settings, Trigger, mutex};
use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// One process. The first of the members is the porter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Porter {
    id: NodeId,
    porter: NodeId,
    epoch: Epoch,
    phase: Phase,
    /// Whether the porter forgets to whom it gave the key: a mutant, wrong on purpose.
    forgets: bool,
    /// The rest is the porter's: who has the key, who waits for it, and how often it was given out.
    holder: Option<NodeId>,
    queue: VecDeque<NodeId>,
    given: FenceCounter,
}

/// What the processes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Say {
    /// May I have the key?
    Ask,
    /// Here it is.
    Key(Fence),
    /// Here it is again.
    Back,
}

impl Message for Say {
    fn kind(&self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Key(_) => "Key",
            Self::Back => "Back",
        }
    }
}

impl Protocol for Porter {
    type Config = bool;
    type Message = Say;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let (id, porter) = (boot.id, boot.members.at(0));
        let (holder, queue, given) = (None, VecDeque::new(), FenceCounter::default());
        let (epoch, phase, forgets) = (Epoch::FIRST, Phase::IDLE, *boot.config);
        Self { id, porter, epoch, phase, forgets, holder, queue, given }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(Request::Acquire) if self.phase == Phase::IDLE => {
                self.phase = Phase::WAITING;
                self.tell_porter(Say::Ask, out);
            }
            Input::Request(Request::Release) if self.phase == Phase::HOLDING => {
                self.phase = Phase::IDLE;
                self.tell_porter(Say::Back, out);
            }
            Input::Request(request) => out.emit(Event::Refused(request)),
            Input::Receive { from, message } => self.hear(from, message, out),
            Input::Start | Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Porter {
    /// The porter needs no message to ask itself.
    fn tell_porter(&mut self, say: Say, out: &mut impl Effects<Self>) {
        if self.id == self.porter { self.hear(self.id, say, out) } else { out.send(self.porter, say) }
    }

    fn hear(&mut self, from: NodeId, say: Say, out: &mut impl Effects<Self>) {
        match say {
            Say::Ask if self.id == self.porter => self.queue.push_back(from),
            // Who has no key brings none back.
            Say::Back if self.id == self.porter => self.holder = self.holder.filter(|holder| *holder != from),
            Say::Key(fence) if from == self.porter && self.phase == Phase::WAITING => {
                self.phase = Phase::HOLDING;
                return out.emit(Event::Granted { fence });
            }
            _ => return out.reject(from, "the key goes to who asked, and back to the porter"),
        }
        self.give_next(out);
    }

    fn give_next(&mut self, out: &mut impl Effects<Self>) {
        if self.holder.is_none()
            && let Some(next) = self.queue.pop_front()
        {
            if !self.forgets {
                self.holder = Some(next);
            }
            let fence = self.given.enter(self.epoch, next);
            if next == self.id {
                self.hear(self.id, Say::Key(fence), out);
            } else {
                out.send(next, Say::Key(fence));
            }
        }
    }
}

impl Algorithm for Porter {
    const ABOUT: About = About {
        idea: "a porter has the only key",
        mutants: &[Mutant {
            name: "forgets",
            breaks: "ME1",
            nodes: 2,
            trigger: Trigger::Schedule,
            change: "the porter does not remember to whom it gave the key, and gives it again",
        }],
        ..About::of("porter", mutex::FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<bool, SettingError> {
        Ok(settings.mutant() == Some("forgets"))
    }
}

impl Mutex for Porter {
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self { porter: roll.convener, epoch: roll.epoch, ..Self::boot(boot) };
        process.phase = match roll.standing(process.id) {
            Some(Standing::Waiting { .. }) => Phase::WAITING,
            Some(Standing::Inside { .. }) => Phase::HOLDING,
            Some(Standing::Idle) | None => Phase::IDLE,
        };
        if process.id == process.porter {
            process.holder = roll.inside().map(|(inside, _)| inside);
            process.queue = roll.waiting().iter().map(|request| request.process).collect();
            process.give_next(out);
        }
        process
    }
}
