//! Live clusters under failure: real processes that are killed, stopped, cut off and damaged while clients use them.
//!
//! Every test has a *load*: clients of each process that lock one of two names again and again, and write to a resource that
//! compares fences. Afterwards the resource has never gone back, everybody is served again, and what the processes wrote
//! down keeps the promises of their algorithm.
//!
//! `CONCLAVE_SOAK=1` kills every kind of victim under every algorithm; otherwise most get one of them. With `CONCLAVE_CI`
//! set, a test that cannot run here fails instead of saying so.

mod changes;
mod crashes;
mod cuts;
mod damage;
mod group;
mod judge;
mod load;
mod names;
mod namespaces;
mod nodes;
mod pauses;
mod programs;
mod proxies;
mod records;
mod remote;
mod resource;
mod soak;
mod total;
mod traces;

#[path = "../common/caught.rs"]
mod caught;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/waits.rs"]
mod waits;
#[path = "../common/wires.rs"]
mod wires;

use waits::{PATIENCE, until};
