//! The replicated service as people meet it: real nodes on a real disk, and the real commands.
//!
//! `runner_*` is about commands that run while something is held, and every way in which they end. `showing` is about what
//! the other commands print, `large` about more than one message can carry, `majority` about what is said where no majority
//! answers, `logging` about what a node writes of itself, `clocks` about how far those of the nodes are apart. `cluster` kills, stops and restarts nodes while clients write to
//! a file behind a lock; `partition` pulls a cable, `full_disk` fills a disk, `tokens` takes directories away. `hostile`,
//! `flood` and `damage` are about those who mean no good, and what must not come of it; `soak` does many things to nodes, one
//! after the other. `mutants` breaks the runner on
//! purpose, `recipes` has resources that refuse late writes, and `readme` is what a newcomer types first.

mod clocks;
mod cluster;
mod damage;
mod fenced;
mod flood;
mod full_disk;
mod hostile;
mod large;
mod logging;
mod majority;
mod mutants;
mod nodes;
mod partition;
mod readme;
mod recipes;
mod runner_endings;
mod runner_keeper;
mod runner_losses;
mod runner_messages;
mod runner_signals;
mod runner_terminal;
mod runner_terms;
mod runner_waiting;
mod runs;
mod showing;
mod soak;
mod strangers;
mod talker;
mod tokens;

#[path = "../common/addresses.rs"]
mod addresses;
#[path = "../common/caught.rs"]
mod caught;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/waits.rs"]
mod waits;
#[path = "../common/wires.rs"]
mod wires;

use waits::{PATIENCE, cannot_run_without, until};
