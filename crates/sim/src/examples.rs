//! The worked examples: the golden scripts, carried by the library.
//!
//! The comments above the first command may begin with a header. Each of its lines is a name and a text; a text goes on in
//! lines that are indented further:
//!
//! ```text
//! # Name: lock-manager
//! # Title: A lock manager serves three clients
//! # Source: Ricart and Agrawala 1981,
//! #   figure 3
//! # Look at: the reply that p1 keeps back
//! ```
//!
//! What has no header is called like its file, and its first sentence is its title.

use conclave_trace::Script;

/// Name and text of every golden script.
const SCRIPTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// A worked example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Its name.
    pub name: String,
    /// The name of its file, without the ending; it is found by this one, too.
    pub file: &'static str,
    /// What it shows, in a line.
    pub title: String,
    /// Where it comes from.
    pub source: Option<String>,
    /// What to look at.
    pub look_at: Option<String>,
    /// The script.
    pub script: Script,
}

impl Example {
    /// The algorithm that it runs.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        self.script.setup().map_or("", |setup| &setup.algorithm)
    }

    /// The property that it shows broken, if that is what it is for.
    #[must_use]
    pub fn breaks(&self) -> Option<String> {
        self.file.split_once("-breaks-").map(|(_, property)| property.to_uppercase())
    }

    fn read(file: &'static str, text: &str) -> Option<Self> {
        // A script that cannot be read fails the test that plays it.
        let mut script = Script::parse(text).ok()?;
        let block = script.blocks.first_mut()?;
        let (header, story) = Header::split(&block.comments);
        let title = header.title.or_else(|| first_sentence(&story));
        block.comments = story;
        let title = title.unwrap_or_else(|| script.setup().map(ToString::to_string).unwrap_or_default());
        let name = header.name.unwrap_or_else(|| file.to_owned());
        Some(Self { name, file, title, source: header.source, look_at: header.look_at, script })
    }
}

fn first_sentence(story: &[String]) -> Option<String> {
    let story = story.join(" ");
    let first = story.split_once(". ").map_or(story.as_str(), |(first, _)| first);
    (!first.is_empty()).then(|| first.trim_end_matches('.').to_owned())
}

/// What stands above a script.
#[derive(Default)]
struct Header {
    name: Option<String>,
    title: Option<String>,
    source: Option<String>,
    look_at: Option<String>,
}

impl Header {
    /// The header, and the comments that are left.
    fn split(comments: &[String]) -> (Self, Vec<String>) {
        let mut header = Self::default();
        let mut lines = comments.iter().peekable();
        while let Some(line) = lines.peek() {
            let Some((key, text)) = line.split_once(": ") else { break };
            let place = match key {
                "Name" => &mut header.name,
                "Title" => &mut header.title,
                "Source" => &mut header.source,
                "Look at" => &mut header.look_at,
                _ => break,
            };
            let mut text = text.trim().to_owned();
            lines.next();
            while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                text.push(' ');
                text.push_str(more.trim());
            }
            *place = Some(text);
        }
        (header, lines.cloned().collect())
    }
}

/// All of them, by the names of their files.
#[must_use]
pub fn all() -> Vec<Example> {
    SCRIPTS.iter().filter_map(|(file, text)| Example::read(file, text)).collect()
}

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<Example> {
    all().into_iter().find(|example| example.name == name || example.file == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_script_is_an_example_with_a_name_of_its_own() {
        let examples = all();
        assert_eq!(examples.len(), SCRIPTS.len());
        let mut names = BTreeSet::new();
        for example in &examples {
            assert!(names.insert(example.name.clone()), "{} is the name of two", example.name);
            assert!(example.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            assert!(example.name == example.file || examples.iter().all(|other| other.file != example.name));
            assert!(!example.title.is_empty(), "{} has no title", example.file);
            assert_eq!(find(&example.name).as_ref(), Some(example));
            assert_eq!(find(example.file).as_ref(), Some(example));
        }
    }

    #[test]
    fn a_header_is_told_from_the_story() {
        let text = "# Name: mine\n# Title: What it shows\n# Source: somebody,\n#   somewhere\n# Look at: this\n# A story: told.\n\
                    run central -n 2\n---\n";
        let example = Example::read("file", text).unwrap();
        assert_eq!((example.name.as_str(), example.title.as_str()), ("mine", "What it shows"));
        assert_eq!(example.source.as_deref(), Some("somebody, somewhere"));
        assert_eq!(example.look_at.as_deref(), Some("this"));
        assert_eq!(example.script.blocks[0].comments, ["A story: told."]);
        let plain = Example::read("file", "# One thing. And another.\nrun central -n 2\n---\n").unwrap();
        assert_eq!((plain.name.as_str(), plain.title.as_str()), ("file", "One thing"));
    }
}
