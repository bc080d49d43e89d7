//! The commands that show and repair: `ls`, `show`, `why`, `observe`, `release`, `sessions`, `token`.

use conclave_client::v1::{self, why_request::Of};
use conclave_client::{Client, Code, Error, Leader, Observed, SessionOptions};
use serde_json::{Value, json};

use super::args::{LsArgs, OfArgs, ReleaseArgs, SessionsArgs, ShowArgs, TokenAction, TokenArgs, WhyArgs};
use super::table::{Table, wrap};
use super::{UNAVAILABLE, client, run_client, unanswered};
use crate::failure::{Failure, Verdict, one_line};
use crate::output;

/// Holders and waiters that are shown unless all are asked for.
const SHOWN: u32 = 20;
/// Where the second line of a sentence begins.
const INDENT: usize = 11;
/// The exit code where the service answers, but not what was asked for.
const REFUSED: u8 = 124;

/// How a command ends that got no answer.
async fn failed(client: &Client, error: &Error) -> Result<Verdict, Failure> {
    match error {
        Error::Unavailable(_) | Error::SessionOver(_) => {
            unanswered(client, error).await.print();
            Ok(Verdict::Code(UNAVAILABLE))
        }
        Error::Endpoint(_) => Err(Failure::new(error)),
        _ => {
            Failure::new(error).print();
            Ok(Verdict::Code(REFUSED))
        }
    }
}

/// Shows the names in use.
pub fn ls(args: &LsArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        if args.watch {
            return watch(&client, args).await;
        }
        let listed = match args.all {
            true => client.list_all(&args.prefix).await,
            false => client.list(&args.prefix).await,
        };
        let names = match listed {
            Ok(names) => names,
            Err(error) => return failed(&client, &error).await,
        };
        if args.json {
            output::show(
                &names.iter().map(|summary| format!("{}\n", summary_json(summary))).collect::<String>(),
            )?;
        } else if names.is_empty() {
            output::show("no names are in use\n")?;
        } else {
            output::show(&table(&names).render(output::terminal_width()))?;
        }
        Ok(Verdict::Held)
    })
}

/// Shows what changes, for as long as there is somebody to see it.
async fn watch(client: &Client, args: &LsArgs) -> Result<Verdict, Failure> {
    let mut watcher = if args.all { client.watch_all(&args.prefix) } else { client.watch(&args.prefix) };
    loop {
        let news = match watcher.next().await {
            Ok(Some(news)) => news,
            Ok(None) => continue,
            Err(error) => return failed(client, &error).await,
        };
        if !output::show_to_reader(&news_text(&news, args.json))? {
            return Ok(Verdict::Held);
        }
    }
}

fn news_text(news: &v1::WatchResponse, is_json: bool) -> String {
    let named = news.names.iter().map(|summary| match is_json {
        true => format!("{}\n", summary_json(summary)),
        false => format!("{}\n", one_line(&line(summary))),
    });
    let gone = news.gone.iter().map(|name| match is_json {
        true => format!("{}\n", json!({ "name": name, "gone": true })),
        false => format!("{}: forgotten\n", one_line(name)),
    });
    named.chain(gone).collect()
}

fn line(summary: &v1::Summary) -> String {
    let held = match &summary.first {
        None => summary.delayed_for_ms.map_or_else(|| "free".to_owned(), delay_text),
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

fn table(names: &[v1::Summary]) -> Table {
    let mut table =
        Table::new(&["NAME", "KIND", "HELD BY", "TOKEN", "FOR", "WAITING"]).elastic(&["HELD BY", "NAME"]);
    for summary in names {
        let first = summary.first.as_ref();
        let more =
            if summary.holders > 1 { format!(" and {} more", summary.holders - 1) } else { String::new() };
        table.row([
            summary.name.clone(),
            kind(summary).to_owned(),
            first.map_or_else(|| nobody(summary), |first| who(first) + &more),
            first.map_or_else(|| "-".to_owned(), |first| first.token.to_string()),
            first.map_or_else(|| "-".to_owned(), |first| age(first.held_for_ms)),
            summary.waiters.to_string(),
        ]);
    }
    table
}

/// What stands where a holder would.
fn nobody(summary: &v1::Summary) -> String {
    summary.delayed_for_ms.map_or_else(|| "-".to_owned(), |ms| format!("nobody: {}", delay_text(ms)))
}

/// Why nobody is granted what nobody holds.
pub(super) fn delay_text(ms: u64) -> String {
    format!("in its lock delay for another {} (its last holder was lost)", age(ms))
}

fn kind(summary: &v1::Summary) -> &'static str {
    if summary.is_election { "leader" } else { "lock" }
}

pub(super) fn who(holder: &v1::Holder) -> String {
    owner(holder.owner.as_ref(), holder.session)
}

/// Somebody, as people say it: `backup on web1 (vm pid 5096)`.
fn owner(owner: Option<&v1::Owner>, session: u64) -> String {
    let place = owner.map_or_else(Vec::new, |owner| {
        [&owner.label, &owner.host].into_iter().filter(|part| !part.is_empty()).cloned().collect()
    });
    let process = owner.map_or_else(Vec::new, |owner| {
        let pid = (owner.pid > 0).then(|| format!("pid {}", owner.pid));
        [Some(owner.user.clone()).filter(|user| !user.is_empty()), pid].into_iter().flatten().collect()
    });
    let text = match (place.join(" on "), process.join(" ")) {
        (place, process) if place.is_empty() && process.is_empty() => format!("session {session:016x}"),
        (place, process) if process.is_empty() => place,
        (place, process) if place.is_empty() => process,
        (place, process) => format!("{place} ({process})"),
    };
    // Others chose these words.
    one_line(&text)
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
pub fn show(args: &ShowArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let shown = match args.all || args.json {
            true => client.show(&args.name).await,
            false => client.show_first(&args.name, SHOWN).await,
        };
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => return failed(&client, &error).await,
        };
        let Some(shown) = shown else {
            if args.json {
                output::show_json(&Value::Null)?;
            } else {
                output::show(&format!(
                    "'{}' is free: no holder, no waiters, no history\n",
                    one_line(&args.name)
                ))?;
            }
            return Ok(Verdict::Failed);
        };
        if args.json {
            output::show_json(&shown_json(&shown))?;
        } else {
            output::show(&shown_text(&shown, output::terminal_width()))?;
        }
        Ok(Verdict::Held)
    })
}

fn shown_text(shown: &v1::ShowResponse, width: Option<usize>) -> String {
    let summary = shown.summary.clone().unwrap_or_default();
    let mut lines = vec![format!("{} ({})", summary.name, kind(&summary))];
    if let Some(value) = &shown.value {
        lines.push(format!("  value    {}", String::from_utf8_lossy(value).escape_debug()));
    }
    match shown.delayed_for_ms {
        Some(delay) if summary.holders == 0 => {
            lines.push(format!("  held by nobody: {}", delay_text(delay)));
        }
        Some(delay) => lines.push(format!("  {}", delay_text(delay))),
        None if summary.holders == 0 => lines.push("  held by nobody".to_owned()),
        None => {}
    }
    lines.extend(shown.holders.iter().map(holder_text));
    let more = summary.holders as usize - shown.holders.len().min(summary.holders as usize);
    if more > 0 {
        lines.push(format!("  and {more} more hold it: --all shows them"));
    }
    lines.extend((1..).zip(&shown.queue).map(|(place, waiter)| waiter_text(place, waiter)));
    let more = summary.waiters as usize - shown.queue.len().min(summary.waiters as usize);
    if more > 0 {
        lines.push(format!("  and {more} more wait: --all shows them"));
    }
    lines.extend(shown.history.iter().map(past_text));
    lines.iter().map(|line| wrap(line, INDENT, width)).collect()
}

fn holder_text(holder: &v1::Holder) -> String {
    let often = if holder.depth > 1 { format!(", {} times", holder.depth) } else { String::new() };
    format!(
        "  held by  {}, {}{often}, token {}, for {}, session {:016x} lives another {}",
        who(holder),
        mode(holder.mode),
        holder.token,
        age(holder.held_for_ms),
        holder.session,
        age(holder.expires_in_ms),
    )
}

fn waiter_text(place: usize, waiter: &v1::Waiter) -> String {
    let limit = waiter.gives_up_in_ms.map_or_else(String::new, |ms| format!(", gives up in {}", age(ms)));
    let priority =
        if waiter.priority == 0 { String::new() } else { format!(", priority {}", waiter.priority) };
    let others = if waiter.names.len() > 1 {
        let names: Vec<String> = waiter.names.iter().map(|name| format!("'{name}'")).collect();
        format!(", wants all of {}", names.join(" "))
    } else {
        String::new()
    };
    format!(
        "  {place:>7}. {}, {}, waits for {}{limit}{priority}{others}, session {:016x}",
        owner(waiter.owner.as_ref(), waiter.session),
        mode(waiter.mode),
        age(waiter.waited_for_ms),
        waiter.session,
    )
}

fn past_text(past: &v1::Past) -> String {
    format!(
        "  before   {}, token {}, for {}, {} {} ago",
        owner(past.owner.as_ref(), past.session),
        past.token,
        age(past.held_for_ms),
        one_line(&past.how),
        age(past.ended_ms_ago),
    )
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
        let asked = async {
            let found = client.why(of.clone()).await?;
            let delay = delay_behind(&client, &of, &found.chain).await?;
            Ok((found, delay))
        };
        let (found, delay) = match asked.await {
            Ok(found) => found,
            Err(error) => return failed(&client, &error).await,
        };
        let is_explained = !found.chain.is_empty() || delay.is_some();
        let steps = || found.chain.iter().zip(&found.obstacles);
        if args.json {
            output::show_json(&steps().map(wait_json).collect::<Vec<_>>())?;
        } else if !is_explained {
            let of = one_line(&args.of);
            let text = match is_session {
                true => format!("session '{of}' waits for nothing\n"),
                false => format!("nobody waits for '{of}'\n"),
            };
            output::show(&text)?;
        } else {
            let width = output::terminal_width();
            let lines = steps().map(step_text).chain(delay);
            output::show(&lines.map(|line| wrap(&line, INDENT, width)).collect::<String>())?;
        }
        Ok(Verdict::of(is_explained))
    })
}

/// The lock delay at the end of a chain, or of one that nobody is in: then nobody is in the way, and yet nobody is served.
async fn delay_behind(client: &Client, of: &Of, chain: &[v1::Wait]) -> Result<Option<String>, Error> {
    let waiter = match (chain.last(), of) {
        (Some(last), _) if last.holds => return Ok(None),
        (Some(last), _) => Of::Session(last.behind),
        (None, of) => of.clone(),
    };
    let names: Vec<String> = match waiter {
        Of::Name(name) => vec![name],
        Of::Session(session) => {
            let shown = client.show_session(session).await?.unwrap_or_default();
            shown.waiting.into_iter().flat_map(|waiting| waiting.names).collect()
        }
    };
    for name in names {
        let summary = client.show_first(&name, 1).await?.and_then(|shown| shown.summary).unwrap_or_default();
        if let Some(ms) = summary.delayed_for_ms.filter(|_| summary.waiters > 0) {
            return Ok(Some(format!("'{}' is {}", one_line(&name), delay_text(ms))));
        }
    }
    Ok(None)
}

fn step_text((wait, obstacle): (&v1::Wait, &v1::Obstacle)) -> String {
    let behind = owner(obstacle.owner.as_ref(), wait.behind);
    let since = age(obstacle.since_ms);
    let behind = match wait.holds {
        true => format!("held by {behind} for {since}, token {}", obstacle.token),
        false => format!("behind {behind}, who has waited for {since}"),
    };
    let who = owner(wait.owner.as_ref(), wait.session);
    format!("{who}, session {:016x}, waits for '{}', {behind}", wait.session, one_line(&wait.name))
}

/// Follows the leader of a name, for as long as there is somebody to see it.
pub fn observe(args: &OfArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let mut observer = client.observe(&args.name);
        loop {
            let seen = match observer.next().await {
                Ok(seen) => seen,
                Err(error) => return failed(&client, &error).await,
            };
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
            owner(Some(&leader.owner.clone().into()), leader.session),
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
        let session = match session {
            Ok(session) => session,
            Err(error) => return failed(&client, &error).await,
        };
        let forced = session.force(&args.name, args.token, &args.reason).await;
        // The session ends by itself if this gets lost.
        let _ = session.close().await;
        match forced {
            Ok(()) => {
                output::show(&format!("'{}' was taken from its holder\n", one_line(&args.name)))?;
                Ok(Verdict::Held)
            }
            Err(Error::Refused(refusal)) if is_not_held(refusal.code) => {
                Failure::new(&refusal.text).print();
                Ok(Verdict::Failed)
            }
            Err(error) => failed(&client, &error).await,
        }
    })
}

/// Lists the sessions, or ends one.
pub fn sessions(args: &SessionsArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        match (args.end, &args.reason) {
            (Some(other), Some(reason)) => end_session(&client, other, reason).await,
            _ => list_sessions(&client, args.json).await,
        }
    })
}

async fn list_sessions(client: &Client, is_json: bool) -> Result<Verdict, Failure> {
    let sessions = match client.sessions().await {
        Ok(sessions) => sessions,
        Err(error) => return failed(client, &error).await,
    };
    if is_json {
        let line = |line: &v1::SessionLine| {
            let shown = json!({
                "session": session_json(line.session),
                "owner": owner_json(line.owner.as_ref()),
                "ttl_ms": line.ttl_ms,
                "expires_in_ms": line.expires_in_ms,
                "held": line.held,
                "waiting": line.waiting,
            });
            format!("{shown}\n")
        };
        output::show(&sessions.iter().map(line).collect::<String>())?;
    } else if sessions.is_empty() {
        output::show("there are no sessions\n")?;
    } else {
        let mut table =
            Table::new(&["SESSION", "OWNER", "TTL", "LIVES", "HOLDS", "WAITS"]).elastic(&["OWNER"]);
        for line in &sessions {
            table.row(vec![
                format!("{:016x}", line.session),
                owner(line.owner.as_ref(), line.session),
                age(line.ttl_ms.into()),
                age(line.expires_in_ms),
                line.held.to_string(),
                line.waiting.to_string(),
            ]);
        }
        output::show(&table.render(output::terminal_width()))?;
    }
    Ok(Verdict::Held)
}

async fn end_session(client: &Client, other: u64, reason: &str) -> Result<Verdict, Failure> {
    let session = match client.session(SessionOptions::default().label("conclave sessions --end")).await {
        Ok(session) => session,
        Err(error) => return failed(client, &error).await,
    };
    let ended = session.end(other, reason).await;
    // The session ends by itself if this gets lost.
    let _ = session.close().await;
    match ended {
        Ok(()) => {
            output::show(&format!("session {other:016x} was ended\n"))?;
            Ok(Verdict::Held)
        }
        Err(error) if error.code() == Some(Code::NoSuchSession) => {
            Failure::new(error).print();
            Ok(Verdict::Failed)
        }
        Err(error) => failed(client, &error).await,
    }
}

/// Tells what a token is worth.
pub fn token(args: &TokenArgs) -> Result<Verdict, Failure> {
    let TokenAction::Check(args) = &args.action;
    run_client(async {
        let client = client(&args.endpoints)?;
        let answer = match client.check(&args.name, args.token).await {
            Ok(answer) => answer,
            Err(error) => return failed(&client, &error).await,
        };
        let (word, text) = standing(&answer, &one_line(&args.name), args.token);
        let newest = (answer.newest != 0).then_some(answer.newest);
        let shown = match args.json {
            true => json!({ "name": args.name, "token": args.token, "standing": word, "newest": newest })
                .to_string(),
            false => text,
        };
        output::show(&format!("{shown}\n"))?;
        Ok(if word == "held" { Verdict::Held } else { Verdict::Failed })
    })
}

/// What a token is worth, in a word and in a sentence.
fn standing(answer: &v1::CheckResponse, name: &str, token: u64) -> (&'static str, String) {
    use v1::check_response::Standing;
    match answer.standing() {
        Standing::Held => ("held", format!("token {token} holds '{name}'")),
        Standing::Released => (
            "released",
            format!("token {token} of '{name}' was given back or lost, and nobody was granted it since"),
        ),
        Standing::Stale => {
            ("stale", format!("token {token} of '{name}' is stale: {} was granted since", answer.newest))
        }
        Standing::Unknown | Standing::Unspecified => {
            ("unknown", format!("the service knows of no token {token} of '{name}'"))
        }
    }
}

/// Whether there is nothing to be taken: not from anybody, or not under this token.
fn is_not_held(code: Code) -> bool {
    matches!(code, Code::Free | Code::NotHeld)
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
        "delayed_for_ms": summary.delayed_for_ms,
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

fn leader_json(leader: &Leader) -> Value {
    json!({
        "session": session_json(leader.session),
        "owner": owner_json(Some(&leader.owner.clone().into())),
        "term": leader.term,
        "value": String::from_utf8_lossy(&leader.value),
    })
}

fn wait_json((wait, obstacle): (&v1::Wait, &v1::Obstacle)) -> Value {
    json!({
        "session": session_json(wait.session),
        "owner": owner_json(wait.owner.as_ref()),
        "name": wait.name,
        "behind": session_json(wait.behind),
        "behind_owner": owner_json(obstacle.owner.as_ref()),
        "behind_for_ms": obstacle.since_ms,
        "behind_token": wait.holds.then_some(obstacle.token),
        "holds": wait.holds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_not_held() {
        assert!(is_not_held(Code::Free) && is_not_held(Code::NotHeld));
        for code in [Code::Other, Code::NoSession, Code::Limit, Code::Invalid] {
            assert!(!is_not_held(code), "{code:?}");
        }
    }
}
