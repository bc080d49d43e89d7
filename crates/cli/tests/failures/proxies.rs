//! A network between the processes that stops to carry anything: connections stay, and say nothing.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_live::config::PeerAddress;

use crate::cuts::{FEW, MANY, both_go_on, the_few_stand_still};
use crate::judge::judge;
use crate::nodes::{Nodes, binary, free_addresses};

/// How long before a cut wire is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The way from one process to another, and back on the same connections.
struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    fn to(target: SocketAddr) -> Self {
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

/// Five processes, each of which reaches each other one by a wire of its own.
struct Wired {
    nodes: Nodes,
    wires: BTreeMap<(u32, u32), Wire>,
}

impl Wired {
    fn start(algorithm: &str, setting: &str) -> Self {
        let addresses: BTreeMap<u32, SocketAddr> = (1..=5).zip(free_addresses(5)).collect();
        let mut wired = Self { nodes: Nodes::new(), wires: BTreeMap::new() };
        for id in 1..=5 {
            let mut peers = Vec::new();
            for (peer, address) in &addresses {
                let mut address = *address;
                if *peer != id {
                    let wire = Wire::to(address);
                    address = wire.address;
                    wired.wires.insert((id, *peer), wire);
                }
                peers.push(PeerAddress { id: *peer, address });
            }
            let config = wired.nodes.config(algorithm, setting, id, peers);
            wired.nodes.start(&config, binary());
        }
        wired.nodes.are_up();
        wired
    }

    /// Cuts or mends all wires between the two sides.
    fn part(wires: &BTreeMap<(u32, u32), Wire>, is_cut: bool) {
        for ((from, to), wire) in wires {
            if FEW.contains(from) == MANY.contains(to) {
                wire.is_cut.store(is_cut, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn both_sides_of_a_silent_network_go_on_and_become_one_group_again() {
    let Wired { mut nodes, wires } = Wired::start("lamport", "");
    both_go_on(&nodes.places(), || Wired::part(&wires, true), || Wired::part(&wires, false));
    judge(&nodes.stop());
}

#[test]
fn a_minority_on_a_silent_network_stands_still() {
    let Wired { mut nodes, wires } = Wired::start("majority", "mode=view");
    the_few_stand_still(&nodes.places(), || Wired::part(&wires, true), || Wired::part(&wires, false));
    assert!(!judge(&nodes.stop()).is_misled, "a view needs no good detector");
}
