//! How long things take; see [`conclave_algorithms::span`].

pub use conclave_algorithms::span::*;
