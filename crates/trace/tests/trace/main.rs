//! All tests of the crate in one binary: it is linked once.

mod common;
mod drawing;
mod exports;
mod jsonl;
mod ordering;
mod script;
mod viewing;
