//! The list of all locks: what each says of itself.

use crate::{About, Channels, Mutant, Setting, Settings, Synchrony, Topology, Values};

use super::family::FAMILY;
use super::locks::instruction::Instruction;
use super::locks::interrupts::Processors;
use super::locks::{
    Lock, bakery, flag, instruction, interrupts, mcs, monitor, peterson, region, semaphore, ticket,
    waiting_array,
};

/// A lock as it is listed.
pub struct Listed {
    /// What it says of itself.
    pub about: About,
    /// The lock with these settings.
    pub lock: fn(&Settings) -> Lock,
}

/// What all of them have in common: a process has one access under way at a time, so no order is needed, and no time.
const fn about(
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    idea: &'static str,
    cost: &'static str,
    mutants: &'static [Mutant],
) -> About {
    About {
        title,
        paper,
        idea,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Star,
        cost,
        faults: "processes that halt in their remainder; no other",
        mutants,
        ..About::of(name, FAMILY)
    }
}

const OS: &str = "Silberschatz and Galvin, Operating System Concepts";
const IBM: &str = "IBM System/370 Principles of Operation (1970)";

/// All locks, those that only read and write first.
pub static LOCKS: [Listed; 13] = [
    Listed {
        about: about(
            "flag",
            "A flag that is tested and set",
            OS,
            "a flag says that somebody is inside; test it, set it",
            "3 accesses alone",
            flag::Mutation::TABLE,
        ),
        lock: |settings| Lock::Flag(flag::Mutation::of(settings)),
    },
    Listed {
        about: About {
            settings: &[
                Setting {
                    key: "cpus",
                    values: Values::OneOf(&["1", "2"]),
                    default: "1",
                    unsafe_values: &["2"],
                    help: "how many processors: interrupts are switched off on one",
                },
                Setting {
                    key: "scheduler",
                    values: Values::OneOf(&["fifo", "lifo"]),
                    default: "fifo",
                    unsafe_values: &[],
                    help: "who runs next: who has waited longest, or who came last",
                },
            ],
            ..about(
                "interrupts",
                "Interrupts switched off",
                OS,
                "who cannot be interrupted is alone on its processor",
                "2 accesses",
                interrupts::Mutation::TABLE,
            )
        },
        lock: |settings| {
            let count = if settings.get("cpus") == "2" { 2 } else { 1 };
            let processors = Processors { count, last_first: settings.get("scheduler") == "lifo" };
            Lock::Interrupts(processors, interrupts::Mutation::of(settings))
        },
    },
    Listed {
        about: about(
            "peterson",
            "Peterson's algorithm",
            "Peterson, Myths about the mutual exclusion problem, Inf. Proc. Letters 12 (1981)",
            "say that you want in, and let the other go first",
            "4 accesses alone among two",
            peterson::Mutation::TABLE,
        ),
        lock: |settings| Lock::Peterson(peterson::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "bakery",
            "Lamport's bakery",
            "Lamport, A new solution of Dijkstra's concurrent programming problem, CACM 17 (1974)",
            "take a number; the smallest goes first",
            "3n + 1 accesses alone",
            bakery::Mutation::TABLE,
        ),
        lock: |settings| Lock::Bakery(bakery::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "test-and-set",
            "Test-and-set",
            OS,
            "spin on an instruction that reads and writes 1",
            "2 accesses alone",
            instruction::Mutation::TABLE,
        ),
        lock: |settings| Lock::Instruction(Instruction::TestAndSet, instruction::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "swap",
            "Atomic swap",
            OS,
            "spin on exchanging a 1 for what is there",
            "2 accesses alone",
            instruction::Mutation::TABLE,
        ),
        lock: |settings| Lock::Instruction(Instruction::Swap, instruction::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "compare-and-swap",
            "Compare-and-swap",
            IBM,
            "spin on writing 1 where there is a 0",
            "2 accesses alone",
            instruction::Mutation::TABLE,
        ),
        lock: |settings| Lock::Instruction(Instruction::CompareAndSwap, instruction::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "waiting-array",
            "Test-and-set with bounded waiting",
            "Burns, Mutual exclusion with linear waiting using binary shared variables, SIGACT News 10 (1978)",
            "hand the lock over to the next who waits",
            "n + 4 accesses alone",
            waiting_array::Mutation::TABLE,
        ),
        lock: |settings| Lock::WaitingArray(waiting_array::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "ticket",
            "Ticket lock",
            "Reed and Kanodia, Synchronization with eventcounts and sequencers, CACM 22 (1979)",
            "take a ticket; wait until it is served",
            "3 accesses alone",
            ticket::Mutation::TABLE,
        ),
        lock: |settings| Lock::Ticket(ticket::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "mcs",
            "The queue lock of Mellor-Crummey and Scott",
            "Mellor-Crummey and Scott, Algorithms for scalable synchronization, ACM TOCS 9 (1991)",
            "a queue in which everyone waits on its own word",
            "4 accesses alone",
            mcs::Mutation::TABLE,
        ),
        lock: |settings| Lock::Mcs(mcs::Mutation::of(settings)),
    },
    Listed {
        about: About {
            settings: &[Setting {
                key: "places",
                values: Values::Number(1, 1_000),
                default: "1",
                unsafe_values: &[],
                help: "how many may be inside at a time",
            }],
            ..about(
                "semaphore",
                "Semaphore",
                "Dijkstra, Cooperating sequential processes (1965)",
                "count down, and sleep below zero",
                "2 accesses",
                semaphore::Mutation::TABLE,
            )
        },
        lock: |settings| Lock::Semaphore(settings.number("places") as u32, semaphore::Mutation::of(settings)),
    },
    Listed {
        about: about(
            "critical-region",
            "Conditional critical region",
            "Brinch Hansen, Structured multiprogramming, CACM 15 (1972)",
            "a statement begins alone, once its condition is true",
            "6 accesses",
            region::Mutation::TABLE,
        ),
        lock: |settings| Lock::Region(region::Mutation::of(settings)),
    },
    Listed {
        about: About {
            settings: &[Setting {
                key: "wake",
                values: Values::OneOf(&["broadcast", "signal"]),
                default: "broadcast",
                unsafe_values: &[],
                help: "who is woken: all, or who has waited longest",
            }],
            ..about(
                "monitor",
                "Monitor",
                "Hoare, Monitors: an operating system structuring concept, CACM 17 (1974)",
                "one procedure at a time; wait for a signal inside",
                "9 accesses alone",
                monitor::Mutation::TABLE,
            )
        },
        lock: |settings| Lock::Monitor {
            wakes_all: settings.get("wake") == "broadcast",
            mutation: monitor::Mutation::of(settings),
        },
    },
];
