//! The last step before the command: a process that the keeper starts and that becomes the command.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{close, getppid};

use super::signals::Mask;
use super::{NOTHING, reopen};
use crate::failure::Failure;

/// The command cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// There is no such command.
const NO_COMMAND: u8 = 127;

/// Becomes the command, as soon as there is a byte at the entrance. The kernel kills it if the keeper dies.
pub fn run(keeper: i32, entrance: i32, blocked: Mask, held: i32, command: &[OsString]) -> ExitCode {
    if held != NOTHING {
        // That is the keeper's: the command could outlive it otherwise, and hold what nobody uses.
        let _ = close(held);
    }
    let bound = set_pdeathsig(Signal::SIGKILL);
    // It may have died before.
    if bound.is_err() || getppid().as_raw() != keeper {
        return ExitCode::from(NOT_RUNNABLE);
    }
    let entered = reopen(entrance, OpenOptions::new().read(true))
        .and_then(|mut entrance| entrance.read_exact(&mut [0]));
    if entered.is_err() {
        return ExitCode::from(NOT_RUNNABLE);
    }
    let [program, rest @ ..] = command else { return ExitCode::from(NO_COMMAND) };
    // The keeper blocks what the command is to hear.
    let _ = blocked.to_set().thread_unblock();
    let error = Command::new(program).args(rest).exec();
    Failure::new(format!("'{}' cannot be run: {error}", program.display())).print();
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NO_COMMAND } else { NOT_RUNNABLE })
}
