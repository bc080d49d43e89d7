//! All tests of the crate in one binary: it is linked once.

mod crossing;
mod fake;
mod following;
mod leases;
mod mutants;
mod service;
