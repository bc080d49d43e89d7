//! Connections: each client its own, or a few that all of them share, as the parts of one program do.

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroUsize;

use tokio::sync::Mutex;

use crate::target::TargetError;

/// Hands out connections.
#[derive(Debug)]
pub struct Pool<T> {
    limit: Option<NonZeroUsize>,
    /// Those that are shared, the one that was handed out last at the end.
    made: Mutex<VecDeque<T>>,
}

impl<T: Clone> Pool<T> {
    /// So many connections at the most; one for each who asks when there is no limit.
    pub fn new(limit: Option<NonZeroUsize>) -> Self {
        Self { limit, made: Mutex::default() }
    }

    /// A new connection as long as there may be one more, then those that were made, in turn.
    pub async fn take(&self, new: impl Future<Output = Result<T, TargetError>>) -> Result<T, TargetError> {
        let Some(limit) = self.limit else { return new.await };
        let mut made = self.made.lock().await;
        let oldest = if made.len() < limit.get() { None } else { made.pop_front() };
        let taken = match oldest {
            Some(oldest) => oldest,
            None => new.await?,
        };
        made.push_back(taken.clone());
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn taken(limit: Option<usize>, times: usize) -> Vec<usize> {
        let pool = Pool::new(limit.and_then(NonZeroUsize::new));
        let made = Cell::new(0);
        let mut taken = Vec::new();
        for _ in 0..times {
            let new = async { Ok(made.replace(made.get() + 1)) };
            taken.push(pool.take(new).await.expect("it can be made"));
        }
        taken
    }

    #[tokio::test]
    async fn without_a_limit_everyone_has_a_connection_of_its_own() {
        assert_eq!(taken(None, 4).await, [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn with_a_limit_those_that_were_made_are_used_in_turn() {
        assert_eq!(taken(Some(2), 5).await, [0, 1, 0, 1, 0]);
    }

    #[tokio::test]
    async fn a_connection_that_fails_is_nobodys() {
        let pool = Pool::new(NonZeroUsize::new(2));
        let lost = || TargetError::Lost("on purpose".to_owned());
        assert_eq!(pool.take(async { Err(lost()) }).await, Err(lost()));
        assert_eq!(pool.take(async { Ok(1) }).await, Ok(1));
    }
}
