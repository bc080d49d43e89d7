//! Any text, read as a trace: it is read or refused; what is read writes to the same trace; what is small enough is
//! drawn in every format and run again.

#![no_main]

use conclave_sim::play;
use conclave_trace::{
    Axis, Block, Command, DiagramOptions, Script, Setup, Stamps, SvgOptions, Trace, commands_of, diagram,
    mermaid, shiviz, svg,
};
use libfuzzer_sys::{Corpus, fuzz_target};

/// What is larger is read and written, but neither drawn nor run.
const MOST_RECORDS: usize = 200;
const MOST_NODES: usize = 16;
// Up to 4,096 are allowed; running lays out a table per lock, and the fuzzer shall not spend its time on that.
const MOST_LOCKS: usize = 16;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    let Ok(trace) = Trace::read_jsonl(text) else { return Corpus::Keep };
    let written = write(&trace);
    let again = Trace::read_jsonl(&written).expect("a written trace can be read");
    assert_eq!(again, trace, "written as:\n{written}");
    if trace.records.len() <= MOST_RECORDS && trace.header.nodes.len() <= MOST_NODES {
        draw(&trace);
        if trace.header.locks <= MOST_LOCKS {
            run_again(&trace);
        }
    }
    Corpus::Keep
});

fn write(trace: &Trace) -> String {
    let mut bytes = Vec::new();
    trace.write_jsonl(&mut bytes).expect("memory takes everything");
    String::from_utf8(bytes).expect("JSON is text")
}

/// The options go with the length of the trace: every record more tries other ones, and a drawing costs only once.
fn draw(trace: &Trace) {
    let turn = trace.records.len();
    let stamps = [Stamps::None, Stamps::Lamport, Stamps::Vector][turn % 3];
    let axis = [Axis::Time, Axis::Step][turn % 2];
    let _ = svg(trace, &SvgOptions { stamps, axis, ..SvgOptions::default() });
    let _ = (shiviz(trace), mermaid(trace));
    let width = [0, 1, 20, 100][turn % 4];
    let (ascii, colour) = (turn % 2 == 0, turn % 3 == 0);
    let _ = diagram(trace, &DiagramOptions { ascii, colour, width, max_lines: turn % 5 });
}

fn run_again(trace: &Trace) {
    let setup = Setup::from_header(&trace.header);
    let commands =
        [Command::Run(setup)].into_iter().chain(commands_of(trace)).map(|command| (command, 0)).collect();
    let block = Block { commands, ..Block::default() };
    // The algorithm of the header may not exist, and a record may not be possible at its place.
    let _ = play(&Script { blocks: vec![block] });
}
