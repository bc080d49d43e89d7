//! A node that answers what a test wants it to answer, over TCP.

#![allow(dead_code, reason = "not every file of tests needs all of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conclave_client::v1;
use conclave_client::v1::command::Act;
use conclave_client::v1::event::Told;
use conclave_client::v1::failed::Code;
use conclave_client::v1::reply::Reply;
use conclave_wire::{Arrival, Direct, Incoming, PROTOCOL, Tcp, Terms, Transport as _};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tonic::Status;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

type Script = dyn Fn(&v1::Command) -> Vec<v1::Event> + Send + Sync;

/// The node. Clones are the same one.
#[derive(Clone)]
pub struct Fake(Arc<Inner>);

struct Inner {
    protocol: u32,
    script: Box<Script>,
    is_silent: AtomicBool,
    heard: Mutex<Vec<v1::Command>>,
    streams: Mutex<Vec<mpsc::UnboundedSender<Result<v1::ToClient, Status>>>>,
}

impl Fake {
    /// Starts one that answers by this script; gives its address, too.
    pub async fn start(
        script: impl Fn(&v1::Command) -> Vec<v1::Event> + Send + Sync + 'static,
    ) -> (Self, String) {
        Self::start_speaking(PROTOCOL, script).await
    }

    /// The same for a version of the protocol.
    pub async fn start_speaking(
        protocol: u32,
        script: impl Fn(&v1::Command) -> Vec<v1::Event> + Send + Sync + 'static,
    ) -> (Self, String) {
        let fake = Self(Arc::new(Inner {
            protocol,
            script: Box::new(script),
            is_silent: AtomicBool::new(false),
            heard: Mutex::default(),
            streams: Mutex::default(),
        }));
        let (incoming, address) = Tcp.listen("127.0.0.1:0".to_owned()).await.expect("a port is free");
        tokio::spawn(fake.clone().listen(incoming));
        (fake, address)
    }

    async fn listen(self, mut incoming: Incoming) {
        let terms = Terms { largest: 1 << 20, ask_after: PATIENCE, answer_within: PATIENCE };
        while let Some(arrived) = incoming.next().await {
            let arrived = Direct::meet(arrived.expect("it is taken in"), terms).await;
            // Whoever is let go before it has said anything is nobody.
            let Ok(arrived) = arrived else { continue };
            let Arrival::Direct(direct) = arrived else { panic!("it is asked nothing else") };
            tokio::spawn(self.clone().answer(direct));
        }
    }

    async fn answer(self, mut direct: Direct) {
        let (out, mut told) = mpsc::unbounded_channel();
        let protocol = self.0.protocol;
        let welcome = v1::Welcome { node: 1, leader: 1, protocol, ..v1::Welcome::default() };
        direct.put(&v1::ToClient { events: vec![], welcome: Some(welcome) });
        Self::lock(&self.0.streams).push(out);
        loop {
            tokio::select! {
                said = direct.next::<v1::ToServer>() => {
                    let Ok(Some(message)) = said else { return };
                    for command in message.commands {
                        Self::lock(&self.0.heard).push(command.clone());
                        if self.0.is_silent.load(Ordering::SeqCst) {
                            continue;
                        }
                        let events = (self.0.script)(&command);
                        direct.put(&v1::ToClient { events, welcome: None });
                    }
                }
                told = told.recv() => match told {
                    Some(Ok(message)) => direct.put(&message),
                    Some(Err(status)) => {
                        direct.put_end(&status);
                        return direct.close().await;
                    }
                    None => return,
                },
            }
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no panic")
    }

    /// From now on it says nothing more, or again what the script says.
    pub fn be_silent(&self, is_silent: bool) {
        self.0.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Everything that was said to it.
    pub fn heard(&self) -> Vec<v1::Command> {
        Self::lock(&self.0.heard).clone()
    }

    /// How often something like this was said to it.
    pub fn count(&self, is_it: impl Fn(&Act) -> bool) -> usize {
        self.heard().iter().filter(|command| command.act.as_ref().is_some_and(&is_it)).count()
    }

    /// Waits until something like this has been said to it so often.
    pub async fn hears(&self, count: usize, is_it: impl Fn(&Act) -> bool) {
        let heard = async {
            while self.count(&is_it) < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.expect("it is said");
    }

    /// Says something to all who are connected.
    pub fn tell(&self, event: &v1::Event) {
        for stream in Self::lock(&self.0.streams).iter() {
            let _ = stream.send(Ok(v1::ToClient { events: vec![event.clone()], welcome: None }));
        }
    }

    /// Ends all connections, as a node does that sends its clients to another one.
    pub fn send_away(&self) {
        for stream in Self::lock(&self.0.streams).drain(..) {
            let _ = stream.send(Err(Status::new(conclave_wire::SENT_AWAY, "go away")));
        }
    }
}

/// An answer of the service to a command.
pub fn answer(to: &v1::Command, reply: Reply) -> v1::Event {
    event(to, v1::Reply { request: to.request, reply: Some(reply), renewed: true, waited: false })
}

/// A refusal of the node itself.
pub fn refusal(to: &v1::Command, code: Code) -> v1::Event {
    let failed =
        v1::Failed { code: code.into(), text: "this node does not take it".to_owned(), cycle: vec![] };
    let reply = Some(Reply::Failed(failed));
    event(to, v1::Reply { request: to.request, reply, renewed: false, waited: false })
}

pub fn event(to: &v1::Command, reply: v1::Reply) -> v1::Event {
    v1::Event { session: to.session, life: to.life, told: Some(Told::Reply(reply)) }
}

/// What the service answers if all goes well; tokens are the numbers of requests.
pub fn well(to: &v1::Command) -> Vec<v1::Event> {
    let reply = match &to.act {
        Some(Act::Open(open)) if open.reopens => {
            Reply::Opened(v1::Opened { resumed: true, held: (1..100).collect() })
        }
        Some(Act::Open(_)) => Reply::Opened(v1::Opened::default()),
        Some(Act::Acquire(_)) => Reply::Granted(v1::Granted { token: to.request, depth: 1 }),
        _ => Reply::Done(v1::Done {}),
    };
    vec![answer(to, reply)]
}
