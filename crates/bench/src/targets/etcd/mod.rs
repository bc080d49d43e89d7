//! etcd v3, by its lock service: one lease per client, kept alive in the background, and `Lock` / `Unlock` under it.
//!
//! The revision in the answer to `Lock` serves as fencing token: it grows from holder to holder.

mod crowd;

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use self::lock::lock_client::LockClient;
use self::lock::{LockRequest, UnlockRequest};
use self::rpc::lease_client::LeaseClient;
use self::rpc::maintenance_client::MaintenanceClient;
use self::rpc::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, StatusRequest};
use super::Endpoints;
use super::pool::Pool;
use crate::target::{Client, Crowd, Role, Target, TargetError, Work};

#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
mod lock {
    include!("generated/v3lockpb.rs");
}

#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
mod rpc {
    include!("generated/etcdserverpb.rs");
}

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// An etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    endpoints: Endpoints,
    ttl: Duration,
    connections: Pool<Channel>,
}

impl Etcd {
    /// The cluster at these endpoints.
    pub fn new(endpoints: Endpoints, ttl: Duration, connections: Option<NonZeroUsize>) -> Self {
        Self { endpoints, ttl, connections: Pool::new(connections) }
    }
}

impl Target for Etcd {
    fn client(&self) -> Work<'_, Box<dyn Client>> {
        Box::pin(async {
            let new = async { connect(self.endpoints.next()?).await };
            let channel = self.connections.take(new).await?;
            let lease = Lease::grant(channel.clone(), self.ttl).await?;
            let renewal = tokio::spawn(renew(channel.clone(), lease.id, self.ttl / 3));
            let client =
                EtcdClient { locks: LockClient::new(channel), lease, renewal: Renewal(renewal), key: vec![] };
            Ok(Box::new(client) as Box<dyn Client>)
        })
    }

    fn endpoints(&self) -> &[String] {
        self.endpoints.all()
    }

    fn role(&self, endpoint: usize) -> Work<'_, Role> {
        Box::pin(async move {
            let channel = connect(self.endpoints.at(endpoint)?).await?;
            let status =
                MaintenanceClient::new(channel).status(StatusRequest {}).await.map_err(refused)?.into_inner();
            let me = status.header.unwrap_or_default().member_id;
            Ok(match status.leader {
                0 => Role::Lost,
                leader if leader == me => Role::Leader,
                _ => Role::Follower,
            })
        })
    }

    fn crowd(&self, sessions: usize) -> Work<'_, Box<dyn Crowd>> {
        Box::pin(async move {
            let mut channels = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                channels.push(connect(self.endpoints.next()?).await?);
            }
            Ok(Box::new(crowd::EtcdCrowd::new(channels)) as Box<dyn Crowd>)
        })
    }
}

async fn connect(endpoint: &str) -> Result<Channel, TargetError> {
    let unreachable = |reason: tonic::transport::Error| TargetError::Unreachable {
        endpoint: endpoint.to_owned(),
        reason: std::error::Error::source(&reason).map_or_else(|| reason.to_string(), ToString::to_string),
    };
    let address = Endpoint::try_from(format!("http://{endpoint}")).map_err(unreachable)?;
    address.connect_timeout(CONNECT).tcp_nodelay(true).connect().await.map_err(unreachable)
}

// By value, as `map_err` wants it.
#[allow(clippy::needless_pass_by_value)]
fn refused(status: Status) -> TargetError {
    match status.code() {
        tonic::Code::Unavailable => TargetError::Lost(status.message().to_owned()),
        _ => TargetError::Refused(status.message().to_owned()),
    }
}

/// A lease, and the channel through which it was granted.
struct Lease {
    leases: LeaseClient<Channel>,
    id: i64,
}

impl Lease {
    async fn grant(channel: Channel, ttl: Duration) -> Result<Self, TargetError> {
        let mut leases = LeaseClient::new(channel);
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        let granted = leases.lease_grant(request).await.map_err(refused)?.into_inner();
        if granted.error.is_empty() {
            Ok(Self { leases, id: granted.id })
        } else {
            Err(TargetError::Refused(granted.error))
        }
    }

    async fn revoke(&mut self) -> Result<(), TargetError> {
        self.leases.lease_revoke(LeaseRevokeRequest { id: self.id }).await.map_err(refused).map(drop)
    }
}

/// Keeps a lease alive until the server says that it is gone. Whether it was kept shows in what the client does next.
async fn renew(channel: Channel, id: i64, every: Duration) {
    let ticks = IntervalStream::new(tokio::time::interval(every.max(Duration::from_millis(100))));
    let requests = ticks.map(move |_| LeaseKeepAliveRequest { id });
    let Ok(answers) = LeaseClient::new(channel).lease_keep_alive(requests).await else { return };
    let mut answers = answers.into_inner();
    while let Ok(Some(answer)) = answers.message().await {
        if answer.ttl == 0 {
            return;
        }
    }
}

/// The task that keeps a lease; it ends with its client.
struct Renewal(JoinHandle<()>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct EtcdClient {
    locks: LockClient<Channel>,
    lease: Lease,
    renewal: Renewal,
    key: Vec<u8>,
}

impl Client for EtcdClient {
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            let (key, token) = lock_name(&mut self.locks, name, self.lease.id).await?;
            self.key = key;
            Ok(token)
        })
    }

    fn release(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            let request = UnlockRequest { key: std::mem::take(&mut self.key) };
            self.locks.unlock(request).await.map_err(refused).map(drop)
        })
    }

    fn close(mut self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async move {
            drop(self.renewal);
            self.lease.revoke().await
        })
    }
}

/// Locks a name; gives the key to unlock and the revision.
async fn lock_name(
    locks: &mut LockClient<Channel>,
    name: &str,
    lease: i64,
) -> Result<(Vec<u8>, Option<u64>), TargetError> {
    let request = LockRequest { name: name.as_bytes().to_vec(), lease };
    let answer = locks.lock(request).await.map_err(refused)?.into_inner();
    let revision = answer.header.unwrap_or_default().revision;
    Ok((answer.key, u64::try_from(revision).ok()))
}
