//! When a peer is suspected: a phi-accrual failure detector.
//!
//! Hayashibara, Défago, Yared, Katayama, *The φ accrual failure detector* (2004). A peer beats at a fixed interval; the
//! detector learns how the gaps between arrivals are spread, and from that how unlikely the present silence is:
//! phi = 8 means that a living peer is silent for so long once in 10^8 times. So the timeout follows the network.
//!
//! The timeout has bounds: no silence below [`at_least`](DetectorConfig::at_least) makes a suspect, however steady the beats
//! were, and every silence of [`patience`](DetectorConfig::patience) times that does, however unsteady.
//!
//! Only beats are learnt from. Anything else that arrives shows that the peer is alive, but its rhythm is that of the
//! application, and a burst of messages must not make the pause after it look like death. A handshake is no sign of life:
//! whoever answers it may refuse to go on.
//!
//! Silence is only what could have been heard: time in which this process stood still ([`Detector::excuse`]), or did not read
//! because it had too much to do ([`Detector::stop_listening`]), does not count.
//!
//! Time is handed in, as the time since some fixed moment; nothing here reads a clock.

use core::time::Duration;
use std::collections::VecDeque;

use crate::config::ConfigError;

/// When a peer is suspected.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorConfig {
    /// How often a node says that it is alive.
    pub beat: Duration,
    /// How unlikely the silence must be, as a negative power of ten.
    pub threshold: f64,
    /// How many gaps between beats are remembered.
    pub window: usize,
    /// The least spread of the gaps that is believed: a quiet network does not make the detector nervous.
    pub min_deviation: Duration,
    /// A silence shorter than this never makes a suspect.
    pub at_least: Duration,
    /// A silence of so many times that always does.
    pub patience: u32,
    /// How long a peer that has not been heard of yet is given to come up.
    pub grace: Duration,
}

impl Default for DetectorConfig {
    fn default() -> Self {
        Self {
            beat: Duration::from_millis(100),
            threshold: 8.0,
            window: 100,
            min_deviation: Duration::from_millis(50),
            at_least: Duration::from_millis(500),
            patience: 10,
            grace: Duration::from_secs(5),
        }
    }
}

impl DetectorConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let why = if self.beat < Duration::from_millis(1) {
            "a beat is at least a millisecond"
        } else if self.threshold.is_nan() || self.threshold <= 0.0 {
            "the threshold must be positive"
        } else if self.window == 0 {
            "the window must not be empty"
        } else if self.min_deviation.is_zero() {
            "the least deviation must be positive"
        } else if self.at_least <= self.beat {
            "the least timeout must be longer than a beat"
        } else if self.patience == 0 {
            "the longest timeout must not be shorter than the least"
        } else {
            return Ok(());
        };
        Err(ConfigError::Detector(why))
    }
}

/// What is known of the arrivals from one life of a peer.
#[derive(Clone, Debug)]
pub struct Detector {
    config: DetectorConfig,
    /// The gaps between beats in seconds, oldest first.
    gaps: VecDeque<f64>,
    sum: f64,
    sum_of_squares: f64,
    last_beat: Option<Duration>,
    /// The last sign of life; before the first, the moment until which nothing is expected.
    last_sign: Duration,
    /// Whether there was any.
    was_heard: bool,
    /// Since when nothing that it says is read.
    deaf_since: Option<Duration>,
}

impl Detector {
    /// Nothing has been heard of the peer yet; it has the grace period to come up.
    #[must_use]
    pub fn new(config: DetectorConfig, now: Duration) -> Self {
        let last_sign = now + config.grace.saturating_sub(config.at_least);
        let gaps = VecDeque::with_capacity(config.window);
        Self {
            config,
            gaps,
            sum: 0.0,
            sum_of_squares: 0.0,
            last_beat: None,
            last_sign,
            was_heard: false,
            deaf_since: None,
        }
    }

    /// Another connection begins: the pause between says nothing about beats. Nor is it a sign of life, before anything has
    /// arrived.
    pub fn reconnect(&mut self) {
        self.last_beat = None;
    }

    /// A beat arrived.
    pub fn beat(&mut self, now: Duration) {
        if let Some(gap) = self.last_beat.replace(now).and_then(|last| now.checked_sub(last)) {
            self.learn(gap.as_secs_f64());
        }
        self.heard(now);
    }

    /// Something else arrived.
    pub fn heard(&mut self, now: Duration) {
        self.last_sign = now;
        self.was_heard = true;
    }

    /// For so long nothing could be heard, because this process stood still.
    pub fn excuse(&mut self, span: Duration, now: Duration) {
        for moment in core::iter::once(&mut self.last_sign).chain(&mut self.last_beat) {
            // What is still to come, such as the end of the grace period, needs no excuse.
            if *moment < now {
                *moment = (*moment + span).min(now);
            }
        }
    }

    /// From now on nothing that the peer says is read: there is too much to do with what it has said.
    pub fn stop_listening(&mut self, now: Duration) {
        self.deaf_since.get_or_insert(now);
    }

    /// What it says is read again.
    pub fn listen(&mut self, now: Duration) {
        if let Some(since) = self.deaf_since.take() {
            self.excuse(now.saturating_sub(since), now);
        }
    }

    /// How long the peer has been silent, as far as could be heard.
    fn silence(&self, now: Duration) -> Duration {
        self.deaf_since.unwrap_or(now).min(now).saturating_sub(self.last_sign)
    }

    fn learn(&mut self, gap: f64) {
        if self.gaps.len() == self.config.window {
            let oldest = self.gaps.pop_front().unwrap_or_default();
            self.sum -= oldest;
            self.sum_of_squares -= oldest * oldest;
        }
        self.gaps.push_back(gap);
        self.sum += gap;
        self.sum_of_squares += gap * gap;
    }

    /// How unlikely the present silence is, as a negative power of ten.
    #[must_use]
    pub fn phi(&self, now: Duration) -> f64 {
        self.phi_of(self.silence(now))
    }

    fn phi_of(&self, silence: Duration) -> f64 {
        let silence = silence.as_secs_f64();
        let (mean, deviation) = self.spread();
        // The logistic approximation of the normal distribution; good to 10^-4, and it never becomes zero.
        let y = (silence - mean) / deviation;
        let power = y * (1.5976 + 0.070_566 * y * y);
        if y > 0.0 {
            (power + (1.0 + (-power).exp()).ln()) / core::f64::consts::LN_10
        } else {
            let e = (-power).exp();
            -(e / (1.0 + e)).log10()
        }
    }

    /// Mean and deviation of the gaps; with nothing learnt, those of beats that come as they should.
    fn spread(&self) -> (f64, f64) {
        let least = self.config.min_deviation.as_secs_f64();
        let n = self.gaps.len() as f64;
        if self.gaps.is_empty() {
            return (self.config.beat.as_secs_f64(), least);
        }
        let mean = self.sum / n;
        let variance = (self.sum_of_squares / n - mean * mean).max(0.0);
        (mean, variance.sqrt().max(least))
    }

    /// Whether the peer has been silent for too long.
    #[must_use]
    pub fn is_suspect(&self, now: Duration) -> bool {
        self.is_too_long(self.silence(now))
    }

    /// Whether the peer has been heard so lately that twice the silence would not make it a suspect: then others may rely
    /// on its being heard here.
    #[must_use]
    pub fn is_fresh(&self, now: Duration) -> bool {
        self.was_heard && !self.is_too_long(2 * self.silence(now))
    }

    fn is_too_long(&self, silence: Duration) -> bool {
        let DetectorConfig { at_least, patience, threshold, .. } = self.config;
        silence > at_least && (silence > at_least * patience || self.phi_of(silence) > threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn beaten(gaps: &[u64]) -> (Detector, u64) {
        let mut detector = Detector::new(DetectorConfig::default(), Duration::ZERO);
        let mut now = 0;
        detector.beat(ms(0));
        for gap in gaps {
            now += gap;
            detector.beat(ms(now));
        }
        (detector, now)
    }

    /// The first millisecond of silence, if any below a minute, at which the peer is suspected.
    fn timeout(detector: &Detector, now: u64) -> u64 {
        (0..60_000).find(|silence| detector.is_suspect(ms(now + silence))).unwrap_or(60_000)
    }

    #[test]
    fn steady_beats_are_trusted_and_silence_is_not() {
        let (detector, now) = beaten(&[100; 50]);
        assert!(!detector.is_suspect(ms(now + 100)));
        assert_eq!(timeout(&detector, now), 501, "the lower bound decides on a steady network");
    }

    #[test]
    fn the_timeout_follows_the_network() {
        let unsteady: Vec<u64> = (0..100).map(|k| if k % 10 == 0 { 900 } else { 50 }).collect();
        let (nervous, now) = beaten(&[100; 50]);
        let (patient, later) = beaten(&unsteady);
        assert!(timeout(&patient, later) > 2 * timeout(&nervous, now));
    }

    /// However slowly the beats came, a silence of ten times the least timeout is too long.
    #[test]
    fn the_timeout_has_bounds() {
        let (detector, now) = beaten(&[4_000; 50]);
        assert_eq!(timeout(&detector, now), 4_262);
        let unsteady: Vec<u64> = (0..100).map(|k| if k % 2 == 0 { 4_900 } else { 50 }).collect();
        let (detector, now) = beaten(&unsteady);
        assert_eq!(timeout(&detector, now), 5_001, "phi alone would wait for 15 s");
    }

    /// Time in which this process stood still is no silence of others; but who was silent before still is.
    #[test]
    fn what_could_not_be_heard_is_no_silence() {
        let (mut detector, now) = beaten(&[100; 50]);
        detector.excuse(ms(3_000), ms(now + 3_400));
        assert!(!detector.is_suspect(ms(now + 3_400)));
        assert!(detector.is_suspect(ms(now + 3_501)));
        detector.excuse(ms(9_000), ms(now + 12_501));
        assert!(detector.is_suspect(ms(now + 12_501)), "it was suspected before");
        detector.beat(ms(now + 12_600));
        detector.excuse(ms(5_000), ms(now + 12_650));
        assert!(!detector.is_suspect(ms(now + 12_700)));
        assert!(detector.is_suspect(ms(now + 13_151)), "an excuse does not reach into the future");
    }

    #[test]
    fn whoever_is_not_read_is_not_suspected() {
        let (mut detector, now) = beaten(&[100; 50]);
        detector.stop_listening(ms(now + 50));
        assert!(!detector.is_suspect(ms(now + 60_000)));
        detector.listen(ms(now + 60_000));
        assert!(!detector.is_suspect(ms(now + 60_000 + 450)));
        assert!(detector.is_suspect(ms(now + 60_000 + 451)));
    }

    #[test]
    fn who_is_heard_here_can_be_told_to_others() {
        let detector = Detector::new(DetectorConfig::default(), ms(0));
        assert!(!detector.is_fresh(ms(1)), "nothing was ever heard of it");
        let (detector, now) = beaten(&[100; 50]);
        assert!(detector.is_fresh(ms(now + 250)));
        assert!(!detector.is_fresh(ms(now + 251)));
    }

    #[test]
    fn old_gaps_are_forgotten() {
        let (mut detector, mut now) = beaten(&[2_000; 50]);
        assert!(timeout(&detector, now) > 2_000);
        for _ in 0..100 {
            now += 100;
            detector.beat(ms(now));
        }
        assert_eq!(timeout(&detector, now), 501);
    }

    #[test]
    fn phi_grows_with_silence_and_stays_finite() {
        let (detector, now) = beaten(&[100; 50]);
        let phi: Vec<f64> = (0..200).map(|k| detector.phi(ms(now + k * 50))).collect();
        assert!(phi.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(phi.iter().all(|phi| phi.is_finite() && *phi >= 0.0), "{phi:?}");
        assert!(detector.phi(Duration::from_secs(1_000_000)).is_finite());
    }

    #[test]
    fn a_burst_of_messages_teaches_nothing() {
        let (mut detector, now) = beaten(&[100; 50]);
        for k in 0..10_000 {
            detector.heard(ms(now) + Duration::from_micros(k));
        }
        assert_eq!(timeout(&detector, now), 510);
    }

    #[test]
    fn who_never_spoke_has_a_grace_period() {
        let detector = Detector::new(DetectorConfig::default(), ms(0));
        assert!(!detector.is_suspect(ms(4_900)));
        assert!(detector.is_suspect(ms(5_100)));
    }

    #[test]
    fn any_sign_of_life_ends_a_suspicion() {
        let (mut detector, now) = beaten(&[100; 50]);
        assert!(detector.is_suspect(ms(now + 5_000)));
        detector.heard(ms(now + 5_000));
        assert!(!detector.is_suspect(ms(now + 5_001)));
    }

    #[test]
    fn a_pause_between_two_lives_is_no_gap_between_beats() {
        let (mut detector, now) = beaten(&[100; 50]);
        detector.reconnect();
        assert!(detector.is_suspect(ms(now + 60_000)), "a connection alone is no sign of life");
        detector.beat(ms(now + 60_050));
        assert_eq!(timeout(&detector, now + 60_050), 501);
    }
}
