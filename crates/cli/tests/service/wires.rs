//! A way to a node that stops to carry anything: connections stay, and say nothing.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long before a cut wire is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A way to a node.
pub struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    pub fn to(target: &str) -> Self {
        let target: SocketAddr = target.parse().expect("it is an address");
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

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// From now on nothing passes, in either direction.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
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
