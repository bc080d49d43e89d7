//! Everything that people read fits 80 columns.

use std::process::{Command, Stdio};

/// What the binary prints for a terminal of 80 columns.
fn printed(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(words)
        .env("COLUMNS", "80")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    String::from_utf8(output.stdout).expect("it prints text")
}

#[track_caller]
fn fits(words: &[&str]) {
    let text = printed(words);
    assert!(!text.is_empty(), "{words:?} prints something");
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{words:?}:\n{}", wide.join("\n"));
}

/// The commands that a help lists: those are indented by two, and its headings by nothing.
fn listed(help: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lists_commands = false;
    for line in help.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            let headings = ["Service:", "Laboratory:", "Command line:", "Commands:"];
            lists_commands = headings.contains(&line);
        } else if let Some(name) = line.strip_prefix("  ").and_then(|line| line.split(' ').next())
            && lists_commands
            && !name.is_empty()
            && name != "help"
        {
            commands.push(name.to_owned());
        }
    }
    commands
}

#[test]
fn every_help() {
    fits(&["--help"]);
    let commands = listed(&printed(&["--help"]));
    let named =
        ["serve", "lock", "example", "sim", "step", "check", "compare", "order", "cluster", "explain", "man"];
    for command in named {
        assert!(commands.iter().any(|known| known == command), "{command} among {commands:?}");
    }
    for command in &commands {
        fits(&[command, "--help"]);
        fits(&[command, "-h"]);
        for sub in listed(&printed(&[command, "--help"])) {
            fits(&[command, &sub, "--help"]);
        }
    }
}

#[test]
fn the_help_names_both_halves() {
    let help = printed(&["--help"]);
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in\n{help}"));
    assert!(place("lock and leader service") < place("Usage:") && place("laboratory") < place("Usage:"));
    assert!(place("\nService:\n") < place("\n  serve") && place("\n  status") < place("\nLaboratory:\n"));
    assert!(place("\nLaboratory:\n") < place("\n  sim") && place("\n  cert") < place("\nCommand line:\n"));
}

#[test]
fn lists_and_explanations() {
    fits(&["list"]);
    fits(&["list", "--long"]);
    fits(&["list", "--mutants"]);
    fits(&["explain"]);
    for about in conclave_algorithms::registry::all() {
        fits(&["list", about.name]);
        fits(&["explain", about.name]);
    }
    for topic in ["ME1", "ME5-TS", "E1", "END", "W3", "recovery", "mutex", "not judged", "no-tie-break"] {
        fits(&["explain", topic]);
    }
}

#[test]
fn examples_and_comparisons() {
    fits(&["example"]);
    for example in conclave_sim::examples::all() {
        fits(&["example", &example.name]);
    }
    fits(&["compare", "mutex", "-n", "2..8", "--entries", "1"]);
    fits(&["compare", "election", "-n", "2..8"]);
    fits(&["compare", "bully", "chang-roberts", "ring-list", "-n", "5"]);
    fits(&["sim", "lamport", "-n", "4", "--stamps", "vector", "--seeds", "3"]);
}

#[test]
fn reports() {
    for about in conclave_algorithms::registry::all() {
        fits(&["sim", about.name, "-n", "5"]);
        fits(&["sim", about.name, "-n", "5", "--crash", "5@20", "--diagram", "never"]);
    }
    fits(&["sim", "lamport", "-n", "3", "--channels", "any", "--seeds", "20"]);
    fits(&["sim", "token-ring", "-n", "4", "--lose-token", "5", "--set", "recovery=off"]);
    fits(&["check", "lamport", "-n", "2"]);
    fits(&["check", "bully", "-n", "2", "--crashes", "1"]);
    fits(&["check", "ricart-agrawala", "--mutant", "no-tie-break"]);
    fits(&["check", "lamport", "-n", "2", "--verify-reduction"]);
}
