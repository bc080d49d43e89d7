//! Two candidates and an observer: who leads, how the lead is handed over, and what a vacancy looks like.
//!
//! `conclave serve` in one terminal, then `cargo run -p conclave-client --example leader`.

use conclave_client::{Campaign, Client, DEFAULT_ENDPOINT, Observed, SessionOptions};

#[tokio::main]
async fn main() -> Result<(), conclave_client::Error> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
    let client = Client::new([endpoint])?;
    let mut observer = client.observe("example/leader");
    show(&observer.next().await?);

    let first = client.session(SessionOptions::default().label("first")).await?;
    let leading = first.campaign(Campaign::new("example/leader", "10.0.0.1:80")).await?;
    show(&observer.next().await?);

    let second = client.session(SessionOptions::default().label("second")).await?;
    let candidate = second.id();
    let waiting =
        tokio::spawn(async move { second.campaign(Campaign::new("example/leader", "10.0.0.2:80")).await });
    // Somebody waits for it: a good moment to hand it over.
    leading.guard().contended().await;
    leading.transfer(candidate).await.map_err(|(_, error)| error)?;
    let leading = waiting.await.expect("the candidate does not panic")?;
    show(&observer.next().await?);

    leading.resign().await?;
    show(&observer.next().await?);
    Ok(())
}

fn show(seen: &Observed) {
    match &seen.leader {
        Some(leader) => println!("term {}: {}", leader.term, String::from_utf8_lossy(&leader.value)),
        None => println!("nobody leads"),
    }
}
