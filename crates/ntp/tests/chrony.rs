//! Beside chrony, Debian's NTP: our client measures its server, and its client measures ours. The clock of the machine is never
//! touched (`chronyd -x`), and nothing leaves the loopback interface.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use conclave_ntp::{Measured, Options, Server, ServerOptions, query};

const MS: i64 = 1_000_000;
/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Whether a program or file that a test needs is there. In CI it has to be.
fn is_there(what: &str, found: bool) -> bool {
    assert!(found || std::env::var_os("CONCLAVE_CI").is_none_or(|ci| ci != "1"), "{what} is missing");
    if !found {
        eprintln!("skipped: {what} is missing");
    }
    found
}

fn has_chrony() -> bool {
    is_there("chronyd, of the package chrony", Command::new("chronyd").arg("--version").output().is_ok())
}

/// The library that makes a program believe in another time.
fn faketime() -> Option<PathBuf> {
    let candidates = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut paths = candidates.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    let found = paths.find(|path| path.exists());
    is_there("libfaketime, of the package faketime", found.is_some()).then_some(found).flatten()
}

/// A chronyd of our own, ended with the test.
struct Daemon {
    child: Child,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl Daemon {
    /// One whose clock is shifted, as `faketime` writes it, or right. It answers when this returns.
    fn start(shift: Option<(PathBuf, &str)>) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let config = format!(
            "port {port}\nbindaddress 127.0.0.1\nbindcmdaddress /\ncmdport 0\nlocal stratum 5\nallow 127.0.0.1\n\
             pidfile {}\n",
            home.path().join("pid").display()
        );
        let file = home.path().join("chrony.conf");
        fs::write(&file, config).expect("it can be written");
        let mut command = Command::new("chronyd");
        command.args(["-x", "-U", "-d", "-f"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((library, shift)) = shift {
            command.env("LD_PRELOAD", library).env("FAKETIME", shift);
        }
        let child = command.spawn().expect("chronyd starts");
        let daemon = Self { child, address: (Ipv4Addr::LOCALHOST, port).into(), _home: home };
        let deadline = Instant::now() + PATIENCE;
        while query(daemon.address, &Options::new(1, Duration::from_millis(200))).is_err() {
            assert!(Instant::now() < deadline, "chronyd does not answer");
            thread::sleep(Duration::from_millis(20));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).expect("a port").port()
}

/// A server of ours, which answers as long as the test runs.
fn serve(offset: i64) -> SocketAddr {
    let options = ServerOptions { offset, ..ServerOptions::default() };
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), options).expect("a port");
    let address = server.address().expect("it listens");
    thread::spawn(move || server.run());
    address
}

/// What chrony itself says of a server: how far that is ahead, in nanoseconds.
fn chrony_says(server: SocketAddr) -> Option<i64> {
    let home = tempfile::tempdir().expect("a directory");
    let pidfile = format!("pidfile {}", home.path().join("pid").display());
    let server = format!("server {} port {} iburst maxsamples 1", server.ip(), server.port());
    let output = Command::new("chronyd")
        .args(["-x", "-U", "-Q", "-t", "20", "port 0", "cmdport 0", "bindcmdaddress /", &pidfile, &server])
        .output()
        .expect("chronyd runs");
    let text = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    let (_, rest) = text.split_once("System clock wrong by ")?;
    let seconds: f64 = rest.split(' ').next()?.parse().ok()?;
    Some((seconds * 1e9).round() as i64)
}

fn measure(server: SocketAddr) -> Measured {
    query(server, &Options::new(8, Duration::from_secs(5))).expect("it answers")
}

/// Our measurement and chrony's agree within a millisecond. Either may be kept from its work for a while, so both measure
/// until they do; what the machine did meanwhile stands in the bound, which always has to hold.
fn agree(server: SocketAddr, truth: i64) -> Measured {
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while Instant::now() < deadline {
        let ours = measure(server);
        // A microsecond for what stamps and clocks round away.
        let slack = 1_000 + ours.best.bound();
        assert!((ours.best.offset - truth).abs() <= slack, "{ours:?}, and the truth is {truth}");
        let theirs = chrony_says(server);
        if theirs.is_some_and(|theirs| theirs.abs_diff(ours.best.offset) <= MS as u64) {
            return ours;
        }
        seen.push((ours.best.offset, theirs));
    }
    panic!("our offsets and chrony's: {seen:?}");
}

#[test]
fn our_client_measures_chronyd_as_chrony_does() {
    if has_chrony() {
        let daemon = Daemon::start(None);
        let measured = agree(daemon.address, 0);
        assert_eq!((measured.best.stratum, measured.answered), (5, 8));
    }
}

/// By two seconds and a half: within a second chronyd believes the kernel when a packet arrived, which knows nothing of the
/// shift.
#[test]
fn our_client_finds_how_far_a_shifted_chronyd_is_ahead() {
    if has_chrony()
        && let Some(library) = faketime()
    {
        let daemon = Daemon::start(Some((library, "+2.5")));
        agree(daemon.address, 2_500 * MS);
    }
}

#[test]
fn chronys_client_measures_our_server() {
    if has_chrony() {
        for offset in [0, 500 * MS] {
            let measured = agree(serve(offset), offset);
            assert_eq!(measured.best.stratum, 10);
        }
    }
}

/// Answers take 20 ms more than questions: both clients are wrong by half of that, and our bound says so. A relay delays them:
/// not every kernel can.
#[test]
fn an_asymmetric_way_is_within_the_bound() {
    if has_chrony() {
        let relay = delaying_answers(serve(0), Duration::from_millis(20));
        let measured = agree(relay, 0);
        assert!(measured.best.delay >= 20 * MS && measured.best.bound() >= 10 * MS, "{measured:?}");
        assert!(measured.best.offset <= -9 * MS, "{measured:?}");
    }
}

/// A relay in front of a server that holds answers back.
fn delaying_answers(server: SocketAddr, delay: Duration) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    let address = front.local_addr().expect("it listens");
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, client)) = front.recv_from(&mut bytes) {
            let (question, front) = (bytes[..length].to_vec(), Arc::clone(&front));
            thread::spawn(move || relay(&question, server, delay, &front, client));
        }
    });
    address
}

fn relay(question: &[u8], server: SocketAddr, delay: Duration, front: &UdpSocket, client: SocketAddr) {
    let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    back.set_read_timeout(Some(PATIENCE)).expect("it has a timeout");
    back.send_to(question, server).expect("it is sent");
    let mut bytes = [0; 512];
    if let Ok(length) = back.recv(&mut bytes) {
        thread::sleep(delay);
        let _ = front.send_to(&bytes[..length], client);
    }
}

/// Old answers and nonsense arrive before the right one, and change nothing.
#[test]
fn replayed_and_malformed_packets_are_ignored() {
    let server = serve(0);
    let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = front.local_addr().expect("it listens");
    thread::spawn(move || {
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (mut bytes, mut old) = ([0; 512], Vec::new());
        while let Ok((length, client)) = front.recv_from(&mut bytes) {
            back.send_to(&bytes[..length], server).expect("it is sent");
            let length = back.recv(&mut bytes).expect("it is answered");
            let nonsense = [&[0u8; 3][..], &[0xff; 48], &old, &bytes[..length], &bytes[..length]];
            for packet in nonsense {
                let _ = front.send_to(packet, client);
            }
            old = bytes[..length].to_vec();
        }
    });
    let measured = query(address, &Options::new(4, Duration::from_secs(5))).expect("it answers");
    assert_eq!(measured.answered, 4);
    assert!(measured.best.offset.abs() <= measured.best.bound() + 1_000, "{measured:?}");
}

#[test]
fn who_does_not_answer_is_named() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = silent.local_addr().expect("it listens");
    let error = query(address, &Options::new(1, Duration::from_millis(50))).expect_err("nobody answers");
    assert_eq!(error.to_string(), format!("{address} did not answer"));
}
