//! `conclave group join`: one member, in this terminal.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conclave_algorithms::multicast::Request;
use conclave_core::NodeId;
use conclave_live::cluster::ClusterError;
use conclave_live::config::ProcessConfig;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::group::{file, found, home, remove};
use conclave_live::process::{ProcessError, told_to_stop};
use conclave_live::supervisor::Plan;
use conclave_net::{Address, StartError, StoreError};
use tokio::sync::Notify;

use super::super::args::{JoinArgs, StartArgs};
use super::super::catalogue::{Catalogue, Entry};
use super::super::cluster::plan;
use super::follow::{Start, follow};
use super::shown::Printer;
use super::{ask, described, is_multicast, output};
use crate::failure::{Failure, Verdict, nearest};

/// What the orders are called by, and the algorithm for each.
pub const ORDERS: [(&str, &str); 5] = [
    ("basic", "basic"),
    ("reliable", "reliable"),
    ("fifo", "fifo"),
    ("causal", "causal"),
    ("total", "sequencer"),
];
/// Who is a member at first, as a setting: nobody, since members come when they are started.
const MEMBERS: (&str, &str) = ("group", "nobody");
/// How long who leaves waits until the others have been told.
const LEAVING: Duration = Duration::from_secs(2);

/// Runs a member until Ctrl-C.
pub fn run(args: &JoinArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let name = &args.group.name;
    let path = match &args.group.config {
        Some(path) => path.clone(),
        None => begin(args, catalogue)?,
    };
    let group = described(&path, name, catalogue)?;
    let ids: Vec<NodeId> = group.manifest.processes.iter().map(|member| member.id).collect();
    let wanted = match (args.id, args.listen) {
        (Some(id), _) => vec![id],
        (None, Some(listen)) => {
            let here = group.manifest.processes.iter().filter(|member| member.address == listen.into());
            here.map(|member| member.id).collect()
        }
        (None, None) => ids.clone(),
    };
    for id in &wanted {
        let config = ProcessConfig::read_as(&path, Some(id.0)).map_err(Failure::new)?;
        match run_member(&config, args, catalogue)? {
            Some(verdict) => return Ok(verdict),
            None if wanted.len() == 1 => {
                let sentence = format!("{id} of the group '{name}' runs already");
                return Err(Failure::new(sentence)
                    .hint(format!("'conclave group tail {name}' prints what it delivers")));
            }
            None => {}
        }
    }
    Err(Failure::new(format!("all {} members of the group '{name}' run already", ids.len())).hint(format!(
        "'conclave group join {name} --new -n N' begins one of another size, once they have left"
    )))
}

/// The file of the group on this machine, which is written if there is none.
fn begin(args: &JoinArgs, catalogue: &Catalogue) -> Result<PathBuf, Failure> {
    let name = &args.group.name;
    if args.new {
        remove(&home(), name).map_err(|error| match error {
            ClusterError::Refused(_) => Failure::from(error).hint("a group begins anew when all have left"),
            other => other.into(),
        })?;
    }
    let path = file(&home(), name)?;
    if !path.exists() {
        let addresses = addresses(args)?;
        let plan = founding(args, addresses.as_ref().map(Vec::len), catalogue)?;
        found(&plan, addresses.map(|all| all.into_iter().map(Address::from).collect()))?;
    }
    // Somebody else may have been first.
    let config = ProcessConfig::read_as(&path, Some(1)).map_err(Failure::new)?;
    match difference(args, &config, catalogue)? {
        None => Ok(path),
        Some((has, wanted)) => Err(Failure::new(format!("the group '{name}' has {has}, and not {wanted}"))
            .hint("leave the option out, or begin anew with --new")),
    }
}

/// Where all members listen, if that is given: in an order that is the same for all.
fn addresses(args: &JoinArgs) -> Result<Option<Vec<SocketAddr>>, Failure> {
    let Some(listen) = args.listen else { return Ok(None) };
    let all: BTreeSet<SocketAddr> = args.peers.iter().copied().chain([listen]).collect();
    if let Some(outside) = all.iter().find(|address| !address.ip().is_loopback()) {
        return Err(Failure::new(format!("{outside} is an address of other machines, too"))
            .hint("for several machines write a file, and give it with --config: docs/groups.md"));
    }
    if let Some(unknown) = all.iter().find(|address| address.port() == 0) {
        return Err(Failure::new(format!("nobody could find {unknown}: a port is needed")));
    }
    if all.len() <= args.peers.len() {
        return Err(Failure::new("an address is given twice; --peers are those of the others"));
    }
    Ok(Some(all.into_iter().collect()))
}

/// What a group shall be that does not exist yet.
fn founding(args: &JoinArgs, addresses: Option<usize>, catalogue: &Catalogue) -> Result<Plan, Failure> {
    let entry = ordered(args.order.as_deref().unwrap_or("total"), catalogue)?;
    let mut set = args.set.clone();
    let (key, value) = MEMBERS;
    let has_members = entry.about.settings.iter().any(|setting| setting.key == key);
    if has_members && !set.iter().any(|(given, _)| given == key) {
        set.push((key.into(), value.into()));
    }
    let start = StartArgs {
        algo: entry.about.name.to_owned(),
        n: addresses.and_then(|count| u32::try_from(count).ok()).or(args.n),
        ids: None,
        set,
        transmission: args.transmission.unwrap_or(Duration::from_millis(50)),
        suspect_after: args.suspect_after.unwrap_or(Duration::from_millis(500)),
        clock: Vec::new(),
        no_record: args.no_record,
        detach: false,
    };
    Ok(Plan { home: home(), name: args.group.name.clone(), ..plan(&start, catalogue)? })
}

/// The algorithm for an order.
fn ordered(order: &str, catalogue: &Catalogue) -> Result<Entry, Failure> {
    let named = ORDERS.iter().find(|(name, _)| *name == order).map_or(order, |(_, algorithm)| algorithm);
    let hint = "--order takes basic, reliable, fifo, causal, total, or a multicast of 'conclave list'";
    match catalogue.find(named) {
        Some(entry) if is_multicast(entry.about) => Ok(entry),
        Some(entry) => {
            Err(Failure::new(format!("'{}' is no multicast: {}", order, entry.about.family.title)).hint(hint))
        }
        None => {
            let algorithms = catalogue.all().into_iter().filter(|about| is_multicast(about));
            let known = ORDERS.iter().map(|(name, _)| *name).chain(algorithms.map(|about| about.name));
            let meant = nearest(order, known).map(|meant| format!("; did you mean '{meant}'?"));
            let guess = meant.unwrap_or_default();
            Err(Failure::new(format!("there is no order '{order}'{guess}")).hint(hint))
        }
    }
}

/// In what the group is another one than was asked for: what it has, and what was wanted.
fn difference(
    args: &JoinArgs,
    config: &ProcessConfig,
    catalogue: &Catalogue,
) -> Result<Option<(String, String)>, Failure> {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut differs = Vec::new();
    let mut compare = |has: String, wanted: String| {
        if has != wanted {
            differs.push((has, wanted));
        }
    };
    if let Some(order) = &args.order {
        let wanted = ordered(order, catalogue)?.about.name;
        compare(format!("'{}'", config.algorithm), format!("'{wanted}'"));
    }
    if let Some(n) = args.n {
        compare(format!("-n {}", config.peers.len()), format!("-n {n}"));
    }
    for (key, wanted) in &args.set {
        let has = config.settings.get(key).map_or("its default", String::as_str);
        compare(format!("{key}={has}"), format!("{key}={wanted}"));
    }
    if let Some(wanted) = addresses(args)? {
        let has = list(config.peers.iter().map(|peer| &peer.address));
        compare(format!("members at {has}"), format!("members at {}", list(&wanted)));
    }
    if let Some(wanted) = args.transmission {
        compare(
            format!("--transmission {}ms", config.transmission_ms),
            format!("--transmission {}ms", ms(wanted)),
        );
    }
    if let Some(wanted) = args.suspect_after {
        compare(
            format!("--suspect-after {}ms", config.suspect_after_ms),
            format!("--suspect-after {}ms", ms(wanted)),
        );
    }
    if args.no_record && config.record {
        differs.push(("records".into(), "none".into()));
    }
    Ok(differs.into_iter().next())
}

fn list(addresses: impl IntoIterator<Item = impl ToString>) -> String {
    let all: BTreeSet<String> = addresses.into_iter().map(|address| address.to_string()).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// Runs this member until it is told to stop; nothing if somebody else is it.
fn run_member(
    config: &ProcessConfig,
    args: &JoinArgs,
    catalogue: &Catalogue,
) -> Result<Option<Verdict>, Failure> {
    let entry = catalogue.find(&config.algorithm);
    let entry = entry.ok_or_else(|| super::super::no_such_algorithm(&config.algorithm, catalogue))?;
    // Only the first of several that are tried succeeds.
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    let _ = log.with_writer(io::stderr).with_ansi(false).try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no threads can be had: {error}")))?;
    let unread = Arc::new(Notify::new());
    let talking: std::sync::Mutex<Option<JoinHandle<Result<(), Failure>>>> = std::sync::Mutex::default();
    let ready = || {
        let talk = Talk { data: config.data.clone(), quiet: args.quiet, json: args.json };
        let unread = Arc::clone(&unread);
        output::notice("note", &introduction(config));
        let thread = std::thread::spawn(move || {
            let talked = talk.run();
            unread.notify_one();
            talked
        });
        *talking.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(thread);
    };
    let stop = async {
        tokio::select! {
            () = told_to_stop(false) => {}
            () = unread.notified() => {}
        }
        let data = config.data.clone();
        let id = NodeId(config.id);
        // A member that cannot leave ends, which comes to the same.
        let _ = tokio::task::spawn_blocking(move || leave(&data, id)).await;
    };
    let ended = runtime.block_on((entry.run)(config, Box::pin(stop), &ready));
    runtime.shutdown_background();
    let thread = talking.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let talked = thread.map(JoinHandle::join);
    match (ended, talked) {
        (Err(error), None) if is_taken(&error) => Ok(None),
        (Err(error), None) => Err(Failure::new(error)),
        (Err(error), Some(_)) => {
            Failure::new(error).print();
            Ok(Some(Verdict::Failed))
        }
        (Ok(()), Some(Ok(Err(failure)))) => Err(failure),
        (Ok(()), _) => Ok(Some(Verdict::Held)),
    }
}

/// Whether somebody else is this member.
fn is_taken(error: &ProcessError) -> bool {
    match error {
        ProcessError::Start(StartError::Listen { error, .. }) => error.kind() == io::ErrorKind::AddrInUse,
        ProcessError::Start(StartError::Store(StoreError::InUse(_))) => true,
        _ => false,
    }
}

fn introduction(config: &ProcessConfig) -> String {
    let ProcessConfig { cluster, algorithm, id, .. } = config;
    format!(
        "this is p{id} of the group '{cluster}' ({algorithm}), which joins when it has met another member, or in 5 s; \
         Ctrl-C leaves"
    )
}

/// What is said to a member, and what it tells.
struct Talk {
    data: PathBuf,
    quiet: bool,
    json: bool,
}

impl Talk {
    /// Joins the group and prints what is delivered, until the member ends or nobody reads any more.
    fn run(&self) -> Result<(), Failure> {
        let connect = || Control::connect(&self.data).map_err(Failure::new);
        let id = match connect()?.call(&Ask::Status).map_err(Failure::new)? {
            Answer::Status(status) => status.id,
            other => return Err(Failure::new(format!("the member answered something else: {other:?}"))),
        };
        // Nobody has asked it for anything yet, and it tells nothing by itself.
        ask(&mut connect()?, id, &Request::Join)?;
        let mut printer = Printer { json: self.json };
        follow(&connect, Start::Beginning, &mut |event| {
            if self.quiet { Ok(true) } else { printer.show(event) }
        })
        .map(drop)
    }
}

/// Leaves the group, and waits until the others have been told.
fn leave(data: &Path, id: NodeId) -> Result<(), Failure> {
    let mut control = Control::connect(data).map_err(Failure::new)?;
    let before = said(&mut control)?;
    ask(&mut control, id, &Request::Leave)?;
    let deadline = Instant::now() + LEAVING;
    while before.is_some() && said(&mut control)? == before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// How many messages a member has sent; nothing if there is nobody to whom it could.
fn said(control: &mut Control) -> Result<Option<u64>, Failure> {
    match control.call(&Ask::Status).map_err(Failure::new)? {
        Answer::Status(status) => {
            let is_alone = status.peers.values().all(|peer| !peer.connected);
            Ok((!is_alone).then(|| status.messages.values().chain(status.overhead_messages.values()).sum()))
        }
        other => Err(Failure::new(format!("the member answered something else: {other:?}"))),
    }
}
