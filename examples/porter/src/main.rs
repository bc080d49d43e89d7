//! The laboratory's command line around the porter.

use conclave_algorithms::mutex;
use conclave_cli::Laboratory;
use porter::Porter;

fn main() -> std::process::ExitCode {
    Laboratory::new().with::<mutex::Of<Porter>>().main()
}
