//! The page shows this crate and what comes out of it, and nothing else.

use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/own-algorithm.md");
const FILES: [&str; 3] =
    [include_str!("../src/lib.rs"), include_str!("../src/main.rs"), include_str!("worlds.rs")];

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let mark = format!("```{language}\n");
    PAGE.split(mark.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_block_of_the_page_stands_in_a_file() {
    let blocks = blocks("rust");
    assert!(blocks.len() > 5, "the page has code");
    for block in blocks {
        assert!(FILES.iter().any(|file| file.contains(block)), "no file has this:\n{block}");
    }
}

/// A command is shown with what it prints; `…` stands for lines that are left out.
#[test]
fn every_command_of_the_page_prints_what_is_shown() {
    let shown: String = blocks("console").concat();
    let commands: Vec<&str> = shown.split("$ porter ").skip(1).collect();
    assert!(commands.len() > 3, "the page has commands");
    for command in commands {
        let (line, expected) = command.split_once('\n').expect("a command and what it prints");
        let output = Command::new(env!("CARGO_BIN_EXE_porter"))
            .args(line.split_whitespace())
            .env("COLUMNS", "120")
            .stdin(Stdio::null())
            .output()
            .expect("the program runs");
        let printed = String::from_utf8(output.stdout).expect("it prints text");
        let mut rest: Vec<&str> = printed.lines().collect();
        let mut may_skip = false;
        for wanted in expected.lines() {
            if wanted == "…" {
                may_skip = true;
                continue;
            }
            let at = rest.iter().position(|line| *line == wanted);
            let at = at.unwrap_or_else(|| {
                panic!("porter {line} does not print this line:\n{wanted}\nbut:\n{printed}")
            });
            assert!(at == 0 || may_skip, "porter {line} prints more before this line:\n{wanted}\n{printed}");
            rest.drain(..=at);
            may_skip = false;
        }
        assert!(rest.is_empty() || may_skip, "porter {line} goes on:\n{printed}");
    }
}

/// The crate is meant to be copied: nothing in its manifest comes from the workspace.
#[test]
fn the_manifest_stands_by_itself() {
    let outside = tempfile::tempdir().expect("there is room for a directory");
    let here = env!("CARGO_MANIFEST_DIR");
    let manifest = include_str!("../Cargo.toml").replace("../../crates", &format!("{here}/../../crates"));
    std::fs::create_dir(outside.path().join("src")).unwrap();
    std::fs::write(outside.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(outside.path().join("src/lib.rs"), FILES[0]).unwrap();
    std::fs::copy(format!("{here}/../../Cargo.lock"), outside.path().join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        // For this machine alone: what other platforms need may never have been downloaded.
        .args(["tree", "--offline", "--depth", "1"])
        .current_dir(outside.path())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(found.contains("conclave-cli v"), "{said}");
}
