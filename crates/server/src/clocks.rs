//! How far the clocks of the other nodes are from that of this one.
//!
//! ```text
//!   this node                    another
//!   T1 ── a packet of NTP ──────▶ T2      ahead = ((T2 − T1) + (T3 − T4)) / 2
//!   T4 ◀── its answer ─────────── T3      error ≤ ((T4 − T1) − (T3 − T2)) / 2
//! ```
//!
//! Nothing is decided by it, and leases run by service time. It is for people, who read times in the logs of several nodes, and for
//! whom a clock that is wrong is often the first sign of a machine that is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use conclave_ntp::{Filter, PACKET, Packet, Question, Sample, Stamp, answer};
use conclave_wire::peer::Frame;
use conclave_wire::peer::clock_client::ClockClient;
use conclave_wire::peer::clock_server::{Clock, ClockServer};
use conclave_wire::v1::ClockOffset;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::front::clock::Wall;

/// How often another node is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// A measurement that is older says nothing about the present.
const FRESH: Duration = Duration::from_secs(5);
/// What a node says of its distance from a reference clock: it knows of none.
const STRATUM: u8 = 10;

/// What is known of the clocks of the others.
pub(crate) struct Clocks {
    wall: Arc<dyn Wall>,
    courses: Mutex<BTreeMap<u64, Course>>,
}

/// What was measured of one clock.
struct Course {
    filter: Filter,
    /// When the last answer came.
    last: Instant,
}

impl Course {
    /// The best of the last measurements. Two that contradict each other show that a clock was set: what was before is past.
    fn add(&mut self, sample: Sample) {
        let is_past = self.last.elapsed() >= FRESH;
        if is_past || self.filter.best().is_some_and(|best| contradict(best, sample)) {
            self.filter = Filter::default();
        }
        self.filter.add(sample);
        self.last = Instant::now();
    }

    fn best(&self) -> Option<Sample> {
        self.filter.best().filter(|_| self.last.elapsed() < FRESH)
    }
}

/// Whether there is no offset that both allow. Clocks that run at their usual speeds do not drift out of that between two.
fn contradict(one: Sample, other: Sample) -> bool {
    let allowed = one.bound().unsigned_abs() + other.bound().unsigned_abs() + DRIFT;
    one.offset.abs_diff(other.offset) > allowed
}

/// How far clocks of the same speed drift apart while measurements are kept, at most, in nanoseconds.
const DRIFT: u64 = 1_000_000;

impl Clocks {
    pub(crate) fn new(wall: Arc<dyn Wall>) -> Self {
        Self { wall, courses: Mutex::default() }
    }

    /// What time it is here.
    fn now(&self) -> Stamp {
        Stamp::of(UNIX_EPOCH + self.wall.since_1970(), 0)
    }

    fn courses(&self) -> MutexGuard<'_, BTreeMap<u64, Course>> {
        self.courses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was measured lately.
    pub(crate) fn known(&self) -> Vec<ClockOffset> {
        let known = |(node, course): (&u64, &Course)| {
            let best = course.best()?;
            let error_ns = best.bound().unsigned_abs();
            Some(ClockOffset { node: *node, ahead_ns: best.offset, error_ns })
        };
        self.courses().iter().filter_map(known).collect()
    }

    fn note(&self, node: u64, sample: Sample) {
        let new = || Course { filter: Filter::default(), last: Instant::now() };
        self.courses().entry(node).or_insert_with(new).add(sample);
    }

    /// Asks another node again and again what time it is.
    pub(crate) async fn ask_often(self: Arc<Self>, node: u64, channel: Channel) {
        let mut client = ClockClient::new(channel).max_decoding_message_size(PACKET * 2);
        for number in 1.. {
            let mut question = Question::new(number, self.now());
            let frame = Frame { payload: Bytes::copy_from_slice(&question.packet().encode()) };
            let answered = timeout(PATIENCE, client.time(frame)).await;
            let arrived = self.now();
            // Who does not answer, or speaks another version, is not known.
            if let Ok(Ok(answer)) = answered
                && let Ok(sample) = question.accept(&answer.get_ref().payload, arrived)
            {
                self.note(node, sample);
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// What answers the other nodes.
    pub(crate) fn service(&self) -> ClockServer<ClockService> {
        let service = ClockService { wall: Arc::clone(&self.wall) };
        ClockServer::new(service).max_decoding_message_size(PACKET * 2)
    }
}

/// Tells what time it is here.
pub(crate) struct ClockService {
    wall: Arc<dyn Wall>,
}

#[tonic::async_trait]
impl Clock for ClockService {
    async fn time(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let now = || Stamp::of(UNIX_EPOCH + self.wall.since_1970(), 0);
        let received = now();
        let question = Packet::decode(&request.get_ref().payload);
        let question = question.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let answer = answer(&question, received, now(), STRATUM);
        let answer = answer.ok_or_else(|| Status::invalid_argument("this is no question of a client"))?;
        Ok(Response::new(Frame { payload: Bytes::copy_from_slice(&answer.encode()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn sample(offset: i64, delay: i64) -> Sample {
        Sample { offset, delay, root_distance: 0, stratum: STRATUM }
    }

    struct Noon;

    impl Wall for Noon {
        fn since_1970(&self) -> Duration {
            Duration::from_secs(1_800_000_000)
        }
    }

    fn clocks() -> Clocks {
        Clocks::new(Arc::new(Noon))
    }

    fn known(node: u64, ahead_ns: i64, error_ns: u64) -> Vec<ClockOffset> {
        vec![ClockOffset { node, ahead_ns, error_ns }]
    }

    #[tokio::test(start_paused = true)]
    async fn the_quickest_answer_counts_until_it_is_old() {
        let clocks = clocks();
        assert_eq!(clocks.known(), []);
        clocks.note(2, sample(5 * MS, 8 * MS));
        clocks.note(2, sample(3 * MS, 2 * MS));
        clocks.note(2, sample(4 * MS, 6 * MS));
        assert_eq!(clocks.known(), known(2, 3 * MS, 1_000_000));
        tokio::time::advance(FRESH).await;
        assert_eq!(clocks.known(), [], "it may be set by now");
        clocks.note(2, sample(4 * MS, 6 * MS));
        assert_eq!(clocks.known(), known(2, 4 * MS, 3_000_000), "what was before the silence does not count");
    }

    /// A quick answer from before a clock was set would stand for eight seconds otherwise.
    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_is_believed_at_once() {
        let clocks = clocks();
        clocks.note(2, sample(0, MS));
        clocks.note(2, sample(500 * MS, 4 * MS));
        assert_eq!(clocks.known(), known(2, 500 * MS, 2_000_000));
    }

    #[tokio::test]
    async fn what_is_no_question_is_refused() {
        let service = ClockService { wall: Arc::new(Noon) };
        let reply = Packet { mode: conclave_ntp::Mode::Server, ..Packet::question(Stamp(7)) };
        for payload in [&b"what time is it?"[..], &reply.encode()[..]] {
            let frame = Frame { payload: Bytes::copy_from_slice(payload) };
            let refused = service.time(Request::new(frame)).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        }
    }
}
