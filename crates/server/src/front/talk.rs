//! The stream of a client: commands in, answers and notices out.

use std::collections::BTreeSet;
use std::sync::Arc;

use conclave_service::{Act, Command, RequestId, SessionId};
use conclave_wire::v1;
use conclave_wire::v1::failed::Code;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::front::hall::{Guest, Hall, Mailbox};
use crate::front::words;

/// The largest command that is taken; every allowed one fits by far.
const LARGEST_COMMAND: usize = 128 * 1024;

/// Sessions for which one connection may speak, those that are over included: more than there can be at one time.
const SEATS: usize = 100_000;

/// Reads what one client says.
pub struct Reader {
    hall: Arc<Hall>,
    queue: mpsc::Sender<Command>,
    guest: Guest,
    /// The sessions that speak through this connection, as far as the hall has been told.
    seated: BTreeSet<SessionId>,
}

impl Reader {
    /// Lets a client in; the stream is what it is told, beginning with who answers.
    pub fn enter(
        hall: Arc<Hall>,
        queue: mpsc::Sender<Command>,
        welcome: v1::Welcome,
    ) -> (Self, impl Stream<Item = Result<v1::ToClient, Status>> + use<>) {
        let (mailbox, read) = Mailbox::new();
        // It is new: there is room in it.
        mailbox.post(v1::ToClient { events: Vec::new(), welcome: Some(welcome) });
        let guest = hall.enter(mailbox);
        (Self { hall, queue, guest, seated: BTreeSet::new() }, read)
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
        for session in self.hall.leave(self.guest) {
            let request = RequestId(0);
            let command = Command { session, request, acked: request, act: Act::Disconnected };
            if self.queue.send(command).await.is_err() {
                break;
            }
        }
    }

    async fn take(&mut self, message: v1::ToServer) -> Result<(), mpsc::error::SendError<Command>> {
        for said in message.commands {
            let (session, request) = (said.session, said.request);
            if said.encoded_len() > LARGEST_COMMAND {
                self.refuse(
                    session,
                    request,
                    Code::Limit,
                    format!("a command has at most {LARGEST_COMMAND} bytes"),
                );
                continue;
            }
            match words::command(said) {
                Ok(command) if self.seated.len() >= SEATS && !self.seated.contains(&command.session) => {
                    let text = format!("one connection speaks for {SEATS} sessions at most");
                    self.refuse(session, request, Code::Limit, text);
                }
                Ok(command) => {
                    self.seat(&command);
                    self.queue.send(command).await?;
                }
                Err(nonsense) => self.refuse(session, request, Code::Invalid, nonsense.to_string()),
            }
        }
        Ok(())
    }

    fn seat(&mut self, command: &Command) {
        let ends_with_connection = match &command.act {
            Act::Open { ends_with_connection, .. } => Some(*ends_with_connection),
            _ => None,
        };
        if self.seated.insert(command.session) || ends_with_connection.is_some() {
            self.hall.seat(command.session, self.guest, ends_with_connection);
        }
        if matches!(command.act, Act::Close) {
            // Its last answer takes it out of the hall, too.
            self.seated.remove(&command.session);
        }
    }

    fn refuse(&self, session: u64, request: u64, code: Code, text: String) {
        self.hall.tell(self.guest, vec![words::refusal(session, request, code, text)]);
    }
}
