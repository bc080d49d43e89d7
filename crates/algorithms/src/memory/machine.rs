//! The memory and the processes of a machine, as one protocol.

use alloc::sync::Arc;

use conclave_core::{Boot, Effects, Input, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::locks::Lock;
use super::run::{Registers, Run};
use super::store::Store;

/// The memory. It is a member like the others, competes for nothing, and carries out one access per step.
pub const MEMORY: NodeId = NodeId(0);

/// A lock, and who competes for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineConfig {
    /// Which.
    pub lock: Lock,
    /// Everyone but the memory, in the order of ids.
    pub all: Arc<[NodeId]>,
}

/// What an application may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Let me in.
    Acquire,
    /// I am going out.
    Release,
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// You are in.
    Entered,
    /// You are out, and may ask again.
    Exited,
    /// The request made no sense at this moment; nothing has changed.
    Refused(Request),
}

/// The memory, or a process that competes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    config: MachineConfig,
    role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Memory(Store),
    Process(Process),
}

/// A process that competes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    id: NodeId,
    section: Section,
    registers: Registers,
}

/// The four sections of a process, as every textbook has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Section {
    Remainder,
    Entry,
    Critical,
    Exit,
}

impl Protocol for Machine {
    type Config = MachineConfig;
    type Message = Access;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let MachineConfig { lock, all } = boot.config;
        let role = if boot.id == MEMORY {
            Role::Memory(Store::new(*lock, all.clone()))
        } else {
            let registers = Registers::default();
            Role::Process(Process { id: boot.id, section: Section::Remainder, registers })
        };
        Self { config: boot.config.clone(), role }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match (&mut self.role, input) {
            (Role::Memory(_), Input::Receive { from, .. }) if !self.config.all.contains(&from) => {
                out.reject(from, "only processes of this machine may use its memory");
            }
            (Role::Memory(store), Input::Receive { from, message }) => {
                for reply in store.arrive(from, message) {
                    match reply.value {
                        Ok(value) => out.send(reply.to, Access::Value { value }),
                        Err(why) => out.reject(reply.to, why),
                    }
                }
            }
            // The memory competes for nothing.
            (Role::Memory(_), Input::Request(request)) => out.emit(Event::Refused(request)),
            (Role::Process(process), Input::Receive { from: MEMORY, message: Access::Value { value } }) => {
                process.go_on(&self.config, value, out);
            }
            (Role::Process(_), Input::Receive { from, .. }) => {
                out.reject(from, "a process is sent nothing but what the memory answers");
            }
            (Role::Process(process), Input::Request(request)) => process.ask(&self.config, request, out),
            // Nobody who halts outside of its sections is missed.
            (_, Input::Start | Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. }) => {}
        }
    }

    fn phase(&self) -> Phase {
        match &self.role {
            Role::Memory(_) => Phase::IDLE,
            Role::Process(process) => match process.section {
                Section::Remainder | Section::Exit => Phase::IDLE,
                Section::Entry => Phase::WAITING,
                Section::Critical => Phase::HOLDING,
            },
        }
    }

    fn assert_invariants(&self) {
        match &self.role {
            Role::Memory(store) => store.assert_invariants(),
            Role::Process(process) => process.assert_invariants(),
        }
    }
}

impl Process {
    fn ask(&mut self, config: &MachineConfig, request: Request, out: &mut impl Effects<Machine>) {
        self.section = match (request, self.section) {
            (Request::Acquire, Section::Remainder) => Section::Entry,
            (Request::Release, Section::Critical) => Section::Exit,
            (Request::Acquire | Request::Release, _) => return out.emit(Event::Refused(request)),
        };
        self.go_on(config, 0, out);
    }

    /// An access has returned this, or a section begins: on to the next access.
    fn go_on(&mut self, config: &MachineConfig, got: u32, out: &mut impl Effects<Machine>) {
        let mut run = Run { me: self.id, all: &config.all, registers: &mut self.registers, got };
        let next = match self.section {
            // An answer to an access of an earlier life.
            Section::Remainder | Section::Critical => return,
            Section::Entry => config.lock.enter(&mut run),
            Section::Exit => config.lock.leave(&mut run),
        };
        match next {
            Some(access) => out.send(MEMORY, access),
            None => self.finish(out),
        }
    }

    /// The section is over.
    fn finish(&mut self, out: &mut impl Effects<Machine>) {
        if self.section == Section::Entry {
            self.section = Section::Critical;
            self.registers = Registers { own: self.registers.own, ..Registers::default() };
            out.emit(Event::Entered);
        } else {
            self.section = Section::Remainder;
            self.registers = Registers::default();
            out.emit(Event::Exited);
        }
    }

    fn assert_invariants(&self) {
        let is_between = self.registers.line == 0 && self.registers.j == 0;
        let is_busy = matches!(self.section, Section::Entry | Section::Exit);
        assert!(is_busy || is_between, "a process between two sections is at the first line of the next");
        assert!(
            self.section != Section::Remainder || self.registers.own == 0,
            "a process that does not compete has nothing in hand"
        );
    }
}
