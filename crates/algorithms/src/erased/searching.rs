//! Applications and ledgers of an algorithm whose types are erased: what a search needs beyond a run.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::watching::Typed;
use super::{Erased, ErasedEvent, ErasedRequest, typed};
use crate::Ledger;
use crate::application::{App, Ask, AskBudget};
use crate::dynamic::{Value, transparent};
use crate::family::{Family, RequestOf};
use crate::lens::{Kept, Lens as _};

/// The application of a process of any algorithm, in a search.
pub struct ErasedApp {
    pub(crate) value: Box<dyn Applying>,
}

/// What a checker judges any algorithm by.
pub struct ErasedLedger {
    value: Box<dyn Judging>,
}

/// The methods of [`App`] without its types.
pub(crate) trait Applying: Value {
    fn copy(&self) -> Box<dyn Applying>;
    fn asks(&self) -> Vec<Ask<ErasedRequest>>;
    fn asked(&mut self, request: &ErasedRequest);
    fn refill(&mut self, budget: AskBudget);
    fn hear(&mut self, event: &ErasedEvent);
    fn crashed(&mut self);
    fn phase(&self) -> u8;
    fn is_waiting(&self) -> bool;
    fn is_inside(&self) -> bool;
}

/// An application of a family: it compares and prints like the application, whatever the family.
struct Applied<F: Family> {
    app: F::App,
    family: PhantomData<fn() -> F>,
}

impl<F: Family> Clone for Applied<F> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), family: PhantomData }
    }
}

impl<F: Family> PartialEq for Applied<F> {
    fn eq(&self, other: &Self) -> bool {
        self.app == other.app
    }
}

impl<F: Family> Eq for Applied<F> {}

impl<F: Family> Hash for Applied<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.app.hash(state);
    }
}

impl<F: Family> Debug for Applied<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        self.app.fmt(f)
    }
}

impl<F: Family> Applying for Applied<F> {
    fn copy(&self) -> Box<dyn Applying> {
        Box::new(self.clone())
    }

    fn asks(&self) -> Vec<Ask<ErasedRequest>> {
        let erase = |Ask { request, is_fair, is_cancel }: Ask<RequestOf<F>>| Ask {
            request: Typed::<F>::ask(request),
            is_fair,
            is_cancel,
        };
        self.app.asks().into_iter().map(erase).collect()
    }

    fn asked(&mut self, request: &ErasedRequest) {
        self.app.asked(typed(&*request.value));
    }

    fn refill(&mut self, budget: AskBudget) {
        self.app.refill(budget);
    }

    fn hear(&mut self, event: &ErasedEvent) {
        self.app.hear(typed(&*event.value));
    }

    fn crashed(&mut self) {
        self.app.crashed();
    }

    fn phase(&self) -> u8 {
        self.app.phase()
    }

    fn is_waiting(&self) -> bool {
        self.app.is_waiting()
    }

    fn is_inside(&self) -> bool {
        self.app.is_inside()
    }
}

impl ErasedApp {
    pub(super) fn new<F: Family>(budget: AskBudget) -> Self {
        Self { value: Box::new(Applied::<F> { app: F::App::new(budget), family: PhantomData }) }
    }
}

/// A ledger that can be copied and compared whatever its type.
trait Judging: Ledger<Erased> + Value {
    fn copy(&self) -> Box<dyn Judging>;
}

impl<F: Family> Judging for Kept<Typed<F>, Box<F::Ledger>> {
    fn copy(&self) -> Box<dyn Judging> {
        Box::new(self.clone())
    }
}

impl ErasedLedger {
    pub(super) fn new<F: Family>(ledger: F::Ledger) -> Self {
        Self { value: Box::new(Kept::<Typed<F>, _>::new(Box::new(ledger))) }
    }
}

impl Deref for ErasedLedger {
    type Target = dyn Ledger<Erased>;

    fn deref(&self) -> &Self::Target {
        &*self.value
    }
}

impl DerefMut for ErasedLedger {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.value
    }
}

impl Clone for ErasedApp {
    fn clone(&self) -> Self {
        Self { value: self.value.copy() }
    }
}

impl Clone for ErasedLedger {
    fn clone(&self) -> Self {
        Self { value: self.value.copy() }
    }
}

transparent!(ErasedApp, ErasedLedger);
