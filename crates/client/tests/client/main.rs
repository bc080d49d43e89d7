//! All tests of the crate in one binary: it is linked once.

mod crossing;
mod fake;
mod following;
mod leases;
mod library;
mod mutants;
mod service;
