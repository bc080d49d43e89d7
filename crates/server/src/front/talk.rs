//! The stream of a client: commands in, answers and notices out.

use std::collections::BTreeMap;
use std::sync::Arc;

use conclave_service::{Act, Command, Life, RequestId, SessionId, limits};
use conclave_wire::v1;
use conclave_wire::v1::failed::Code;
use prost::Message as _;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::front::hall::{Guest, Hall};
use crate::front::queue::{Closed, Queue};
use crate::front::words::{self, Asked};

/// What a command without any texts takes.
const SMALL: usize = 32;

/// Sessions for which one connection may speak, those that are over included: more than there can be at one time.
const SEATS: usize = 100_000;

/// Reads what one client says.
pub struct Reader {
    hall: Arc<Hall>,
    queue: Queue,
    guest: Guest,
    /// The sessions that speak through this connection, and in which life, as far as the hall has been told.
    seated: BTreeMap<SessionId, Life>,
}

impl Reader {
    /// Lets a client in; the stream is what it is told, beginning with who answers.
    pub fn enter(
        hall: Arc<Hall>,
        queue: Queue,
        welcome: v1::Welcome,
    ) -> (Self, impl Stream<Item = Result<v1::ToClient, Status>> + use<>) {
        let (mailbox, read) = hall.post.open();
        // It is new: there is room in it.
        mailbox.put(v1::ToClient { events: Vec::new(), welcome: Some(welcome) });
        let guest = hall.enter(mailbox);
        (Self { hall, queue, guest, seated: BTreeMap::new() }, read)
    }

    /// Reads until the client leaves.
    pub async fn run(mut self, mut stream: Streaming<v1::ToServer>) {
        loop {
            match stream.message().await {
                Ok(Some(message)) => {
                    if self.take(message).await.is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(%status, "a client's stream broke");
                    // If it was broken by what it said, it is still there to be told.
                    self.hall.dismiss(self.guest, status);
                    break;
                }
            }
        }
        self.leave().await;
    }

    /// The client has left: its sessions that end with the connection do.
    pub async fn leave(self) {
        for (session, life) in self.hall.leave(self.guest) {
            let request = RequestId(0);
            let (acked, settled, act) = (request, Vec::new(), Act::Disconnected);
            let command = Command { session, life, request, acked, settled, act };
            if self.queue.push(command, SMALL).await.is_err() {
                break;
            }
        }
    }

    /// Takes in what the client says.
    pub async fn take(&mut self, message: v1::ToServer) -> Result<(), Closed> {
        for said in message.commands {
            let (asked, bytes) = (Asked::from(&said), said.encoded_len());
            match words::command(said) {
                Ok(command) if self.seated.len() >= SEATS && !self.seated.contains_key(&command.session) => {
                    let text = format!("one connection speaks for {SEATS} sessions at most");
                    self.refuse(asked, Code::Limit, text);
                }
                // What is too large, or can never be granted, must not reach the log.
                Ok(command) => match limits::check(&command.act) {
                    Ok(()) => {
                        self.seat(&command);
                        self.queue.push(command, bytes).await?;
                    }
                    Err(failure) => self.refuse(asked, Code::Invalid, failure.to_string()),
                },
                Err(nonsense) => self.refuse(asked, Code::Invalid, nonsense.to_string()),
            }
        }
        Ok(())
    }

    fn seat(&mut self, command: &Command) {
        let ends_with_connection = match &command.act {
            Act::Open { ends_with_connection, .. } => Some(*ends_with_connection),
            _ => None,
        };
        let is_new = self.seated.insert(command.session, command.life) != Some(command.life);
        if is_new || ends_with_connection.is_some() {
            self.hall.seat(command.session, command.life, self.guest, ends_with_connection);
        }
        if matches!(command.act, Act::Close) {
            // Its last answer takes it out of the hall, too.
            self.seated.remove(&command.session);
        }
    }

    fn refuse(&self, asked: Asked, code: Code, text: String) {
        self.hall.tell(self.guest, words::refusal(asked, code, text));
    }
}
