//! How a run is judged, whatever the family.

use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{Observer, Protocol};

/// An observer that judges the properties of a family.
pub trait Judge<P: Protocol>: Observer<P> {
    /// The first promise that was broken.
    fn violation(&self) -> Option<&Violation>;

    /// The run is over.
    fn end(&mut self, step: u64, ending: Ending);

    /// What became of every property.
    fn judgements(&self) -> Vec<Judgement>;
}

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property's code, `"ME1"`.
    pub property: &'static str,
    /// What happened, in a sentence.
    pub detail: String,
    /// At which step of the run.
    pub step: u64,
}

/// What became of one property in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Its code, `"ME1"`.
    pub property: &'static str,
    /// Its claim in a few words.
    pub claim: &'static str,
    /// Whether the algorithm promises it.
    pub promised: bool,
    /// What was found.
    pub finding: Finding,
}

/// What a run showed of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It held, with a note where there is something to say.
    Held(String),
    /// It did not.
    Broken(String),
    /// The run could not tell.
    Open(String),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left to happen: no message travels, no timer runs, no request is to come.
    Quiet,
    /// The run was stopped in the middle.
    Stopped,
    /// The run was given all the time that it could need, without faults, and did not come to rest.
    OutOfTime,
}
