//! The `conclave` command.

fn main() -> std::process::ExitCode {
    conclave_cli::main()
}
