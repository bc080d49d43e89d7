//! Lists the files of the page, the lessons and the sources of the algorithms, so that the program can carry them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo says where we are"));
    let web = list(&root.join("web"), &SERVED, "include_bytes");
    write("files.rs", &format!("&{web}"));
    let lessons = list(&root.join("lessons"), &["toml"], "include_str");
    write("lessons.rs", &format!("const FILES: &[(&str, &str)] = &{lessons};\n"));
    write("sources.rs", &format!("&{}", sources(&root.join("../.."))));
}

/// The sources that the pages of the algorithms link to, as an array of names and contents.
fn sources(repository: &Path) -> String {
    const LINK: &str = "](../../crates/algorithms/src/";
    let pages = repository.join("docs/algorithms");
    println!("cargo::rerun-if-changed={}", pages.display());
    let mut files = Vec::new();
    gather(&pages, &["md"], &mut files);
    let texts = files.iter().map(|page| fs::read_to_string(page).expect("a page can be read"));
    let linked: BTreeSet<String> = texts
        .flat_map(|text| {
            let links = text.split(LINK).skip(1).filter_map(|rest| rest.split([')', '#']).next());
            links.map(|file| format!("crates/algorithms/src/{file}")).collect::<Vec<_>>()
        })
        .filter(|name| name.ends_with(".rs"))
        .collect();
    let mut list = String::from("[\n");
    for name in linked {
        let file = repository.join(&name).display().to_string();
        println!("cargo::rerun-if-changed={file}");
        writeln!(list, "    ({name:?}, include_str!({file:?})),").expect("a string takes it");
    }
    list.push_str("]\n");
    list
}

/// The files of a folder as an array of names and contents.
fn list(folder: &Path, kinds: &[&str], include: &str) -> String {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    gather(folder, kinds, &mut files);
    files.sort();
    let mut list = String::from("[\n");
    for file in files {
        let name =
            file.strip_prefix(folder).expect("it was found there").to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, {include}!({:?})),", file.display().to_string())
            .expect("a string takes it");
    }
    list.push_str("]\n");
    list
}

fn write(name: &str, text: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where it goes")).join(name);
    fs::write(out, text).expect("the list can be written");
}

/// What browsers read; types and notes for people who change the page stay behind.
const SERVED: [&str; 7] = ["html", "css", "js", "json", "svg", "png", "woff2"];

fn gather(folder: &Path, kinds: &[&str], files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            gather(&path, kinds, files);
        } else if path.extension().is_some_and(|kind| kinds.iter().any(|known| kind == *known)) {
            files.push(path);
        }
    }
}
