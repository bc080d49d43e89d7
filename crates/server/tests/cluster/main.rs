//! Three nodes in one process, over real connections.

mod harness;
mod losing;
mod moving;
