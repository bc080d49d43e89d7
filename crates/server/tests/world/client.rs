//! The clients of a world: the real library, used in every way there is, and a record of what it said.

mod ask;
mod hold;
mod look;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use conclave_client::{Client, Clock, Error, Mode, Moment, Options, Owner, Session, SessionOptions};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::ask::Manner;
use self::hold::{Holding, Thing};
use crate::dice::Dice;
use crate::history::Micros;
use crate::net::Simulated;
use crate::stage::{Act, Stage};

/// Names that are locked exclusively or shared.
const LOCKS: &[&str] = &["a", "b", "c"];
/// A name with permits, and how many.
const PERMITS: (&str, u32) = ("permits", 3);
/// The strand of companions.
const COMPANION: u32 = 9;
/// A name that is led.
pub const ELECTION: &str = "election";

/// The clock of a client's machine: a little too fast or too slow, and it jumps ahead now and then, when the machine sleeps.
#[derive(Clone)]
pub struct Drifting {
    /// In millionths, 1,000,000 being right.
    rate: u64,
    /// When it jumps, and how far.
    jumps: Arc<[(Duration, Duration)]>,
}

impl Drifting {
    fn new(dice: &mut Dice) -> Self {
        let count = if dice.chance(20) { dice.within(1..=2) } else { 0 };
        let jumps = (0..count).map(|_| (dice.millis(1_500..=15_000), dice.millis(10..=3_000))).collect();
        Self { rate: dice.within(996_000..=1_004_000), jumps }
    }
}

impl Clock for Drifting {
    fn now(&self) -> Moment {
        let real = turmoil::sim_elapsed().unwrap_or_default();
        let slept = self.jumps.iter().filter(|(at, _)| *at <= real).map(|(_, by)| *by).sum::<Duration>();
        let counted = Duration::from_nanos((real.as_nanos() * u128::from(self.rate) / 1_000_000) as u64);
        Moment::after_start(counted + slept)
    }
}

/// What a client mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Worker,
    Candidate,
    Reader,
    Operator,
}

/// One client.
pub struct Actor {
    pub index: usize,
    pub kind: Kind,
    pub stage: Rc<Stage>,
    pub dice: Dice,
    client: Client,
    ttl: Duration,
    ends_with_connection: bool,
    session: Option<Session>,
    /// The session of its former life, to be taken up again.
    former: Option<u64>,
    /// The session holds what a former life was granted.
    is_resumed: bool,
    clock: Drifting,
    /// Another task that uses the same session.
    companion: Option<JoinHandle<()>>,
    held: Vec<Holding>,
}

impl Actor {
    pub fn new(
        index: usize,
        kind: Kind,
        stage: Rc<Stage>,
        seed: u64,
        endpoints: Vec<String>,
    ) -> Result<Self, Error> {
        let life = stage.lives.borrow()[index];
        let mut dice = Dice::new(seed, 100 + index as u64 + 1000 * life);
        let mut options = Options::new(endpoints).in_this_runtime();
        options.transport = Arc::new(Simulated);
        options.connect_timeout = Duration::from_millis(500);
        options.patience = dice.millis(1500..=6000);
        options.follow_leader = dice.chance(70);
        let clock = Drifting::new(&mut dice);
        options.clock = Arc::new(clock.clone());
        let ttl = dice.millis(500..=2000);
        let ends_with_connection = dice.chance(20);
        let former = stage.sessions.borrow()[index].filter(|_| dice.chance(60));
        Ok(Self {
            index,
            kind,
            stage,
            dice,
            client: Client::with(options)?,
            ttl,
            ends_with_connection,
            session: None,
            former,
            is_resumed: false,
            clock,
            companion: None,
            held: Vec::new(),
        })
    }

    fn who(&self) -> String {
        format!("client{}", self.index)
    }

    fn note(&self, what: impl Into<String>) {
        self.stage.note(self.who(), what);
    }

    fn now(&self) -> Micros {
        self.stage.now()
    }

    /// Everything that a client does, from its start to its end.
    pub async fn run(mut self) -> turmoil::Result {
        if self.kind == Kind::Reader {
            let observing = look::observe(Rc::clone(&self.stage), self.client.clone(), self.index);
            tokio::task::spawn_local(observing);
        }
        if self.kind == Kind::Reader || self.index == 0 {
            let watching = look::watch(Rc::clone(&self.stage), self.client.clone(), self.index);
            tokio::task::spawn_local(watching);
        }
        while self.stage.act.get() == Act::Busy {
            self.step().await;
        }
        self.settle().await;
        self.reach(Act::Settle);
        while self.stage.act.get() != Act::Leave {
            sleep(Duration::from_millis(5)).await;
        }
        self.let_go_of_all().await;
        if let Some(session) = self.session.take() {
            let closed = session.close().await;
            self.note(format!("closed: {:?}", closed.map_err(|error| error.to_string())));
        }
        self.reach(Act::Leave);
        std::future::pending().await
    }

    fn reach(&self, act: Act) {
        self.note(format!("reaches {act:?}"));
        self.stage.reached.borrow_mut()[self.index] = act;
    }

    /// Lets go of everything, and then holds one name that nobody else wants, until the end.
    async fn settle(&mut self) {
        self.let_go_of_all().await;
        if let Some(companion) = self.companion.take() {
            // Whatever it waits for has a limit.
            drop(companion.await);
        }
        if self.is_resumed
            && let Some(session) = self.session.take()
        {
            // What its former life held is let go of with the session.
            let closed = session.close().await;
            self.note(format!("closed: {:?}", closed.map_err(|error| error.to_string())));
        }
        loop {
            let own = format!("own-{}", self.index);
            let Some(session) = self.session().await else { continue };
            self.acquire(&session, vec![(own, Mode::Exclusive)], Manner::default()).await;
            self.forget_lost();
            let tokens: Vec<u64> = self.held.iter().map(|holding| holding.thing.guard().token()).collect();
            if !tokens.is_empty() {
                self.stage.believed.borrow_mut()[self.index] = Some((session.id(), tokens));
                return;
            }
        }
    }

    async fn let_go_of_all(&mut self) {
        while let Some(holding) = self.held.pop() {
            self.release(holding, true).await;
        }
    }

    fn forget_lost(&mut self) {
        self.held.retain(|holding| !holding.thing.guard().is_lost());
        if self.session.as_ref().is_some_and(|session| session.why_over().is_some()) {
            self.session = None;
            self.held.clear();
        }
    }

    /// The session, opened if need be.
    async fn session(&mut self) -> Option<Session> {
        self.forget_lost();
        if let Some(session) = &self.session {
            return Some(session.clone());
        }
        let owner = Owner { host: self.who(), pid: 1, user: String::new(), label: String::new() };
        let resume = self.former.take();
        let options =
            SessionOptions { ttl: self.ttl, owner, ends_with_connection: self.ends_with_connection, resume };
        match self.client.session(options).await {
            Ok(session) => {
                self.note(format!("opened {:016x}, resuming {resume:?}", session.id()));
                self.is_resumed = resume.is_some();
                self.stage.history.borrow_mut().resumed.extend(resume);
                self.make_known(session.id());
                self.watch_over(&session);
                self.session = Some(session.clone());
                if resume.is_some() {
                    self.give_back_what_was_held(&session).await;
                } else if self.kind == Kind::Worker && self.dice.chance(40) {
                    self.send_companion(&session);
                }
                Some(session)
            }
            Err(error) => {
                self.note(format!("cannot open a session: {error}"));
                sleep(Duration::from_millis(20)).await;
                None
            }
        }
    }

    /// Lets go of some of what a former life was granted; the rest stays until the session ends.
    async fn give_back_what_was_held(&mut self, session: &Session) {
        match session.resumed().await {
            Ok(resumed) => {
                for found in resumed {
                    self.note(format!(
                        "finds {:?} of its former life, token {}",
                        found.names,
                        found.guard.token()
                    ));
                    if self.dice.chance(50) {
                        drop(found.guard);
                    } else if let Err(error) = found.guard.release().await {
                        self.note(format!("could not release it: {error}"));
                    }
                }
            }
            Err(error) => self.note(format!("does not find what its former life held: {error}")),
        }
    }

    /// Notes if the service ends a session that it must not end: one that was renewed lives for its time to live.
    fn watch_over(&self, session: &Session) {
        if self.ends_with_connection {
            return;
        }
        let (stage, who, clock) = (Rc::clone(&self.stage), self.who(), self.clock.clone());
        let (safety, session) = (session.watch_safety(), session.downgrade());
        tokio::task::spawn_local(async move {
            let Some(why) = session.over().await else { return };
            let left = safety.borrow().saturating_duration_since(clock.now());
            if why.contains("expired") && !left.is_zero() {
                let what = format!("the session of {who} was safe for another {left:?}: {why}");
                let now = stage.now();
                stage.history.borrow_mut().ended_early.push((now, what));
            }
        });
    }

    /// Another task of the same program that takes locks in the same session meanwhile, and waits long for some.
    fn send_companion(&mut self, session: &Session) {
        let mut companion = Self {
            index: self.index,
            kind: Kind::Worker,
            stage: Rc::clone(&self.stage),
            dice: Dice::new(self.dice.any(), 7),
            client: self.client.clone(),
            ttl: self.ttl,
            ends_with_connection: self.ends_with_connection,
            session: Some(session.clone()),
            former: None,
            is_resumed: true,
            clock: self.clock.clone(),
            companion: None,
            held: Vec::new(),
        };
        if let Some(former) = self.companion.take() {
            former.abort();
        }
        self.note("sends a companion");
        let companion = async move {
            while companion.stage.act.get() == Act::Busy && companion.session.is_some() {
                companion.accompany().await;
                companion.forget_lost();
            }
            companion.let_go_of_all().await;
        };
        self.companion = Some(tokio::task::spawn_local(companion));
    }

    /// One thing that a companion does: it never waits without a limit, so that it comes to an end.
    async fn accompany(&mut self) {
        let Some(session) = self.session.clone() else { return };
        let (wants, manner) = self.draw();
        let limit = manner.limit.unwrap_or(Duration::from_secs(4));
        let manner = Manner { strand: COMPANION, limit: Some(limit), is_reentrant: false, ..manner };
        if self.acquire(&session, wants, manner).await {
            let pause = self.dice.millis(1..=200);
            sleep(pause).await;
        }
        self.forget_lost();
        while let Some(holding) = self.held.pop() {
            let waits = self.dice.chance(60);
            self.release(holding, waits).await;
        }
        let pause = self.dice.millis(1..=80);
        sleep(pause).await;
    }

    /// Others may hand the lead over to it, and its next life may take the session up again.
    fn make_known(&self, session: u64) {
        self.stage.sessions.borrow_mut()[self.index] = Some(session);
        if self.kind == Kind::Candidate {
            self.stage.candidates.borrow_mut().insert(self.index, session);
        }
    }

    /// One thing that a client does.
    async fn step(&mut self) {
        if self.kind == Kind::Reader || self.dice.chance(10) {
            self.look().await;
            let pause = self.dice.millis(1..=60);
            sleep(pause).await;
            return;
        }
        let Some(session) = self.session().await else { return };
        if self.kind == Kind::Operator && self.dice.chance(25) {
            self.force(&session).await;
        }
        let (wants, manner) = self.draw();
        let is_granted = self.acquire(&session, wants, manner).await;
        if is_granted {
            let pause = self.dice.millis(1..=300);
            sleep(pause).await;
            // Whatever a companion asks renews the session, too.
            let is_alone = self.companion.as_ref().is_none_or(JoinHandle::is_finished);
            if self.dice.chance(3) && is_alone {
                self.hang(&session).await;
            }
            self.use_grant().await;
        } else {
            let pause = self.dice.millis(1..=40);
            sleep(pause).await;
        }
    }

    /// Does something with the newest grant, and then releases it, or not yet.
    async fn use_grant(&mut self) {
        if matches!(self.held.last(), Some(Holding { thing: Thing::Lead(_), .. })) {
            self.lead().await;
        } else if self.dice.chance(25) {
            self.convert().await;
        }
        self.forget_lost();
        if self.held.len() < 2 && self.dice.chance(25) {
            return;
        }
        while let Some(holding) = self.held.pop() {
            let waits = self.dice.chance(60);
            self.release(holding, waits).await;
        }
    }

    /// Stops renewing its session, which is over then within its time to live.
    async fn hang(&mut self, session: &Session) {
        self.note("hangs");
        session.set_renewal(false);
        if timeout(self.ttl + Duration::from_millis(50), session.over()).await.is_err() {
            self.stage.blamed.borrow_mut().push((self.now(), format!("{} outlives its session", self.who())));
        }
    }
}
