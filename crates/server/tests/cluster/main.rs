//! Three nodes in one process, over real connections.

#[path = "../../../cli/tests/common/addresses.rs"]
mod addresses;
mod harness;
mod losing;
mod moving;
mod watchdog;
