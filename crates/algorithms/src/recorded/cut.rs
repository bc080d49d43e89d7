//! What a snapshot shows, and what can be decided from it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use conclave_core::{Message as _, NodeId};
use serde::{Deserialize, Serialize};

use super::{Recordable, Snapshot, Token, band};
use crate::mutex::Epoch;

/// A consistent global state of a group, as the process has gathered it that began the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cut {
    /// Which snapshot.
    pub snapshot: Snapshot,
    /// Whether there is a token that moves.
    pub moves_token: bool,
    /// What each process has recorded; nothing of those that were taken for dead.
    pub parts: BTreeMap<NodeId, Option<Part>>,
}

/// What one process has recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Its state.
    pub standing: Standing,
    /// What was in flight to it, by sender; empty channels are left out.
    pub channels: BTreeMap<NodeId, Vec<Flight>>,
}

/// What a state shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Standing {
    /// The name of its phase.
    pub phase: String,
    /// Whether it waits for others.
    pub waits: bool,
    /// Whether it has what all may want.
    pub has: bool,
    /// The token of each lock that it knows of, or that it does not have it.
    pub tokens: Vec<Token>,
    /// How many timers are armed.
    pub timers: u32,
}

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flight {
    /// Its kind.
    pub kind: String,
    /// The token that it carries.
    pub token: Option<Token>,
}

impl Standing {
    /// What the state of a process shows.
    #[must_use]
    pub fn of<P: Recordable>(process: &P, timers: usize, moves_token: bool) -> Self {
        let phase = process.phase();
        let (waits, has) = band(phase);
        let tokens = if moves_token { process.tokens() } else { Vec::new() };
        Self { phase: phase.name.to_string(), waits, has, tokens, timers: timers as u32 }
    }
}

impl Part {
    /// What was recorded, as it is reported.
    #[must_use]
    pub fn of<P: Recordable>(standing: Standing, channels: &BTreeMap<NodeId, Vec<P::Message>>) -> Self {
        let flight =
            |message: &P::Message| Flight { kind: message.kind().to_string(), token: P::token_in(message) };
        let channels = channels.iter().filter(|(_, messages)| !messages.is_empty());
        Self {
            standing,
            channels: channels
                .map(|(from, messages)| (*from, messages.iter().map(flight).collect()))
                .collect(),
        }
    }
}

impl Cut {
    /// The parts that there are.
    pub fn present(&self) -> impl Iterator<Item = (NodeId, &Part)> {
        self.parts.iter().filter_map(|(process, part)| Some((*process, part.as_ref()?)))
    }

    /// Who has no part in it.
    #[must_use]
    pub fn missing(&self) -> Vec<NodeId> {
        self.parts.iter().filter(|(_, part)| part.is_none()).map(|(process, _)| *process).collect()
    }

    /// The messages in flight: from, to, what.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Flight)> {
        self.present().flat_map(|(to, part)| {
            part.channels
                .iter()
                .flat_map(move |(from, sent)| sent.iter().map(move |flight| (*from, to, flight)))
        })
    }

    /// How many tokens there are of each lock that somebody knows of, in its latest epoch.
    #[must_use]
    pub fn tokens(&self) -> BTreeMap<&str, usize> {
        let known = self.present().flat_map(|(_, part)| &part.standing.tokens);
        let carried = self.in_flight().filter_map(|(_, _, flight)| flight.token.as_ref());
        let mut found: BTreeMap<&str, (Option<Epoch>, usize)> = BTreeMap::new();
        for Token { lock, epoch } in known.chain(carried) {
            let (latest, count) = found.entry(lock).or_default();
            if epoch > latest {
                (*latest, *count) = (*epoch, 0);
            }
            *count += usize::from(epoch.is_some() && epoch == latest);
        }
        found.into_iter().map(|(lock, (_, count))| (lock, count)).collect()
    }

    /// The locks whose token is nowhere in the cut: it is lost, for good. A process that has never heard of a lock may be
    /// the one with which its token begins, so everyone must have.
    #[must_use]
    pub fn lost_tokens(&self) -> Vec<&str> {
        let knows = |part: &Part, lock: &str| part.standing.tokens.iter().any(|token| token.lock == lock);
        let missing = self.tokens().into_iter().filter(|(_, count)| *count == 0).map(|(lock, _)| lock);
        missing.filter(|lock| self.present().all(|(_, part)| knows(part, lock))).collect()
    }

    /// Whether a token is lost.
    #[must_use]
    pub fn has_lost_token(&self) -> bool {
        !self.lost_tokens().is_empty()
    }

    /// Who waits for what can no longer come: nothing is in flight, no timer runs, and nobody has anything to give back.
    /// Only a new request, or one that is given up, could set anything in motion.
    #[must_use]
    pub fn deadlocked(&self) -> Vec<NodeId> {
        let is_still =
            |part: &Part| part.channels.is_empty() && part.standing.timers == 0 && !part.standing.has;
        if !self.present().all(|(_, part)| is_still(part)) {
            return Vec::new();
        }
        self.present().filter(|(_, part)| part.standing.waits).map(|(process, _)| process).collect()
    }

    /// In a line: `1 token; 1 message in flight`.
    #[must_use]
    pub fn verdict(&self) -> String {
        let mut words = Vec::new();
        let (tokens, lost) = (self.tokens(), self.lost_tokens());
        match (tokens.len(), tokens.values().sum::<usize>()) {
            (0, _) | (1, 0) => {}
            (1, 1) => words.push("1 token".to_string()),
            (1, count) => words.push(format!("{count} tokens")),
            (locks, 1) => words.push(format!("1 token of {locks} locks")),
            (locks, count) => words.push(format!("{count} tokens of {locks} locks")),
        }
        match lost.len() {
            0 => {}
            1 => words.push("the token is lost".to_string()),
            count => words.push(format!("{count} tokens are lost")),
        }
        words.push(match self.in_flight().count() {
            0 => "nothing in flight".to_string(),
            1 => "1 message in flight".to_string(),
            count => format!("{count} messages in flight"),
        });
        let (deadlocked, missing) = (self.deadlocked(), self.missing());
        if !deadlocked.is_empty() {
            words.push(format!("{} deadlocked", listed(&deadlocked)));
        }
        if !missing.is_empty() {
            words.push(format!("{} missing", listed(&missing)));
        }
        words.join("; ")
    }

    /// Line by line: what each process was doing, and what was in flight.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let token = |token: &Token| match (token.epoch, token.lock.is_empty()) {
            (None, _) => String::new(),
            (Some(_), true) => ", has the token".to_string(),
            (Some(_), false) => format!(", has the token of {}", token.lock),
        };
        let tokens = |part: &Part| part.standing.tokens.iter().map(token).collect::<String>();
        let mut lines: Vec<String> = self
            .parts
            .iter()
            .map(|(process, part)| match part {
                Some(part) => format!("{process} {}{}", part.standing.phase, tokens(part)),
                None => format!("{process} is down"),
            })
            .collect();
        lines.extend(self.in_flight().map(|(from, to, flight)| format!("{from} → {to} {}", flight.kind)));
        lines
    }
}

fn listed(processes: &[NodeId]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
