//! Where a process is found: a number or the name of a host, and a port.
//!
//! A name is looked up whenever a connection is made, so that a process may move to another address under its name.

use core::fmt::{Debug, Display, Formatter};
use core::str::FromStr;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a process is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// It needs no looking up.
    Fixed(SocketAddr),
    /// It is looked up at every connection.
    Named {
        /// The name of the host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A text is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// There is no port behind it.
    #[error("'{0}' has no port; write it as HOST:PORT, like node-2.lab:7001")]
    Port(String),
    /// No host can have that name.
    #[error(
        "'{0}' is no host: a name has letters, digits, '-', '_' and '.', and a number four parts up to 255"
    )]
    Host(String),
}

impl Address {
    /// The address itself, if it needs no looking up.
    #[must_use]
    pub fn fixed(&self) -> Option<SocketAddr> {
        match self {
            Self::Fixed(address) => Some(*address),
            Self::Named { .. } => None,
        }
    }

    /// Whether nobody on another machine can reach it, as far as can be told without looking it up.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Fixed(address) => address.ip().is_loopback(),
            Self::Named { host, .. } => host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Fixed(address)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Fixed(address));
        }
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let parts = text.rsplit_once(':').and_then(|(host, behind)| Some((host, port(behind)?)));
        let (host, port) = parts.ok_or_else(|| AddressError::Port(text.to_owned()))?;
        if is_host_name(host) {
            Ok(Self::Named { host: host.to_owned(), port })
        } else {
            Err(AddressError::Host(host.to_owned()))
        }
    }
}

/// Whether a host may be called so. What ends in a number is meant as a number.
fn is_host_name(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label =
        |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fits) && !label.starts_with('-');
    let relative = host.strip_suffix('.').unwrap_or(host);
    let last = relative.rsplit('.').next().unwrap_or_default();
    relative.len() <= 253
        && relative.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Fixed(address) => Display::fmt(address, f),
            Self::Named { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A lookup of the addresses of a host.
type Lookup = dyn Fn(&str) -> io::Result<Vec<std::net::IpAddr>> + Send + Sync;

/// Who knows the addresses of hosts: usually the system.
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|host| Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl Debug for Resolver {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// Asks this in place of the system. It may take its time.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<std::net::IpAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }

    /// What a process that is found there can be reached at now, waiting for whoever knows. At least one.
    ///
    /// # Errors
    /// If the name means nothing just now.
    pub fn look_up(&self, address: &Address) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = match address {
            Address::Fixed(address) => return Ok(vec![*address]),
            Address::Named { host, port } => (host, *port),
        };
        let unknown = |why: &dyn Display| format!("the name '{host}' cannot be looked up: {why}");
        let found = (self.0)(host).map_err(|error| io::Error::new(error.kind(), unknown(&error)))?;
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, unknown(&"it has no address")));
        }
        Ok(found.into_iter().map(|ip| (ip, port).into()).collect())
    }

    /// The same without keeping the thread: names may take seconds.
    pub(crate) async fn resolve(&self, address: &Address) -> io::Result<Vec<SocketAddr>> {
        if let Some(fixed) = address.fixed() {
            return Ok(vec![fixed]);
        }
        let (resolver, address) = (self.clone(), address.clone());
        let looked = tokio::task::spawn_blocking(move || resolver.look_up(&address)).await;
        looked.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_number_or_a_name() {
        for text in ["127.0.0.1:7001", "[::1]:7001", "node-2.lab:7001", "n_2:1", "lab.:65535"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.fixed().is_some(), text.starts_with(['1', '[']), "{text}");
        }
        let named = Address::Named { host: "node-2.lab".into(), port: 7_001 };
        assert_eq!("node-2.lab:7001".parse(), Ok(named));
        assert!("localhost:1".parse::<Address>().unwrap().is_loopback());
    }

    #[test]
    fn what_is_no_address_is_said_in_a_sentence() {
        for text in ["node-2", "node-2:", "node-2:0", "node-2:70000", "", ":"] {
            let why = text.parse::<Address>().unwrap_err();
            assert!(why.to_string().contains("has no port; write it as HOST:PORT"), "{why}");
        }
        for host in ["", "a b", "a..b", "-a", "300.1.1.1", "fe80::1", "a/b", &"x".repeat(64)] {
            let why = format!("{host}:80").parse::<Address>().unwrap_err();
            assert_eq!(why, AddressError::Host(host.to_owned()));
        }
    }

    #[test]
    fn a_name_that_means_nothing_says_so() {
        let address = "node-2.lab:7001".parse().unwrap();
        let nobody = Resolver::new(|_| Ok(Vec::new()));
        let why = nobody.look_up(&address).unwrap_err().to_string();
        assert_eq!(why, "the name 'node-2.lab' cannot be looked up: it has no address");
        let here = Resolver::new(|_| Ok(vec![[127, 0, 0, 1].into(), [127, 0, 0, 2].into()]));
        let found: Vec<String> = here.look_up(&address).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.1:7001", "127.0.0.2:7001"]);
    }
}
