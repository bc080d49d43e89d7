//! The Network Time Protocol, version 4: its packets, a client that measures a clock, and a server.
//!
//! ```text
//!   client                      server
//!   T1 ── origin T1 ─────────────▶ T2     offset = ((T2 − T1) + (T3 − T4)) / 2
//!   T4 ◀── origin T1, T2, T3 ───── T3     delay  = (T4 − T1) − (T3 − T2)
//! ```
//!
//! The true offset lies within half the delay of the measured one. RFC 5905 has the details.
//!
//! [`Packet`] turns any bytes into a packet or an error and never panics. [`Question`] decides whether an answer is one: what
//! nobody asked for, what was answered already, and what comes from a server without the time is ignored. Neither knows
//! sockets; [`query`] and [`Server`] do.

mod client;
mod packet;
mod sample;
mod server;
mod stamp;

pub use client::{Measured, Options, QueryError, query};
pub use packet::{Leap, Malformed, Mode, PACKET, Packet};
pub use sample::{Filter, Ignored, Question, Sample};
pub use server::{Server, ServerOptions, answer};
pub use stamp::{Short, Stamp};
