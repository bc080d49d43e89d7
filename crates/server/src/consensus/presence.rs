//! Whether this node can serve, and if not, why.
//!
//! The consensus library knows a leader until it knows another one: a leader that is cut off goes on calling itself one,
//! and a follower names the leader it had for as long as nobody else is elected. So this looks at when each was last
//! *heard*. A leader must have been acknowledged by a majority, and a follower must have heard from its leader, within
//! the time that has to pass before another node stands for election. Until then nobody else can lead, and a slow moment
//! is nothing but that.
//!
//! Heartbeats tell a leader who is there, and a follower that its leader is. What they do not tell is asked for: a follower
//! asks its leader whether a majority answers it, and a node without a leader asks all others whether they are there.
//! Nothing is decided by the answers; they are for people, for health checks and for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_wire::v1::{self, status_response};
use conclave_wire::{Connector, channel, versioned};
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;

use super::{Leader, Timing, watchdog};
use crate::birth::Gate;
use crate::mutant::{self, Mutant};
use crate::raft::{LeaderId, Raft, Vote};

/// How often a node looks at what it has heard.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it asks another node, where it has to.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How long an answer says something about the present.
const FRESH: Duration = Duration::from_millis(1500);

/// What a node does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It leads, and a majority answers.
    Leads,
    /// It leads, but no majority answers.
    LeadsWithoutMajority,
    /// It follows this node, which serves.
    Follows(u64),
    /// It follows this node, which says that it does not serve.
    FollowsInVain(u64),
    /// No leader is known yet, and a majority is there to elect one.
    Elects,
    /// No leader is known, and no majority answers.
    NoMajority,
    /// The cluster is new, and not all of its nodes are there.
    Forms,
    /// It has to learn what it missed before it takes part.
    CatchesUp,
}

impl Condition {
    /// The node that serves, by the word of the one with this number.
    #[must_use]
    pub fn leader(self, me: u64) -> Option<u64> {
        match self {
            Self::Leads => Some(me),
            Self::Follows(leader) => Some(leader),
            _ => None,
        }
    }

    /// Whether requests can be answered.
    #[must_use]
    pub fn is_served(self) -> bool {
        matches!(self, Self::Leads | Self::Follows(_))
    }

    /// For the wire.
    #[must_use]
    pub fn on_wire(self) -> status_response::Condition {
        use status_response::Condition as Wire;
        match self {
            Self::Leads => Wire::Leads,
            Self::LeadsWithoutMajority => Wire::LeadsWithoutMajority,
            Self::Follows(_) => Wire::Follows,
            Self::FollowsInVain(_) => Wire::FollowsInVain,
            Self::Elects => Wire::Elects,
            Self::NoMajority => Wire::NoMajority,
            Self::Forms => Wire::Forms,
            Self::CatchesUp => Wire::CatchesUp,
        }
    }
}

/// How a node stands among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// What it does.
    pub condition: Condition,
    /// In which term.
    pub term: u64,
    /// Other nodes that do not answer it, as far as it hears or asks them.
    pub silent: BTreeSet<u64>,
    /// Whether its own disk does not answer.
    pub disk_hangs: bool,
}

/// When this node last heard from a leader, and when it last saw that one is gone.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    heard: Mutex<Heard>,
    /// The latest leader that spoke.
    followed: watch::Sender<Option<LeaderId>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    last: Option<(LeaderId, Instant)>,
    gone: Option<(LeaderId, Instant)>,
}

impl Ear {
    /// Notes that the holder of this vote has just spoken. One that has been succeeded does not count.
    pub(crate) fn heard(&self, vote: &Vote) {
        let mut heard = self.lock();
        if heard.last.is_none_or(|(leader, _)| leader <= vote.leader_id) {
            heard.last = Some((vote.leader_id, Instant::now()));
            self.followed.send_if_modified(|known| known.replace(vote.leader_id) != Some(vote.leader_id));
        }
    }

    /// The latest leader that spoke, now and whenever another one does.
    pub(crate) fn followed(&self) -> watch::Receiver<Option<LeaderId>> {
        self.followed.subscribe()
    }

    /// Notes that a leader was seen to be gone at a moment.
    pub(crate) fn gone(&self, leader: LeaderId, at: Instant) {
        self.lock().gone = Some((leader, at));
    }

    /// Whether a leader was seen to be gone, and has said nothing since.
    pub(crate) fn is_gone(&self, leader: LeaderId) -> bool {
        let heard = *self.lock();
        let Some((_, at)) = heard.gone.filter(|(gone, _)| *gone == leader) else { return false };
        heard.last.is_none_or(|(of, last)| of != leader || last <= at)
    }

    /// How long this leader has been silent; nothing if it never spoke.
    pub(crate) fn silence(&self, leader: Leader) -> Option<Duration> {
        let (of, at) = self.lock().last?;
        (of.node_id == leader.id && of.term == leader.term).then(|| at.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What another node said when it was asked, and when.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    condition: Option<status_response::Condition>,
}

/// What all others said last.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<u64, Answer>>);

/// What a node has heard of all others.
pub(crate) struct Witness {
    pub(crate) me: u64,
    pub(crate) members: BTreeMap<u64, String>,
    pub(crate) timing: Timing,
    pub(crate) raft: Raft,
    pub(crate) gate: Arc<Gate>,
    pub(crate) ear: Arc<Ear>,
    /// Who was elected, by the last vote known here.
    pub(crate) elected: watch::Receiver<Option<Leader>>,
    pub(crate) answers: Answers,
}

impl Witness {
    /// For how long a leader or a follower may be silent: nobody stands for election before, unless the leader is gone.
    fn patience(&self) -> Duration {
        watchdog::patience(self.timing)
    }

    fn others(&self) -> impl Iterator<Item = u64> + '_ {
        self.members.keys().copied().filter(|id| *id != self.me)
    }

    /// Whether so many are a majority.
    fn is_majority(&self, count: usize) -> bool {
        count * 2 > self.members.len()
    }

    /// Whether a leader was heard lately: this node by a majority, another one here.
    pub(crate) fn hears(&self, leader: Leader) -> bool {
        if mutant::is(Mutant::TrustsElections) {
            return true;
        }
        if !leader.is_me {
            if self.ear.is_gone(LeaderId { term: leader.term, node_id: leader.id }) {
                return false;
            }
            return self.ear.silence(leader).is_some_and(|silence| silence < self.patience());
        }
        if self.gate.disk_hangs().is_some() {
            // What is decided now is decided without it.
            return self.is_majority(self.others().count() - self.unheard().len());
        }
        if self.members.len() == 1 {
            return true;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.last_quorum_acked.as_ref().is_some_and(|at| at.elapsed() < self.patience())
    }

    /// How this node stands at this moment.
    pub(crate) fn presence(&self) -> Presence {
        let elected = *self.elected.borrow();
        let term =
            elected.map_or_else(|| self.raft.metrics().borrow_watched().current_term, |leader| leader.term);
        let (condition, silent) = match elected {
            _ if !self.gate.is_open() => (self.unsettled(), self.unanswered()),
            Some(leader) if leader.is_me => self.leading(leader),
            Some(leader) if self.hears(leader) => (self.following(leader), BTreeSet::new()),
            Some(_) | None => self.alone(),
        };
        Presence { condition, term, silent, disk_hangs: self.gate.disk_hangs().is_some() }
    }

    fn leading(&self, leader: Leader) -> (Condition, BTreeSet<u64>) {
        let condition = if self.hears(leader) { Condition::Leads } else { Condition::LeadsWithoutMajority };
        (condition, self.unheard())
    }

    /// Those who have not answered a heartbeat of this leader lately.
    fn unheard(&self) -> BTreeSet<u64> {
        let metrics = self.raft.metrics();
        let heartbeats = metrics.borrow_watched().heartbeat.clone().unwrap_or_default();
        let is_silent = |id: &u64| {
            let heard = heartbeats.get(id).cloned().flatten();
            heard.is_none_or(|at| at.elapsed() >= self.patience())
        };
        self.others().filter(is_silent).collect()
    }

    fn following(&self, leader: Leader) -> Condition {
        match self.answer(leader.id).and_then(|answer| answer.condition) {
            Some(status_response::Condition::LeadsWithoutMajority) => Condition::FollowsInVain(leader.id),
            _ => Condition::Follows(leader.id),
        }
    }

    fn alone(&self) -> (Condition, BTreeSet<u64>) {
        let silent = self.unanswered();
        let is_hopeless = !self.is_majority(self.members.len() - silent.len());
        (if is_hopeless { Condition::NoMajority } else { Condition::Elects }, silent)
    }

    /// A node that does not take part yet: one of those that do would show that the cluster exists.
    fn unsettled(&self) -> Condition {
        use status_response::Condition as Wire;
        let is_settled = |answer: Answer| {
            !matches!(answer.condition, None | Some(Wire::Unspecified | Wire::Forms | Wire::CatchesUp))
        };
        let exists = self.others().filter_map(|id| self.answer(id)).any(is_settled);
        if exists { Condition::CatchesUp } else { Condition::Forms }
    }

    /// Those who were asked lately and did not answer.
    fn unanswered(&self) -> BTreeSet<u64> {
        let is_silent = |id: &u64| self.answer(*id).is_some_and(|answer| answer.condition.is_none());
        self.others().filter(is_silent).collect()
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<u64, Answer>> {
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, id: u64) -> Option<Answer> {
        self.answers().get(&id).copied().filter(|answer| answer.at.elapsed() < FRESH)
    }

    /// Whether something has to be asked of another node.
    fn has_to_ask(&self, id: u64) -> bool {
        match *self.elected.borrow() {
            _ if !self.gate.is_open() => true,
            Some(leader) if leader.is_me => false,
            Some(leader) if self.hears(leader) => leader.id == id,
            Some(_) | None => true,
        }
    }

    /// Asks another node, for as long as this one runs.
    pub(crate) async fn ask_often(self: Arc<Self>, id: u64, transport: Connector) {
        let patience = self.timing.election_max;
        let Some(Ok(channel)) = self.members.get(&id).map(|address| channel(&transport, address, patience))
        else {
            return;
        };
        loop {
            if self.has_to_ask(id) {
                let condition = timeout(patience, ask(channel.clone())).await.ok().flatten();
                self.answers().insert(id, Answer { at: Instant::now(), condition });
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Tells how this node stands, now and whenever that changes, to whoever asks and to the log.
    pub(crate) async fn tell(self: Arc<Self>, tell: watch::Sender<Presence>) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut teller = Teller::default();
        let mut elected = self.elected.clone();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // Clients wait for a new leader.
                changed = elected.changed() => if changed.is_err() { return },
            }
            let presence = self.presence();
            let all_known = self.others().all(|id| self.answer(id).is_some());
            teller.note(&presence, all_known, self.patience());
            tell.send_if_modified(|known| {
                let is_news = *known != presence;
                *known = presence;
                is_news
            });
        }
    }
}

async fn ask(channel: Channel) -> Option<status_response::Condition> {
    match versioned(channel).status(v1::StatusRequest {}).await {
        Ok(answer) => Some(answer.into_inner().condition()),
        // It is there, and speaks another version to clients.
        Err(status) if status.code() == Code::FailedPrecondition => {
            Some(status_response::Condition::Unspecified)
        }
        Err(_) => None,
    }
}

/// Writes into the log what changed, and only that.
#[derive(Default)]
struct Teller {
    /// Since when the disk has not answered.
    disk_hangs: Option<Instant>,
    /// What was said last about who leads.
    said: Option<Said>,
    /// In which term this node leads, and since when.
    led: Option<(u64, Instant)>,
    /// Who does not answer this leader, and since when.
    silent: BTreeMap<u64, Instant>,
}

/// Something about who leads, as often as it is said again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Leads { majority: bool },
    Follows { leader: u64, term: u64, in_vain: bool },
    Elects,
    NoMajority,
    Forms(BTreeSet<u64>),
}

impl Teller {
    /// Notes how the node stands; `all_known` says whether all other nodes have been asked.
    fn note(&mut self, presence: &Presence, all_known: bool, patience: Duration) {
        self.note_silent(presence, patience);
        self.note_disk(presence, patience);
        let silent = &presence.silent;
        let say = match presence.condition {
            Condition::Leads => Said::Leads { majority: true },
            Condition::LeadsWithoutMajority => Said::Leads { majority: false },
            Condition::Follows(leader) => Said::Follows { leader, term: presence.term, in_vain: false },
            Condition::FollowsInVain(leader) => Said::Follows { leader, term: presence.term, in_vain: true },
            // Who is there is not known yet.
            Condition::Elects | Condition::Forms if !all_known => return,
            Condition::Elects => Said::Elects,
            Condition::NoMajority => Said::NoMajority,
            Condition::Forms if silent.is_empty() => return,
            Condition::Forms => Said::Forms(silent.clone()),
            // Whoever lets it catch up says so.
            Condition::CatchesUp => return,
        };
        if self.said.as_ref() == Some(&say) {
            return;
        }
        let before = self.said.replace(say.clone());
        match say {
            Said::Leads { majority: false } => {
                tracing::warn!("no majority answers: nothing can be granted ({} silent)", Nodes(silent));
            }
            Said::Leads { majority: true } if before == Some(Said::Leads { majority: false }) => {
                tracing::info!("a majority answers again");
            }
            // The front says that this node leads.
            Said::Leads { majority: true } => {}
            Said::Follows { leader, term, in_vain: false } => {
                tracing::info!("node {leader} leads (term {term})");
            }
            Said::Follows { leader, in_vain: true, .. } => {
                tracing::warn!("node {leader} leads, but no majority answers it");
            }
            Said::Elects => tracing::info!("no leader: a majority answers and has to elect one"),
            Said::NoMajority => tracing::warn!("no leader: no majority answers ({} silent)", Nodes(silent)),
            Said::Forms(missing) => tracing::info!("waits for {} (first start)", Nodes(&missing)),
        }
    }

    /// Says that the disk does not answer, and when it does again.
    fn note_disk(&mut self, presence: &Presence, patience: Duration) {
        if !presence.disk_hangs {
            if let Some(since) = self.disk_hangs.take() {
                let seconds = (since.elapsed() + patience).as_secs_f64();
                tracing::info!("the disk answers again (after {seconds:.1} s)");
            }
        } else if self.disk_hangs.is_none() {
            self.disk_hangs = Some(Instant::now());
            tracing::warn!("the disk does not answer: this node can promise nothing until it does");
        }
    }

    /// A leader says which nodes do not answer, and when they do again.
    fn note_silent(&mut self, presence: &Presence, patience: Duration) {
        if !matches!(presence.condition, Condition::Leads | Condition::LeadsWithoutMajority) {
            self.led = None;
            self.silent.clear();
            return;
        }
        let now = Instant::now();
        let (_, since) = *self.led.get_or_insert((presence.term, now));
        // Before that nobody can have been silent for too long.
        if since.elapsed() < patience {
            return;
        }
        for id in &presence.silent {
            self.silent.entry(*id).or_insert_with(|| {
                tracing::warn!("node {id} does not answer");
                now
            });
        }
        self.silent.retain(|id, since| {
            let is_silent = presence.silent.contains(id);
            if !is_silent {
                tracing::info!("node {id} answers again (after {:.1} s)", since.elapsed().as_secs_f64());
            }
            is_silent
        });
    }
}

/// Some nodes, in words.
struct Nodes<'a>(&'a BTreeSet<u64>);

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "node " } else { "nodes " })?;
        let ids: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&ids.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::tests::assert_caught;
    use crate::puppet::{Cast, Puppet, eventually};

    fn leader(term: u64, id: u64) -> Leader {
        Leader { id, term, is_me: false }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_last_leader_counts_as_heard() {
        let ear = Ear::default();
        assert_eq!(ear.silence(leader(3, 1)), None);
        ear.heard(&Vote::new_committed(3, 1));
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(ear.silence(leader(3, 1)), Some(Duration::from_millis(40)));
        assert_eq!(ear.silence(leader(4, 2)), None, "that one has not spoken yet");
        ear.heard(&Vote::new_committed(4, 2));
        // One that was cut off comes back, and does not know that it was succeeded.
        ear.heard(&Vote::new_committed(3, 1));
        assert_eq!(ear.silence(leader(3, 1)), None);
        assert_eq!(ear.silence(leader(4, 2)), Some(Duration::ZERO));
    }

    /// A leader that nobody acknowledges any more says so within two election timeouts, and is one again when they do.
    #[tokio::test(start_paused = true)]
    async fn a_leader_without_a_majority_says_so_in_time() {
        let puppets = [Puppet::new(2), Puppet::new(3)];
        for puppet in &puppets {
            puppet.script().follows = true;
            puppet.script().answers_heartbeats = true;
            puppet.release(1_000);
        }
        let cast = Cast::new(&[1], &[(2, &puppets[0]), (3, &puppets[1])]).await;
        // The cluster has been formed by then.
        sleep(Duration::from_millis(200)).await;
        puppets.iter().for_each(|puppet| puppet.remember(|past| past.settled = true));
        let is = async |condition| {
            let came = || (cast.nodes[&1].status().presence.condition == condition).then_some(());
            eventually(&format!("{condition:?}"), came).await;
        };
        is(Condition::Leads).await;
        let silence = Instant::now();
        puppets.iter().for_each(|puppet| puppet.script().answers_heartbeats = false);
        is(Condition::LeadsWithoutMajority).await;
        let Timing { heartbeat, election_min, election_max } = Timing::default();
        assert!(silence.elapsed() <= election_min + election_max + heartbeat, "{:?}", silence.elapsed());
        puppets.iter().for_each(|puppet| puppet.script().answers_heartbeats = true);
        is(Condition::Leads).await;
    }

    #[test]
    fn that_a_silent_majority_is_noticed_is_tested() {
        let test = "consensus::presence::tests::a_leader_without_a_majority_says_so_in_time";
        assert_caught(test, Mutant::TrustsElections, "never came: LeadsWithoutMajority");
    }

    #[test]
    fn only_who_has_a_majority_is_served() {
        let served = [Condition::Leads, Condition::Follows(2)];
        let not = [
            Condition::LeadsWithoutMajority,
            Condition::FollowsInVain(2),
            Condition::Elects,
            Condition::NoMajority,
            Condition::Forms,
            Condition::CatchesUp,
        ];
        assert_eq!(served.map(|condition| condition.leader(1)), [Some(1), Some(2)]);
        assert!(served.into_iter().all(Condition::is_served));
        assert!(not.into_iter().all(|condition| !condition.is_served() && condition.leader(1).is_none()));
    }
}
