//! Groups on one machine whose members are started by hand, one by one, in whatever terminal.
//!
//! A group is a directory like that of a cluster: `group.toml`, the file of all members that
//! [`ProcessConfig`](crate::config::ProcessConfig) reads, and `node-3/` for member 3. Whoever comes first writes the file; who
//! comes later finds it, and takes a place that nobody has.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use conclave_net::Address;

use crate::cluster::{Cluster, ClusterError, at, check_name, create_private, state_home, write_private};
use crate::supervisor::{Plan, free_ports};

/// Where groups are kept, beside the clusters.
#[must_use]
pub fn home() -> PathBuf {
    state_home().join("groups")
}

/// The file of the group of this name, whether there is one or not.
///
/// # Errors
/// If it cannot be a name.
pub fn file(home: &Path, name: &str) -> Result<PathBuf, ClusterError> {
    if check_name(name).is_err() || name.ends_with('-') {
        let why = format!("'{name}' cannot be the name of a group; use letters, digits and '-' between them");
        return Err(ClusterError::Refused(why));
    }
    Ok(home.join(name).join("group.toml"))
}

/// The names of the groups that are kept here.
#[must_use]
pub fn names(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("group.toml").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Writes the file of a group, unless there is one already: of several who do so at a time, one succeeds, and the others find
/// what it has written. Without addresses the members get ports that nobody uses now.
///
/// # Errors
/// If it cannot be written.
pub fn found(plan: &Plan, addresses: Option<Vec<Address>>) -> Result<PathBuf, ClusterError> {
    let path = file(&plan.home, &plan.name)?;
    let dir = plan.home.join(&plan.name);
    create_private(&dir).map_err(at(&dir))?;
    let addresses = match addresses {
        Some(addresses) => addresses,
        None => free_addresses(plan.ids.len())?,
    };
    let common = plan.common(&addresses).map_err(at(&dir))?;
    let draft = dir.join(format!("group.toml.{}", std::process::id()));
    write_private(&draft, &common.text_of_all()).map_err(at(&draft))?;
    let linked = fs::hard_link(&draft, &path);
    let _ = fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(&path)(error)),
        _ => Ok(path),
    }
}

fn free_addresses(count: usize) -> Result<Vec<Address>, ClusterError> {
    let address = |port| Address::Fixed(SocketAddr::from(([127, 0, 0, 1], port)));
    Ok(free_ports(count)?.into_iter().map(address).collect())
}

/// Removes a group, with everything that its members have written; nothing happens if there is none.
///
/// # Errors
/// If a member of it runs.
pub fn remove(home: &Path, name: &str) -> Result<(), ClusterError> {
    let path = file(home, name)?;
    // A file that says nothing has no members.
    if let Some(up) = Cluster::of_file(&path).ok().and_then(|group| group.running().first().copied()) {
        return Err(ClusterError::Refused(format!("{up} of the group '{name}' is up")));
    }
    match fs::remove_dir_all(home.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use conclave_core::NodeId;

    use super::*;
    use crate::config::ProcessConfig;

    fn plan(home: &Path, algorithm: &str) -> Plan {
        Plan {
            home: home.to_owned(),
            name: "chat".into(),
            algorithm: algorithm.into(),
            ids: [1, 2, 3].map(NodeId).into(),
            settings: BTreeMap::from([("group".into(), "nobody".into())]),
            record: true,
            transmission: Duration::from_millis(50),
            suspect_after: Duration::from_millis(500),
            clocks: Vec::new(),
            program: PathBuf::new(),
        }
    }

    #[test]
    fn who_comes_later_finds_what_the_first_one_wrote() {
        let home = tempfile::tempdir().expect("a directory");
        assert_eq!(names(home.path()), Vec::<String>::new());
        let path = found(&plan(home.path(), "sequencer"), None).expect("it can be written");
        let first = ProcessConfig::read_as(&path, Some(2)).expect("it is right");
        assert_eq!((first.algorithm.as_str(), first.peers.len(), first.record), ("sequencer", 3, true));
        assert_eq!(first.data, home.path().join("chat/node-2"));
        assert!(first.secret.is_some() && first.settings["group"] == "nobody");
        let again = found(&plan(home.path(), "causal"), None).expect("it is there");
        assert_eq!(ProcessConfig::read_as(&again, Some(2)).expect("it is right"), first);
        assert_eq!(names(home.path()), ["chat"]);
        let left = fs::read_dir(home.path().join("chat")).expect("it is there").count();
        assert_eq!(left, 1, "nothing but the file");
    }

    #[test]
    fn a_group_without_running_members_can_be_removed() {
        let home = tempfile::tempdir().expect("a directory");
        remove(home.path(), "chat").expect("there is none");
        found(&plan(home.path(), "causal"), None).expect("it can be written");
        remove(home.path(), "chat").expect("nobody runs");
        assert!(!home.path().join("chat").exists());
        for wrong in ["../chat", "", "a b", "chat-"] {
            let why = remove(home.path(), wrong).expect_err("it is no name").to_string();
            assert!(why.contains("cannot be the name of a group"), "{why}");
        }
    }
}
