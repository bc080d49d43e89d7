//! Why somebody waits, or the command was not run, in words.

use std::time::Duration;

use conclave_client::v1::Holder;
use conclave_client::v1::failed::Code;
use conclave_client::{Client, Error};
use tokio::time::timeout;

use super::{Holding, Outcome, is_held_around};
use crate::failure::Failure;
use crate::service::see::{age, who};
use crate::service::unanswered;

/// How long to ask around for a better sentence.
const ASKING: Duration = Duration::from_secs(1);

impl Holding<'_> {
    /// The names, as they stand in a sentence.
    pub fn quoted(&self) -> String {
        self.names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    }

    /// Who has what is waited for, if it can be found out now.
    pub async fn holder(&self, client: &Client) -> Option<String> {
        let find = async {
            for name in self.names {
                let shown = client.show(name).await.ok()??;
                if let Some(first) = shown.holders.first() {
                    return Some(self.held(name, first, shown.holders.len() - 1));
                }
            }
            None
        };
        timeout(ASKING, find).await.ok()?
    }

    fn held(&self, name: &str, first: &Holder, others: usize) -> String {
        let which = if self.names.len() > 1 { format!("'{name}' is ") } else { String::new() };
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        format!("{which}held by {}{more} for {}", who(first), age(first.held_for_ms))
    }

    /// The line for whoever waits behind so many others.
    pub fn waiting(&self, ahead: u32, holder: Option<String>) -> String {
        let holder = holder.map_or_else(String::new, |holder| format!(": {holder}"));
        let before = match ahead {
            0 => "first in the queue".to_owned(),
            1 => "1 before it in the queue".to_owned(),
            ahead => format!("{ahead} before it in the queue"),
        };
        format!("waiting for {}{holder}; {before}", self.quoted())
    }

    /// Says why the command is not run.
    pub async fn explain(&self, client: &Client, error: &Error) -> Outcome {
        match error {
            Error::Refused(refusal) => match refusal.code {
                Code::Busy => self.explain_busy(client, &refusal.text).await,
                Code::TimedOut => self.explain_late(client).await,
                _ => {
                    self.voice.error(Failure::new(format!("refused: {refusal}")));
                    Outcome::Refused
                }
            },
            Error::Unavailable(_) => {
                self.voice.error(unanswered(client, error).await);
                Outcome::Unavailable
            }
            // Nothing has run yet: to lose the session is to be without the service, and nothing worse.
            Error::SessionOver(why) => {
                let names = self.quoted();
                self.voice.error(Failure::new(format!("the session ended while waiting for {names}: {why}")));
                Outcome::Unavailable
            }
            Error::Endpoint(_) | Error::Protocol(_) => {
                self.voice.error(Failure::new(error));
                Outcome::Refused
            }
        }
    }

    async fn explain_busy(&self, client: &Client, text: &str) -> Outcome {
        let sentence = match self.holder(client).await {
            Some(holder) if self.names.len() == 1 => format!("{} is {holder}", self.quoted()),
            Some(holder) => holder,
            None => text.to_owned(),
        };
        if self.skips_if_held {
            self.voice.detail(format!("skipped: {sentence}"));
        } else {
            self.voice.error(self.with_hint(Failure::new(sentence)));
        }
        Outcome::Busy
    }

    async fn explain_late(&self, client: &Client) -> Outcome {
        let limit = self.wait.map_or_else(String::new, |wait| format!(" within {wait:?}"));
        let holder = self.holder(client).await.map_or_else(String::new, |holder| format!(": {holder}"));
        let sentence = format!("{} was not granted{limit}{holder}", self.quoted());
        self.voice.error(self.with_hint(Failure::new(sentence)));
        Outcome::TimedOut
    }

    fn with_hint(&self, failure: Failure) -> Failure {
        match self.names.iter().find(|name| is_held_around(name)) {
            Some(name) => failure.hint(format!("a 'conclave lock' around this one holds '{name}'")),
            None => failure,
        }
    }
}
