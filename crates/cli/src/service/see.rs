//! The commands that show and mend: `ls`, `show`, `why`, `observe`, `release`, `status`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{Table, presets};
use conclave_client::v1::{self, why_request::Of};
use conclave_client::{Client, Error, Observed, SessionOptions};
use serde_json::{Value, json};

use super::args::{LsArgs, OfArgs, ReleaseArgs, StatusArgs, WhyArgs};
use super::{client, run_client};
use crate::failure::{Failure, Verdict, one_line};
use crate::output;

fn failure(error: &Error) -> Failure {
    let failure = Failure::new(error);
    match error {
        Error::Unavailable(_) => {
            failure.hint("is it running? 'conclave serve' starts it; --endpoints says where it is")
        }
        _ => failure,
    }
}

/// Shows the names in use.
pub fn ls(args: &LsArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        if args.watch {
            return watch(&client, args).await;
        }
        let names = client.list(&args.prefix).await.map_err(|error| failure(&error))?;
        if args.json {
            for summary in &names {
                output::show_json(&summary_json(summary))?;
            }
        } else if names.is_empty() {
            output::show("no names are in use\n")?;
        } else {
            output::show(&table(names.iter()))?;
        }
        Ok(Verdict::Held)
    })
}

/// Shows what changes, for as long as there is somebody to see it.
async fn watch(client: &Client, args: &LsArgs) -> Result<Verdict, Failure> {
    let mut watcher = client.watch(&args.prefix);
    loop {
        let Some(news) = watcher.next().await.map_err(|error| failure(&error))? else { continue };
        if !output::show_to_reader(&news_text(&news, args.json))? {
            return Ok(Verdict::Held);
        }
    }
}

fn news_text(news: &v1::WatchResponse, is_json: bool) -> String {
    let named = news.names.iter().map(|summary| match is_json {
        true => format!("{}\n", summary_json(summary)),
        false => format!("{}\n", line(summary)),
    });
    let gone = news.gone.iter().map(|name| match is_json {
        true => format!("{}\n", json!({ "name": name, "gone": true })),
        false => format!("{name}: forgotten\n"),
    });
    named.chain(gone).collect()
}

fn line(summary: &v1::Summary) -> String {
    let held = match &summary.first {
        None => "free".to_owned(),
        Some(first) if summary.holders > 1 => {
            format!("held by {} and {} more", who(first), summary.holders - 1)
        }
        Some(first) => format!("held by {}, token {}", who(first), first.token),
    };
    match summary.waiters {
        0 => format!("{}: {held}", summary.name),
        waiters => format!("{}: {held}, {waiters} waiting", summary.name),
    }
}

fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    table
}

fn table<'a>(names: impl Iterator<Item = &'a v1::Summary>) -> String {
    let mut table = plain_table(&["NAME", "KIND", "HELD BY", "TOKEN", "FOR", "WAITING"]);
    for summary in names {
        let first = summary.first.as_ref();
        let more =
            if summary.holders > 1 { format!(" and {} more", summary.holders - 1) } else { String::new() };
        table.add_row([
            summary.name.clone(),
            kind(summary).to_owned(),
            first.map_or_else(|| "-".to_owned(), |first| who(first) + &more),
            first.map_or_else(|| "-".to_owned(), |first| first.token.to_string()),
            first.map_or_else(|| "-".to_owned(), |first| age(first.held_for_ms)),
            summary.waiters.to_string(),
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

fn kind(summary: &v1::Summary) -> &'static str {
    if summary.is_election { "leader" } else { "lock" }
}

pub(super) fn who(holder: &v1::Holder) -> String {
    owner(holder.owner.as_ref(), holder.session)
}

fn owner(owner: Option<&v1::Owner>, session: u64) -> String {
    let Some(owner) = owner else { return format!("{session:016x}") };
    let place = match (owner.user.as_str(), owner.host.as_str()) {
        ("", "") => format!("session {session:016x}"),
        ("", host) => host.to_owned(),
        (user, host) => format!("{user}@{host}"),
    };
    let pid = if owner.pid > 0 { format!(" pid {}", owner.pid) } else { String::new() };
    let label = if owner.label.is_empty() { String::new() } else { format!(" ({})", owner.label) };
    // Others chose these words.
    one_line(&format!("{place}{pid}{label}"))
}

/// A duration, as people say it.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

fn mode(mode: Option<v1::Mode>) -> String {
    let mode = mode.unwrap_or_default();
    match mode.kind() {
        v1::mode::Kind::Exclusive => "exclusive".to_owned(),
        v1::mode::Kind::Shared => "shared".to_owned(),
        v1::mode::Kind::Permits => format!("{} of {} permits", mode.count, mode.limit),
    }
}

/// Shows everything about a name.
pub fn show(args: &OfArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let Some(shown) = client.show(&args.name).await.map_err(|error| failure(&error))? else {
            if args.json {
                output::show_json(&Value::Null)?;
            } else {
                output::show(&format!("nobody holds {} or waits for it, or has lately\n", args.name))?;
            }
            return Ok(Verdict::Failed);
        };
        if args.json {
            output::show_json(&shown_json(&shown))?;
        } else {
            output::show(&shown_text(&shown))?;
        }
        Ok(Verdict::Held)
    })
}

fn shown_text(shown: &v1::ShowResponse) -> String {
    let summary = shown.summary.clone().unwrap_or_default();
    let mut text = format!("{} ({})\n", summary.name, kind(&summary));
    if let Some(value) = &shown.value {
        let _ = writeln!(text, "  value    {}", String::from_utf8_lossy(value).escape_debug());
    }
    if let Some(delay) = shown.delayed_for_ms {
        let _ = writeln!(text, "  nobody gets it for another {}: its holder was lost", age(delay));
    }
    if shown.holders.is_empty() {
        text.push_str("  held by nobody\n");
    }
    for holder in &shown.holders {
        let often = if holder.depth > 1 { format!(", {} times", holder.depth) } else { String::new() };
        let _ = writeln!(
            text,
            "  held by  {}, {}{often}, token {}, for {}, session {:016x} lives another {}",
            who(holder),
            mode(holder.mode),
            holder.token,
            age(holder.held_for_ms),
            holder.session,
            age(holder.expires_in_ms),
        );
    }
    for (index, waiter) in shown.queue.iter().enumerate() {
        let limit = waiter.gives_up_in_ms.map_or_else(String::new, |ms| format!(", gives up in {}", age(ms)));
        let priority =
            if waiter.priority == 0 { String::new() } else { format!(", priority {}", waiter.priority) };
        let others = if waiter.names.len() > 1 {
            format!(", wants all of {}", waiter.names.join(" "))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "  {:>7}. {}, {}, waits for {}{limit}{priority}{others}, session {:016x}",
            index + 1,
            owner(waiter.owner.as_ref(), waiter.session),
            mode(waiter.mode),
            age(waiter.waited_for_ms),
            waiter.session,
        );
    }
    for past in &shown.history {
        let _ = writeln!(
            text,
            "  before   {}, token {}, for {}, {} {} ago",
            owner(past.owner.as_ref(), past.session),
            past.token,
            age(past.held_for_ms),
            one_line(&past.how),
            age(past.ended_ms_ago),
        );
    }
    text
}

/// Shows what somebody waits for.
pub fn why(args: &WhyArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let is_session = args.of.len() == 16 && args.of.bytes().all(|byte| byte.is_ascii_hexdigit());
        let of = match u64::from_str_radix(&args.of, 16) {
            Ok(session) if is_session => Of::Session(session),
            _ => Of::Name(args.of.clone()),
        };
        let chain = client.why(of).await.map_err(|error| failure(&error))?;
        if args.json {
            output::show_json(&chain.iter().map(wait_json).collect::<Vec<_>>())?;
        } else if chain.is_empty() {
            output::show(&format!("nobody waits for {0}, and no session {0} waits\n", args.of))?;
        } else {
            output::show(&chain.iter().map(step).collect::<String>())?;
        }
        Ok(Verdict::of(!chain.is_empty()))
    })
}

fn step(wait: &v1::Wait) -> String {
    let verb = if wait.holds { "held by" } else { "for which it stands behind" };
    format!(
        "{} (session {:016x}) waits for {}, {verb} session {:016x}\n",
        owner(wait.owner.as_ref(), wait.session),
        wait.session,
        wait.name,
        wait.behind
    )
}

/// Follows the leader of a name, for as long as there is somebody to see it.
pub fn observe(args: &OfArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let mut observer = client.observe(&args.name);
        loop {
            let seen = observer.next().await.map_err(|error| failure(&error))?;
            if !output::show_to_reader(&seen_text(&seen, args.json))? {
                return Ok(Verdict::Held);
            }
        }
    })
}

fn seen_text(seen: &Observed, is_json: bool) -> String {
    match &seen.leader {
        leader if is_json => {
            let leader = leader.as_ref().map(leader_json);
            format!("{}\n", json!({ "revision": seen.revision, "leader": leader }))
        }
        None => "nobody leads\n".to_owned(),
        Some(leader) => format!(
            "{} leads in term {}: {}\n",
            owner(leader.owner.as_ref(), leader.session),
            leader.term,
            String::from_utf8_lossy(&leader.value).escape_debug()
        ),
    }
}

/// Takes a name from whoever holds it.
pub fn release(args: &ReleaseArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let session = client.session(SessionOptions::default().label("conclave release")).await;
        let session = session.map_err(|error| failure(&error))?;
        let forced = session.force(&args.name, args.token, &args.reason).await;
        // The session ends by itself if this gets lost.
        let _ = session.close().await;
        match forced {
            Ok(()) => {
                output::show(&format!("{} was taken from whoever held it\n", args.name))?;
                Ok(Verdict::Held)
            }
            Err(Error::Refused(refusal)) => {
                output::notice("note", &refusal.text);
                Ok(Verdict::Failed)
            }
            Err(error) => Err(failure(&error)),
        }
    })
}

/// Shows how the nodes are.
pub fn status(args: &StatusArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let seen = ask_all(&client).await;
        let is_served = seen.values().any(|answer| matches!(answer, Ok(status) if status.leader != 0));
        if args.json {
            let nodes: Vec<Value> =
                seen.iter().map(|(address, answer)| status_json(address, answer.as_ref())).collect();
            output::show_json(&json!({ "served": is_served, "nodes": nodes }))?;
        } else {
            output::show(&status_text(&seen))?;
        }
        Ok(Verdict::of(is_served))
    })
}

/// Asks the endpoints, and the nodes of which they tell.
async fn ask_all(client: &Client) -> BTreeMap<String, Result<v1::StatusResponse, Error>> {
    let mut open = client.endpoints().to_vec();
    let mut seen = BTreeMap::new();
    while let Some(address) = open.pop() {
        if seen.contains_key(&address) {
            continue;
        }
        let answer = client.status(&address).await;
        if let Ok(status) = &answer {
            open.extend(status.members.iter().map(|member| member.address.clone()));
        }
        seen.insert(address, answer);
    }
    seen
}

fn status_text(seen: &BTreeMap<String, Result<v1::StatusResponse, Error>>) -> String {
    let mut table =
        plain_table(&["NODE", "ADDRESS", "STATE", "TERM", "LOG", "APPLIED", "SESSIONS", "HELD", "WAITING"]);
    for (address, answer) in seen {
        match answer {
            Err(error) => {
                table.add_row(["?".to_owned(), address.clone(), error.to_string()]);
            }
            Ok(status) => {
                let state = match status.leader {
                    0 => "looks for a leader".to_owned(),
                    leader if leader == status.node => "leads".to_owned(),
                    leader => format!("follows {leader}"),
                };
                let numbers = [
                    status.term,
                    status.last_log,
                    status.applied,
                    status.sessions,
                    status.held,
                    status.waiting,
                ];
                let mut row = vec![status.node.to_string(), address.clone(), state];
                row.extend(numbers.iter().map(ToString::to_string));
                table.add_row(row);
            }
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn status_json(address: &str, answer: Result<&v1::StatusResponse, &Error>) -> Value {
    match answer {
        Err(error) => json!({ "address": address, "error": error.to_string() }),
        Ok(status) => json!({
            "address": address,
            "node": status.node,
            "leader": status.leader,
            "term": status.term,
            "last_log": status.last_log,
            "applied": status.applied,
            "sessions": status.sessions,
            "names": status.names,
            "held": status.held,
            "waiting": status.waiting,
            "grants": status.grants,
            "version": status.version,
        }),
    }
}

fn owner_json(owner: Option<&v1::Owner>) -> Value {
    let owner = owner.cloned().unwrap_or_default();
    json!({ "host": owner.host, "pid": owner.pid, "user": owner.user, "label": owner.label })
}

fn session_json(session: u64) -> Value {
    Value::String(format!("{session:016x}"))
}

fn holder_json(holder: &v1::Holder) -> Value {
    json!({
        "session": session_json(holder.session),
        "owner": owner_json(holder.owner.as_ref()),
        "token": holder.token,
        "mode": mode(holder.mode),
        "depth": holder.depth,
        "held_for_ms": holder.held_for_ms,
        "expires_in_ms": holder.expires_in_ms,
    })
}

fn summary_json(summary: &v1::Summary) -> Value {
    json!({
        "name": summary.name,
        "kind": kind(summary),
        "holders": summary.holders,
        "waiters": summary.waiters,
        "first": summary.first.as_ref().map(holder_json),
        "newest_token": summary.newest,
    })
}

fn shown_json(shown: &v1::ShowResponse) -> Value {
    let summary = shown.summary.clone().unwrap_or_default();
    let queue = shown.queue.iter().map(|waiter| {
        json!({
            "session": session_json(waiter.session),
            "owner": owner_json(waiter.owner.as_ref()),
            "mode": mode(waiter.mode),
            "priority": waiter.priority,
            "waited_for_ms": waiter.waited_for_ms,
            "gives_up_in_ms": waiter.gives_up_in_ms,
            "names": waiter.names,
        })
    });
    let history = shown.history.iter().map(|past| {
        json!({
            "session": session_json(past.session),
            "owner": owner_json(past.owner.as_ref()),
            "token": past.token,
            "held_for_ms": past.held_for_ms,
            "ended_ms_ago": past.ended_ms_ago,
            "how": past.how,
        })
    });
    json!({
        "name": summary.name,
        "kind": kind(&summary),
        "holders": shown.holders.iter().map(holder_json).collect::<Vec<_>>(),
        "queue": queue.collect::<Vec<_>>(),
        "history": history.collect::<Vec<_>>(),
        "value": shown.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned()),
        "delayed_for_ms": shown.delayed_for_ms,
    })
}

fn leader_json(leader: &v1::Leader) -> Value {
    json!({
        "session": session_json(leader.session),
        "owner": owner_json(leader.owner.as_ref()),
        "term": leader.term,
        "value": String::from_utf8_lossy(&leader.value),
    })
}

fn wait_json(wait: &v1::Wait) -> Value {
    json!({
        "session": session_json(wait.session),
        "owner": owner_json(wait.owner.as_ref()),
        "name": wait.name,
        "behind": session_json(wait.behind),
        "holds": wait.holds,
    })
}
