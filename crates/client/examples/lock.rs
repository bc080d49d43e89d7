//! Takes a lock, works while it is held, and stops when it is lost.
//!
//! `conclave serve` in one terminal, then `cargo run -p conclave-client --example lock`.

use std::time::Duration;

use conclave_client::{Client, DEFAULT_ENDPOINT, Request, SessionOptions};

#[tokio::main]
async fn main() -> Result<(), conclave_client::Error> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
    let client = Client::new([endpoint])?;
    let session =
        client.session(SessionOptions::default().ttl(Duration::from_secs(3)).label("example")).await?;
    let guard = session.acquire(Request::lock("example/lock")).await?;
    println!("granted under token {}", guard.token());
    tokio::select! {
        // Whatever is written while the lock is held carries the token; see the example `fenced`.
        () = tokio::time::sleep(Duration::from_millis(200)) => println!("done"),
        () = guard.lost() => {
            println!("lost: {}", guard.why_lost().unwrap_or_default());
            return Ok(());
        }
    }
    guard.release().await?;
    println!("released");
    session.close().await
}
