//! Where the service is: from options, the environment, or a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::args::EndpointArgs;
use crate::failure::Failure;

/// The nodes of a cluster, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members(pub BTreeMap<u64, String>);

/// A file about a cluster, for its nodes and its clients.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// All nodes and where they listen.
    #[serde(default)]
    pub nodes: BTreeMap<String, String>,
    /// Where clients ask, if not at those.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// Where nodes keep their data; each takes the directory of its number in it.
    pub data: Option<PathBuf>,
    /// How often a leader shows that it is there, as on the command line.
    pub heartbeat: Option<String>,
    /// How long it may be silent, as on the command line.
    pub election_timeout: Option<String>,
}

impl ClusterFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
        toml::from_str(&text).map_err(|error| {
            Failure::new(format!("'{}' is no file about a cluster: {}", path.display(), error.message()))
        })
    }

    /// The nodes, by number.
    pub fn members(&self) -> Result<Members, Failure> {
        let nodes: Vec<String> = self.nodes.iter().map(|(id, address)| format!("{id}={address}")).collect();
        parse_members(&nodes.join(",")).map_err(Failure::new)
    }
}

/// Reads `1=10.0.0.1:7400,2=10.0.0.2:7400`.
pub fn parse_members(text: &str) -> Result<Members, String> {
    let mut members = BTreeMap::new();
    for part in text.split(',') {
        let (id, address) =
            part.split_once('=').ok_or_else(|| format!("'{part}' is not like 1=10.0.0.1:7400"))?;
        let id: u64 = id.trim().parse().map_err(|_| format!("'{id}' is not the number of a node"))?;
        if id == 0 {
            return Err("nodes are numbered from 1".to_owned());
        }
        check_address(address.trim())?;
        if members.contains_key(&id) {
            return Err(format!("node {id} is given twice"));
        }
        if let Some((other, _)) = members.iter().find(|(_, taken)| *taken == address.trim()) {
            return Err(format!("nodes {other} and {id} have the same address '{}'", address.trim()));
        }
        members.insert(id, address.trim().to_owned());
    }
    Ok(Members(members))
}

/// Refuses what cannot be an address.
pub fn check_address(address: &str) -> Result<(), String> {
    let port = address.rsplit_once(':').and_then(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains([' ', '/', '@']);
        port.parse::<u16>().ok().filter(|_| is_host)
    });
    port.map(|_| ()).ok_or_else(|| format!("'{address}' is not an address like 127.0.0.1:7400"))
}

/// Where clients ask: what was given, else the environment, else a file, else this machine.
pub fn endpoints(args: &EndpointArgs) -> Result<Vec<String>, Failure> {
    let found = find_endpoints(args)?;
    for endpoint in &found {
        check_address(endpoint).map_err(Failure::new)?;
    }
    Ok(found)
}

fn find_endpoints(args: &EndpointArgs) -> Result<Vec<String>, Failure> {
    if !args.endpoints.is_empty() {
        return Ok(args.endpoints.clone());
    }
    if args.config.is_none()
        && let Some(given) = variable("CONCLAVE_ENDPOINTS")
    {
        return Ok(given.split(',').map(|endpoint| endpoint.trim().to_owned()).collect());
    }
    let path = args.config.clone().or_else(|| variable("CONCLAVE_CONFIG").map(PathBuf::from));
    let Some(path) = path else {
        return Ok(vec![conclave_client::DEFAULT_ENDPOINT.to_owned()]);
    };
    let file = ClusterFile::read(&path)?;
    let found = if file.endpoints.is_empty() { file.nodes.into_values().collect() } else { file.endpoints };
    if found.is_empty() {
        return Err(Failure::new(format!("'{}' names neither endpoints nor nodes", path.display())));
    }
    Ok(found)
}

/// The numbers of the nodes by their addresses, where a file tells them.
pub fn node_ids(args: &EndpointArgs) -> BTreeMap<String, u64> {
    let path = args.config.clone().or_else(|| variable("CONCLAVE_CONFIG").map(PathBuf::from));
    let members = path.and_then(|path| ClusterFile::read(&path).ok()).and_then(|file| file.members().ok());
    members.into_iter().flat_map(|Members(members)| members).map(|(id, address)| (address, id)).collect()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read() {
        let Members(members) =
            parse_members("1=127.0.0.1:7401, 2=[::1]:7402,3=host:7403").expect("they are right");
        assert_eq!(members[&2], "[::1]:7402");
        assert_eq!(members.len(), 3);
        for wrong in [
            "",
            "1",
            "1=",
            "1=host",
            "1=host:99999",
            "0=host:1",
            "x=host:1",
            "1=a:1,1=b:1",
            "1=:80",
            "1=a:1,2=a:1",
        ] {
            assert!(parse_members(wrong).is_err(), "{wrong}");
        }
    }
}
