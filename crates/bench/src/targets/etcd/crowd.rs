//! Many who wait at an etcd. A lease can wait only once for a name, so every waiter needs a lease of its own; what is
//! shared by the waiters of a session is the connection.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::lock::UnlockRequest;
use super::lock::lock_client::LockClient;
use super::rpc::RangeRequest;
use super::rpc::kv_client::KvClient;
use super::{Lease, lock_name, refused};
use crate::target::{Crowd, TargetError, Wake, Work};

/// Long enough to need no renewal while ten thousand release one after the other.
const TTL: Duration = Duration::from_secs(3600);

type Woken = Result<(Wake, Vec<u8>), TargetError>;

/// A crowd over a few connections.
pub struct EtcdCrowd {
    channels: Vec<Channel>,
    /// The waiting calls; they end with the crowd.
    calls: JoinSet<()>,
    leases: Vec<Lease>,
    woken: mpsc::UnboundedReceiver<Woken>,
    wakes: mpsc::UnboundedSender<Woken>,
    /// The keys of those that hold.
    held: BTreeMap<usize, Vec<u8>>,
}

impl EtcdCrowd {
    /// One session per channel.
    pub fn new(channels: Vec<Channel>) -> Self {
        let (wakes, woken) = mpsc::unbounded_channel();
        Self { channels, calls: JoinSet::new(), leases: Vec::new(), woken, wakes, held: BTreeMap::new() }
    }

    /// So many more leases, granted over all channels at once.
    async fn grant(&mut self, count: usize) -> Result<(), TargetError> {
        let mut grants = JoinSet::new();
        for (number, channel) in self.channels.iter().enumerate() {
            let share = (number..count).step_by(self.channels.len()).count();
            grants.spawn(grant_all(channel.clone(), share));
        }
        while let Some(granted) = grants.join_next().await {
            self.leases.extend(granted.map_err(|error| TargetError::Lost(error.to_string()))??);
        }
        Ok(())
    }
}

async fn grant_all(channel: Channel, count: usize) -> Result<Vec<Lease>, TargetError> {
    let mut leases = Vec::with_capacity(count);
    for _ in 0..count {
        leases.push(Lease::grant(channel.clone(), TTL).await?);
    }
    Ok(leases)
}

impl Crowd for EtcdCrowd {
    fn join<'a>(&'a mut self, name: &'a str, waiters: usize) -> Work<'a, ()> {
        Box::pin(async move {
            let first = self.leases.len();
            self.grant(waiters).await?;
            for (waiter, lease) in self.leases.iter().enumerate().skip(first) {
                let mut locks = LockClient::new(self.channels[waiter % self.channels.len()].clone());
                let (name, lease, wakes) = (name.to_owned(), lease.id, self.wakes.clone());
                self.calls.spawn(async move {
                    let locked = lock_name(&mut locks, &name, lease).await;
                    let woken = locked.map(|(key, token)| (Wake { waiter, granted: true, token }, key));
                    // Nobody listens any more once the crowd is closed.
                    let _ = wakes.send(woken);
                });
            }
            Ok(())
        })
    }

    fn present<'a>(&'a mut self, name: &'a str) -> Work<'a, usize> {
        Box::pin(async move {
            let channel = self.channels.first().cloned().ok_or_else(nobody)?;
            let request = RangeRequest {
                key: format!("{name}/").into_bytes(),
                range_end: format!("{name}0").into_bytes(),
                count_only: true,
            };
            let found = KvClient::new(channel).range(request).await.map_err(refused)?.into_inner();
            Ok(usize::try_from(found.count).unwrap_or(0))
        })
    }

    fn wake(&mut self) -> Work<'_, Wake> {
        Box::pin(async {
            let (wake, key) = self.woken.recv().await.ok_or_else(nobody)??;
            self.held.insert(wake.waiter, key);
            Ok(wake)
        })
    }

    fn release(&mut self, waiter: usize) -> Work<'_, ()> {
        Box::pin(async move {
            let key = self.held.remove(&waiter).ok_or_else(nobody)?;
            let channel = self.channels[waiter % self.channels.len()].clone();
            LockClient::new(channel).unlock(UnlockRequest { key }).await.map_err(refused).map(drop)
        })
    }

    fn close(mut self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async move {
            self.calls.shutdown().await;
            for lease in &mut self.leases {
                lease.revoke().await?;
            }
            Ok(())
        })
    }
}

fn nobody() -> TargetError {
    TargetError::Refused("nobody of this crowd is there".to_owned())
}
