//! The page shows this crate and nothing else.

const PAGE: &str = include_str!("../../../docs/own-algorithm.md");
const FILES: [&str; 3] =
    [include_str!("../src/lib.rs"), include_str!("../src/main.rs"), include_str!("worlds.rs")];

#[test]
fn every_block_of_the_page_stands_in_a_file() {
    let blocks: Vec<&str> =
        PAGE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() > 5, "the page has code");
    for block in blocks {
        assert!(FILES.iter().any(|file| file.contains(block)), "no file has this:\n{block}");
    }
}
