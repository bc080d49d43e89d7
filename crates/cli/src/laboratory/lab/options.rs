//! Options as a page has them: described for a form, and read back as if they were typed.

use clap::{Arg, ArgAction, FromArgMatches};
use conclave_lab::{Code, Options, Problem};
use serde_json::{Value, json};

use crate::args::Typed;
use crate::laboratory::args::is_decisive;
use crate::laboratory::catalogue::Catalogue;

/// What drawings and other files can be asked for.
pub const DRAWING: [&str; 9] =
    ["stamps", "count", "axis", "theme", "window", "only", "hide", "fields", "names"];

/// What a search can be told beyond what decides how runs go.
const SEARCHING: [&str; 3] = ["depth", "in_flight", "time"];

/// What a comparison can be told.
const COMPARING: [&str; 6] = ["n", "load", "entries", "seeds", "delay", "set"];

/// What a cluster can be told.
const STARTING: [&str; 3] = ["n", "ids", "set"];

/// The options that most people want.
const USUAL: [&str; 16] = [
    "n",
    "mutant",
    "set",
    "entries",
    "seed",
    "load",
    "start",
    "delay",
    "channels",
    "loss",
    "crash",
    "partition",
    "crashes",
    "restarts",
    "drops",
    "seeds",
];

/// Whether an option decides how a single run goes.
pub fn decides(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(is_decisive) && arg.get_id() != "seeds"
}

/// Whether an option says what is searched.
pub fn searches(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(is_decisive) && arg.get_id() != "verify_reduction"
        || SEARCHING.contains(&arg.get_id().as_str())
}

/// Whether an option says what is compared.
pub fn compares(arg: &Arg) -> bool {
    COMPARING.contains(&arg.get_id().as_str())
}

/// Whether an option says what a cluster is.
pub fn starts(arg: &Arg) -> bool {
    STARTING.contains(&arg.get_id().as_str())
}

/// The options of each command.
pub fn all(catalogue: &Catalogue) -> Value {
    let command = crate::args::command();
    let of = |path: &[&str], wanted: fn(&Arg) -> bool| {
        let found = path.iter().try_fold(&command, |command, name| command.find_subcommand(name));
        let args = found.into_iter().flat_map(clap::Command::get_arguments).filter(|arg| wanted(arg));
        args.map(|arg| described(arg, catalogue)).collect::<Vec<_>>()
    };
    json!({
        "sim": of(&["sim"], decides),
        "check": of(&["check"], searches),
        "compare": of(&["compare"], compares),
        "cluster": of(&["cluster", "start"], starts),
    })
}

/// The name of an option in recipes: that of the command line, without dashes.
fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_short().map(String::from).unwrap_or_default(), ToOwned::to_owned)
}

fn option(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| format!("-{}", name(arg)), |long| format!("--{long}"))
}

fn described(arg: &Arg, catalogue: &Catalogue) -> Value {
    let takes_value = arg.get_action().takes_values();
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| json!({ "name": value.get_name(), "help": value.get_help().map(ToString::to_string) }))
        .collect();
    let value = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(ToString::to_string)
        .filter(|_| takes_value);
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let kind = match value.as_deref() {
        None => "flag",
        Some(_) if !values.is_empty() => "choice",
        Some("N" | "K" | "S") if !default.as_ref().is_some_and(|default| default.contains("..")) => "number",
        Some(_) => "text",
    };
    let option = option(arg);
    let families = catalogue.families();
    let only: Vec<_> = families
        .iter()
        .filter(|family| family.options.contains(&option.as_str()))
        .map(|family| family.name)
        .collect();
    json!({
        "name": name(arg),
        "option": option,
        "value": value,
        "help": arg.get_help().map(ToString::to_string),
        "group": arg.get_help_heading(),
        "kind": kind,
        "repeat": matches!(arg.get_action(), ArgAction::Append),
        "default": default.filter(|_| takes_value),
        "values": values,
        "families": (!only.is_empty()).then_some(only),
        "wide": !USUAL.contains(&arg.get_id().as_str()),
    })
}

/// The words that type these options after a command, or after one of its own: `cluster start`.
pub fn words(
    command: &str,
    first: &str,
    options: &Options,
    allowed: impl Fn(&Arg) -> bool,
) -> Result<Vec<String>, Problem> {
    let known = crate::args::command();
    let known = command.split(' ').try_fold(&known, |known, name| known.find_subcommand(name));
    let mut words = vec![crate::program::name().to_owned()];
    words.extend(command.split(' ').map(ToOwned::to_owned));
    for (given, value) in options {
        let arg = known
            .into_iter()
            .flat_map(clap::Command::get_arguments)
            .find(|arg| name(arg) == *given && allowed(arg));
        let arg = arg.ok_or_else(|| {
            Problem::refused(format!("there is no option '{given}' here"))
                .hint("api/v1/options has all of them")
        })?;
        let values = match value {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        for value in values {
            words.extend(word(arg, given, value)?);
        }
    }
    // What begins with a dash is an algorithm of a strange name, and no option.
    words.extend(["--".to_owned(), first.to_owned()]);
    Ok(words)
}

fn word(arg: &Arg, name: &str, value: &Value) -> Result<Option<String>, Problem> {
    let option = option(arg);
    let takes_value = arg.get_action().takes_values();
    match value {
        Value::Bool(true) if !takes_value => Ok(Some(option)),
        Value::Bool(false) | Value::Null => Ok(None),
        Value::String(text) if takes_value => Ok(Some(format!("{option}={text}"))),
        Value::Number(number) if takes_value => Ok(Some(format!("{option}={number}"))),
        _ if takes_value => Err(Problem::malformed(format!("the option '{name}' takes a text or a number"))),
        _ => Err(Problem::malformed(format!("the option '{name}' is true or false"))),
    }
}

/// Reads words as the command line does.
pub fn typed(words: Vec<String>) -> Result<Typed, Problem> {
    let mut command = crate::args::command();
    let matches = command.try_get_matches_from_mut(words);
    let matches = matches.map_err(|error| Problem::refused(crate::usage::sentence(&error)))?;
    Ok(Typed { command, matches })
}

/// The options of a command that was typed.
pub fn args<T: FromArgMatches>(command: &str, typed: &Typed) -> Result<T, Problem> {
    let matches =
        command.split(' ').try_fold(&typed.matches, |matches, name| matches.subcommand_matches(name));
    let args = matches.map(T::from_arg_matches);
    let args =
        args.ok_or_else(|| Problem::new(Code::Internal, format!("there is no command '{command}'")))?;
    args.map_err(|error| Problem::refused(crate::usage::sentence(&error)))
}

/// Both at once.
pub fn read<T: FromArgMatches>(command: &str, words: Vec<String>) -> Result<T, Problem> {
    args(command, &typed(words)?)
}
