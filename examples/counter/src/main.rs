//! The laboratory's command line around the counter.

fn main() -> std::process::ExitCode {
    conclave_cli::Laboratory::new().with::<counter::Of>().main()
}
