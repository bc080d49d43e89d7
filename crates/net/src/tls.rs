//! Mutual TLS: every node shows a certificate that names it, signed by the authority of the group.
//!
//! Node 3 of cluster `lab` is `node-3.lab`. Whoever connects checks that name of whoever answers, and the other way
//! round, so that the holder of one certificate cannot speak for another node.

use std::path::PathBuf;
use std::sync::Arc;

use conclave_core::NodeId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::stream::Stream;

/// Where the certificates are, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate of the authority that signs for the group.
    pub authority: PathBuf,
    /// The certificate of this node.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
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
        })
    }

    /// Encrypts a connection that we made; whoever answers must be that node.
    pub async fn connect(&self, stream: TcpStream, to: NodeId) -> std::io::Result<Stream> {
        let name = ServerName::try_from(node_name(to, &self.cluster)).map_err(std::io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
    }

    /// Encrypts a connection that was made to us, by somebody with a certificate.
    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<Stream> {
        let stream = self.acceptor.accept(stream).await?;
        Ok(Stream::Tls(Box::new(TlsStream::Server(stream))))
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

fn unfit(error: impl core::fmt::Display) -> TlsError {
    TlsError::Unfit(error.to_string())
}
