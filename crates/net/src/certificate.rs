//! Makes the certificates of a group.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use conclave_core::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use thiserror::Error;

use crate::tls::{TlsConfig, node_name};

/// Why certificates could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file could not be written; those before it are there.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The certificate itself could not be made.
    #[error("a certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Makes an authority for a cluster and a certificate for each of its nodes, as PEM files in a directory.
///
/// `authority.pem` goes to every node, `node-3.pem` and `node-3.key` only to node 3. The authority's own key is not
/// kept: who holds it could speak for every node. To add a node, make them all again.
///
/// # Errors
/// If a file exists already or cannot be written.
pub fn generate(dir: &Path, cluster: &str, nodes: &[NodeId]) -> Result<(), CertificateError> {
    fs::create_dir_all(dir).map_err(at(dir))?;
    let authority = CertifiedIssuer::self_signed(authority(cluster), KeyPair::generate()?)?;
    write(&dir.join("authority.pem"), &authority.pem(), 0o644)?;
    for id in nodes {
        let key = KeyPair::generate()?;
        let certificate = node(*id, cluster)?.signed_by(&key, &authority)?;
        let paths = in_dir(dir, *id);
        write(&paths.certificate, &certificate.pem(), 0o644)?;
        write(&paths.key, &key.serialize_pem(), 0o600)?;
    }
    Ok(())
}

/// Where [`generate`] puts what a node needs.
#[must_use]
pub fn in_dir(dir: &Path, id: NodeId) -> TlsConfig {
    TlsConfig {
        authority: dir.join("authority.pem"),
        certificate: dir.join(format!("node-{}.pem", id.0)),
        key: dir.join(format!("node-{}.key", id.0)),
        refused: BTreeSet::new(),
    }
}

fn authority(cluster: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, format!("authority of {cluster}"));
    params
}

fn node(id: NodeId, cluster: &str) -> Result<CertificateParams, rcgen::Error> {
    let name = node_name(id, cluster);
    let mut params = CertificateParams::new(vec![name.clone()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

/// A key is never readable by others, not even between being made and being written.
fn write(path: &Path, pem: &str, mode: u32) -> Result<(), CertificateError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path).map_err(at(path))?;
    file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CertificateError {
    let path = path.to_owned();
    move |error| CertificateError::Io { path, error }
}
