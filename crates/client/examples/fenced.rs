//! A resource that refuses whoever comes too late: it remembers the greatest fencing token it has seen, which is all
//! that it takes to be safe from a holder that was paused and does not know that its lock is gone.
//!
//! `conclave serve` in one terminal, then `cargo run -p conclave-client --example fenced`.

use conclave_client::{Client, DEFAULT_ENDPOINT, Request, SessionOptions};

/// A file, a table or a device; in a database, `UPDATE ... SET ..., token = $1 WHERE id = ... AND token <= $1`.
#[derive(Default)]
struct Resource {
    newest: u64,
    writes: Vec<String>,
}

impl Resource {
    fn write(&mut self, token: u64, text: &str) -> bool {
        if token < self.newest {
            return false;
        }
        self.newest = token;
        self.writes.push(text.to_owned());
        true
    }
}

#[tokio::main]
async fn main() -> Result<(), conclave_client::Error> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
    let client = Client::new([endpoint])?;
    let mut resource = Resource::default();

    let slow = client.session(SessionOptions::default().label("slow")).await?;
    let guard = slow.acquire(Request::lock("example/fenced")).await?;
    let operator = client.session(SessionOptions::default().label("operator")).await?;
    operator.force("example/fenced", None, "it does not answer").await?;

    let quick = client.session(SessionOptions::default().label("quick")).await?;
    let newer = quick.acquire(Request::lock("example/fenced")).await?;
    assert!(resource.write(newer.token(), "quick"));
    assert!(!resource.write(guard.token(), "slow"));
    println!("the write with token {} was refused: {} has been seen", guard.token(), newer.token());
    println!("the service says of it: {:?}", client.check("example/fenced", guard.token()).await?.standing());
    // What was dropped only is released when there is time for it, which the end of a program leaves not.
    client.shutdown().await;
    Ok(())
}
