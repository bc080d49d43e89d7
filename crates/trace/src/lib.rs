//! The one record of a run, whoever drove it: simulator, checker, live network or lab.
//!
//! A [`Trace`] is a header and a list of [`Record`]s. It is written and read as JSON Lines, drawn for people
//! ([`svg()`], [`diagram()`]), and exported for other tools ([`shiviz()`], [`mermaid()`]). A [`Script`] is the opposite
//! direction: what shall happen, and what was recorded when it last did.
//!
//! Nothing here panics on what it reads: traces and scripts come from files that anybody may have edited.

mod diagram;
mod invariant;
mod jsonl;
mod mermaid;
mod order;
mod record;
mod script;
mod shiviz;
mod stamps;
mod svg;
mod text;
mod view;
mod words;

pub use diagram::{DiagramOptions, diagram};
pub use invariant::broken_invariant;
pub use jsonl::TraceError;
pub use mermaid::mermaid;
pub use order::{Cone, Inconsistency, Order, Scene, Waiter, Waits};
pub use record::{Carried, Header, Record, Trace, What};
pub use script::{
    Block, Carry, Command, Mistake, Script, ScriptError, Setup, Which, commands_by_record, commands_of,
    newcomers,
};
pub use shiviz::shiviz;
pub use stamps::Counted;
pub use svg::{
    Area, Axis, Bounds, Label, Layout, Plot, Role, Series, Spread, Stamps, SvgOptions, Theme, layout, svg,
};
pub use text::{compact, fields_of, message_text, milliseconds};
pub use view::View;
pub use words::{describe, inside_step, phase_after};
