//! Judges and meters of an algorithm whose types are erased.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::marker::PhantomData;

use conclave_core::{Input, Observer};

use super::{Erased, ErasedEvent, ErasedMessage, ErasedRequest, language, typed};
use crate::family::{EventOf, Family, MessageOf, Meter, RequestOf};
use crate::lens::{Lens, Seen};
use crate::measure::{Measured, Ran};
use crate::{Ending, Judge, Judgement, Violation};

/// The protocol of a family, in a run in which its types are erased.
pub(super) struct Typed<F>(PhantomData<fn() -> F>);

impl<F: Family> Lens for Typed<F> {
    type Outer = Erased;
    type Inner = F::Protocol;

    fn input(input: &Input<Erased>) -> Option<Input<F::Protocol>> {
        Some(super::lower(input.clone()))
    }

    fn message(message: &ErasedMessage) -> Option<&MessageOf<F>> {
        Some(typed(&*message.value))
    }

    fn event(event: &ErasedEvent) -> Option<&EventOf<F>> {
        Some(typed(&*event.value))
    }

    fn state(state: &Erased) -> &F::Protocol {
        typed(&*state.value)
    }

    fn asked(request: &ErasedRequest) -> Option<&RequestOf<F>> {
        Some(typed(&*request.value))
    }

    fn ask(request: RequestOf<F>) -> ErasedRequest {
        ErasedRequest { value: Arc::new(request), language: language::<F>() }
    }
}

/// Judges a run of any algorithm.
pub trait ErasedJudge: Judge<Erased> + Any + Send {
    /// Another one that has seen the same.
    fn copy(&self) -> Box<dyn ErasedJudge>;
}

impl Clone for Box<dyn ErasedJudge> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

/// Measures a run of any algorithm.
pub trait ErasedMeter: Observer<Erased> {
    /// What came out. The judge is that of the same run.
    fn measured(&self, judge: &dyn ErasedJudge, ran: &Ran<'_>) -> Measured;
}

impl<F: Family> Judge<Erased> for Seen<Typed<F>, F::Judge> {
    fn violation(&self) -> Option<&Violation> {
        self.inner.violation()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.inner.end(step, ending);
    }

    fn judgements(&self) -> Vec<Judgement> {
        self.inner.judgements()
    }
}

impl<F: Family> ErasedJudge for Seen<Typed<F>, F::Judge> {
    fn copy(&self) -> Box<dyn ErasedJudge> {
        Box::new(self.clone())
    }
}

impl<F: Family> ErasedMeter for Seen<Typed<F>, F::Meter> {
    fn measured(&self, judge: &dyn ErasedJudge, ran: &Ran<'_>) -> Measured {
        self.inner.measured(&typed::<Seen<Typed<F>, F::Judge>>(judge).inner, ran)
    }
}
