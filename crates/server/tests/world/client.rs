//! The clients of a world: the real library, used in every way there is, and a record of what it said.

mod ask;
mod hold;
mod look;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use conclave_client::{Client, Error, Mode, Options, Owner, Session, SessionOptions};
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
/// A name that is led.
const ELECTION: &str = "election";

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
    /// The session holds what a former life was granted, and of which this one has no guards.
    is_resumed: bool,
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
        let mut options = Options::new(endpoints);
        options.transport = Arc::new(Simulated);
        options.connect_timeout = Duration::from_millis(500);
        options.patience = dice.millis(1500..=6000);
        options.follow_leader = dice.chance(70);
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
                self.make_known(session.id());
                self.session = Some(session.clone());
                Some(session)
            }
            Err(error) => {
                self.note(format!("cannot open a session: {error}"));
                sleep(Duration::from_millis(20)).await;
                None
            }
        }
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
            if self.dice.chance(3) {
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
