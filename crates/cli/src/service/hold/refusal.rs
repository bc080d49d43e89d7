//! Why somebody waits, or the command was not run, in words.

use std::time::Duration;

use conclave_client::v1::ShowResponse;
use conclave_client::{Client, Code, Error};
use tokio::time::timeout;

use super::{Holding, Outcome, is_held_around};
use crate::failure::Failure;
use crate::service::see::{age, delay_text, who};
use crate::service::unanswered;

/// How long to ask around for a better sentence.
const ASKING: Duration = Duration::from_secs(1);

impl Holding<'_> {
    /// The names, as they stand in a sentence.
    pub fn quoted(&self) -> String {
        self.names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    }

    /// What keeps from having what is waited for, if it can be found out now: who has it, or its lock delay.
    pub async fn obstacle(&self, client: &Client) -> Option<String> {
        let find = async {
            for name in self.names {
                let shown = client.show_first(name, 1).await.ok()?;
                if let Some(text) = shown.as_ref().and_then(obstacle_text) {
                    let is_one = self.names.len() == 1;
                    return Some(if is_one { text } else { format!("'{name}' is {text}") });
                }
            }
            None
        };
        timeout(ASKING, find).await.ok()?
    }

    /// The line for whoever waits behind so many others.
    pub fn waiting(&self, ahead: u32, obstacle: Option<String>) -> String {
        let obstacle = obstacle.map_or_else(String::new, |obstacle| format!(": {obstacle}"));
        let before = match ahead {
            0 => "first in the queue".to_owned(),
            1 => "1 before it in the queue".to_owned(),
            ahead => format!("{ahead} before it in the queue"),
        };
        format!("waiting for {}{obstacle}; {before}", self.quoted())
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
                self.voice.unanswered(unanswered(client, error).await);
                Outcome::Unavailable
            }
            // Nothing has run yet: to lose the session is to be without the service, and nothing worse.
            Error::SessionOver(why) => {
                let names = self.quoted();
                let sentence = format!("the session ended while waiting for {names}: {why}");
                self.voice.unanswered(Failure::new(sentence));
                Outcome::Unavailable
            }
            // The kinds of errors may become more.
            _ => {
                self.voice.error(Failure::new(error));
                Outcome::Refused
            }
        }
    }

    async fn explain_busy(&self, client: &Client, text: &str) -> Outcome {
        let sentence = match self.obstacle(client).await {
            Some(obstacle) if self.names.len() == 1 => format!("{} is {obstacle}", self.quoted()),
            Some(obstacle) => obstacle,
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
        let obstacle =
            self.obstacle(client).await.map_or_else(String::new, |obstacle| format!(": {obstacle}"));
        let sentence = format!("{} was not granted{limit}{obstacle}", self.quoted());
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

/// Who has a name, or why nobody is granted it although nobody has it.
fn obstacle_text(shown: &ShowResponse) -> Option<String> {
    let summary = shown.summary.as_ref()?;
    let Some(first) = &summary.first else { return summary.delayed_for_ms.map(delay_text) };
    let more = if summary.holders > 1 { format!(" and {} more", summary.holders - 1) } else { String::new() };
    Some(format!("held by {}{more} for {}", who(first), age(first.held_for_ms)))
}

#[cfg(test)]
mod tests {
    use conclave_client::v1::{Holder, Owner, Summary};

    use super::*;

    fn obstacle(summary: Summary) -> Option<String> {
        obstacle_text(&ShowResponse { summary: Some(summary), ..ShowResponse::default() })
    }

    #[test]
    fn a_lock_that_nobody_holds_may_still_be_closed() {
        assert_eq!(obstacle(Summary::default()), None);
        let delayed = Summary { delayed_for_ms: Some(4_200), ..Summary::default() };
        assert_eq!(
            obstacle(delayed).as_deref(),
            Some("in its lock delay for another 4.2s (its last holder was lost)")
        );
        let owner = Some(Owner { label: "nightly".to_owned(), ..Owner::default() });
        let first = Some(Holder { owner, held_for_ms: 61_000, ..Holder::default() });
        let held = Summary { holders: 3, first, ..Summary::default() };
        assert_eq!(obstacle(held).as_deref(), Some("held by nightly and 2 more for 1m01s"));
    }
}
