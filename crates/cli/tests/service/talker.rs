//! The wire without the client library: whatever is said is said as it is.

use conclave_client::v1::command::Act;
use conclave_client::v1::conclave_client::ConclaveClient;
use conclave_client::v1::failed::Code;
use conclave_client::v1::reply::Reply;
use conclave_client::{PROTOCOL, PROTOCOL_KEY, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::PATIENCE;

/// A call that says which version of the protocol it speaks.
pub fn call<T>(message: T) -> Request<T> {
    let mut call = Request::new(message);
    call.metadata_mut().insert(PROTOCOL_KEY, PROTOCOL.into());
    call
}

/// A connection to a node.
pub async fn channel(address: &str) -> Channel {
    Endpoint::try_from(format!("http://{address}"))
        .expect("it is an address")
        .connect()
        .await
        .expect("it listens")
}

/// A client that speaks for any number of sessions.
pub struct Talker {
    out: mpsc::UnboundedSender<v1::ToServer>,
    events: Streaming<v1::ToClient>,
}

impl Talker {
    /// Connects, and is told who answers.
    pub async fn meet(address: &str) -> Self {
        let (out, said) = mpsc::unbounded_channel();
        let mut client = ConclaveClient::new(channel(address).await);
        let events =
            client.talk(UnboundedReceiverStream::new(said)).await.expect("it is served").into_inner();
        let mut talker = Self { out, events };
        let welcome = talker.hear().await.expect("it answers").expect("it says something first").welcome;
        assert!(welcome.is_some_and(|welcome| welcome.leader > 0));
        talker
    }

    /// The next message.
    pub async fn hear(&mut self) -> Result<Option<v1::ToClient>, Status> {
        tokio::time::timeout(PATIENCE, self.events.message()).await.expect("it says something")
    }

    /// Says something without waiting for an answer.
    pub fn say(&self, commands: Vec<v1::Command>) {
        self.out.send(v1::ToServer { commands }).expect("the connection is there");
    }

    /// Asks for something and waits for the answer to it.
    pub async fn ask(&mut self, session: u64, request: u64, act: Act) -> Reply {
        self.say(vec![command(session, request, act)]);
        loop {
            let message = self.hear().await.expect("the connection lives").expect("it goes on");
            for event in message.events {
                if let Some((answered, reply)) = answer(event)
                    && answered == (session, request)
                {
                    return reply;
                }
            }
        }
    }

    /// Asks for something that is refused; gives why.
    #[track_caller]
    pub fn refused(&mut self, session: u64, request: u64, act: Act) -> impl Future<Output = (Code, String)> {
        let place = std::panic::Location::caller();
        async move {
            match self.ask(session, request, act).await {
                Reply::Failed(failed) => (failed.code(), failed.text),
                other => panic!("{place}: {other:?}"),
            }
        }
    }

    /// Asks for something that is granted; gives the token.
    pub async fn granted(&mut self, session: u64, request: u64, act: Act) -> u64 {
        match self.ask(session, request, act).await {
            Reply::Granted(granted) => granted.token,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a session.
    pub async fn open(&mut self, session: u64) {
        let opened = self.ask(session, 1, open(10_000)).await;
        assert!(matches!(opened, Reply::Opened(_)), "{opened:?}");
    }
}

/// A command of a session.
pub fn command(session: u64, request: u64, act: Act) -> v1::Command {
    v1::Command { session, life: 1, request, act: Some(act), ..v1::Command::default() }
}

/// The answer in an event, and to which request of which session.
pub fn answer(event: v1::Event) -> Option<((u64, u64), Reply)> {
    match event.told? {
        v1::event::Told::Reply(v1::Reply { request, reply, .. }) => Some(((event.session, request), reply?)),
        _ => None,
    }
}

/// A session that goes with its connection.
pub fn open(ttl_ms: u32) -> Act {
    Act::Open(v1::Open {
        ttl_ms,
        owner: None,
        ends_with_connection: true,
        reopens: false,
        protocol: PROTOCOL,
    })
}

/// A lock, without waiting.
pub fn lock(name: &str) -> Act {
    let wants = vec![v1::Want { name: name.to_owned(), mode: None }];
    Act::Acquire(v1::Acquire { wants, wait_ms: Some(0), ..v1::Acquire::default() })
}
