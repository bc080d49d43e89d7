//! `conclave group`: multicast between processes that are started by hand, one in each terminal.

mod follow;
mod join;
mod shown;

use std::io::BufRead as _;
use std::path::Path;

use conclave_algorithms::About;
use conclave_algorithms::family::Family as _;
use conclave_algorithms::multicast::{FAMILY, Multicasting, Request};
use conclave_core::NodeId;
use conclave_live::cluster::Cluster;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use conclave_live::group::{file, home, names};

use super::args::{GroupArgs, GroupCommand, GroupName, SendArgs, TailArgs};
use super::catalogue::Catalogue;
use super::cluster::through;
use super::output;
use crate::failure::{Failure, Verdict, nearest};
use follow::{Ended, Start, follow};
pub use join::ORDERS;
use shown::Printer;

/// Does what was asked for.
pub fn run(args: &GroupArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    match &args.command {
        GroupCommand::Join(args) => join::run(args, catalogue),
        GroupCommand::Send(args) => send(args, catalogue),
        GroupCommand::Tail(args) => tail(args, catalogue),
    }
}

fn send(args: &SendArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let group = find(&args.group, catalogue)?;
    let (member, mut control) = member(&group, args.via)?;
    if !args.text.is_empty() {
        send_one(&mut control, member, args.text.join(" "))?;
        output::show("sent\n")?;
        return Ok(Verdict::Held);
    }
    let mut sent = 0_u64;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
        sent += 1;
        send_one(&mut control, member, line).map_err(|failure| in_line(sent, &failure))?;
    }
    output::show(&format!("{sent} sent\n"))?;
    Ok(Verdict::Held)
}

fn send_one(control: &mut Control, member: NodeId, text: String) -> Result<(), Failure> {
    let length = text.len();
    ask(control, member, &Request::Send(text))
        .map_err(|failure| if length > 1_024 { failure.hint("send it in pieces") } else { failure })
}

/// Which line of standard input could not be sent; those before it were.
fn in_line(number: u64, failure: &Failure) -> Failure {
    let failed = Failure::new(format!("line {number} of standard input: {failure}"));
    match failure.what_to_do() {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

/// Asks a member for something.
fn ask(control: &mut Control, member: NodeId, request: &Request) -> Result<(), Failure> {
    let (words, _) = Multicasting::show(request);
    match control.call(&Ask::Wish(Wish::Ask { words })).map_err(Failure::new)? {
        Answer::Word(Word::Asked) => Ok(()),
        Answer::Word(Word::Refused { why }) | Answer::Wrong(why) => Err(Failure::new(why)),
        other => Err(Failure::new(format!("{member} answered something else: {other:?}"))),
    }
}

fn tail(args: &TailArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let group = find(&args.group, catalogue)?;
    let (member, _) = member(&group, args.via)?;
    let start = if args.all { Start::Beginning } else { Start::Now };
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut printer = Printer { json: args.json };
    let ended = follow(&|| Ok(group.connect(member)?), start, &mut |event| {
        left = left.saturating_sub(1);
        Ok(printer.show(event)? && left > 0)
    })?;
    match ended {
        Ended::Enough => Ok(Verdict::Held),
        Ended::Gone => {
            output::notice("note", &format!("{member} has ended"));
            Ok(Verdict::Failed)
        }
    }
}

/// The group of this name.
fn find(group: &GroupName, catalogue: &Catalogue) -> Result<Cluster, Failure> {
    let GroupName { name, config } = group;
    if let Some(config) = config {
        return described(config, name, catalogue);
    }
    let path = file(&home(), name)?;
    if !path.exists() {
        let names = names(&home());
        let meant = nearest(name, names.iter().map(String::as_str));
        let guess = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
        return Err(Failure::new(format!("there is no group '{name}' on this machine{guess}"))
            .hint(format!("'conclave group join {name}' begins one")));
    }
    described(&path, name, catalogue)
}

/// The group that a file describes, which has this name and runs a multicast.
fn described(file: &Path, name: &str, catalogue: &Catalogue) -> Result<Cluster, Failure> {
    let group = Cluster::of_file(file)?;
    let manifest = &group.manifest;
    if manifest.name != name {
        let sentence =
            format!("'{}' is the file of the group '{}', and not '{name}'", file.display(), manifest.name);
        return Err(Failure::new(sentence));
    }
    match catalogue.find(&manifest.algorithm) {
        Some(entry) if is_multicast(entry.about) => Ok(group),
        _ => Err(Failure::new(format!("'{name}' runs '{}', which is no multicast", manifest.algorithm))
            .hint("'conclave cluster' and 'conclave node' run any algorithm")),
    }
}

/// Whether a group can run it.
pub fn is_multicast(about: &About) -> bool {
    about.family.name == FAMILY.name
}

/// The member that was named, or the first that answers.
fn member(group: &Cluster, via: Option<NodeId>) -> Result<(NodeId, Control), Failure> {
    let name = &group.manifest.name;
    let ids = || group.manifest.processes.iter().map(|member| member.id.to_string()).collect::<Vec<_>>();
    let known = |id: &NodeId| group.manifest.processes.iter().any(|member| member.id == *id);
    if let Some(stranger) = via.filter(|id| !known(id)) {
        let sentence = format!("the group '{name}' has no {stranger}: its members are {}", ids().join(", "));
        return Err(Failure::new(sentence));
    }
    through(group, via).map_err(|_| {
        let who = via.map_or_else(|| "no member".to_owned(), |via| via.to_string());
        let verb = if via.is_some() { "does not run" } else { "runs" };
        Failure::new(format!("{who} of the group '{name}' {verb} here"))
            .hint(format!("'conclave group join {name}' starts one"))
    })
}
