//! Calling cargo.

use std::env;
use std::process::{Command, Stdio};

/// A call of the cargo that called us, with its arguments as one line.
pub struct Cargo {
    line: &'static str,
    command: Command,
}

/// `arguments` are separated by blanks, and so contain none.
pub fn cargo(arguments: &'static str) -> Cargo {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    Cargo { line: arguments, command }
}

impl Cargo {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Shows the command, then runs it with its output going to ours.
    pub fn run(mut self) -> Result<(), String> {
        println!("    cargo {}", self.line);
        let status = self.command.status().map_err(|error| self.did_not_start(&error))?;
        if status.success() { Ok(()) } else { Err(format!("`cargo {}` ended with {status}", self.line)) }
    }

    /// Runs it without showing it, and returns what it wrote.
    pub fn output(mut self) -> Result<Vec<u8>, String> {
        let output =
            self.command.stderr(Stdio::inherit()).output().map_err(|error| self.did_not_start(&error))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("`cargo {}` ended with {}", self.line, output.status))
        }
    }

    /// Whether it runs and succeeds; for asking whether a subcommand is installed.
    pub fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn did_not_start(&self, error: &std::io::Error) -> String {
        format!("`cargo {}` did not start: {error}", self.line)
    }
}
