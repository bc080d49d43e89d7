//! What the processes wrote down, put together, played again and judged.

use std::path::PathBuf;

use conclave_algorithms::Finding;
use conclave_sim::Played;
use conclave_trace::{Block, Command, Record, Script, Setup, Trace, What, commands_of};

/// What was found.
pub struct Judged {
    /// Whether somebody was called dead who lived: then two may have been inside, and the fence has to do.
    pub is_misled: bool,
}

/// Merges records, plays them, and insists on what the algorithm promises about safety.
#[track_caller]
pub fn judge(records: &[PathBuf]) -> Judged {
    let played = play(records);
    assert_eq!(played.violation, None);
    let safety = ["ME1", "FENCE", "RES", "TOK"];
    for judgement in played.judgements.iter().filter(|judgement| judgement.promised) {
        let is_broken = matches!(judgement.finding, Finding::Broken(_));
        assert!(!(is_broken && safety.contains(&judgement.property)), "{judgement:?}");
    }
    let alone = played.judgements.iter().find(|judgement| judgement.property == "ME1").expect("it is judged");
    Judged { is_misled: !alone.promised }
}

/// Merges records and plays them; the same must come out, message by message as far as applications can tell.
#[track_caller]
pub fn play(records: &[PathBuf]) -> Played {
    let trace = conclave_net::merge(records).expect("the records fit together");
    let run = Command::Run(Setup::from_header(&trace.header));
    let commands = core::iter::once(run).chain(commands_of(&trace)).zip(1..).collect();
    let script = Script { blocks: vec![Block { commands, ..Block::default() }] };
    let played = conclave_sim::play(&script).expect("what happened can happen");
    assert_eq!(events(&played.trace), events(&trace), "it came out differently");
    played
}

/// What applications were told.
fn events(trace: &Trace) -> Vec<(Option<u32>, &What)> {
    let told = |record: &&Record| matches!(record.what, What::Event { .. });
    trace.records.iter().filter(told).map(|record| (record.process.map(|id| id.0), &record.what)).collect()
}
