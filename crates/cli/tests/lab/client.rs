//! A lab that is running, and requests to it as they are on the wire.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Generous: the machine may be busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A lab, which ends with this.
pub struct Lab {
    child: Child,
    /// `127.0.0.1:40001`.
    pub host: String,
    /// What stands before `api/v1` in addresses: `/`, or `/SECRET/`.
    pub base: String,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The code of an error.
    pub fn code(&self) -> String {
        let error = &self.json()["error"];
        assert!(error["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{error}");
        format!("{} {}", self.status, error["code"].as_str().unwrap_or_default())
    }
}

impl Lab {
    pub fn start() -> Self {
        Self::listening_on("127.0.0.1:0")
    }

    pub fn listening_on(address: &str) -> Self {
        Self::of(Command::new(env!("CARGO_BIN_EXE_conclave")).args(["lab", "--no-open", "--listen", address]))
    }

    /// One whose clusters write into this folder.
    pub fn at_home_in(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        Self::of(command.args(["lab", "--no-open", "--listen", "127.0.0.1:0"]).env("XDG_STATE_HOME", folder))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("it has an output");
        BufReader::new(out).read_line(&mut line).expect("it says where it is");
        let (_, url) = line.trim().split_once("http://").unwrap_or_else(|| panic!("no address in '{line}'"));
        let (host, base) = url.split_once('/').expect("an address ends with a slash");
        let host = host.replace("0.0.0.0", "127.0.0.1");
        Self { child, host, base: format!("/{base}") }
    }

    /// Ends it as a terminal does that is closed, or a system that goes down.
    pub fn end(mut self) {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().expect("there is `kill`");
        assert!(told.success() && self.child.wait().expect("it ends").success());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream
    }

    /// Sends a request as it stands, and waits for the whole answer.
    pub fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request).expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it answers in time");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status");
        Answer { status, head, body: bytes.split_off(end + 4) }
    }

    /// A request with these headers besides the host.
    pub fn asked(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.raw(format!("{head}{body}").as_bytes())
    }

    fn api(&self, path: &str) -> String {
        let path = format!("{}api/v1/{path}", self.base);
        path.trim_end_matches('/').to_owned()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.asked("GET", &self.api(path), "", "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.asked("POST", &self.api(path), "Content-Type: application/json\r\n", &body.to_string())
    }

    /// A request of which nobody reads the answer; it is given up when this is dropped.
    pub fn begun(&self, path: &str, body: &Value) -> TcpStream {
        let (mut stream, body) = (self.connect(), body.to_string());
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.api(path),
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    }

    /// The summary of the run that a recipe makes.
    pub fn make(&self, recipe: &Value) -> Value {
        let answer = self.post("runs", recipe);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// A stream of events, of which nothing has been read.
    pub fn stream(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.api(path), self.host);
        stream.write_all(request.as_bytes()).expect("it reads");
        BufReader::new(stream)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the command line in a folder.
pub fn conclave(folder: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}
