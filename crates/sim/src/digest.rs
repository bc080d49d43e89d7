//! A fingerprint of a run that needs no trace.

use core::hash::{Hash, Hasher};

use conclave_core::{Disturbance, Incarnation, Input, Moment, Observer, Process, Protocol, Transit};

/// A running hash over everything that happens: the same on every machine and in every build.
#[derive(Clone, Debug)]
pub struct Digest {
    state: u64,
    /// What was taken in since the state was last stirred.
    small: u64,
}

impl Digest {
    /// Of a run in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self { state: 0x636F_6E63_6C61_7665, small: 0 }
    }

    /// The fingerprint so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut last = self.clone();
        last.mix(0);
        last.state
    }

    /// Stirs everything up.
    #[inline(always)]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.small ^ 0x9E37_79B9_7F4A_7C15);
        self.state = (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(32);
        self.small = 0;
    }

    /// Takes a number in, to be stirred with the next event.
    #[inline(always)]
    fn add(&mut self, number: u64) {
        self.small = (self.small.rotate_left(23) ^ number).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }

    #[inline(always)]
    fn happened(&mut self, tag: u64, at: &Moment, process: Process) {
        self.mix(at.time << 3 | tag);
        self.small = u64::from(process.place);
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

/// Numbers are taken as 64 bits whatever the platform's word is.
impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.value()
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }
    #[inline(always)]
    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }
    #[inline(always)]
    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }
    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }
    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
    #[inline(always)]
    fn write_isize(&mut self, number: isize) {
        self.add(number as u64);
    }
}

impl<P: Protocol> Observer<P> for Digest {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        self.happened(0, at, process);
        input.hash(self);
    }
    fn drop(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        self.happened(1, at, transit.to);
        message.hash(self);
    }
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        self.happened(2, at, process);
        event.hash(self);
    }
    fn interrupt(&mut self, _at: &Moment, _process: Process, after: u32) {
        self.add(u64::from(after));
    }
    fn crash(&mut self, at: &Moment, process: Process) {
        self.happened(3, at, process);
    }
    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.happened(4, at, process);
        (life, durable).hash(self);
    }
    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        self.mix(at.time);
        match what {
            Disturbance::Pause(process) | Disturbance::Resume(process) | Disturbance::Join(process) => {
                self.add(u64::from(process.place));
            }
            Disturbance::Cut(cut) | Disturbance::Heal(cut) => cut.hash(self),
            Disturbance::Clock(process, deviation) => {
                self.add(u64::from(process.place));
                (deviation.offset, deviation.drift).hash(self);
            }
        }
    }
}
