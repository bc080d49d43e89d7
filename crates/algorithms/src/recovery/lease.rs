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
//! - Who calls a roll of somebody who has come back waits as long: what was inside through its former life, such as a
//!   program, ends with the lease and not with the process.
//! - A process that stood still looks at its clock before it handles what came in the meantime.
//!
//! Clocks need not agree, but must run at about the same speed: the wait is longer than the lease by a tenth.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use conclave_core::{After, Effects, Lease as Span, NodeId, Reading};

use super::ballot::is_majority;
use super::{Assembly, Consent, Key, Msg, Mutation, Timer};
use crate::mutex::{Epoch, Fence, Mutex, Request, Standing};

/// The lease of a process that is inside, or about to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    /// What our part was granted, until a majority has confirmed it.
    granted: Option<Fence>,
    /// The last renewal that was asked for; none if nothing may be confirmed any more.
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
    /// What was granted in an old epoch and not confirmed is void.
    pub fn granted_no_more(&mut self) {
        self.granted = None;
    }
}

/// In a lease there is time for so many round trips.
const ROUND_TRIPS: u32 = 12;
/// How often it is renewed in its time.
const RENEWALS: u32 = 3;
/// What runs inside is to be gone this part of a lease before the lease is over, ...
const GONE_BEFORE: u32 = 20;
/// ... and is told to end this part of it earlier, if no renewal is confirmed by then.
const NOTICE: u32 = 6;

impl<A: Mutex, K: Key> Assembly<A, K> {
    fn lease_time(&self) -> Duration {
        self.timing.answer_timeout() * ROUND_TRIPS
    }

    /// How long to wait until whoever was left out has lost its lease.
    pub(super) fn quarantine(&self) -> After {
        After::exactly(self.longest_lease())
    }

    /// A lease, however slow the clock of its holder is.
    fn longest_lease(&self) -> Duration {
        self.lease_time() + self.lease_time() / 10
    }

    /// Whether we have come back so long ago that no lease of a former life lasts. Who knows that does not have to be waited for,
    /// as often as a roll may be called meanwhile.
    pub(super) fn is_past_former_leases(&self, now: Reading) -> bool {
        self.config.consent == Consent::Majority && now >= self.born.after(self.longest_lease())
    }

    /// Until when programs may run that are inside through us.
    pub(super) fn tell_leases(&self, visit: &mut dyn FnMut(&str, Span)) {
        let time = self.lease_time();
        let early = i64::try_from((time / GONE_BEFORE).as_nanos()).unwrap_or(i64::MAX);
        for (lock, lease) in &self.leases {
            if let Standing::Inside { .. } = self.standings.of(lock) {
                visit(lock.name(), Span { until: lease.until.shifted(-early), notice: time / NOTICE });
            }
        }
    }

    /// Our part was granted the lock: have it confirmed.
    pub(super) fn confirm(&mut self, lock: &K, fence: Fence, out: &mut impl Effects<Self>) {
        self.leases.entry(lock.clone()).or_default().granted = Some(fence);
        self.ask_for_renewal(lock, out);
        self.maybe_confirmed(lock, out);
    }

    fn ask_for_renewal(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        let time = self.lease_time();
        let Some(lease) = self.leases.get_mut(lock) else { return };
        self.renewals = self.renewals.saturating_add(1);
        lease.number = self.renewals;
        lease.confirmed_by = BTreeSet::from([self.id]);
        lease.confirmed = false;
        lease.asked = out.now();
        let (epoch, number) = (self.epoch, lease.number);
        out.send_all(self.group.others(self.id), &Msg::Renew { epoch, number, lock: lock.clone() });
        out.arm(Timer::Renew(lock.clone()), After::exactly(time / RENEWALS));
        // Until we are inside, no earlier renewal has a lease to keep.
        if lease.granted.is_some() {
            lease.until = lease.asked.after(time);
            out.arm(Timer::Lease(lock.clone()), After::exactly(time));
        }
    }

    /// A process that stood still finds out by its clock, before it does anything else, that its leases are over: what came in
    /// the meantime may be handled before the timer that says so. Where clocks stand still, the timer has to do.
    pub(super) fn maybe_overdue(&mut self, out: &mut impl Effects<Self>) {
        if self.config.mutation == Some(Mutation::LateLease) {
            return;
        }
        let now = out.now();
        let is_over = |(lock, lease): &(&K, &Lease)| now >= lease.until && self.is_leased(lock);
        let over: Vec<_> = self.leases.iter().filter(is_over).map(|(lock, _)| lock.clone()).collect();
        for lock in over {
            // Nothing that was asked for in that lease can be confirmed any more; the next renewal begins another.
            if let Some(lease) = self.leases.get_mut(&lock) {
                lease.number = 0;
            }
            self.on_lease_over(&lock, out);
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        number: u64,
        lock: &K,
        out: &mut impl Effects<Self>,
    ) {
        let is_active = self.is_active();
        let lease = self.leases.get_mut(lock);
        if let Some(lease) = lease.filter(|lease| epoch == self.epoch && number == lease.number && is_active)
        {
            lease.confirmed_by.insert(from);
            self.maybe_confirmed(lock, out);
        }
    }

    fn maybe_confirmed(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        let (group, time) = (self.group.iter().collect(), self.lease_time());
        let unconfirmed = self.is_mutant(Mutation::Unconfirmed);
        let Some(lease) = self.leases.get_mut(lock) else { return };
        let enough = is_majority(&lease.confirmed_by, &group) || (unconfirmed && lease.granted.is_some());
        if lease.confirmed || !enough {
            return;
        }
        lease.confirmed = true;
        lease.until = lease.asked.after(time);
        if let (Some(fence), Standing::Waiting { .. }) = (lease.granted.take(), self.standings.of(lock)) {
            self.enter(lock, fence, out);
        }
    }

    /// A third of the lease is over. What was confirmed in it counts from its beginning.
    pub(super) fn on_renew(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if !self.is_leased(lock) {
            return;
        }
        if let Some(lease) = self.leases.get(lock).filter(|lease| lease.confirmed) {
            out.arm(Timer::Lease(lock.clone()), After::exactly(self.rest_of_lease(lease, out.now())));
        }
        // While a roll is called nobody confirms anything, we included.
        if self.is_active() {
            self.ask_for_renewal(lock, out);
            self.maybe_confirmed(lock, out);
        } else {
            if let Some(lease) = self.leases.get_mut(lock) {
                lease.confirmed = false;
            }
            out.arm(Timer::Renew(lock.clone()), After::exactly(self.lease_time() / RENEWALS));
        }
    }

    /// What is left of the lease when the timer for its renewal expires. The timer may be handled late, which a clock shows.
    fn rest_of_lease(&self, lease: &Lease, now: Reading) -> Duration {
        let planned = self.lease_time() - self.lease_time() / RENEWALS;
        let left = u64::try_from(lease.until.since(now)).unwrap_or(0);
        planned.min(Duration::from_nanos(left))
    }

    pub(super) fn on_lease_over(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        // What was granted but not confirmed has not been told to anybody yet.
        if matches!(self.standing(lock), Standing::Inside { .. }) {
            self.lose(lock, out);
            self.pass_on(lock, Request::Release, out);
        }
    }

    fn is_leased(&self, lock: &K) -> bool {
        self.leases.get(lock).is_some_and(|lease| {
            lease.granted.is_some() || matches!(self.standings.of(lock), Standing::Inside { .. })
        })
    }

    pub(super) fn end_lease(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if self.config.consent == Consent::Majority {
            self.leases.remove(lock);
            out.disarm(Timer::Renew(lock.clone()));
            out.disarm(Timer::Lease(lock.clone()));
        }
    }
}
