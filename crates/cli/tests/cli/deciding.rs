//! Consensus on the command line, and what its page shows.

use super::{conclave, line};

const PAGE: &str = include_str!("../../../../docs/consensus.md");

/// The words of a command; what stands in quotes is one word.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        match place % 2 {
            1 => words.push(part),
            _ => words.extend(part.split_whitespace()),
        }
    }
    words
}

/// Every command of the page with its output beside it prints these lines, and ends as its verdict says.
#[test]
fn the_page_shows_what_comes_out() {
    let shown: Vec<_> = PAGE.split("```text\n$ conclave ").skip(1).collect();
    assert!(shown.len() >= 8, "{} commands", shown.len());
    for block in shown {
        let block = block.split("```").next().unwrap_or(block);
        let (command, expected) = block.split_once('\n').expect("a command and its output");
        let is_broken = expected.contains('✗');
        let out = conclave(&words(command)).ends(i32::from(is_broken)).out;
        for expected in expected.lines() {
            assert!(out.contains(expected.trim()), "{command} does not print '{expected}':\n{out}");
        }
    }
}

#[test]
fn proposals_are_words() {
    let page = line("list paxos-log").ends(0).out;
    assert!(page.contains("propose [VALUE]") && page.contains("no-stable-storage"), "{page}");
    let refused = conclave(&["sim", "paxos", "--ask", "1 propose much"]).ends(2).err;
    assert!(refused.contains("it has: propose [VALUE]"), "{refused}");
    // Names of properties that are wider than their column keep their distance.
    let page = line("sim flood-set -n 3").ends(0).out;
    assert!(page.contains("✓ TERMINATION all who take part decide"), "{page}");
}
