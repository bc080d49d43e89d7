//! The live driver: runs any [`Protocol`](conclave_core::Protocol) over TCP, and never names an algorithm.

mod accept;
pub mod certificate;
mod config;
pub mod detector;
pub mod frame;
mod handle;
pub mod hello;
mod link;
mod merge;
mod node;
mod outbox;
mod peer;
pub mod record;
mod store;
mod stream;
mod timers;
mod tls;
mod weave;

pub use config::{ConfigError, Limits, NodeConfig};
pub use detector::DetectorConfig;
pub use handle::{Events, Node, Options, PeerStatus, StartError, Status, Stopped, start};
pub use hello::Refusal;
pub use merge::{MergeError, merge};
pub use node::{NodeError, Sent};
pub use record::Recording;
pub use store::{DataDir, Stable, StoreError};
pub use tls::{TlsConfig, TlsError};
