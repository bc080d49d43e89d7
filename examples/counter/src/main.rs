//! One live process of the counter: `counter node --config FILE`.

use std::path::Path;

use conclave_live::config::ProcessConfig;
use conclave_live::process::{run_algorithm, told_to_stop};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().skip_while(|word| *word != flag).nth(1);
    let file = after("--config").ok_or("usage: counter node --config FILE [--with-parent]")?;
    let config = ProcessConfig::read(Path::new(file))?;
    let with_parent = arguments.iter().any(|word| word == "--with-parent");
    run_algorithm::<counter::Of>(&config, told_to_stop(with_parent), || ()).await?;
    // Standard input may still be waited for; nobody has to.
    std::process::exit(0)
}
