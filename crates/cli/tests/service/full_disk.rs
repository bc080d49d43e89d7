//! A node whose disk is full: it stops and says why, and nothing is lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use conclave_client::{Campaign, Error, Leadership, Request, SessionOptions};

use crate::fenced::Load;
use crate::nodes::Service;
use crate::until;

/// A small disk, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Nothing if there is none to be had here.
    fn mount(path: PathBuf, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(&path).expect("there is room for a directory");
        let disk = Self(path);
        if let Err(why) = disk.try_mount(&["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "conclave"]) {
            crate::cannot_run_without(&format!("a small disk: {why}"));
            return None;
        }
        Some(disk)
    }

    fn try_mount(&self, words: &[&str]) -> Result<(), String> {
        let output =
            Command::new("mount").args(words).arg(&self.0).output().map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(words) }
    }

    fn grow(&self, megabytes: u32) {
        self.try_mount(&["-o", &format!("remount,size={megabytes}m")]).expect("it can grow");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// How often something large is written: more than a full disk has room for, less than the others have.
const WRITES: u64 = 1_500;

/// Shows one value after the other, all of them large, and each of them in the log.
async fn write_much(leads: Leadership) -> Result<Leadership, Error> {
    for turn in 1..=WRITES {
        let mut value = turn.to_string().into_bytes();
        value.resize(16 * 1024, b' ');
        leads.proclaim(value).await?;
    }
    Ok(leads)
}

#[test]
fn a_leader_whose_disk_is_full_stops_and_the_others_go_on() {
    let mut service = Service::absent(3);
    let mut disks = BTreeMap::new();
    for id in service.ids() {
        // Enough for one file of the log, and not for a second one.
        let Some(disk) = SmallDisk::mount(service.data(id), 24) else { return };
        disks.insert(id, disk);
    }
    service.ids().into_iter().for_each(|id| service.run(id));
    service.is_settled();
    let leader = service.leader().expect("it is served");
    disks.iter().filter(|(id, _)| **id != leader).for_each(|(_, disk)| disk.grow(400));

    let load = Load::start(&service, 2);
    let client = load.runtime().block_on(async { service.library() });
    let session = load.runtime().block_on(client.session(SessionOptions::default())).expect("it is served");
    let guard = load.runtime().block_on(session.acquire(Request::lock("kept"))).expect("it is free");
    let leads = load.runtime().block_on(session.campaign(Campaign::new("chief", "0"))).expect("it is free");
    let writing = load.runtime().spawn(write_much(leads));
    let status = service.wait(leader);
    assert_eq!(status.code(), Some(1), "it stopped by itself");
    let log = service.log(leader);
    assert!(log.contains("No space left on device") && log.contains("this node cannot go on"), "{log}");
    load.everybody_is_served();
    let leads = load.runtime().block_on(writing).expect("it ends by itself").expect("every write was taken");
    assert!(!guard.is_lost() && !leads.guard().is_lost());
    let last = format!("{WRITES} ");
    assert!(service.show("chief")["value"].as_str().is_some_and(|value| value.starts_with(&last)));

    disks[&leader].grow(400);
    service.run(leader);
    until("it has caught up", || service.applied(leader).is_some_and(|applied| applied > WRITES));
    load.finish(&service);
}
