//! Clusters of real processes, started from the binary: what they do when nothing fails, and that nothing they do
//! differs from what the simulator says.

mod cluster;
mod commands;
mod console;
mod cost;
mod deciding;
mod electing;
mod endings;
mod grouping;
mod groups;
mod hostile;
mod locking;
mod multicasting;
mod parity;
mod snapshots;
mod timekeeping;
mod torn;
