//! The load generator against locks and processes whose behaviour is known.

mod cluster;
mod loads;
mod memory;
