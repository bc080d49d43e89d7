//! The lab from outside: the real binary, over real connections.

mod client;
mod clusters;
mod jobs;
mod refusals;
mod runs;
