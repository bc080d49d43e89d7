//! Says what it is asked to say, and tells its application everything that it hears of.

use core::time::Duration;

use conclave_core::{After, Boot, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chat {
    id: NodeId,
    members: Members,
    config: ChatConfig,
    saved: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChatConfig {
    /// Saves every number before it says it.
    pub saves: bool,
    /// Answers every number with the next one.
    pub echoes: bool,
    /// Bytes that every message carries besides.
    pub ballast: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Note {
    pub number: u64,
    pub ballast: Vec<u8>,
}

impl Message for Note {
    fn kind(&self) -> &'static str {
        "Note"
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChatRequest {
    Say {
        to: NodeId,
        number: u64,
    },
    /// A timer of this name, in milliseconds.
    Wake {
        name: u8,
        after_ms: u64,
    },
    Forget {
        name: u8,
    },
    Panic,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChatEvent {
    Heard { from: NodeId, number: u64 },
    Down { peer: NodeId, life: Incarnation },
    Up { peer: NodeId, life: Incarnation },
    Woken(u8),
    Remembered(u64),
}

impl Protocol for Chat {
    type Config = ChatConfig;
    type Message = Note;
    type Request = ChatRequest;
    type Event = ChatEvent;
    type Timer = u8;
    type Durable = u64;

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            saved: boot.saved.unwrap_or_default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start if self.saved > 0 => out.emit(ChatEvent::Remembered(self.saved)),
            Input::Start => {}
            Input::Request(ChatRequest::Say { to, number }) => self.say(to, number, out),
            Input::Request(ChatRequest::Wake { name, after_ms }) => {
                out.arm(name, After::exactly(Duration::from_millis(after_ms)));
            }
            Input::Request(ChatRequest::Forget { name }) => out.disarm(name),
            Input::Request(ChatRequest::Panic) => panic!("it was asked to"),
            Input::Receive { from, message } => {
                if self.config.echoes {
                    self.say(from, message.number + 1, out);
                }
                out.emit(ChatEvent::Heard { from, number: message.number });
            }
            Input::Expire(name) => out.emit(ChatEvent::Woken(name)),
            Input::PeerDown { peer, life } => out.emit(ChatEvent::Down { peer, life }),
            Input::PeerUp { peer, life } => out.emit(ChatEvent::Up { peer, life }),
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }
}

impl Chat {
    fn say(&mut self, to: NodeId, number: u64, out: &mut impl Effects<Self>) {
        if self.config.saves {
            self.saved = number;
            out.save(number);
        }
        out.send(to, Note { number, ballast: vec![7; self.config.ballast] });
    }
}
