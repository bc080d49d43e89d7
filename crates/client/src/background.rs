//! Where the work of clients is done, unless a client is told to do it elsewhere: one thread for all of them, so that a
//! program whose own threads are busy, or wait for something, goes on renewing its sessions.

use std::future::pending;
use std::io;
use std::sync::OnceLock;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// The runtime of this process for clients; started when it is first asked for.
pub fn background() -> io::Result<Handle> {
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    // Of two that were started at the same time the first one stays, and the other has nothing to do.
    let stays = HANDLE.get_or_init(|| handle.clone()).clone();
    if stays.id() == handle.id() {
        thread::Builder::new().name("conclave-client".to_owned()).spawn(move || {
            runtime.block_on(pending::<()>());
        })?;
    }
    Ok(stays)
}
