//! Mutual TLS: every node shows a certificate that names it, signed by the authority of the group.
//!
//! Node 3 of cluster `lab` is `node-3.lab`. Whoever connects checks that name of whoever answers, and the other way
//! round, so that the holder of one certificate cannot speak for another node.

use core::fmt::{Display, Formatter};
use core::str::FromStr;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use conclave_core::NodeId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::hello::Refusal;
use crate::stream::{Broken, Carrier, Stream};

/// Where the certificates are, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate of the authority that signs for the group.
    pub authority: PathBuf,
    /// The certificate of this node.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates that are refused although the authority has signed them.
    pub refused: BTreeSet<Fingerprint>,
}

/// The SHA-256 digest of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate in DER.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
        Self(digest)
    }

    /// That of the certificate in a PEM file.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_file(path: &PathBuf) -> Result<Self, TlsError> {
        Ok(Self::of(&certificates(path)?[0]))
    }
}

impl Display for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is no fingerprint: that is 64 hexadecimal digits, with or without colons")]
pub struct NoFingerprint(String);

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let wrong = || NoFingerprint(text.to_owned());
        let digits: Vec<u8> = text
            .chars()
            .filter(|digit| *digit != ':')
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit)).collect();
        if digits.len() == 64 { bytes.try_into().map(Self).map_err(|_| wrong()) } else { Err(wrong()) }
    }
}

/// Why certificates cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Certificate, key and authority do not fit together.
    #[error("the certificates do not fit together: {0}")]
    Unfit(String),
}

/// The name of a node in its certificate.
#[must_use]
pub fn node_name(id: NodeId, cluster: &str) -> String {
    format!("node-{}.{cluster}", id.0)
}

/// Both sides of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    cluster: String,
    refused: BTreeSet<Fingerprint>,
}

impl Tls {
    pub fn load(config: &TlsConfig, cluster: &str) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&config.authority)? {
            roots.add(authority).map_err(unfit)?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&config.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&config.key).map_err(|error| file(&config.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());

        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_client_cert_verifier(verifier.build().map_err(unfit)?)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            cluster: cluster.to_owned(),
            refused: config.refused.clone(),
        })
    }

    /// Encrypts a connection that we made; whoever answers must be that node.
    pub async fn connect(&self, stream: Carrier, to: NodeId) -> Result<Stream, Broken> {
        let name = ServerName::try_from(node_name(to, &self.cluster)).map_err(std::io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        self.unless_refused(TlsStream::Client(stream))
    }

    /// Encrypts a connection that was made to us, by somebody with a certificate.
    pub async fn accept(&self, stream: Carrier) -> Result<Stream, Broken> {
        let stream = self.acceptor.accept(stream).await?;
        self.unless_refused(TlsStream::Server(stream))
    }

    fn unless_refused(&self, stream: TlsStream<Carrier>) -> Result<Stream, Broken> {
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        match shown.first().map(|certificate| Fingerprint::of(certificate)) {
            Some(fingerprint) if self.refused.contains(&fingerprint) => Err(Refusal::Revoked.into()),
            _ => Ok(Stream::Tls(Box::new(stream))),
        }
    }

    /// Whether the certificate at the other end names this node.
    pub fn names(&self, stream: &Stream, id: NodeId) -> bool {
        let Stream::Tls(stream) = stream else { return false };
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let parsed = certificate.and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
        let name = ServerName::try_from(node_name(id, &self.cluster)).ok();
        parsed
            .zip(name)
            .is_some_and(|(parsed, name)| rustls::client::verify_server_name(&parsed, &name).is_ok())
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| file(path, &error))?;
    let read: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| file(path, &error))?;
    if read.is_empty() {
        return Err(TlsError::File { path: path.clone(), why: "there is no certificate in it".to_owned() });
    }
    Ok(read)
}

fn file(path: &std::path::Path, error: &rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { path: path.to_owned(), why: error.to_string() }
}

fn unfit(error: impl Display) -> TlsError {
    TlsError::Unfit(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_written_with_or_without_colons() {
        let fingerprint = Fingerprint::of(b"a certificate");
        let plain = fingerprint.to_string();
        let pairs: Vec<&str> = (0..32).map(|at| &plain[2 * at..2 * at + 2]).collect();
        assert_eq!(plain.parse(), Ok(fingerprint));
        assert_eq!(pairs.join(":").to_uppercase().parse(), Ok(fingerprint));
        for wrong in
            ["", "ab", &plain[1..], &format!("{plain}0"), &plain.replace('0', "g"), &plain.replace('0', "ä")]
        {
            assert!(wrong == plain || wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
