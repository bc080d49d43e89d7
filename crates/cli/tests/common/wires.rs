//! A way to a process that stops to carry anything: connections stay, and say nothing.

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
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are ports");
        let address = listener.local_addr().expect("it has an address");
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let cut = Arc::clone(&cut);
                std::thread::spawn(move || connect(&near, target, &cut));
            }
        });
        Self { address, is_cut }
    }

    /// From now on nothing passes, in either direction, or everything does again.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

fn connect(near: &TcpStream, target: SocketAddr, is_cut: &Arc<AtomicBool>) {
    wait(is_cut);
    let Ok(far) = TcpStream::connect(target) else { return };
    let (Ok(back_from), Ok(back_to)) = (far.try_clone(), near.try_clone()) else { return };
    let cut = Arc::clone(is_cut);
    std::thread::spawn(move || carry(&back_from, &back_to, &cut));
    carry(near, &far, is_cut);
}

/// Carries bytes until an end closes; none is lost while the wire is cut, as a network would send it again.
fn carry(mut from: &TcpStream, mut to: &TcpStream, is_cut: &AtomicBool) {
    let _ = (from.set_nodelay(true), to.set_nodelay(true));
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait(is_cut);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    wait(is_cut);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn wait(is_cut: &AtomicBool) {
    while is_cut.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_AGAIN);
    }
}
