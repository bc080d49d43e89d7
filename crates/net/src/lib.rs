//! The live driver: runs any [`Protocol`](conclave_core::Protocol) over TCP, and never names an algorithm.
//!
//! ```text
//!                    requests                                    events
//!   application ──────────────────▶┌──────────────────────┐──────────────────▶ application
//!                                  │ node: one task owns  │
//!   accept ── Contact, Letters ───▶│ the state machine    │── letters ──▶ outbox ──▶ link ──▶ peer
//!     ▲  one task per connection   │ timers, detector     │   one per peer, one connection each
//!     │                            └───┬──────────────┬───┘
//!    peer                       store: life, state    record: one file per life
//! ```
//!
//! - **Channels** are FIFO and exactly once between two lives: one connection per ordered pair, messages numbered,
//!   acknowledged and sent again ([`frame`], [`hello`]). Algorithms that can do with any order get more than they ask for.
//! - **Lives** are counted on disk before a node says anything. A process hears of the end of a life before it hears
//!   anything of the next one, and nothing that was meant for one life reaches another.
//! - **Order of effects**: what must be durable is on disk, and what is recorded has reached the operating system,
//!   before anything that rests on it leaves.
//! - **Memory is bounded** by [`Limits`]: a peer that does not read makes the application wait until it is suspected;
//!   when too much is in flight to it, that is dropped, and both sides hear of it as the end and the beginning of trust.
//! - **Failures** are suspected by a phi-accrual [`detector`]; a node that shuts down says so. A peer that another one hears
//!   is not suspected: where the way to it is broken, that one carries the connection.
//! - **Strangers** are refused with a reason. Beyond this machine a node wants certificates ([`certificate`]) or the word
//!   `insecure`.
//!
//! A run can be recorded ([`Recording`]); [`merge()`] makes one trace of what all processes wrote, which can be drawn and
//! played like a simulated one.
//!
//! ```
//! use conclave_algorithms::mutex::{Event, Request, RicartAgrawala};
//! use conclave_algorithms::{Algorithm, Arena, Settings};
//! use conclave_core::{Members, NodeId};
//! use conclave_net::{NodeConfig, Options, start};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let address: std::net::SocketAddr = "127.0.0.1:0".parse()?;
//! let alone = vec![(NodeId(1), address)];
//! let config = NodeConfig::new(NodeId(1), alone, "lab", "ricart-agrawala", directory.path().join("node-1"));
//!
//! let settings = Settings::new(&RicartAgrawala::ABOUT, Arena::Laboratory, [], None)?;
//! let settings = RicartAgrawala::configure(&settings, &Members::numbered(1))?;
//! let (node, mut events) = start::<RicartAgrawala>(config, settings, Options::default()).await?;
//! node.request(Request::Acquire).await?;
//! assert!(matches!(events.recv().await, Some(Event::Granted { .. })));
//! node.shutdown().await?;
//! # Ok(())
//! # }
//! ```

mod accept;
mod address;
pub mod certificate;
mod clock;
mod codec;
mod config;
pub mod detector;
pub mod frame;
mod handle;
pub mod hello;
mod link;
mod lives;
mod merge;
mod node;
mod outbox;
mod peer;
pub mod record;
mod relay;
pub mod secret;
mod status;
mod store;
mod stream;
mod timers;
mod tls;
mod weave;

pub use address::{Address, AddressError, Resolver};
pub use clock::{ClockConfig, boot_time};
pub use codec::Codec;
pub use config::{ConfigError, Limits, NodeConfig};
pub use detector::DetectorConfig;
pub use handle::{Events, Node, Options, StartError, Stopped, start, start_with};
pub use hello::Refusal;
pub use merge::{MergeError, Merged, Rest, merge, merge_all};
pub use node::{Held, NodeError, Sent};
pub use record::Recording;
pub use secret::Secret;
pub use status::{PeerStatus, Status};
pub use store::{DataDir, Directory, Stable, StoreError};
pub use tls::{Fingerprint, NoFingerprint, TlsConfig, TlsError};
