//! `cargo xtask test` checks everything and writes nothing; `cargo xtask fix` writes what can be written;
//! `cargo xtask soak` takes the hours that the ordinary tests do not.
//!
//! A person and CI run the same command. Each step is a function; the first that fails ends the run, since what comes
//! after it would only repeat the news.
//!
//! **Caveat**: a property test that fails keeps its seed in `proptest-regressions/`, also under `cargo xtask test`. That
//! is the one thing written beside the target directory, and it belongs into the fix.

mod algorithm_pages;
mod browser;
mod licences;
mod shell;
mod steps;
mod tidy;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test  Run every check, changing no source: format, lints, tests, the lab in a browser, docs, licences
  tidy  Check links, excerpts, bans and random streams only; builds nothing
  soak  Run what takes minutes or gigabytes; all of it, or what is named: `cargo xtask soak worlds`
  fix   Apply lint suggestions, format, regenerate golden scripts and tables; then read the diff

Exit codes: 0 all passed, 1 a step failed, 2 wrong usage.
";

/// The usage, and what can be soaked.
fn usage() -> String {
    let soaks = steps::SOAKS.iter().map(|soak| format!("  {:<10} {}\n", soak.name, soak.about));
    format!("{USAGE}\nSoaks:\n{}", soaks.collect::<String>())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(Task::Usage) => {
            print!("{}", usage());
            ExitCode::SUCCESS
        }
        Ok(Task::Test) => exit_code(steps::run_all("test", steps::TEST)),
        Ok(Task::Tidy) => exit_code(steps::run_all("tidy", steps::TIDY)),
        Ok(Task::Soak(names)) => exit_code(steps::soak(&names)),
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
    /// What is named; everything if nothing is.
    Soak(Vec<&'static str>),
    Fix,
}

/// What the command line asks for, or a sentence that says what is wrong with it.
fn parse(arguments: &[String]) -> Result<Task, String> {
    let mut words = arguments.iter().map(String::as_str);
    let task = match words.next() {
        None | Some("help" | "--help" | "-h") => Task::Usage,
        Some("test") => Task::Test,
        Some("tidy") => Task::Tidy,
        Some("soak") => return parse_soaks(words),
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

/// Which soaks are asked for.
fn parse_soaks<'a>(words: impl Iterator<Item = &'a str>) -> Result<Task, String> {
    let mut names = Vec::new();
    for word in words {
        match steps::SOAKS.iter().find(|soak| soak.name == word) {
            Some(soak) => names.push(soak.name),
            None if matches!(word, "--help" | "-h") => return Ok(Task::Usage),
            None => {
                let known: Vec<&str> = steps::SOAKS.iter().map(|soak| soak.name).collect();
                return Err(format!("there is no soak `{word}`; there are {}.", known.join(", ")));
            }
        }
    }
    Ok(Task::Soak(names))
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
        assert_eq!(parse("soak"), Ok(Task::Soak(Vec::new())));
        assert_eq!(parse("soak searches worlds"), Ok(Task::Soak(vec!["searches", "worlds"])));
        assert_eq!(parse("soak worlds --help"), Ok(Task::Usage));
        let sentence = parse("soak words").unwrap_err();
        assert!(sentence.contains("`words`") && sentence.contains("worlds, processes"), "{sentence}");
        assert_eq!(parse("tidy"), Ok(Task::Tidy));
        assert!(parse("tset").unwrap_err().contains("`tset`"));
        assert!(parse("test core").unwrap_err().contains("`core`"));
    }
}
