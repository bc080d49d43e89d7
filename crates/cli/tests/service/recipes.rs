//! The recipes of `docs/fencing.md`, against the real thing: one who was thought dead writes after its successor, and is
//! refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::getuid;

use crate::cannot_run_without;
use crate::nodes::Service;

/// The page that has them.
const PAGE: &str = include_str!("../../../../docs/fencing.md");

/// A block of the page, below a heading.
fn block(heading: &str, language: &str, number: usize) -> &'static str {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("a section");
    let mut blocks = section.split("```").skip(1).step_by(2);
    let of_language = |block: &&str| block.starts_with(&format!("{language}\n"));
    let block = blocks.by_ref().filter(of_language).nth(number).expect("a block");
    &block[language.len() + 1..]
}

/// The tokens of one who holds the name, and of the next one after it was taken by force.
fn tokens() -> (u64, u64) {
    let service = Service::one();
    let token = |tag: &str| service.written(tag).trim().parse().expect("a token");
    let first = service.hold("lock nightly-backup", "first");
    service.conclave("release nightly-backup --force --reason dead").ends(0);
    let second = service.hold("lock nightly-backup", "second");
    let tokens = (token("first"), token("second"));
    drop((first, second));
    assert!(tokens.0 < tokens.1);
    tokens
}

/// What writes a text with a token, and says whether it was taken; and what reads it again.
fn refuses_the_late(write: impl Fn(u64, &str) -> bool, read: impl Fn() -> String) {
    let (late, present) = tokens();
    assert!(write(late, "one"));
    assert!(write(late, "two"), "the same holder writes more than once");
    assert!(write(present, "three"));
    assert!(!write(late, "late"), "it is refused");
    assert_eq!(read().trim(), "three");
    assert!(write(present, "four"), "and the present one is not");
    assert_eq!(read().trim(), "four");
}

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_file() {
    let dir = tempfile::tempdir().expect("there is room");
    let (script, file) = (dir.path().join("fenced-write"), dir.path().join("file"));
    fs::write(&script, block("A file", "sh", 0)).expect("there is room");
    let write = |token: u64, said: &str| {
        let input = dir.path().join("input");
        fs::write(&input, said).expect("there is room");
        let mut command = Command::new("/bin/sh");
        command.arg(&script).arg(&file).arg(token.to_string());
        command.stdin(fs::File::open(&input).expect("it is there")).stderr(Stdio::null());
        command.status().expect("a shell").success()
    };
    refuses_the_late(write, || fs::read_to_string(&file).expect("it was written"));
}

#[test]
fn sqlite() {
    if !exists("sqlite3") {
        return cannot_run_without("sqlite3");
    }
    let dir = tempfile::tempdir().expect("there is room");
    let run = |sql: &str| {
        let mut command = Command::new("sqlite3");
        command.arg("-bail").arg(dir.path().join("db")).arg(sql);
        command.output().expect("it runs")
    };
    text(&run(block("SQLite", "sql", 0)));
    text(&run("CREATE TABLE results (text TEXT); INSERT INTO results VALUES ('');"));
    let fence = block("SQLite", "sql", 1);
    let write = |token: u64, said: &str| {
        let fence = fence.replace(":token", &token.to_string());
        run(&format!("BEGIN IMMEDIATE; {fence} UPDATE results SET text = '{said}'; COMMIT;")).status.success()
    };
    refuses_the_late(write, || text(&run("SELECT text FROM results")));
}

/// A server of its own, for as long as the test runs.
struct Postgres {
    dir: tempfile::TempDir,
    programs: PathBuf,
}

impl Postgres {
    fn start() -> Option<Self> {
        let programs = installed()?;
        let dir = tempfile::tempdir().expect("there is room");
        // The server does not run as root.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let postgres = Self { dir, programs };
        let data = postgres.data();
        text(
            &postgres
                .server("initdb")
                .args(["-A", "trust", "-U", "test", "-N", "-D"])
                .arg(&data)
                .output()
                .ok()?,
        );
        let options = format!("-c listen_addresses='' -c fsync=off -k {}", postgres.dir.path().display());
        let mut start = postgres.server("pg_ctl");
        start
            .args(["start", "-w", "-o", &options, "-l"])
            .arg(postgres.dir.path().join("log"))
            .arg("-D")
            .arg(&data);
        let started = start.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        assert!(
            started.success(),
            "{}",
            fs::read_to_string(postgres.dir.path().join("log")).unwrap_or_default()
        );
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// One of its programs, as a user that may run it.
    fn server(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !getuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).current_dir("/");
        command
    }

    fn run(&self, sql: &str) -> Output {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "test", "-d", "postgres", "-h"]);
        command.arg(self.dir.path()).args(["-c", sql]).output().expect("it runs")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = self.server("pg_ctl");
        stop.args(["stop", "-m", "immediate", "-D"])
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = stop.status();
    }
}

/// Where the programs of the server are: Debian keeps them out of the way.
fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.into_iter().rev().find(|folder| has_all(folder))
}

fn has_all(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "psql"].iter().all(|program| folder.join(program).is_file())
}

#[test]
fn postgresql() {
    let Some(postgres) = Postgres::start() else { return cannot_run_without("PostgreSQL") };
    text(&postgres.run(block("PostgreSQL", "sql", 0)));
    text(&postgres.run("CREATE TABLE results (text text); INSERT INTO results VALUES ('');"));
    let fence = block("PostgreSQL", "sql", 1);
    let write = |token: u64, said: &str| {
        let fence = fence.replace(":token", &token.to_string());
        postgres.run(&format!("BEGIN; {fence} UPDATE results SET text = '{said}'; COMMIT;")).status.success()
    };
    refuses_the_late(write, || text(&postgres.run("SELECT text FROM results")));
}
