//! Leases: who is inside must be able to stay in touch with a majority.
//!
//! With [`Consent::Majority`](super::Consent::Majority) a process can be left out of a roll although it is alive and inside.
//! It must be out before anybody else gets in:
//!
//! - Who is granted the lock first has a majority of the members confirm it, and does so again and again while it is inside.
//!   A member confirms only while no roll is being called. If no confirmation comes for the length of a lease, counted from
//!   when it was asked for, the lock is lost.
//! - Who calls a roll that leaves somebody out waits for the length of a lease after a majority has stopped to confirm,
//!   unless one of those who are in it is inside. Whether whoever is left out has answered does not matter.
//! - A process that stood still looks at its clock before it handles what came in the meantime.
//!
//! Clocks need not agree, but must run at about the same speed: the wait is longer than the lease by a tenth.

use alloc::collections::BTreeSet;
use core::time::Duration;

use conclave_core::{After, Effects, NodeId, Reading};

use super::ballot::is_majority;
use super::{Assembly, Consent, Msg, Mutation, Timer};
use crate::mutex::{Epoch, Fence, Mutex, Request, Standing};

/// The lease of a process that is inside, or about to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    /// What our part was granted, until a majority has confirmed it.
    granted: Option<Fence>,
    /// The last renewal that was asked for.
    number: u64,
    confirmed_by: BTreeSet<NodeId>,
    /// Whether the renewal before the last was confirmed.
    confirmed: bool,
    /// What our clock showed when it was asked for.
    asked: Reading,
    /// What it shows when the lease is over that was confirmed last; before the first, when nothing may be confirmed any more.
    until: Reading,
}

impl Lease {
    /// Whether something was granted that is yet to be confirmed.
    pub fn is_pending(&self) -> bool {
        self.granted.is_some()
    }

    /// What was granted in an old epoch and not confirmed is void.
    pub fn granted_no_more(&mut self) {
        self.granted = None;
    }
}

/// In a lease there is time for so many round trips.
const ROUND_TRIPS: u32 = 12;
/// How often it is renewed in its time.
const RENEWALS: u32 = 3;

impl<A: Mutex> Assembly<A> {
    fn lease_time(&self) -> Duration {
        self.timing.answer_timeout() * ROUND_TRIPS
    }

    /// How long to wait until whoever was left out has lost its lease.
    pub(super) fn quarantine(&self) -> After {
        After::exactly(self.lease_time() + self.lease_time() / 10)
    }

    /// Our part was granted the lock: have it confirmed.
    pub(super) fn confirm(&mut self, fence: Fence, out: &mut impl Effects<Self>) {
        self.lease.granted = Some(fence);
        self.ask_for_renewal(out);
        self.maybe_confirmed(out);
    }

    fn ask_for_renewal(&mut self, out: &mut impl Effects<Self>) {
        self.lease.number = self.lease.number.saturating_add(1);
        self.lease.confirmed_by = BTreeSet::from([self.id]);
        self.lease.confirmed = false;
        self.lease.asked = out.now();
        let (epoch, number) = (self.epoch, self.lease.number);
        out.send_all(self.group.others(self.id), &Msg::Renew { epoch, number });
        out.arm(Timer::Renew, After::exactly(self.lease_time() / RENEWALS));
        // Until we are inside, no earlier renewal has a lease to keep.
        if self.lease.granted.is_some() {
            self.lease.until = self.lease.asked.after(self.lease_time());
            out.arm(Timer::Lease, After::exactly(self.lease_time()));
        }
    }

    /// A process that stood still finds out by its clock, before it does anything else, that its lease is over: what came in
    /// the meantime may be handled before the timer that says so. Where clocks stand still, the timer has to do.
    pub(super) fn maybe_overdue(&mut self, out: &mut impl Effects<Self>) {
        let is_over = self.is_leased() && out.now() >= self.lease.until;
        if !is_over || self.config.consent == Consent::Living {
            return;
        }
        if self.config.mutation == Some(Mutation::LateLease) {
            return;
        }
        // Nothing that was asked for in that lease can be confirmed any more; the next renewal begins another.
        self.lease.number = self.lease.number.saturating_add(1);
        self.on_lease_over(out);
    }

    pub(super) fn on_renewed(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        number: u64,
        out: &mut impl Effects<Self>,
    ) {
        if epoch == self.epoch && number == self.lease.number && self.is_active() {
            self.lease.confirmed_by.insert(from);
            self.maybe_confirmed(out);
        }
    }

    fn maybe_confirmed(&mut self, out: &mut impl Effects<Self>) {
        let group = self.group.iter().collect();
        if self.lease.confirmed || !is_majority(&self.lease.confirmed_by, &group) {
            return;
        }
        self.lease.confirmed = true;
        self.lease.until = self.lease.asked.after(self.lease_time());
        if let (Some(fence), Standing::Waiting { .. }) = (self.lease.granted.take(), self.standing) {
            self.enter(fence, out);
        }
    }

    /// A third of the lease is over. What was confirmed in it counts from its beginning.
    pub(super) fn on_renew(&mut self, out: &mut impl Effects<Self>) {
        if self.config.consent == Consent::Living || !self.is_leased() {
            return;
        }
        if self.lease.confirmed {
            out.arm(Timer::Lease, After::exactly(self.rest_of_lease(out.now())));
        }
        // While a roll is called nobody confirms anything, we included.
        if self.is_active() {
            self.ask_for_renewal(out);
            self.maybe_confirmed(out);
        } else {
            self.lease.confirmed = false;
            out.arm(Timer::Renew, After::exactly(self.lease_time() / RENEWALS));
        }
    }

    /// What is left of the lease when the timer for its renewal expires. The timer may be handled late, which a clock shows.
    fn rest_of_lease(&self, now: Reading) -> Duration {
        let planned = self.lease_time() - self.lease_time() / RENEWALS;
        let left = u64::try_from(self.lease.until.since(now)).unwrap_or(0);
        planned.min(Duration::from_nanos(left))
    }

    pub(super) fn on_lease_over(&mut self, out: &mut impl Effects<Self>) {
        // What was granted but not confirmed has not been told to anybody yet.
        if matches!(self.standing, Standing::Inside { .. }) {
            self.lose(out);
            self.pass_on(Request::Release, out);
        }
    }

    fn is_leased(&self) -> bool {
        self.lease.granted.is_some() || matches!(self.standing, Standing::Inside { .. })
    }

    pub(super) fn end_lease(&mut self, out: &mut impl Effects<Self>) {
        if self.config.consent == Consent::Majority {
            self.lease = Lease { number: self.lease.number, ..Lease::default() };
            out.disarm(Timer::Renew);
            out.disarm(Timer::Lease);
        }
    }
}
