//! Lists the golden scripts, so that the library can carry them: tests play all of them, and a user finds them by name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo says where we are")).join("tests/scripts");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("the scripts are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "txt"));
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string())
            .expect("a string takes it");
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where it goes")).join("examples.rs");
    fs::write(out, list).expect("the list can be written");
}
