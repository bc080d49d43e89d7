//! All tests of the crate in one binary: it is linked once.

mod clocks;
mod common;
mod consensus;
mod controls;
mod holds;
mod invariants;
mod memory;
mod multicast;
mod mutants;
mod oracle;
mod parts;
mod reducing;
mod snapshots;
mod timekeeping;
mod verdicts;
mod verified;
