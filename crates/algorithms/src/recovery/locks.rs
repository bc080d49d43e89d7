//! The locks of a group: what the application asks of each, and our part in it.
//!
//! Where locks have names, each comes into being when somebody first speaks of it in an epoch, as everyone would have made it
//! from the roll of that epoch: nobody wanted it when the roll was called. So a roll is all that it takes to forget those
//! that nobody wants. One that comes back has a later epoch, and larger fences.

use super::*;

impl<A: Mutex, K: Key> Assembly<A, K> {
    /// The locks in which we have a part.
    pub(super) fn locks(&self) -> Vec<K> {
        self.places.keys().cloned().collect()
    }

    /// What our application wants of a lock.
    pub(super) fn standing(&self, lock: &K) -> Standing {
        self.standings.of(lock)
    }

    pub(super) fn ask(&mut self, lock: &K, request: Request, out: &mut impl Effects<Self>) {
        match (request, self.standing(lock)) {
            (Request::Acquire, Standing::Idle)
                if !self.leavers.contains(&self.id) && self.has_room_for(lock) =>
            {
                let since = Stamp { time: self.clock.tick(), process: self.id };
                self.standings.set(lock, Standing::Waiting { since, queued: false });
                self.arm_patience(lock, out);
                self.pass_on(lock, Request::Acquire, out);
                self.maybe_queued(lock, since.time);
                if self.unled {
                    out.emit(Told::Elect);
                }
            }
            (Request::Release, Standing::Inside { .. }) => {
                self.standings.set(lock, Standing::Idle);
                self.end_lease(lock, out);
                self.pass_on(lock, Request::Release, out);
            }
            (Request::Cancel, Standing::Waiting { .. }) => {
                self.standings.set(lock, Standing::Idle);
                out.disarm(Timer::Patience(lock.clone()));
                self.withdraw(lock, out);
            }
            // Nobody leaves one lock of many.
            (Request::Leave, Standing::Idle) if self.is_member && lock.is_only() => {
                self.leavers.insert(self.id);
                self.follow(out);
            }
            _ => self.tell(lock, Event::Refused(request), out),
        }
    }

    fn tell(&self, lock: &K, event: Event, out: &mut impl Effects<Self>) {
        out.emit(Told::App(lock.clone().told(event)));
    }

    /// Whether our application may want something of one more lock.
    fn has_room_for(&self, lock: &K) -> bool {
        lock.is_only() || self.standings.len() < self.config.limits.in_use
    }

    /// Makes our part in a lock that this epoch has not seen before.
    pub(super) fn open(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if !self.is_member || self.places.contains_key(lock) {
            return;
        }
        let (group, id, timing, life) = (self.group.clone(), self.id, self.timing, self.life);
        if self.epoch == Epoch::FIRST || self.is_mutant(Mutation::OpenAfresh) {
            let config = match group.max().filter(|_| A::begins_unled(&self.config.algorithm)) {
                Some(leader) => A::led_by(&self.config.algorithm, leader),
                None => self.config.algorithm.clone(),
            };
            let part = A::boot(Boot { id, members: &group, config: &config, timing, life, saved: None });
            self.places.insert(lock.clone(), Place::of(part));
            self.play(lock, Input::Start, out);
        } else {
            let nobody = group.iter().map(|member| (member, Standings::default())).collect();
            let roll = GroupRoll {
                epoch: self.epoch,
                convener: self.convener.unwrap_or(self.epoch.creator),
                standings: nobody,
                clock: self.opening.clock,
            };
            self.rebuild(lock, &roll, out);
        }
        self.maybe_crowded(out);
    }

    /// Makes our part in a lock from the roll of a new epoch.
    pub(super) fn rebuild(&mut self, lock: &K, roll: &GroupRoll<K>, out: &mut impl Effects<Self>) {
        let mut events = Vec::new();
        let mut armed = BTreeSet::new();
        let (group, config) = (self.group.clone(), self.config.algorithm.clone());
        let (id, timing, life) = (self.id, self.timing, self.life);
        let boot = Boot { id, members: &group, config: &config, timing, life, saved: None };
        let said = (self.epoch, self.clock.time(), lock);
        let part =
            A::rebuild(boot, &roll.of(lock), &mut erased(&mut lifted(said, &mut armed, &mut events, out)));
        self.places.insert(lock.clone(), Place { armed, ..Place::of(part) });
        self.hear(lock, events, out);
    }

    /// How many locks we may know of before those that nobody wants are forgotten.
    fn most_known(&self) -> usize {
        self.config.limits.known.max(2 * self.opening.locks)
    }

    /// Whoever knows of too many locks asks for a roll, now and again.
    fn maybe_crowded(&mut self, out: &mut impl Effects<Self>) {
        let beyond = self.places.len().saturating_sub(self.most_known());
        if K::ONLY.is_some() || beyond == 0 || !self.is_active() {
            return;
        }
        let often = (self.config.limits.known / 8).max(1);
        if beyond % often == 1 % often {
            match self.leader() {
                Some(leader) if leader != self.id => out.send(leader, Msg::Crowded { epoch: self.epoch }),
                _ => self.make_room(out),
            }
        }
    }

    /// Calls the roll, so that locks that nobody wants are forgotten.
    pub(super) fn make_room(&mut self, out: &mut impl Effects<Self>) {
        if K::ONLY.is_none() && self.leads() && self.is_active() {
            self.gather(out);
        }
    }

    /// Hands our part what the application wants. While a roll is called it learns of it with the next epoch.
    pub(super) fn pass_on(&mut self, lock: &K, request: Request, out: &mut impl Effects<Self>) {
        if self.is_active() {
            self.open(lock, out);
        }
        // To make room for it, a roll may have been called.
        if self.is_active() {
            self.play(lock, Input::Request(request), out);
        }
    }

    /// Our application no longer wants what our part waits for, or has got without its knowledge.
    fn withdraw(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if !self.is_mutant(Mutation::KeepLease) {
            self.end_lease(lock, out);
        }
        let holds = self.part(lock).is_some_and(|part| part.phase() == Phase::HOLDING);
        self.pass_on(lock, if holds { Request::Release } else { Request::Cancel }, out);
    }

    /// Hands our part an input.
    pub(super) fn play(&mut self, lock: &K, input: Input<A>, out: &mut impl Effects<Self>) {
        let Some(place) = self.places.get_mut(lock) else { return };
        let mut events = Vec::new();
        let said = (self.epoch, self.clock.time(), lock);
        let Place { part, armed, .. } = place;
        part.handle(input, &mut erased(&mut lifted(said, armed, &mut events, out)));
        let suspected = part.suspected().filter(|peer| !self.down.contains_key(peer));
        self.hear(lock, events, out);
        if let Some(peer) = suspected {
            self.on_peer_down(peer, self.life_of(peer), out);
        }
    }

    /// Passes on what our part has to say, as far as our application wants to hear it.
    fn hear(&mut self, lock: &K, events: Vec<Event>, out: &mut impl Effects<Self>) {
        for event in events {
            match (event, self.standing(lock)) {
                (Event::Granted { fence }, Standing::Waiting { .. }) => match self.config.consent {
                    Consent::Living => self.enter(lock, fence, out),
                    Consent::Majority => self.confirm(lock, fence, out),
                },
                // It was given up while the roll was called that brought this.
                (Event::Granted { .. }, Standing::Idle | Standing::Inside { .. }) => {}
                // The algorithm itself has found out that somebody else may be inside.
                (Event::Lost { .. }, _) => self.lose(lock, out),
                (Event::Refused(_) | Event::Left, _) => {}
            }
        }
    }

    pub(super) fn enter(&mut self, lock: &K, fence: Fence, out: &mut impl Effects<Self>) {
        debug_assert!(matches!(self.standing(lock), Standing::Waiting { .. }), "only who waits enters");
        self.standings.set(lock, Standing::Inside { fence });
        out.disarm(Timer::Patience(lock.clone()));
        self.tell(lock, Event::Granted { fence }, out);
    }

    /// We are, or may be, no longer inside.
    pub(super) fn lose(&mut self, lock: &K, out: &mut impl Effects<Self>) {
        if let Standing::Inside { fence } = self.standing(lock) {
            self.standings.set(lock, Standing::Idle);
            self.end_lease(lock, out);
            self.tell(lock, Event::Lost { fence }, out);
        }
    }

    /// The locks that we are inside.
    pub(super) fn held(&self) -> Vec<K> {
        let is_inside = |standing| matches!(standing, Standing::Inside { .. });
        self.standings
            .iter()
            .filter(|(_, standing)| is_inside(*standing))
            .map(|(lock, _)| lock.clone())
            .collect()
    }

    pub(super) fn on_part(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        time: u64,
        lock: K,
        message: A::Message,
        out: &mut impl Effects<Self>,
    ) {
        let is_ours = epoch == self.epoch && !self.unled && self.group.contains(from);
        if is_ours && self.is_active() {
            if !self.places.contains_key(&lock) && self.places.len() >= self.most_by_peers() {
                return out.reject(from, "there are no more locks to be had than the limit allows");
            }
            self.open(&lock, out);
        }
        let time = match self.part(&lock).is_some_and(A::keeps_queue) {
            // Whoever asks is told when by our clock: later than everyone before it.
            true => self.clock.receive(time),
            false => {
                self.clock.witness(time);
                time
            }
        };
        if epoch > self.epoch || (epoch == self.epoch && self.unled) {
            if self.early.len() >= MOST_EARLY {
                out.reject(from, "more messages wait for their epoch than there is room for");
            } else if !self.is_mutant(Mutation::DropEarly) {
                self.early.push(Early { epoch, lock, from, message });
            }
        } else if !self.group.contains(from) {
            self.set_right(from, epoch, out);
        } else if (epoch == self.epoch || self.is_mutant(Mutation::OldMessages)) && self.is_active() {
            if A::token_in(&message).is_some()
                && let Some(place) = self.places.get_mut(&lock)
            {
                place.asked_where.clear();
            }
            self.play(&lock, Input::Receive { from, message }, out);
            self.maybe_queued(&lock, time);
        }
    }

    /// Honest peers keep to their limits, and so never get here.
    fn most_by_peers(&self) -> usize {
        self.most_known()
            .saturating_mul(2)
            .saturating_add(self.config.limits.in_use.saturating_mul(self.group.len()))
    }

    /// Our request is in the queue of a coordinator: from now on it stands where it stands there.
    pub(super) fn maybe_queued(&mut self, lock: &K, time: u64) {
        let is_queued = self.part(lock).is_some_and(A::is_queued);
        if let Some(Standing::Waiting { since, queued }) = self.standings.of_mut(lock)
            && is_queued
            && !*queued
        {
            (since.time, *queued) = (time, true);
        }
    }
}

/// Puts the epoch and the lock on what a part sends, and keeps what it tells the application for later.
fn lifted<'a, A: Mutex, K: Key>(
    (epoch, time, lock): (Epoch, u64, &'a K),
    armed: &'a mut BTreeSet<A::Timer>,
    events: &'a mut Vec<Event>,
    out: &'a mut impl Effects<Assembly<A, K>>,
) -> impl Effects<A> + 'a {
    let now = out.now();
    Through::new(now, move |effect: Effect<A>| match effect {
        // What a part saves would be void in the next epoch.
        Effect::Save(_) => {}
        Effect::Send { to, message } => out.send(to, Msg::Part { epoch, time, lock: lock.clone(), message }),
        Effect::Arm { timer, after } => {
            armed.insert(timer.clone());
            out.arm(Timer::Part(lock.clone(), timer), after);
        }
        Effect::Disarm(timer) => {
            armed.remove(&timer);
            out.disarm(Timer::Part(lock.clone(), timer));
        }
        Effect::Emit(event) => events.push(event),
        Effect::Reject { from, why } => out.reject(from, why),
    })
}
