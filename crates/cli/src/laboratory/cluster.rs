//! `conclave cluster`: real processes on this machine, to lock, kill, cut off and watch.

mod locked;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::{Table, presets};
use conclave_algorithms::recorded::SNAPSHOT;
use conclave_core::{Group, NodeId};
use conclave_live::cluster::{Cluster, ClusterError, Manifest, Order, create_private, free_name, home};
use conclave_live::control::{Answer, Ask, Control, Status};
use conclave_live::desk::{Standing, Wish, Word};
use conclave_live::process::told_to_stop;
use conclave_live::supervisor::{Plan, Shared, Supervisor, held, take_orders};
use conclave_net::Rest;
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::args::{self, ClusterArgs, ClusterCommand, Groups, OutputArgs, StartArgs};
use super::catalogue::Catalogue;
use super::no_such_algorithm;
use super::output;
use super::replay;
use super::sim::settings;
use crate::failure::{Failure, Verdict};

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let failure = Self::new(&error);
        match error {
            ClusterError::None | ClusterError::Unknown(_) => {
                failure.hint("'conclave cluster start ALGO' starts one, 'conclave cluster list' shows all")
            }
            ClusterError::Running(_) => failure.hint("'conclave cluster stop' ends it"),
            _ => failure,
        }
    }
}

/// Does what was asked for.
pub fn run(args: &ClusterArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let name = args.cluster.as_deref();
    if let Some(file) = &args.config {
        return command_to(&Cluster::of_file(file)?, &args.command, catalogue);
    }
    match &args.command {
        ClusterCommand::Start(start) => self::start(start, name, catalogue),
        ClusterCommand::List => list(),
        command => command_to(&Cluster::find(&home(), name)?, command, catalogue),
    }
}

/// What can be done with a cluster that is there, from its console or from elsewhere.
fn command_to(
    cluster: &Cluster,
    command: &ClusterCommand,
    catalogue: &Catalogue,
) -> Result<Verdict, Failure> {
    let order = |order| -> Result<Verdict, Failure> {
        let done = cluster.order(&order)?;
        output::show(&format!("{done}\n"))?;
        Ok(Verdict::Held)
    };
    match command {
        ClusterCommand::Start(_) | ClusterCommand::List => {
            Err(Failure::new("this is the console of one cluster; do that elsewhere"))
        }
        ClusterCommand::Status { json } => status(cluster, *json),
        ClusterCommand::Lock(args) => locked::run(cluster, args),
        ClusterCommand::Elect { via, json } => elect(cluster, *via, *json),
        ClusterCommand::Ask { process, words } => ask(cluster, *process, words),
        ClusterCommand::Snapshot { via, json } => snapshot(cluster, *via, *json),
        ClusterCommand::Tail { process, count } => tail(cluster, *process, *count),
        ClusterCommand::Kill { process } => order(Order::Kill(*process)),
        ClusterCommand::Restart { process } => order(Order::Restart(*process)),
        ClusterCommand::Pause { process } => order(Order::Pause(*process)),
        ClusterCommand::Resume { process } => order(Order::Resume(*process)),
        ClusterCommand::Stop => {
            let done = order(Order::Stop);
            let deadline = Instant::now() + Duration::from_secs(5);
            // From the console itself it ends only after this.
            let is_elsewhere = cluster.manifest.supervisor.pid != std::process::id();
            while is_elsewhere && cluster.is_running() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            done
        }
        ClusterCommand::Cut { groups: Groups(groups) } => {
            cluster.part(groups, true)?;
            output::show("cut\n")?;
            Ok(Verdict::Held)
        }
        ClusterCommand::Heal { groups } => {
            let everywhere = || cluster.manifest.processes.iter().map(|member| vec![member.id]).collect();
            let groups = groups.as_ref().map_or_else(everywhere, |Groups(groups)| groups.clone());
            cluster.part(&groups, false)?;
            output::show("healed\n")?;
            Ok(Verdict::Held)
        }
        ClusterCommand::Trace { output } => trace(cluster, output, catalogue),
    }
}

fn start(args: &StartArgs, name: Option<&str>, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    // Before anything of an earlier cluster is removed.
    let plan = plan(args, catalogue)?;
    let is_named = name.is_some();
    let name = name.map_or_else(|| free_name(&home(), &args.algo), |name| Ok(name.to_owned()))?;
    if args.detach {
        return detach(&name, is_named);
    }
    let plan = Plan { name, ..plan };
    let supervisor = Supervisor::start(&plan)?;
    output::show(&who_is_who(supervisor.manifest(), supervisor.dir()))?;
    let shared = Arc::new(Mutex::new(supervisor));
    take_orders(&shared)?;
    console(&shared, catalogue)?;
    held(&shared).stop();
    Ok(Verdict::Held)
}

/// What a cluster shall be that is yet to get its name.
pub fn plan(args: &StartArgs, catalogue: &Catalogue) -> Result<Plan, Failure> {
    let entry = catalogue.find(&args.algo).ok_or_else(|| no_such_algorithm(&args.algo, catalogue))?;
    let members = args::members(args.ids.as_ref(), args.n, 3)?;
    if members.len() > 64 {
        return Err(Failure::new("more than 64 processes on one machine are left to the simulator"));
    }
    let settings = settings(&args.set, &[])?;
    (entry.fits)(entry.about, &settings, &members).map_err(Failure::new)?;
    let program = std::env::current_exe().map_err(|error| Failure::new(format!("where am I? {error}")))?;
    Ok(Plan {
        home: home(),
        name: String::new(),
        algorithm: args.algo.clone(),
        ids: members.iter().collect(),
        settings,
        record: !args.no_record,
        transmission: args.transmission,
        suspect_after: args.suspect_after,
        clocks: args.clock.clone(),
        program,
    })
}

/// Starts the same in the background, and waits until it is up.
fn detach(name: &str, is_named: bool) -> Result<Verdict, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("it cannot be started: {error}"));
    // Its log must not overwrite that of one that runs, or be written anywhere else.
    match Cluster::find(&home(), Some(name)) {
        Ok(cluster) if cluster.is_running() => return Err(ClusterError::Running(name.to_owned()).into()),
        Err(error @ ClusterError::Name(_)) => return Err(error.into()),
        _ => {}
    }
    let log = home().join(format!("{name}.log"));
    create_private(&home()).map_err(failed)?;
    // Not the old one: it may be a link to anywhere.
    let _ = std::fs::remove_file(&log);
    let out = std::fs::File::create_new(&log).map_err(failed)?;
    let mut words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--detach").collect();
    if !is_named {
        words.extend(["--cluster".into(), name.into()]);
    }
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = std::process::Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(out.try_clone().map_err(failed)?).stderr(out);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(failed)?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Ok(Some(_)) = child.try_wait() {
            let words = std::fs::read_to_string(&log).unwrap_or_default();
            let why = words.lines().rev().find_map(|line| line.strip_prefix("error: "));
            return Err(Failure::new(why.or(words.lines().last()).unwrap_or("it ended at once")));
        }
        let is_ours = |cluster: &Cluster| cluster.manifest.supervisor.pid == child.id();
        let found = Cluster::find(&home(), Some(name)).ok().filter(is_ours);
        let is_up = |cluster: &Cluster| cluster.order(&Order::Answer).is_ok();
        if let Some(cluster) = found.filter(is_up) {
            let dir = home().join(name);
            output::show(&who_is_who(&cluster.manifest, &dir))?;
            return Ok(Verdict::Held);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    Err(Failure::new(format!("it did not come up; see {}", log.display())))
}

fn who_is_who(manifest: &Manifest, dir: &Path) -> String {
    let mut text = format!(
        "{} · {} processes · cluster {}\n\n",
        manifest.algorithm.bold(),
        manifest.processes.len(),
        manifest.name.bold()
    );
    for member in &manifest.processes {
        let pid = member.living.map_or_else(|| "down".into(), |living| format!("pid {}", living.pid));
        text += &format!("  {:<5} {pid:<12} {}\n", member.id.to_string(), member.address);
    }
    text + &format!("\n  files in {}\n", dir.display())
}

/// A line typed into the console.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_version_flag = true)]
struct Typed {
    #[command(subcommand)]
    command: ClusterCommand,
}

/// Reads what is typed until everything is to end.
fn console(shared: &Shared, catalogue: &Catalogue) -> Result<(), Failure> {
    let is_typed = std::io::stdin().is_terminal();
    if is_typed {
        output::show(
            "\ntype 'help' to see what can be done here; 'stop', Ctrl-C or Ctrl-D end all processes\n",
        )?;
    }
    let name = held(shared).manifest().name.clone();
    let (done_in, done) = std::sync::mpsc::channel();
    let typing = done_in.clone();
    let obeying = Arc::new(Mutex::new(()));
    let busy = Arc::clone(&obeying);
    let catalogue = catalogue.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _busy = busy.lock();
            obey(&name, &line, &catalogue);
        }
        // Without a terminal there never was anybody to type.
        if is_typed {
            let _ = typing.send(());
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("signals cannot be heard: {error}")))?;
    std::thread::spawn(move || {
        runtime.block_on(told_to_stop(false));
        let _ = done_in.send(());
    });
    while done.recv_timeout(Duration::from_millis(100)).is_err() {
        if held(shared).is_over() {
            // Who typed it is to read what came of it.
            drop(obeying.lock());
            break;
        }
    }
    Ok(())
}

fn obey(name: &str, line: &str, catalogue: &Catalogue) {
    if line.trim().is_empty() {
        return;
    }
    let done = match Typed::try_parse_from(line.split_whitespace()) {
        Ok(typed) => Cluster::find(&home(), Some(name))
            .map_err(Failure::from)
            .and_then(|cluster| command_to(&cluster, &typed.command, catalogue)),
        Err(error) => {
            let _ = error.print();
            return;
        }
    };
    if let Err(failure) = done {
        failure.print();
    }
}

fn list() -> Result<Verdict, Failure> {
    let mut text = String::new();
    for cluster in Cluster::all(&home())? {
        let Manifest { name, algorithm, processes, .. } = &cluster.manifest;
        let state = if cluster.is_running() { "running" } else { "ended" };
        text += &format!("{name}  {algorithm}  {} processes  {state}\n", processes.len());
    }
    output::show(if text.is_empty() { "there are no clusters\n" } else { &text })?;
    Ok(Verdict::Held)
}

fn status(cluster: &Cluster, json: bool) -> Result<Verdict, Failure> {
    let statuses: Vec<(NodeId, Option<Status>)> =
        cluster.manifest.processes.iter().map(|member| (member.id, cluster.status(member.id).ok())).collect();
    let all_up = statuses.iter().all(|(_, status)| status.is_some());
    if json {
        let processes: Vec<_> = statuses
            .iter()
            .map(|(id, status)| json!({ "id": id, "up": status.is_some(), "status": status }))
            .collect();
        let Manifest { name, algorithm, .. } = &cluster.manifest;
        output::show_json(&json!({ "cluster": name, "algorithm": algorithm, "processes": processes }))?;
        return Ok(Verdict::of(all_up));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "", "pid", "life", "links", "suspects", "cut off", "served", "now", "messages", "overhead",
    ]);
    for (id, status) in &statuses {
        match status {
            Some(status) => table.add_row(row(status)),
            None => table.add_row(vec![id.to_string(), "down".into()]),
        };
    }
    let groups = groups(&statuses);
    output::show(&format!(
        "{} · cluster {}\n\n{table}\n{groups}",
        cluster.manifest.algorithm, cluster.manifest.name
    ))?;
    Ok(Verdict::of(all_up))
}

/// How the processes see their group, those who see the same in one line.
fn groups(statuses: &[(NodeId, Option<Status>)]) -> String {
    let mut seen: Vec<(&Group, Vec<NodeId>)> = Vec::new();
    for (id, group) in
        statuses.iter().filter_map(|(id, status)| Some((*id, status.as_ref()?.group.as_ref()?)))
    {
        match seen.iter_mut().find(|(known, _)| *known == group) {
            Some((_, ids)) => ids.push(id),
            None => seen.push((group, vec![id])),
        }
    }
    let lines = seen.iter().map(|(group, ids)| format!("{}: {}\n", listed(ids), group_text(group)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn group_text(group: &Group) -> String {
    let Group { epoch, roll, member, leader, called_by } = group;
    let mut text = format!("epoch {epoch} of {}", listed(roll));
    text += &leader.map_or(", led by nobody".into(), |leader| format!(", led by {leader}"));
    if !member {
        text += ", left out";
    }
    if let Some(caller) = called_by {
        text += &format!(", {caller} calls the roll");
    }
    text
}

fn listed(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn row(status: &Status) -> Vec<String> {
    let those = |which: &dyn Fn(&conclave_live::control::PeerStatus) -> bool| {
        let peers = status.peers.iter().filter(|(_, peer)| which(peer)).map(|(id, _)| id.to_string());
        peers.collect::<Vec<_>>().join(",")
    };
    let connected = status.peers.values().filter(|peer| peer.connected).count();
    let carried = status.peers.values().filter(|peer| peer.via.is_some()).count();
    let carried = if carried > 0 { format!(", {carried} carried") } else { String::new() };
    let desk = &status.desk;
    let mut now: Vec<String> = desk
        .locks
        .iter()
        .map(|lock| match lock.fence {
            Some(fence) => format!("in {} ({fence}), {} wait", lock.name, lock.waiting),
            None => format!("{} wait for {}", lock.waiting, lock.name),
        })
        .collect();
    if !desk.leaders.is_empty() {
        let leaders: Vec<_> = desk.leaders.iter().map(ToString::to_string).collect();
        now.push(format!("led by {}", leaders.join(",")));
    }
    now.extend(desk.last.as_deref().map(shortened));
    vec![
        status.id.to_string(),
        status.pid.to_string(),
        status.life.to_string(),
        format!("{connected} of {}{carried}", status.peers.len()),
        those(&|peer| peer.suspected),
        those(&|peer| peer.cut),
        desk.served.to_string(),
        now.join("; "),
        status.messages.values().sum::<u64>().to_string(),
        status.overhead_messages.values().sum::<u64>().to_string(),
    ]
}

/// As much of what was told as a column has room for.
fn shortened(told: &str) -> String {
    const ROOM: usize = 48;
    let mut text: String = told.chars().take(ROOM).collect();
    if text.len() < told.len() {
        text.push('…');
    }
    text
}

/// A connection to the process that was named, or to the first that answers: one that stands still does not.
pub fn through(cluster: &Cluster, via: Option<NodeId>) -> Result<(NodeId, Control), Failure> {
    const PATIENCE: Duration = Duration::from_secs(1);
    if let Some(via) = via {
        return Ok((via, cluster.connect(via)?));
    }
    let answers = |id: NodeId| -> Option<Control> {
        let mut control = cluster.connect(id).ok()?;
        control.ask(&Ask::Status).ok()?;
        control.answer(Some(PATIENCE)).ok().flatten().map(|_| control)
    };
    let members = cluster.manifest.processes.iter();
    let mut answering = members.filter_map(|member| Some((member.id, answers(member.id)?)));
    answering.next().ok_or_else(|| Failure::new("no process of the cluster is up"))
}

fn elect(cluster: &Cluster, via: Option<NodeId>, json: bool) -> Result<Verdict, Failure> {
    let (via, mut control) = through(cluster, via)?;
    control.ask(&Ask::Wish(Wish::Elect)).map_err(Failure::new)?;
    match elected(&mut control)? {
        Some(Answer::Word(Word::Elected { leaders, term })) => {
            if json {
                output::show_json(&json!({ "via": via, "leaders": leaders, "term": term }))?;
            } else {
                let names: Vec<_> = leaders.iter().map(ToString::to_string).collect();
                let term = if term > 0 { format!(", term {term}") } else { String::new() };
                output::show(&format!("{}{term}\n", names.join(",")))?;
            }
            Ok(Verdict::Held)
        }
        Some(Answer::Word(Word::Refused { why }) | Answer::Wrong(why)) => Err(Failure::new(why)),
        Some(other) => Err(Failure::new(format!("{via} answered something else: {other:?}"))),
        None => {
            output::notice("note", "nobody was elected within a minute");
            Ok(Verdict::Failed)
        }
    }
}

/// Waits for the outcome. Where everybody agrees already, some algorithms tell nothing new: then it is what it was.
fn elected(control: &mut Control) -> Result<Option<Answer>, Failure> {
    let patience = Duration::from_secs(5);
    for _ in 0..12 {
        if let Some(answer) = control.answer(Some(patience)).map_err(Failure::new)? {
            return Ok(Some(answer));
        }
        match control.call(&Ask::Status).map_err(Failure::new)? {
            Answer::Status(status) if !status.desk.leaders.is_empty() => {
                let Standing { leaders, term, .. } = status.desk;
                return Ok(Some(Answer::Word(Word::Elected { leaders, term })));
            }
            Answer::Status(_) => {}
            // The outcome, after all.
            other => return Ok(Some(other)),
        }
    }
    Ok(None)
}

fn ask(cluster: &Cluster, process: NodeId, words: &[String]) -> Result<Verdict, Failure> {
    let mut control = cluster.connect(process)?;
    match control.call(&Ask::Wish(Wish::Ask { words: words.join(" ") })).map_err(Failure::new)? {
        Answer::Word(Word::Asked) => {
            output::show("asked\n")?;
            Ok(Verdict::Held)
        }
        Answer::Word(Word::Refused { why }) | Answer::Wrong(why) => Err(Failure::new(why)),
        other => Err(Failure::new(format!("{process} answered something else: {other:?}"))),
    }
}

/// Takes a global snapshot, and says what it shows. It ends although processes are down, once they are suspected.
fn snapshot(cluster: &Cluster, via: Option<NodeId>, json: bool) -> Result<Verdict, Failure> {
    let (via, mut control) = through(cluster, via)?;
    let refused = |why| {
        Failure::new(why).hint("snapshots are taken where a cluster was started with --set snapshots=on")
    };
    match control.call(&Ask::Wish(Wish::Ask { words: SNAPSHOT.into() })).map_err(Failure::new)? {
        Answer::Word(Word::Asked) => {}
        Answer::Word(Word::Refused { why }) | Answer::Wrong(why) => return Err(refused(why)),
        other => return Err(Failure::new(format!("{via} answered something else: {other:?}"))),
    }
    match control.answer(Some(Duration::from_secs(60))).map_err(Failure::new)? {
        Some(Answer::Word(Word::Event { text })) => {
            let lines: Vec<&str> = text.lines().collect();
            match json {
                true => output::show_json(
                    &json!({ "via": via, "verdict": lines.first(), "cut": lines.get(1..) }),
                )?,
                false => output::show(&format!("{}\n", lines.join("\n  ")))?,
            }
            Ok(Verdict::Held)
        }
        Some(other) => Err(Failure::new(format!("{via} answered something else: {other:?}"))),
        None => Err(Failure::new("no snapshot was complete within a minute")),
    }
}

/// Prints events as they happen. When the process goes away there is nothing more to print.
fn tail(cluster: &Cluster, process: NodeId, count: Option<u64>) -> Result<Verdict, Failure> {
    let mut control = cluster.connect(process)?;
    control.ask(&Ask::Tail).map_err(Failure::new)?;
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        match control.answer(None).map_err(Failure::new)? {
            Some(Answer::Word(Word::Event { text })) => {
                output::show(&format!("{text}\n"))?;
                left -= 1;
            }
            Some(Answer::Done) | None => {}
            Some(other) => return Err(Failure::new(format!("{process} answered something else: {other:?}"))),
        }
    }
    Ok(Verdict::Held)
}

fn trace(cluster: &Cluster, output: &OutputArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    if !cluster.manifest.record {
        return Err(Failure::new("this cluster was started with --no-record"));
    }
    let copies = tempfile::tempdir().map_err(Failure::new)?;
    let merged =
        conclave_net::merge_all(&cluster.collect(copies.path())?, cluster.running()).map_err(Failure::new)?;
    let verdict = replay::live(&cluster.manifest.name, &merged.trace, output, catalogue)?;
    for rest in &merged.rest {
        let Rest { process, lines, needs } = rest;
        let lines = if *lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
        let why =
            if merged.running.contains(needs) { "was read too early for" } else { "ends too early for" };
        let note = format!(
            "the record of {needs} {why} {lines} at the end of that of {process}: they are not judged"
        );
        output::notice("note", &note);
    }
    Ok(if merged.torn().is_empty() { verdict } else { Verdict::Failed })
}
