//! What a shell completes beyond commands and options: algorithms, mutants, settings, topics.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use conclave_algorithms::{About, Setting, Values};

use super::catalogue::Catalogue;
use super::{explain, group};

/// The commands, with what their values can be.
pub fn known(command: Command, catalogue: &Catalogue) -> Command {
    let algorithms = completer(catalogue, algorithms);
    let mutants = completer(catalogue, mutants);
    let settings = completer(catalogue, settings);
    let topics = completer(catalogue, topics);
    let examples = completer(catalogue, examples);
    let subjects = completer(catalogue, subjects);
    let orders = completer(catalogue, orders);
    let groups = completer(catalogue, groups);
    let run = |command: Command| {
        command
            .mut_arg("algo", |arg| arg.add(algorithms.clone()))
            .mut_arg("mutant", |arg| arg.add(mutants.clone()))
            .mut_arg("set", |arg| arg.add(settings.clone()))
    };
    command
        .mut_subcommand("sim", run)
        .mut_subcommand("check", run)
        .mut_subcommand("step", run)
        .mut_subcommand("list", |list| list.mut_arg("algo", |arg| arg.add(algorithms.clone())))
        .mut_subcommand("example", |example| {
            example
                .mut_arg("name", |arg| arg.add(examples.clone()))
                .mut_arg("of", |arg| arg.add(subjects.clone()))
        })
        .mut_subcommand("compare", |compare| {
            compare
                .mut_arg("what", |arg| arg.add(subjects.clone()))
                .mut_arg("set", |arg| arg.add(settings.clone()))
        })
        .mut_subcommand("explain", |explain| explain.mut_arg("topic", |arg| arg.add(topics.clone())))
        .mut_subcommand("cluster", |cluster| {
            cluster.mut_subcommand("start", |start| {
                start
                    .mut_arg("algo", |arg| arg.add(algorithms.clone()))
                    .mut_arg("set", |arg| arg.add(settings.clone()))
            })
        })
        .mut_subcommand("group", |group| {
            group
                .mut_subcommands(|command| command.mut_arg("name", |arg| arg.add(groups.clone())))
                .mut_subcommand("join", |join| {
                    join.mut_arg("order", |arg| arg.add(orders.clone()))
                        .mut_arg("set", |arg| arg.add(settings.clone()))
                })
        })
}

/// A value and what it is.
type Known = (String, String);

/// Completes with those that begin with what was typed.
fn completer(
    catalogue: &Catalogue,
    values: fn(&Catalogue, &[&'static About]) -> Vec<Known>,
) -> ArgValueCompleter {
    let catalogue = catalogue.clone();
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let values = values(&catalogue, &named(&catalogue));
        let fitting = values.into_iter().filter(|(value, _)| value.starts_with(typed.as_ref()));
        fitting.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect()
    })
}

/// The algorithm that is named on the line that is being completed, or else all of them.
fn named(catalogue: &Catalogue) -> Vec<&'static About> {
    let line = std::env::args_os().skip_while(|word| word != "--");
    let found = line.filter_map(|word| catalogue.find(word.to_str()?)).next();
    found.map_or_else(|| catalogue.all(), |entry| vec![entry.about])
}

fn algorithms(catalogue: &Catalogue, _named: &[&'static About]) -> Vec<Known> {
    catalogue.all().into_iter().map(|about| (about.name.to_owned(), about.idea.to_owned())).collect()
}

fn mutants(_catalogue: &Catalogue, named: &[&'static About]) -> Vec<Known> {
    let mutants = named.iter().flat_map(|about| about.mutants);
    mutants.map(|mutant| (mutant.name.to_owned(), mutant.change.to_owned())).collect()
}

/// Keys with their values where these can be listed.
fn settings(_catalogue: &Catalogue, named: &[&'static About]) -> Vec<Known> {
    let values = |setting: &'static Setting| match setting.values {
        Values::OneOf(words) | Values::Timed { words, .. } | Values::ProcessOr(words) => words.to_vec(),
        Values::Number(..) | Values::Process | Values::Numbers => vec![setting.default],
    };
    let settings = named.iter().flat_map(|about| about.every_setting());
    let mut known: Vec<Known> = settings
        .flat_map(|setting| {
            let text = move |value: &str| (format!("{}={value}", setting.key), setting.help.to_owned());
            values(setting).into_iter().map(text)
        })
        .collect();
    known.sort();
    known.dedup();
    known
}

fn topics(catalogue: &Catalogue, _named: &[&'static About]) -> Vec<Known> {
    explain::names(catalogue)
}

fn examples(_catalogue: &Catalogue, _named: &[&'static About]) -> Vec<Known> {
    conclave_sim::examples::all().into_iter().map(|example| (example.name, example.title)).collect()
}

/// Orders of delivery, and the algorithms for them.
fn orders(catalogue: &Catalogue, _named: &[&'static About]) -> Vec<Known> {
    let orders = group::ORDERS.into_iter().map(|(name, algorithm)| (name.to_owned(), algorithm.to_owned()));
    let algorithms = catalogue.all().into_iter().filter(|about| group::is_multicast(about));
    let algorithms = algorithms.map(|about| (about.name.to_owned(), about.idea.to_owned()));
    let mut known: Vec<Known> = algorithms.chain(orders).collect();
    known.sort();
    known.dedup_by(|second, first| second.0 == first.0);
    known
}

/// The groups on this machine.
fn groups(_catalogue: &Catalogue, _named: &[&'static About]) -> Vec<Known> {
    let names = conclave_live::group::names(&conclave_live::group::home());
    names.into_iter().map(|name| (name, "a group on this machine".to_owned())).collect()
}

/// Families and algorithms.
fn subjects(catalogue: &Catalogue, named: &[&'static About]) -> Vec<Known> {
    let families = catalogue.families().into_iter();
    let families = families.map(|family| (family.name.to_owned(), family.title.to_owned()));
    families.chain(algorithms(catalogue, named)).collect()
}
