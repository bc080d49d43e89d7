//! Options of `conclave clock`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use conclave_core::Deviation;

use super::live::parse_span;

/// Options of `conclave clock`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ClockArgs {
    #[command(subcommand)]
    pub command: ClockCommand,
}

/// What can be done with the clock of this machine.
#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Ask an NTP server how far its clock is ahead of ours.
    #[command(after_help = QUERY_EXAMPLES)]
    Query(QueryArgs),
    /// Answer NTP clients with the clock of this machine, which is not touched.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
}

/// Options of `conclave clock query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The server; without a port 123.
    #[arg(value_name = "HOST[:PORT]")]
    pub server: String,
    /// How often it is asked; of the last eight answers the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub samples: u32,
    /// How long an answer is waited for.
    #[arg(long, value_name = "T", default_value = "1s", value_parser = parse_span)]
    pub timeout: Duration,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `conclave clock serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where it listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:11123")]
    pub listen: SocketAddr,
    /// Pretend that the clock is ahead by so much: +500ms.
    #[arg(long, value_name = "TIME", value_parser = parse_offset, allow_hyphen_values = true, default_value = "0")]
    pub offset: i64,
}

/// `+500ms`, in nanoseconds.
fn parse_offset(text: &str) -> Result<i64, String> {
    let Deviation { offset, drift } =
        text.parse().map_err(|_| format!("'{text}' is no offset; write +500ms or -2s"))?;
    if drift == 0 {
        Ok(offset)
    } else {
        Err("a server's clock is ahead or behind, and does not drift".into())
    }
}

const QUERY_EXAMPLES: &str = "\
Examples:
  conclave clock query pool.ntp.org
  conclave clock query 127.0.0.1:11123 --samples 20 --json";

const SERVE_EXAMPLES: &str = "\
Examples:
  conclave clock serve
  conclave clock serve --listen 127.0.0.1:11124 --offset +500ms";
