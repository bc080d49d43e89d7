//! Judges a run of a recorded algorithm: what the algorithm promises, and its snapshots.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::family::Unrecorded;
use super::{Cuts, Recorded};
use crate::erased::{Erased, ErasedJudge, ErasedLedger};
use crate::lens::{Kept, Seen};
use crate::referee::{Claim, Referee};
use crate::{Ending, Judge, Judgement, PropertyKind, Violation};

/// What is claimed beside what the algorithm promises.
pub const CLAIMS: &[Claim] =
    &[Claim { property: "CUT", kind: PropertyKind::Safety, claim: "snapshots are consistent" }];

/// What a checker judges by: the snapshots, and the ledger of the algorithm.
pub type RecordingLedger = (Cuts<Erased>, Kept<Unrecorded, ErasedLedger>);

/// What judges a run: the snapshots, and what the algorithm promises.
pub type RecordingJudge = (Referee<Recorded<Erased>, Cuts<Erased>>, Seen<Unrecorded, Box<dyn ErasedJudge>>);

impl Judge<Recorded<Erased>> for RecordingJudge {
    fn violation(&self) -> Option<&Violation> {
        let (cuts, algorithm) = self;
        algorithm.inner.violation().or_else(|| cuts.violation())
    }

    fn end(&mut self, step: u64, ending: Ending) {
        let (cuts, algorithm) = self;
        algorithm.inner.end(step, ending);
        // Whether it comes to rest is a matter of the algorithm.
        cuts.end(step, if ending == Ending::Quiet { Ending::Quiet } else { Ending::Stopped });
    }

    fn judgements(&self) -> Vec<Judgement> {
        let (cuts, algorithm) = self;
        let mut judgements = algorithm.inner.judgements();
        judgements.extend(cuts.judgements());
        judgements
    }
}
