//! Who may ask: the page of this lab, and nobody else.
//!
//! A page of somebody else in the same browser can send requests here, and a name of somebody else can be made to lead here.
//! So a request has to name this lab as its host, must not come from another page, and, where the lab can be reached from other
//! machines, carries a secret in its address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::answer::Failed;
use crate::{Code, Problem};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is known about those who may ask.
pub struct Guard {
    address: SocketAddr,
    secret: Option<String>,
}

impl Guard {
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let secret = match address.ip().is_loopback() {
            true => None,
            false => Some(secret()?),
        };
        Ok(Self { address, secret })
    }

    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// Whether a path is that of the page without its last slash.
    fn is_unfinished(&self, path: &str) -> bool {
        self.secret.as_deref().is_some_and(|secret| path.strip_prefix('/') == Some(secret))
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        let secret = self.secret.as_ref().map_or_else(String::new, |secret| format!("{secret}/"));
        format!("http://{}/{secret}", self.address)
    }

    /// Whether a host is this lab. Off loopback any address will do, since it can have many; a name will not.
    fn is_ours(&self, host: &str) -> bool {
        if self.address.ip().is_loopback() {
            let named = host.strip_suffix(&format!(":{}", self.address.port()));
            let named = named.or_else(|| (self.address.port() == 80).then_some(host));
            return named.is_some_and(|name| matches!(name, "127.0.0.1" | "localhost" | "[::1]"));
        }
        let address: Option<SocketAddr> = host.parse().ok();
        address.is_some_and(|address| address.port() == self.address.port())
            || (self.address.port() == 80 && host.parse::<IpAddr>().is_ok())
    }

    fn examine(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let all =
            |name: HeaderName| headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
        let hosts: Vec<&str> = all(header::HOST).collect();
        let [host] = hosts[..] else { return Err("the request names no host, or several") };
        if !self.is_ours(host) {
            return Err("the request names another host");
        }
        if all(header::ORIGIN).any(|origin| origin.strip_prefix("http://") != Some(host)) {
            return Err("the request comes from another page");
        }
        let site =
            all(HeaderName::from_static("sec-fetch-site")).all(|site| matches!(site, "same-origin" | "none"));
        if site { Ok(()) } else { Err("the request comes from another page") }
    }
}

/// 128 bits that nobody can guess.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses who may not ask, and tells the browser what the page may do.
pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.examine(request.headers()) {
        // What the page asks for is relative to its address.
        Ok(()) if guard.is_unfinished(request.uri().path()) => {
            Redirect::permanent(&format!("{}/", request.uri().path())).into_response()
        }
        Ok(()) => next.run(request).await,
        Err(why) => {
            let problem = Problem::new(Code::Foreign, why).hint(format!("open {}", guard.shown_url()));
            Failed::from(problem).into_response()
        }
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer to who does not know the secret.
pub async fn no_secret() -> Failed {
    Problem::new(Code::Foreign, "the address has no secret in it, or another one")
        .hint("open the address that 'conclave lab' has printed")
        .into()
}

impl Guard {
    /// The address for those who have asked in the wrong way: without the secret.
    fn shown_url(&self) -> String {
        match self.secret {
            None => self.url(),
            Some(_) => "the address that 'conclave lab' has printed".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(address: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let guard = Guard { address: address.parse().unwrap(), secret: None };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        guard.examine(&map).is_ok()
    }

    #[test]
    fn only_the_page_of_this_lab_may_ask() {
        let at = "127.0.0.1:7480";
        for fine in [
            &[("host", "127.0.0.1:7480")][..],
            &[("host", "localhost:7480")],
            &[("host", "[::1]:7480")],
            &[
                ("host", "localhost:7480"),
                ("origin", "http://localhost:7480"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("host", "localhost:7480"), ("sec-fetch-site", "none")],
        ] {
            assert!(examined(at, fine), "{fine:?}");
        }
        for foreign in [
            &[][..],
            &[("host", "127.0.0.1")],
            &[("host", "127.0.0.1:7481")],
            &[("host", "evil.example:7480")],
            &[("host", "127.0.0.1:7480.evil.example")],
            &[("host", "127.0.0.1:7480"), ("host", "evil.example")],
            &[("host", "127.0.0.1:7480"), ("origin", "http://evil.example")],
            &[("host", "127.0.0.1:7480"), ("origin", "http://localhost:7480")],
            &[("host", "127.0.0.1:7480"), ("origin", "https://127.0.0.1:7480")],
            &[("host", "127.0.0.1:7480"), ("origin", "null")],
            &[("host", "127.0.0.1:7480"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1:7480"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(!examined(at, foreign), "{foreign:?}");
        }
    }

    #[test]
    fn off_loopback_addresses_are_ours_and_names_are_not() {
        assert!(examined("0.0.0.0:7480", &[("host", "192.0.2.7:7480")]));
        assert!(!examined("0.0.0.0:7480", &[("host", "192.0.2.7:80")]));
        assert!(!examined("0.0.0.0:7480", &[("host", "evil.example:7480")]));
        assert!(Guard::new("192.0.2.7:7480".parse().unwrap()).unwrap().secret().is_some());
        assert!(Guard::new("[::1]:7480".parse().unwrap()).unwrap().secret().is_none());
    }
}
