//! The lock and leader service as a pure state machine: batches of commands in, replies and notices out.
//!
//! There is no clock, no randomness and no I/O in it, and nothing whose order depends on chance: replicas that apply the
//! same batches are equal. Time enters with the batches, stamped by the leader that proposed them.
//!
//! ```
//! use conclave_service::{
//!     Acquire, Act, Batch, Command, Life, Mode, Outcome, Owner, Patience, Purpose, Reply, RequestId, SessionId, State,
//!     Token, Told, Want,
//! };
//!
//! let ask = |request, act| Command {
//!     session: SessionId(7),
//!     life: Life(42),
//!     request: RequestId(request),
//!     acked: RequestId(request),
//!     settled: vec![],
//!     act,
//! };
//! let open = Act::Open { ttl_ms: 3000, owner: Owner::default(), ends_with_connection: false, reopens: false };
//! let lock = Act::Acquire(Acquire {
//!     wants: vec![Want { name: "nightly-backup".into(), mode: Mode::Exclusive }],
//!     patience: Patience::Forever,
//!     priority: 0,
//!     reentrant: false,
//!     strand: 0,
//!     purpose: Purpose::Lock,
//!     lock_delay_ms: 0,
//! });
//!
//! let (mut state, mut out) = (State::default(), Outcome::default());
//! state.apply(&Batch { now: 0, commands: vec![ask(1, open), ask(2, lock)], floor: 0 }, &mut out);
//! let granted = Reply::Granted { token: Token(1), depth: 1 };
//! assert!(matches!(&out.messages[1].told, Told::Reply { reply, .. } if *reply == granted));
//!
//! // Nothing is heard of the client for its time to live: the lock is free again.
//! state.apply(&Batch { now: 3000, ..Batch::default() }, &mut out);
//! assert_eq!(state.totals().held, 0);
//! ```

pub mod command;
pub mod limits;
pub mod reply;
pub mod state;
pub mod view;

pub use command::{
    Acquire, Act, Batch, Command, Life, Millis, Mode, Name, Owner, Patience, Purpose, RequestId, SessionId,
    Token, Want,
};
pub use reply::{Failure, Held, Leader, LeaderChange, Message, Notice, Outcome, Reply, Told, Wait};
#[cfg(feature = "faults")]
pub use state::Fault;
pub use state::{Picture, State};
pub use view::{
    HolderView, NameView, PastView, QueuePlace, SessionLine, SessionView, Standing, Step, Summary, Totals,
    WaiterView,
};
