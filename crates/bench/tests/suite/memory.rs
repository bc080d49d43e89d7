//! A lock in memory, honest or broken on purpose: what the generator says of it is known beforehand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use conclave_bench::target::{Client, Crowd, Role, Target, TargetError, Wake, Work};
use tokio::sync::{Semaphore, mpsc};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It lets two in at once.
    TwoHolders,
    /// Its tokens stand still.
    StaleTokens,
    /// Every fifth acquire fails.
    Unreliable,
    /// A release wakes two waiters.
    WakesTwo,
    /// A release nudges a waiter without granting.
    Nudges,
}

/// The lock.
pub struct Memory {
    endpoints: Vec<String>,
    shared: Arc<Shared>,
}

struct Shared {
    fault: Fault,
    names: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    tokens: AtomicU64,
    acquires: AtomicU64,
}

impl Memory {
    pub fn target(fault: Fault) -> Arc<dyn Target> {
        let shared =
            Shared { fault, names: Mutex::default(), tokens: AtomicU64::new(0), acquires: AtomicU64::new(0) };
        Arc::new(Self { endpoints: vec!["memory:1".to_owned()], shared: Arc::new(shared) })
    }
}

impl Shared {
    fn permits(&self, name: &str) -> Arc<Semaphore> {
        let permits = if self.fault == Fault::TwoHolders { 2 } else { 1 };
        let mut names = self.names.lock().unwrap();
        Arc::clone(names.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(permits))))
    }

    fn token(&self) -> u64 {
        match self.fault {
            Fault::StaleTokens => 7,
            _ => self.tokens.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    fn fails(&self) -> bool {
        self.fault == Fault::Unreliable && self.acquires.fetch_add(1, Ordering::Relaxed) % 5 == 4
    }
}

impl Target for Memory {
    fn client(&self) -> Work<'_, Box<dyn Client>> {
        let client = MemoryClient { shared: Arc::clone(&self.shared), held: None };
        Box::pin(async { Ok(Box::new(client) as Box<dyn Client>) })
    }

    fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    fn role(&self, _endpoint: usize) -> Work<'_, Role> {
        Box::pin(async { Ok(Role::Leader) })
    }

    fn crowd(&self, _sessions: usize) -> Work<'_, Box<dyn Crowd>> {
        let (wakes, woken) = mpsc::unbounded_channel();
        let crowd = MemoryCrowd {
            fault: self.shared.fault,
            queue: VecDeque::new(),
            joined: 0,
            grants: 0,
            wakes,
            woken,
        };
        Box::pin(async { Ok(Box::new(crowd) as Box<dyn Crowd>) })
    }
}

struct MemoryClient {
    shared: Arc<Shared>,
    held: Option<Arc<Semaphore>>,
}

impl Client for MemoryClient {
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            // As over any network, others get their turn meanwhile.
            tokio::task::yield_now().await;
            if self.shared.fails() {
                return Err(TargetError::Lost("on purpose".to_owned()));
            }
            let permits = self.shared.permits(name);
            permits.acquire().await.expect("never closed").forget();
            self.held = Some(permits);
            Ok(Some(self.shared.token()))
        })
    }

    fn release(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            self.held.take().expect("acquired before").add_permits(1);
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async { Ok(()) })
    }
}

struct MemoryCrowd {
    fault: Fault,
    queue: VecDeque<usize>,
    joined: usize,
    grants: u64,
    wakes: mpsc::UnboundedSender<Wake>,
    woken: mpsc::UnboundedReceiver<Wake>,
}

impl MemoryCrowd {
    fn grant_next(&mut self) {
        if let Some(waiter) = self.queue.pop_front() {
            self.grants += 1;
            self.tell(Wake { waiter, granted: true, token: Some(self.grants) });
        }
    }

    fn tell(&self, wake: Wake) {
        self.wakes.send(wake).expect("the other end is ours");
    }
}

impl Crowd for MemoryCrowd {
    fn join<'a>(&'a mut self, _name: &'a str, waiters: usize) -> Work<'a, ()> {
        Box::pin(async move {
            self.queue.extend(self.joined..self.joined + waiters);
            if self.joined == 0 {
                self.grant_next();
            }
            self.joined += waiters;
            Ok(())
        })
    }

    fn present<'a>(&'a mut self, _name: &'a str) -> Work<'a, usize> {
        Box::pin(async { Ok(self.queue.len() + 1) })
    }

    fn wake(&mut self) -> Work<'_, Wake> {
        Box::pin(async { Ok(self.woken.recv().await.expect("the other end is ours")) })
    }

    fn release(&mut self, _waiter: usize) -> Work<'_, ()> {
        Box::pin(async {
            if self.fault == Fault::Nudges
                && let Some(&waiter) = self.queue.back()
            {
                self.tell(Wake { waiter, granted: false, token: None });
            }
            self.grant_next();
            if self.fault == Fault::WakesTwo {
                self.grant_next();
            }
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async { Ok(()) })
    }
}
