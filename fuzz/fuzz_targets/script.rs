//! Any text, read as a script: it parses or is refused; what parses prints to the same script; what is small enough is
//! played.

#![no_main]

use conclave_trace::{Script, Setup};
use libfuzzer_sys::{Corpus, fuzz_target};

/// What is larger is parsed and printed, but not played.
const MOST_PROCESSES: usize = 8;
const MOST_COMMANDS: usize = 200;
// Up to 4,096 are allowed; playing lays out a table per lock, and the fuzzer shall not spend its time on that.
const MOST_LOCKS: usize = 16;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else { return Corpus::Reject };
    if asks_for_a_crowd(text) {
        return Corpus::Reject;
    }
    let Ok(script) = Script::parse(text) else { return Corpus::Keep };
    let printed = script.to_string();
    let again = Script::parse(&printed).expect("a printed script parses");
    assert_eq!(without_lines(again), without_lines(script.clone()), "printed as:\n{printed}");
    if is_small(&script) {
        // An error is an answer; a panic is not.
        let _ = conclave_sim::play(&script);
    }
    Corpus::Keep
});

/// Whether a word of the text is a number that `-n` accepts but that takes long to lay out: up to a million processes
/// are allowed, and none above a handful is played.
fn asks_for_a_crowd(text: &str) -> bool {
    text.split_whitespace().any(|word| word.parse().is_ok_and(|n: u32| (1_000..=1_000_000).contains(&n)))
}

fn is_small(script: &Script) -> bool {
    let commands: usize = script.blocks.iter().map(|block| block.commands.len()).sum();
    let fits = |setup: &Setup| setup.nodes.len() <= MOST_PROCESSES && setup.locks <= MOST_LOCKS;
    commands <= MOST_COMMANDS && script.setup().is_some_and(fits)
}

/// Printing joins what stood apart, so the commands change their lines.
fn without_lines(mut script: Script) -> Script {
    for (_, line) in script.blocks.iter_mut().flat_map(|block| &mut block.commands) {
        *line = 0;
    }
    script
}
