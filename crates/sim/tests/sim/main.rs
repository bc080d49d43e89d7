//! All tests of the crate in one binary: it is linked once.

mod clocks;
mod common;
mod consensus;
mod counts;
mod elections;
mod faults;
mod golden;
mod group;
mod invariants;
mod multicast;
mod mutants;
mod pages;
mod recovery;
mod restless;
mod scenarios;
mod seeds;
mod shared_memory;
mod singhal;
mod survival;
mod surviving_elections;
mod timekeeping;
mod tokens_ring;
mod trees;
mod variants;
mod vectors;
mod workers;
