//! Mistakes on the command line, each as one sentence and one hint.

use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// Says what is wrong, or shows the help that was asked for.
pub fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has seen enough may be gone.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            Failure::new(sentence(error)).hint(hint()).print();
            ExitCode::from(2)
        }
    }
}

fn sentence(error: &clap::Error) -> String {
    let option = option(error);
    let value = word(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::ValueValidation => {
            let why =
                error.source().map_or_else(|| format!("'{value}' is not possible"), ToString::to_string);
            format!("{option}: {why}")
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{option} needs a value"),
        ErrorKind::InvalidValue => {
            let known = words(error, ContextKind::ValidValue).join(", ");
            format!("{option}: '{value}' is not possible; it is one of: {known}")
        }
        ErrorKind::UnknownArgument => {
            let guess = guess(error, ContextKind::SuggestedArg);
            if option.starts_with('-') {
                format!("there is no option '{option}' here{guess}")
            } else {
                format!("'{option}' is one argument too many")
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = word(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("there is no command '{name}'{}", guess(error, ContextKind::SuggestedSubcommand))
        }
        ErrorKind::ArgumentConflict => {
            let other = word(error, ContextKind::PriorArg).map(|arg| name_of(&arg));
            match other {
                Some(other) if other != option => format!("{option} and {other} cannot be used together"),
                _ => format!("{option} is given twice"),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<_> =
                words(error, ContextKind::InvalidArg).iter().map(|arg| name_of(arg)).collect();
            format!("{} is missing", missing.join(", "))
        }
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8".into(),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").into(),
    }
}

/// The help of the command that was typed, if it was one.
fn hint() -> String {
    let typed = std::env::args().nth(1).unwrap_or_default();
    let known = crate::args::command().find_subcommand(&typed).is_some();
    if known { format!("see 'conclave {typed} --help'") } else { "see 'conclave --help'".into() }
}

fn option(error: &clap::Error) -> String {
    word(error, ContextKind::InvalidArg).map_or_else(String::new, |arg| name_of(&arg))
}

/// `--loss` of `--loss <P>`, `ALGO` of `[ALGO]`.
fn name_of(arg: &str) -> String {
    let name = arg.split([' ', '=']).next().unwrap_or(arg);
    name.trim_matches(['<', '>', '[', ']', '.']).to_owned()
}

/// The best guess comes last.
fn guess(error: &clap::Error, kind: ContextKind) -> String {
    words(error, kind)
        .pop()
        .map_or_else(String::new, |guess| format!("; did you mean '{}'?", name_of(&guess)))
}

fn word(error: &clap::Error, kind: ContextKind) -> Option<String> {
    words(error, kind).into_iter().next()
}

fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    }
}
