//! The name of the program: `conclave`, or that of one's own around the laboratory.

use std::sync::OnceLock;

/// A program around algorithms of one's own.
#[derive(Debug)]
pub struct Own {
    /// What it is called.
    pub name: String,
    /// Its algorithms.
    #[cfg(feature = "laboratory")]
    pub algorithms: Vec<&'static str>,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// This is a program of one's own.
#[cfg(feature = "laboratory")]
pub fn become_own(algorithms: Vec<&'static str>) {
    let path = std::env::args_os().next().map(std::path::PathBuf::from).unwrap_or_default();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| "laboratory".into());
    // A program is one thing for its whole life.
    let _ = OWN.set(Own { name, algorithms });
}

/// The program, if it is one's own.
pub fn own() -> Option<&'static Own> {
    OWN.get()
}

/// What to type to start this program.
pub fn name() -> &'static str {
    own().map_or("conclave", |own| &own.name)
}

/// A text that tells what to type, for this program.
pub fn renamed(text: &str) -> String {
    match own() {
        Some(own) => text.replace("conclave ", &format!("{} ", own.name)),
        None => text.to_owned(),
    }
}
