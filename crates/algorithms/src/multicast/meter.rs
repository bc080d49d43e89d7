//! What a simulated run of a multicast is measured by.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Message as _, Moment, NodeId, Observer, Process, Transit};

use super::{AnyMessage, AnyMulticast, Event, Id, Multicasting, Request, Source};
use crate::Formula;
use crate::family::{Family, Meter};
use crate::measure::{Figure, Measured, Part, Piece, Ran, Row, Summary, Timed, Unit, Value};

/// Counts posts, deliveries and what a network with multicast of its own would have to send.
pub struct MulticastMeter {
    /// The messages of one post.
    formula: Option<Formula>,
    /// When each post was sent.
    posts: BTreeMap<Id, u64>,
    lives: BTreeMap<NodeId, (Incarnation, u64)>,
    deliveries: Timed,
    /// Messages of one kind that a process sends in one step are one to such a network.
    operations: u64,
    last: Option<(u64, NodeId, &'static str)>,
    is_disturbed: bool,
}

impl MulticastMeter {
    /// The messages of a run without faults are compared with this, for each post.
    #[must_use]
    pub fn new(formula: Option<Formula>) -> Self {
        let (posts, lives) = (BTreeMap::new(), BTreeMap::new());
        let deliveries = Timed::default();
        Self { formula, posts, lives, deliveries, operations: 0, last: None, is_disturbed: false }
    }
}

impl Observer<AnyMulticast> for MulticastMeter {
    fn input(&mut self, at: &Moment, process: Process, input: &Input<AnyMulticast>) {
        match input {
            Input::Request(Request::Send(_)) => {
                let (life, sent) = self.lives.entry(process.id).or_insert((Incarnation::FIRST, 0));
                *sent += 1;
                let id = Source { process: process.id, life: *life }.post(*sent);
                self.posts.insert(id, at.time);
            }
            Input::Request(Request::Join | Request::Leave) => self.is_disturbed = true,
            Input::Start
            | Input::Receive { .. }
            | Input::Expire(_)
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn send(&mut self, at: &Moment, transit: &Transit, message: &AnyMessage) {
        let now = Some((at.step, transit.from.id, message.kind()));
        self.operations += u64::from(self.last != now);
        self.last = now;
    }

    fn emit(&mut self, at: &Moment, _process: Process, event: &Event) {
        if let Event::Delivered(post) = event
            && let Some(sent) = self.posts.get(&post.id)
        {
            self.deliveries.add(at.time.saturating_sub(*sent));
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.lives.insert(process.id, (life, 0));
    }

    fn crash(&mut self, _at: &Moment, _process: Process) {
        self.is_disturbed = true;
    }

    fn drop(&mut self, _at: &Moment, _transit: &Transit, _message: &AnyMessage) {
        self.is_disturbed = true;
    }
}

impl Meter<Multicasting> for MulticastMeter {
    fn measured(&self, _judge: &<Multicasting as Family>::Judge, ran: &Ran<'_>) -> Measured {
        let posts = self.posts.len() as u64;
        let per_post = self.formula.unwrap_or(Formula { text: "not stated", low: 0, high: None });
        let formula = Formula {
            low: per_post.low.saturating_mul(posts),
            high: per_post.high.map(|high| high.saturating_mul(posts)),
            ..per_post
        };
        let is_comparable =
            self.formula.is_some() && !self.is_disturbed && !ran.faulty && ran.duplicated == 0 && posts > 0;
        let part = MulticastReport {
            posts,
            unicasts: ran.messages,
            operations: self.operations,
            deliveries: self.deliveries.into(),
        };
        Measured {
            unit: Unit { count: posts, name: Some("post"), none: "nobody sent anything" },
            formula,
            mean: None,
            agrees: is_comparable.then(|| formula.admits(ran.messages)),
            part: Box::new(part),
        }
    }
}

/// What was sent and delivered in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct MulticastReport {
    /// How many posts.
    pub posts: u64,
    /// How many messages from one process to another.
    pub unicasts: u64,
    /// How many messages a network would carry that brings one message to many.
    pub operations: u64,
    /// How often a post was delivered, and how long after it was sent.
    pub deliveries: Summary,
}

impl Part for MulticastReport {
    fn rows(&self) -> Vec<Row> {
        alloc::vec![
            Row::new("posts", [Piece::Count(self.posts)]),
            Row::new("unicasts", [Piece::Count(self.unicasts)]),
            Row::new("as network multicasts", [Piece::Count(self.operations)]),
            Row::new("deliveries", [Piece::Count(self.deliveries.count)]),
            Row::new("time to delivery", [Piece::Times(self.deliveries)]),
        ]
    }

    fn figures(&self) -> Vec<Figure> {
        alloc::vec![
            Figure::new("delivery_time", "time to delivery", "ms", self.deliveries.mean),
            Figure::new("network_multicasts", "network multicasts", "", Some(self.operations as f64)),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        alloc::vec![
            ("posts", self.posts.into()),
            ("unicasts", self.unicasts.into()),
            ("network_multicasts", self.operations.into()),
            ("deliveries", self.deliveries.into()),
        ]
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
