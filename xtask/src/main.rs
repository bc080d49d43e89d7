//! `cargo xtask test` checks everything and writes nothing; `cargo xtask fix` writes what can be written;
//! `cargo xtask soak` takes the hours that the ordinary tests do not.
//!
//! A person and CI run the same command. Each step is a function; the first that fails ends the run, since what comes
//! after it would only repeat the news.
//!
//! **Caveat**: a property test that fails keeps its seed in `proptest-regressions/`, also under `cargo xtask test`. That
//! is the one thing written beside the target directory, and it belongs into the fix.

mod algorithm_pages;
mod licences;
mod shell;
mod steps;
mod tidy;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test  Run every check, changing no source: format, lints, tests, docs, licences
  tidy  Check links, excerpts, bans and random streams only; builds nothing
  soak  Run what takes minutes or gigabytes: the long searches of docs/verified.md, all of the second opinion
  fix   Apply lint suggestions, format, regenerate golden scripts and tables; then read the diff

Exit codes: 0 all passed, 1 a step failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(Task::Usage) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Task::Test) => exit_code(steps::run_all("test", steps::TEST)),
        Ok(Task::Tidy) => exit_code(steps::run_all("tidy", steps::TIDY)),
        Ok(Task::Soak) => exit_code(steps::run_all("soak", steps::SOAK)),
        Ok(Task::Fix) => {
            let fixed = steps::run_all("fix", steps::FIX);
            if fixed.is_ok() {
                println!("xtask fix: read the diff, and commit only what you understand");
            }
            exit_code(fixed)
        }
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Task {
    Usage,
    Test,
    Tidy,
    Soak,
    Fix,
}

/// What the command line asks for, or a sentence that says what is wrong with it.
fn parse(arguments: &[String]) -> Result<Task, String> {
    let mut words = arguments.iter().map(String::as_str);
    let task = match words.next() {
        None | Some("help" | "--help" | "-h") => Task::Usage,
        Some("test") => Task::Test,
        Some("tidy") => Task::Tidy,
        Some("soak") => Task::Soak,
        Some("fix") => Task::Fix,
        Some(other) => {
            return Err(format!("there is no command `{other}`; `cargo xtask --help` lists them."));
        }
    };
    match words.next() {
        None => Ok(task),
        Some("--help" | "-h") => Ok(Task::Usage),
        Some(extra) => {
            Err(format!("`{extra}` is one argument too many; `cargo xtask --help` shows the usage."))
        }
    }
}

fn exit_code(result: Result<(), steps::Failed>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_and_nothing_else() {
        let parse = |line: &str| parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>());
        assert_eq!(parse(""), Ok(Task::Usage));
        assert_eq!(parse("--help"), Ok(Task::Usage));
        assert_eq!(parse("test"), Ok(Task::Test));
        assert_eq!(parse("test --help"), Ok(Task::Usage));
        assert_eq!(parse("fix"), Ok(Task::Fix));
        assert_eq!(parse("soak"), Ok(Task::Soak));
        assert_eq!(parse("tidy"), Ok(Task::Tidy));
        assert!(parse("tset").unwrap_err().contains("`tset`"));
        assert!(parse("test core").unwrap_err().contains("`core`"));
    }
}
