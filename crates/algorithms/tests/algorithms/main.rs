//! All tests of the crate in one binary: it is linked once.

extern crate alloc;

mod common;
mod counters;
#[path = "common/graph.rs"]
mod graph;
mod hostile;
mod judged;
mod normal;
mod pages;
mod properties;
mod rebuild;
mod registry;
mod unfair;
#[path = "common/visit.rs"]
mod visit;
