//! What only the members of a group know, and how they show that they do without saying it.

use core::fmt::{Debug, Formatter};

use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::hello::Hello;

/// A number that is used once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub [u8; 16]);

impl Nonce {
    /// One that nobody can foresee.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        // Without randomness a proof that was overheard could be used once more; it proves membership all the same.
        let _ = getrandom::fill(&mut bytes);
        Self(bytes)
    }
}

/// A keyed digest of a connection: whoever sends it knows the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof([u8; 32]);

/// Which side of a connection proves something: the proof of one is of no use to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who connects.
    Connects,
    /// Who accepts.
    Accepts,
}

/// What only the members of a group know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Nobody finds it in a log.
impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Fewer bytes could be guessed.
    pub const LEAST: usize = 16;

    /// From a text, such as one that [`Secret::random`] made; nothing if it is too short.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (text.len() >= Self::LEAST).then(|| Self(text.as_bytes().to_vec()))
    }

    /// A text that nobody can guess, for the files of a group.
    ///
    /// # Errors
    /// If there is no randomness to be had.
    pub fn random() -> std::io::Result<String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Shows that this side of a connection knows the secret.
    #[must_use]
    pub fn prove(&self, side: Side, hello: &Hello, challenge: Nonce) -> Proof {
        Proof(self.sign(&Self::said(side, hello, challenge)))
    }

    /// Whether a proof is one.
    #[must_use]
    pub fn is_proof(&self, side: Side, hello: &Hello, challenge: Nonce, proof: &Proof) -> bool {
        self.has_signed(&Self::said(side, hello, challenge), &proof.0)
    }

    /// A keyed digest: only who knows the secret can make it.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.key(), bytes).as_ref());
        digest
    }

    /// Whether a digest is that of these bytes.
    #[must_use]
    pub fn has_signed(&self, bytes: &[u8], digest: &[u8]) -> bool {
        hmac::verify(&self.key(), bytes, digest).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn said(side: Side, hello: &Hello, challenge: Nonce) -> Vec<u8> {
        let word = match side {
            Side::Connects => 0u8,
            Side::Accepts => 1,
        };
        postcard::to_stdvec(&(word, challenge, hello)).expect("a hello is plain data")
    }
}

#[cfg(test)]
mod tests {
    use conclave_core::{Incarnation, NodeId};

    use super::*;
    use crate::hello::{Terms, WIRE};
    use crate::store::Directory;

    fn hello() -> Hello {
        Hello {
            wire: WIRE,
            cluster: "test".into(),
            protocol: "echo".into(),
            version: 1,
            from: NodeId(1),
            to: NodeId(2),
            life: Incarnation(1),
            directory: Directory(1),
            terms: Terms::default(),
            nonce: Nonce([1; 16]),
            gap: None,
            onward: None,
            via: None,
        }
    }

    #[test]
    fn a_proof_is_of_one_secret_one_side_and_one_connection() {
        let secret = Secret::new("sixteen bytes at least").unwrap();
        let proof = secret.prove(Side::Connects, &hello(), Nonce([2; 16]));
        let is_proof = |secret: &Secret, side, hello: &Hello, challenge| {
            secret.is_proof(side, hello, Nonce([challenge; 16]), &proof)
        };
        assert!(is_proof(&secret, Side::Connects, &hello(), 2));
        let other = Secret::new("sixteen bytes and more").unwrap();
        assert!(!is_proof(&other, Side::Connects, &hello(), 2), "another secret");
        assert!(!is_proof(&secret, Side::Accepts, &hello(), 2), "the other side");
        assert!(!is_proof(&secret, Side::Connects, &hello(), 3), "another connection");
        assert!(
            !is_proof(&secret, Side::Connects, &Hello { from: NodeId(3), ..hello() }, 2),
            "another process"
        );
        assert!(Secret::new("short").is_none());
    }
}
