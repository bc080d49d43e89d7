//! A protocol that holds another, seen from the one that it holds.
//!
//! Judges, ledgers, meters, users and desks of a protocol also serve in runs of a protocol around it: [`Erased`] holds one whose
//! types are known, [`Recorded`] one that is recorded. A [`Lens`] says what of the outer protocol belongs to the inner one, and
//! everything else follows from it.
//!
//! ```text
//!   run of the outer protocol ──▶ Seen<Lens, _> ──▶ observer of the inner one
//!                                 Kept<Lens, _> ──▶ ledger of the inner one
//!                                 Used<Lens, _>, Serving<Lens, _> ──▶ users and desk of the inner one
//! ```
//!
//! [`Erased`]: crate::erased::Erased
//! [`Recorded`]: crate::recorded::Recorded

use conclave_core::{Input, Protocol};

mod kept;
mod seen;
mod used;

pub use kept::Kept;
pub use seen::Seen;
pub use used::{Serving, Used};

/// How a protocol looks from the one that it holds.
pub trait Lens: 'static {
    /// The protocol that runs.
    type Outer: Protocol;
    /// The one that it holds.
    type Inner: Protocol;

    /// The input of the inner protocol, if it is one.
    fn input(input: &Input<Self::Outer>) -> Option<Input<Self::Inner>>;

    /// The message of the inner protocol, if it is one.
    fn message(message: &<Self::Outer as Protocol>::Message) -> Option<&<Self::Inner as Protocol>::Message>;

    /// The event of the inner protocol, if it is one.
    fn event(event: &<Self::Outer as Protocol>::Event) -> Option<&<Self::Inner as Protocol>::Event>;

    /// The state of the inner protocol.
    fn state(state: &Self::Outer) -> &Self::Inner;

    /// The request to the inner protocol, if it is one.
    fn asked(request: &<Self::Outer as Protocol>::Request) -> Option<&<Self::Inner as Protocol>::Request>;

    /// A request to the inner protocol, made to the outer one.
    fn ask(request: <Self::Inner as Protocol>::Request) -> <Self::Outer as Protocol>::Request;
}
