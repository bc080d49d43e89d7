//! What a process wants done, and where it puts that.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{NodeId, Protocol, Reading};

/// One thing that a process wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<P: Protocol> {
    /// Make this durable before any later effect is seen outside.
    Save(P::Durable),
    /// Carry a message to another process.
    Send {
        /// To whom; never the sender itself.
        to: NodeId,
        /// What to say.
        message: P::Message,
    },
    /// Set a timer; one of the same name that is still armed is replaced.
    Arm {
        /// Which.
        timer: P::Timer,
        /// When it shall run out.
        after: After,
    },
    /// Stop a timer, if it is armed.
    Disarm(P::Timer),
    /// Tell the local application.
    Emit(P::Event),
    /// A peer broke the protocol: what it sent had no effect.
    Reject {
        /// The peer.
        from: NodeId,
        /// The rule that it broke, as a sentence.
        why: &'static str,
    },
}

/// A time span to draw from: the process says the range, the driver picks the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct After {
    /// Not before.
    pub min: Duration,
    /// Not after.
    pub max: Duration,
}

impl After {
    /// Exactly this long.
    #[must_use]
    pub const fn exactly(span: Duration) -> Self {
        Self { min: span, max: span }
    }

    /// Anything between the two.
    ///
    /// # Panics
    /// If `min` is larger than `max`.
    #[must_use]
    pub fn between(min: Duration, max: Duration) -> Self {
        assert!(min <= max, "a timer range must not be empty");
        Self { min, max }
    }
}

/// Where a process puts its effects: a driver, a buffer, or the process that embeds it.
pub trait Effects<P: Protocol> {
    /// Takes one effect; effects are carried out in the order in which they are pushed.
    fn push(&mut self, effect: Effect<P>);

    /// What the clock of the process shows during this step.
    ///
    /// The driver says what it shows. It is the one thing that a process may learn besides its inputs; a driver that has
    /// no clock shows zero.
    fn now(&self) -> Reading;

    /// Sends a message to one process.
    #[inline(always)]
    fn send(&mut self, to: NodeId, message: P::Message) {
        self.push(Effect::Send { to, message });
    }

    /// Sends the same message to several processes, one after the other.
    fn send_all(&mut self, to: impl IntoIterator<Item = NodeId>, message: &P::Message)
    where
        Self: Sized,
    {
        // Not a loop: those who are not left out are gone through in one piece, not asked for one by one.
        to.into_iter().for_each(|to| self.send(to, message.clone()));
    }

    /// Arms a timer.
    #[inline]
    fn arm(&mut self, timer: P::Timer, after: After) {
        self.push(Effect::Arm { timer, after });
    }

    /// Disarms a timer.
    #[inline]
    fn disarm(&mut self, timer: P::Timer) {
        self.push(Effect::Disarm(timer));
    }

    /// Tells the application.
    #[inline]
    fn emit(&mut self, event: P::Event) {
        self.push(Effect::Emit(event));
    }

    /// Makes a value durable.
    #[inline]
    fn save(&mut self, durable: P::Durable) {
        self.push(Effect::Save(durable));
    }

    /// Reports that a peer broke the protocol.
    #[inline]
    fn reject(&mut self, from: NodeId, why: &'static str) {
        self.push(Effect::Reject { from, why });
    }
}

/// A plain list has no clock: it shows zero. See [`Timed`].
impl<P: Protocol> Effects<P> for Vec<Effect<P>> {
    fn push(&mut self, effect: Effect<P>) {
        Self::push(self, effect);
    }

    fn now(&self) -> Reading {
        Reading::ZERO
    }
}

/// A list of effects of a step that began when the clock showed this.
#[derive(Debug)]
pub struct Timed<'a, P: Protocol> {
    /// What the clock shows.
    pub now: Reading,
    /// The effects so far.
    pub effects: &'a mut Vec<Effect<P>>,
}

impl<P: Protocol> Effects<P> for Timed<'_, P> {
    fn push(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn now(&self) -> Reading {
        self.now
    }
}

/// A sink whose type is erased.
///
/// Code that is generic over its sink is compiled once per sink. A protocol that embeds another one erases the sink at
/// its door, so that all of it is compiled once, whatever drives it. See [`erased`].
impl<P: Protocol> Effects<P> for &mut (dyn Effects<P> + '_) {
    fn push(&mut self, effect: Effect<P>) {
        (**self).push(effect);
    }

    fn now(&self) -> Reading {
        (**self).now()
    }
}

/// Erases the type of a sink: `self.inner.handle(input, &mut erased(out))`.
pub fn erased<'a, P: Protocol>(out: &'a mut (impl Effects<P> + 'a)) -> &'a mut (dyn Effects<P> + 'a) {
    out
}

/// Effects that go through a function: this is how one protocol embeds another.
///
/// The outer protocol holds the inner one as a value and hands it a `Through` that translates each inner effect
/// and pushes it on; nothing is stored in between. Both read the same clock.
///
/// ```text
/// let now = out.now();
/// self.inner.handle(input, &mut Through::new(now, |effect| out.push(lift(effect))));
/// ```
pub struct Through<F> {
    now: Reading,
    push: F,
}

impl<F> Through<F> {
    /// Effects that go through `push`, of a step in which the clock shows `now`.
    pub fn new(now: Reading, push: F) -> Self {
        Self { now, push }
    }
}

impl<P: Protocol, F: FnMut(Effect<P>)> Effects<P> for Through<F> {
    fn push(&mut self, effect: Effect<P>) {
        (self.push)(effect);
    }

    fn now(&self) -> Reading {
        self.now
    }
}
