//! Mistakes on the command line, each as one sentence and one hint.

use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;
use crate::output::quoted;

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
            let words: Vec<String> =
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let sentence = separated(&words).unwrap_or_else(|| sentence(error));
            Failure::new(sentence).hint(hint()).print();
            ExitCode::from(2)
        }
    }
}

/// What was probably meant by a command for `lock` or `elect` without the two dashes before it.
fn separated(words: &[String]) -> Option<String> {
    let is_runner = words.get(1).is_some_and(|word| word == "lock" || word == "elect");
    if !is_runner || words.iter().any(|word| word == "--") {
        return None;
    }
    let begins_command = |at: &usize| {
        let (before, command) = words.split_at(*at);
        let separated = [before, &["--".to_owned()], command].concat();
        let is_word = command.first().is_some_and(|word| !word.starts_with('-'));
        is_word && crate::args::command().try_get_matches_from(separated).is_ok()
    };
    let (before, command) = words.split_at((2..words.len()).find(begins_command)?);
    let line = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    Some(format!("put -- before the command: conclave {} -- {}", line(before.get(1..)?), line(command)))
}

/// What is wrong, in one sentence.
pub fn sentence(error: &clap::Error) -> String {
    let option = option(error);
    let value = word(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            match why.as_str() {
                "" => format!("{option}: '{value}' is not possible"),
                // What the standard library says of a number is not meant for people.
                "invalid digit found in string" | "cannot parse integer from empty string" => {
                    format!("{option}: '{value}' is not a whole number")
                }
                why => format!("{option}: {why}"),
            }
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{option} needs a value"),
        ErrorKind::InvalidValue => {
            let known = words(error, ContextKind::ValidValue).join(", ");
            format!("{option}: '{value}' is not possible; it is one of: {known}")
        }
        ErrorKind::UnknownArgument => {
            let guess = short(&option).unwrap_or_else(|| guess(error, ContextKind::SuggestedArg));
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
            missing_text(&missing)
        }
        ErrorKind::TooManyValues => format!("'{value}' is one argument too many"),
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8".into(),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").into(),
    }
}

/// `-n` for `--n`: nothing else is meant by two dashes and a letter.
fn short(option: &str) -> Option<String> {
    let letter = option.strip_prefix("--").filter(|name| name.chars().count() == 1)?;
    let typed = std::env::args_os().nth(1)?;
    let command = crate::args::command();
    let mut known =
        command.find_subcommand(typed.to_str()?)?.get_arguments().filter_map(clap::Arg::get_short);
    known.any(|short| letter.starts_with(short)).then(|| format!("; did you mean '-{letter}'?"))
}

/// `CMD is missing`, `--force and --reason are missing`.
fn missing_text(missing: &[String]) -> String {
    match missing {
        [] => "an argument is missing".to_owned(),
        [one] => format!("{one} is missing"),
        [most @ .., last] => format!("{} and {last} are missing", most.join(", ")),
    }
}

/// The help of the command that was typed, if it was one.
fn hint() -> String {
    let typed = std::env::args_os().nth(1).unwrap_or_default();
    let typed = typed.to_string_lossy();
    let known = crate::args::command().find_subcommand(typed.as_ref()).is_some();
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

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_in_a_sentence() {
        let said = |line: &[&str]| {
            let words = ["conclave"].iter().chain(line);
            sentence(&crate::args::command().try_get_matches_from(words).expect_err("it is wrong"))
        };
        for (line, better) in [
            (&["release", "a"][..], "--force and --reason are missing"),
            (&["release"], "--force, --reason and NAME are missing"),
            (&["release", "a", "--force"], "--reason is missing"),
            (&["lock"], "NAME and CMD are missing"),
            (&["lock", "a", "-E", "x", "--", "true"], "--conflict-exit-code: 'x' is not a whole number"),
            (
                &["lock", "a", "--skip-if-held", "--try", "--", "true"],
                "--skip-if-held and --try cannot be used together",
            ),
        ] {
            assert_eq!(said(line), better);
        }
    }

    #[test]
    fn forgotten_dashes_are_put_where_the_command_begins() {
        let suggested = |line: &[&str]| {
            let words: Vec<String> = ["conclave"].iter().chain(line).map(|word| (*word).to_owned()).collect();
            separated(&words)
                .map(|sentence| sentence.split_once(": conclave ").expect("a command").1.to_owned())
        };
        for (line, better) in [
            (&["lock", "s1", "echo", "hi"][..], "lock s1 -- echo hi"),
            (&["lock", "s1", "--wait", "5s", "echo", "-n", "hi"], "lock s1 --wait 5s -- echo -n hi"),
            (&["lock", "--try", "s1", "sh", "-c", "echo 'x'"], r"lock --try s1 -- sh -c 'echo '\''x'\'''"),
            (&["elect", "a b", "true"], "elect 'a b' -- true"),
        ] {
            assert_eq!(suggested(line).as_deref(), Some(better));
        }
        let fine: [&[&str]; 5] = [
            &["lock", "s1"],
            &["lock", "s1", "--", "true"],
            &["lock"],
            &["show", "a", "b"],
            &["lock", "a", "--bad"],
        ];
        for line in fine {
            assert_eq!(suggested(line), None, "{line:?}");
        }
    }
}
