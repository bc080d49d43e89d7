//! What a client makes of answers.

use std::collections::VecDeque;

use crate::{Leap, Mode, PACKET, Packet, Stamp};

/// A question that was asked, until it is answered.
#[derive(Clone, Debug)]
pub struct Question {
    /// What an answer repeats. It is no time but a number that nobody can guess.
    nonce: Stamp,
    sent: Stamp,
    is_open: bool,
}

/// One measurement of another clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How far the other clock is ahead of ours.
    pub offset: i64,
    /// How long question and answer were on the way.
    pub delay: i64,
    /// How far from the true time the server believes to be, at most.
    pub root_distance: u64,
    /// Its distance from a reference clock.
    pub stratum: u8,
}

/// Why an answer is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// It is no packet.
    #[error(transparent)]
    Malformed(#[from] crate::Malformed),
    /// It answers another question, or none.
    #[error("it answers a question that was not asked")]
    Foreign,
    /// The question was answered before.
    #[error("the question was answered already")]
    Replayed,
    /// It does not come from a server.
    #[error("it is no answer of a server")]
    NoAnswer,
    /// The server refuses to answer.
    #[error("the server refuses: {}", text(*.0))]
    Refused([u8; 4]),
    /// The server does not know the time.
    #[error("the server does not know the time")]
    Unsynchronised,
    /// Its stamps contradict each other, or our own.
    #[error("its times contradict each other")]
    Absurd,
    /// More follows the packet, and nothing was asked that could be answered so.
    #[error("it is longer than the 48 bytes of an answer")]
    TooLong,
}

/// Four letters, if that is what they are.
fn text(code: [u8; 4]) -> String {
    code.iter().take_while(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect()
}

impl Question {
    /// A question that is sent now.
    #[must_use]
    pub fn new(nonce: u64, sent: Stamp) -> Self {
        // Zero would be no stamp at all.
        Self { nonce: Stamp(nonce.max(1)), sent, is_open: true }
    }

    /// What is sent.
    #[must_use]
    pub fn packet(&self) -> Packet {
        Packet::question(self.nonce)
    }

    /// What arrived at this moment, if it answers the question; an answer is taken once.
    ///
    /// # Errors
    /// If it is to be ignored. The question stays open then.
    pub fn accept(&mut self, bytes: &[u8], arrived: Stamp) -> Result<Sample, Ignored> {
        let packet = Packet::decode(bytes)?;
        if bytes.len() > PACKET {
            return Err(Ignored::TooLong);
        }
        if packet.mode != Mode::Server {
            return Err(Ignored::NoAnswer);
        }
        if packet.origin != self.nonce {
            return Err(Ignored::Foreign);
        }
        if !self.is_open {
            return Err(Ignored::Replayed);
        }
        if packet.stratum == 0 {
            return Err(Ignored::Refused(packet.reference_id));
        }
        if packet.stratum > 15 || packet.leap == Leap::Unset {
            return Err(Ignored::Unsynchronised);
        }
        let sample = self.measure(&packet, arrived).ok_or(Ignored::Absurd)?;
        self.is_open = false;
        Ok(sample)
    }

    fn measure(&self, packet: &Packet, arrived: Stamp) -> Option<Sample> {
        if packet.receive == Stamp::NONE || packet.transmit == Stamp::NONE {
            return None;
        }
        let (out, back) = (packet.receive.since(self.sent), packet.transmit.since(arrived));
        let (total, handled) = (arrived.since(self.sent), packet.transmit.since(packet.receive));
        // Nobody sets a clock in the future, and nobody holds a question for longer than we have waited for the answer.
        let is_set_later = packet.reference != Stamp::NONE && packet.transmit.since(packet.reference) < 0;
        if total < 0 || handled < 0 || is_set_later || handled - total > slack(total) {
            return None;
        }
        let offset = ((i128::from(out) + i128::from(back)) / 2) as i64;
        let root = packet.root_delay.nanos() / 2 + packet.root_dispersion.nanos();
        // What two clocks of different speed make negative is no more exact than that.
        let delay = total.saturating_sub(handled).saturating_abs();
        let root_distance = root.saturating_add(delay.unsigned_abs() / 2);
        Some(Sample { offset, delay, root_distance, stratum: packet.stratum })
    }
}

/// By how much the time on the way may seem negative: clocks differ in speed by less than a thousandth, and are read to
/// better than a tenth of a millisecond.
fn slack(total: i64) -> i64 {
    total / 1_000 + 100_000
}

impl Sample {
    /// How far the offset can be from the true one: half of the delay, rounded up.
    #[must_use]
    pub fn bound(&self) -> i64 {
        self.delay / 2 + self.delay % 2
    }
}

/// The last eight samples of a server. The one with the least delay is the most exact.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    samples: VecDeque<Sample>,
}

impl Filter {
    /// So many samples are kept.
    pub const DEPTH: usize = 8;

    /// Adds one.
    pub fn add(&mut self, sample: Sample) {
        if self.samples.len() == Self::DEPTH {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The one with the least delay, if there are any; of several the last.
    #[must_use]
    pub fn best(&self) -> Option<Sample> {
        self.samples.iter().rev().min_by_key(|sample| sample.delay).copied()
    }

    /// How far the offsets are from that of the best, at most.
    #[must_use]
    pub fn dispersion(&self) -> u64 {
        let best = self.best().map_or(0, |best| best.offset);
        self.samples.iter().map(|sample| sample.offset.abs_diff(best)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Short;

    const MS: u64 = 1_000_000;

    /// So many milliseconds on any clock.
    fn at(ms: u64) -> Stamp {
        Stamp((u128::from(ms) * (1 << 32) / 1_000) as u64)
    }

    fn answer(question: &Packet, receive: Stamp, transmit: Stamp) -> Packet {
        Packet {
            mode: Mode::Server,
            stratum: 2,
            root_delay: Short::of_nanos(4 * MS),
            root_dispersion: Short::of_nanos(MS),
            origin: question.transmit,
            receive,
            ..Packet::question(transmit)
        }
    }

    /// TV-C4: four stamps, in milliseconds.
    #[test]
    fn book_tv_c4_offset_and_delay_follow_from_four_stamps() {
        let mut question = Question::new(77, at(100));
        let reply = answer(&question.packet(), at(1_110), at(1_112)).encode();
        let sample = question.accept(&reply, at(130)).expect("it is the answer");
        let near = |value: i64, ms: i64| value.abs_diff(ms * MS as i64) < 10;
        assert!(near(sample.offset, 996) && near(sample.delay, 28) && near(sample.bound(), 14), "{sample:?}");
        // Half of 4 and 28 ms, and 1 ms; spans are rounded up to parts of 65536.
        assert!(sample.root_distance.abs_diff(17 * MS) < 40_000, "{sample:?}");
        assert_eq!(question.accept(&reply, at(131)), Err(Ignored::Replayed));
    }

    #[test]
    fn what_is_no_answer_is_ignored_and_the_question_stays_open() {
        let mut question = Question::new(77, at(100));
        let right = answer(&question.packet(), at(110), at(110));
        let wrong = [
            (Packet { origin: Stamp(78), ..right }, Ignored::Foreign),
            (Packet { origin: Stamp::NONE, ..right }, Ignored::Foreign),
            (Packet { mode: Mode::Client, ..right }, Ignored::NoAnswer),
            (Packet { stratum: 0, reference_id: *b"RATE", ..right }, Ignored::Refused(*b"RATE")),
            (Packet { stratum: 16, ..right }, Ignored::Unsynchronised),
            (Packet { leap: Leap::Unset, ..right }, Ignored::Unsynchronised),
            (Packet { transmit: Stamp::NONE, ..right }, Ignored::Absurd),
            (Packet { receive: at(111), ..right }, Ignored::Absurd),
            (Packet { receive: at(110), transmit: at(140), ..right }, Ignored::Absurd),
            (Packet { reference: at(111), ..right }, Ignored::Absurd),
        ];
        for (packet, why) in wrong {
            assert_eq!(question.accept(&packet.encode(), at(120)), Err(why));
        }
        let bytes = right.encode();
        assert_eq!(question.accept(&bytes[..47], at(120)), Err(Ignored::Malformed(crate::Malformed(47))));
        let longer = [&bytes[..], &[0; 464]].concat();
        assert_eq!(question.accept(&longer, at(120)), Err(Ignored::TooLong));
        assert_eq!(question.accept(&bytes, at(99)), Err(Ignored::Absurd), "it came before it was asked for");
        assert!(question.accept(&bytes, at(120)).is_ok());
        assert_eq!(Ignored::Refused(*b"RATE").to_string(), "the server refuses: RATE");
    }

    #[test]
    fn the_filter_believes_the_fastest_answer_of_the_last_eight() {
        let sample = |offset, delay| Sample { offset, delay, root_distance: 0, stratum: 1 };
        let mut filter = Filter::default();
        assert_eq!((filter.best(), filter.dispersion()), (None, 0));
        for (offset, delay) in [(100, 1), (7, 5), (9, 4), (20, 9), (1, 8), (2, 8), (3, 8), (4, 8)] {
            filter.add(sample(offset, delay));
        }
        assert_eq!((filter.best(), filter.dispersion()), (Some(sample(100, 1)), 99));
        filter.add(sample(5, 8));
        assert_eq!((filter.best(), filter.dispersion()), (Some(sample(9, 4)), 11));
    }

    /// A clock that is a little faster than ours makes the way seem shorter than nothing: the error is no smaller than that.
    #[test]
    fn clocks_of_different_speed_are_no_contradiction() {
        let start = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        let now = |nanos| Stamp::of(start, nanos);
        let asked = || Question::new(77, now(0));
        let held = |nanos| answer(&asked().packet(), now(0), now(nanos)).encode();
        let sample = asked().accept(&held(1_000_080_000), now(1_000_000_000)).expect("80 µs in a second");
        assert!(sample.delay.abs_diff(80_000) < 5 && sample.bound().abs_diff(40_000) < 5, "{sample:?}");
        assert_eq!(asked().accept(&held(1_002_000_000), now(1_000_000_000)), Err(Ignored::Absurd));
    }

    proptest! {
        /// Whatever the delays and the offset, the true offset is within the bound.
        #[test]
        fn the_true_offset_is_within_the_bound(
            offset in -1_000_000_000_000i64..1_000_000_000_000, out in 0..1_000_000_000i64, handling in 0..1_000_000i64,
            back in 0..1_000_000_000i64,
        ) {
            let start = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
            let mut question = Question::new(1, Stamp::of(start, 0));
            let there = Stamp::of(start, out + offset);
            let reply = answer(&question.packet(), there, Stamp::of(start, out + handling + offset)).encode();
            let arrived = Stamp::of(start, out + handling + back);
            let sample = question.accept(&reply, arrived).expect("it is the answer");
            // Stamps count in quarters of a nanosecond.
            prop_assert!(sample.offset.abs_diff(offset) <= sample.bound().unsigned_abs() + 4);
            prop_assert!(sample.delay.abs_diff(out + back) <= 4);
        }

        #[test]
        fn no_bytes_are_taken_for_an_answer_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..64), nonce in 1u64..) {
            let mut question = Question::new(nonce, at(100));
            prop_assert!(question.accept(&bytes, at(120)).is_err());
        }
    }
}
