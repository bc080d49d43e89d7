//! All tests of the crate in one binary: it is linked once.

mod common;
mod conversions;
mod deadlocks;
mod elections;
mod hostile;
mod limits;
mod locks;
mod model;
mod properties;
mod sessions;
mod tokens;
mod views;
