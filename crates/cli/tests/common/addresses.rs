//! Addresses that no other test uses.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};

/// So many addresses to listen on. Every test process has a loopback address of its own, made of its process id, so
/// that tests that run at the same time cannot take each other's ports between looking for one and listening there. The
/// ports are below those that the system hands out.
pub fn own_addresses(count: usize) -> Vec<String> {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 64 | high, middle, low);
    (0..count).map(|_| format!("{host}:{}", NEXT.fetch_add(1, Ordering::Relaxed))).collect()
}
