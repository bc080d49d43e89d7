//! Options of `conclave lab`.

use std::path::PathBuf;

use clap::Args;

/// Options of `conclave lab`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// Where to listen; off this machine the address gets a secret that only you are told.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7480")]
    pub listen: String,
    /// Do not open a browser.
    #[arg(long)]
    pub no_open: bool,
    /// Read the files of the page from this folder, not from the program.
    #[arg(long, value_name = "DIR", hide = true)]
    pub web: Option<PathBuf>,
}

const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave lab                         open the page in a browser
  conclave lab --no-open               print the address only
  conclave lab --listen 0.0.0.0:7480   let other machines in, who know the secret

Everything is in the program: the page loads nothing from elsewhere. Ctrl-C ends it.";
