//! Stands between nodes and breaks their connections at random places.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections to an address, each until so many bytes have passed in either direction.
pub struct Proxy {
    pub address: SocketAddr,
    pub broken: Arc<AtomicU64>,
}

impl Proxy {
    /// Every connection breaks after at most `bytes`, drawn from the seed.
    pub async fn to(target: SocketAddr, seed: u64, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let broken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&broken);
        tokio::spawn(async move {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            loop {
                let Ok((near, _)) = listener.accept().await else { return };
                let (there, back) = (rng.next_u64() % bytes, rng.next_u64() % bytes);
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(target).await else { return };
                    let (near_in, near_out) = near.into_split();
                    let (far_in, far_out) = far.into_split();
                    // Whichever direction ends first takes the other with it.
                    tokio::select! {
                        () = forward(near_in, far_out, there) => {}
                        () = forward(far_in, near_out, back) => {}
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, broken }
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut left: u64) {
    let mut buffer = vec![0; 1_024];
    while left > 0 {
        let room = buffer.len().min(left as usize);
        match from.read(&mut buffer[..room]).await {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => left -= count as u64,
            _ => return,
        }
    }
}
