//! What a lock protects, seen from inside: nobody may enter while somebody is in, and tokens must grow.
//!
//! All clients live in this process, so that one flag sees every holder. It is lowered before a release is sent and
//! raised after a grant has arrived: two holders at once can be missed that way, but never imagined.

use std::time::{Duration, Instant};

use thiserror::Error;

/// A lock that did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Two were granted the same name at once.
    #[error("a second holder was let in")]
    TwoHolders,
    /// A later grant carries a token that is not greater.
    #[error("token {token} was granted after token {last}")]
    TokenWentBack {
        /// The one before.
        last: u64,
        /// The later one.
        token: u64,
    },
}

/// One name and who is in.
#[derive(Debug, Default)]
pub struct Room {
    occupied: bool,
    last_token: Option<u64>,
    left: Option<Instant>,
}

impl Room {
    /// Somebody was granted the name. Tells how long ago the last one left, unless this is the first.
    pub fn enter(&mut self, token: Option<u64>) -> Result<Option<Duration>, Violation> {
        if std::mem::replace(&mut self.occupied, true) {
            return Err(Violation::TwoHolders);
        }
        if let (Some(token), Some(last)) = (token, self.last_token)
            && token <= last
        {
            return Err(Violation::TokenWentBack { last, token });
        }
        self.last_token = token.or(self.last_token);
        Ok(self.left.map(|left| left.elapsed()))
    }

    /// The holder is about to release it.
    pub fn leave(&mut self) {
        self.occupied = false;
        self.left = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_with_growing_tokens_is_fine() {
        let mut room = Room::default();
        assert_eq!(room.enter(Some(3)), Ok(None));
        room.leave();
        assert!(room.enter(Some(4)).expect("in order").is_some(), "somebody has left before");
    }

    #[test]
    fn two_at_once_are_seen() {
        let mut room = Room::default();
        room.enter(None).expect("empty");
        assert_eq!(room.enter(None), Err(Violation::TwoHolders));
    }

    #[test]
    fn tokens_that_stand_still_are_seen() {
        let mut room = Room::default();
        room.enter(Some(3)).expect("empty");
        room.leave();
        assert_eq!(room.enter(Some(3)), Err(Violation::TokenWentBack { last: 3, token: 3 }));
    }
}
