//! An example with real processes: the same requests and crashes, and everything else as the network does it.

use std::time::{Duration, Instant};

use conclave_core::NodeId;
use conclave_live::cluster::{Cluster, Order};
use conclave_live::control::{Answer, Ask};
use conclave_live::desk::{Wish, Word};
use conclave_live::supervisor::{Plan, Supervisor};
use conclave_sim::examples::Example;
use conclave_trace::{Carry, Command};

use super::super::args::OutputArgs;
use super::super::catalogue::Catalogue;
use super::super::{no_such_algorithm, output, replay};
use crate::failure::{Failure, Verdict};

/// Time-outs of the processes follow from this; on one machine a message takes far less.
const TRANSMISSION: Duration = Duration::from_millis(50);
/// Where processes crash, the others shall notice soon; where none does, a busy machine must not make them believe it.
const SUSPECT_AFTER: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(1)];
/// Nothing was sent for so long: all time-outs are over, and whoever is down has been noticed.
const REST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// What is done to real processes.
enum Deed {
    Ask(NodeId, String),
    Order(Order),
    Wait,
}

/// Plays an example with real processes, and judges what they did.
pub fn run(example: &Example, output: &OutputArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let Some(setup) = example.script.setup() else { return Err(Failure::new("the script has no `run`")) };
    let name = example.algorithm();
    let entry = catalogue.find(name).ok_or_else(|| no_such_algorithm(name, catalogue))?;
    let deeds = deeds(example)?;
    let members = conclave_core::Members::listed(setup.nodes.clone());
    (entry.fits)(entry.about, &setup.settings, &members).map_err(|error| unfit(&error.to_string()))?;
    let crashes = deeds.iter().any(|deed| matches!(deed, Deed::Order(Order::Kill(_))));
    let home =
        tempfile::tempdir().map_err(|error| Failure::new(format!("there is no room for files: {error}")))?;
    let program = std::env::current_exe().map_err(|error| Failure::new(format!("where am I? {error}")))?;
    let plan = Plan {
        home: home.path().to_owned(),
        name: "example".into(),
        algorithm: name.to_owned(),
        ids: setup.nodes.clone(),
        settings: setup.settings.clone(),
        record: true,
        transmission: TRANSMISSION,
        suspect_after: SUSPECT_AFTER[usize::from(crashes)],
        clocks: Vec::new(),
        program,
    };
    let mut supervisor = Supervisor::start(&plan)?;
    let done = Stage { supervisor: &mut supervisor, home: home.path() }.play(&deeds);
    // Before they are stopped: that they end is no part of the example.
    let merged = done.and_then(|()| {
        let records = Cluster::find(home.path(), Some("example"))?.records()?;
        conclave_net::merge(&records).map_err(Failure::new)
    });
    supervisor.stop();
    let merged = merged?;
    replay::live(&example.name, &merged, output, catalogue)
}

fn unfit(why: &str) -> Failure {
    Failure::new(format!("this example cannot be played with real processes: {why}"))
}

/// What can be done to real processes of what the script says. Deliveries, time-outs and suspicions happen by themselves.
fn deeds(example: &Example) -> Result<Vec<Deed>, Failure> {
    let mut deeds = Vec::new();
    let commands = example.script.blocks.iter().flat_map(|block| &block.commands);
    for (command, _) in commands {
        let deed = match command {
            Command::Run(setup) if setup.mutant.is_some() => {
                return Err(unfit("mutants are for the simulator only"));
            }
            Command::Run(setup) if setup.channels.is_some() => {
                return Err(unfit("its channels cannot be chosen"));
            }
            Command::Run(_) | Command::Show(_) => continue,
            Command::Ask { process, request, .. } => Deed::Ask(*process, request.clone()),
            Command::Crash(process) => Deed::Order(Order::Kill(*process)),
            Command::Restart { process, amnesia: false } => Deed::Order(Order::Restart(*process)),
            Command::Carry { what: Carry::Deliver, .. }
            | Command::Settle
            | Command::Timer { .. }
            | Command::Suspect { .. }
            | Command::Trust { .. }
            | Command::Wait(_) => Deed::Wait,
            command => return Err(unfit(&format!("nobody can make the network do `{command}`"))),
        };
        // To wait twice is to wait once.
        if !matches!((&deed, deeds.last()), (Deed::Wait, Some(Deed::Wait))) {
            deeds.push(deed);
        }
    }
    deeds.push(Deed::Wait);
    Ok(deeds)
}

struct Stage<'a> {
    supervisor: &'a mut Supervisor,
    home: &'a std::path::Path,
}

impl Stage<'_> {
    fn play(&mut self, deeds: &[Deed]) -> Result<(), Failure> {
        for deed in deeds {
            match deed {
                Deed::Ask(process, words) => {
                    self.ask(*process, words)?;
                    output::notice("live", &format!("{process} is asked: {words}"));
                }
                Deed::Order(order) => {
                    let done = self.supervisor.obey(*order)?;
                    output::notice("live", &done);
                }
                Deed::Wait => self.wait_for_rest()?,
            }
        }
        Ok(())
    }

    fn cluster(&self) -> Result<Cluster, Failure> {
        Ok(Cluster::find(self.home, Some("example"))?)
    }

    fn ask(&self, process: NodeId, words: &str) -> Result<(), Failure> {
        let mut control = self.cluster()?.connect(process)?;
        let wish = Wish::Ask { words: words.to_owned() };
        match control.call(&Ask::Wish(wish)).map_err(Failure::new)? {
            Answer::Word(Word::Asked) => Ok(()),
            Answer::Word(Word::Refused { why }) | Answer::Wrong(why) => Err(unfit(&why)),
            other => Err(Failure::new(format!("{process} answered something else: {other:?}"))),
        }
    }

    /// Until nobody sends anything of the algorithm any more.
    fn wait_for_rest(&self) -> Result<(), Failure> {
        let cluster = self.cluster()?;
        let sent = || -> u64 {
            let members = cluster.manifest.processes.iter();
            let statuses = members.filter_map(|member| cluster.status(member.id).ok());
            statuses.map(|status| status.messages.values().sum::<u64>()).sum()
        };
        let deadline = Instant::now() + PATIENCE;
        let (mut last, mut since) = (sent(), Instant::now());
        while since.elapsed() < REST && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            let now = sent();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }
}
