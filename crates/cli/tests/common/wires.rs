//! A way to a process that stops to carry anything: connections stay, and say nothing.

#![allow(dead_code, reason = "not every binary of tests needs all of it")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long before a cut wire is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The way there, and back on the same connections.
pub struct Wire {
    pub address: SocketAddr,
    ways: Ways,
}

/// Whether the way there and the way back are held.
#[derive(Clone, Default)]
struct Ways {
    there: Arc<AtomicBool>,
    back: Arc<AtomicBool>,
}

impl Wire {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are ports");
        let address = listener.local_addr().expect("it has an address");
        let ways = Ways::default();
        let taken = ways.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let ways = taken.clone();
                std::thread::spawn(move || connect(&near, target, &ways));
            }
        });
        Self { address, ways }
    }

    /// From now on nothing passes, in either direction, or everything does again.
    pub fn cut(&self, is_cut: bool) {
        self.hold_there(is_cut);
        self.hold_back(is_cut);
    }

    /// From now on nothing passes on the way there, or everything does again.
    pub fn hold_there(&self, is_held: bool) {
        self.ways.there.store(is_held, Ordering::Relaxed);
    }

    /// The same on the way back.
    pub fn hold_back(&self, is_held: bool) {
        self.ways.back.store(is_held, Ordering::Relaxed);
    }
}

fn connect(near: &TcpStream, target: SocketAddr, ways: &Ways) {
    wait(&ways.there);
    let Ok(far) = TcpStream::connect(target) else { return };
    let (Ok(back_from), Ok(back_to)) = (far.try_clone(), near.try_clone()) else { return };
    let back = Arc::clone(&ways.back);
    std::thread::spawn(move || carry(&back_from, &back_to, &back));
    carry(near, &far, &ways.there);
}

/// Carries bytes until an end closes; none is lost while the wire is cut, as a network would send it again.
fn carry(mut from: &TcpStream, mut to: &TcpStream, is_held: &AtomicBool) {
    let _ = (from.set_nodelay(true), to.set_nodelay(true));
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait(is_held);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    wait(is_held);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn wait(is_held: &AtomicBool) {
    while is_held.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_AGAIN);
    }
}
