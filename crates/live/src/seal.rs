//! Orders from another machine: lines that only members of the group can write.
//!
//! ```text
//!   client                                  process
//!      │◀────────────────────────────────── │  its nonce
//!      │  a nonce                            │
//!      │ ──────────────────────────────────▶│
//!      │◀────────────────────────────────── │  digest line: "here" shows that the process knows the secret
//!      │  digest line                        │  shows that the client does
//!      │ ──────────────────────────────────▶│
//! ```
//!
//! Every line has a digest before it, keyed by the secret of the group, of both nonces, who speaks, the number of the line and
//! the line. So none can be forged, repeated, left out or taken from another connection. They can be read by whoever carries
//! them.

use conclave_net::Secret;
use conclave_net::secret::{Nonce, Side};

/// The digest in hexadecimal digits and a blank.
const HEAD: usize = 65;

/// The first line of a process.
pub(crate) const HERE: &[u8] = b"here\n";

/// The lines of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    secret: Secret,
    side: Side,
    nonces: [Nonce; 2],
    written: u64,
    read: u64,
}

impl Seal {
    /// For this side of a connection; the nonce of the process comes first.
    pub fn new(secret: Secret, side: Side, nonces: [Nonce; 2]) -> Self {
        Self { secret, side, nonces, written: 0, read: 0 }
    }

    /// A line, with its digest.
    pub fn close(&mut self, line: &[u8]) -> Vec<u8> {
        let digest = self.secret.sign(&self.said(self.side, self.written, line));
        self.written += 1;
        let mut sealed = hex(&digest).into_bytes();
        sealed.push(b' ');
        sealed.extend(line);
        sealed
    }

    /// The line, if its digest is right.
    pub fn open<'a>(&mut self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (head, line) = sealed.split_at_checked(HEAD)?;
        let digest = unhex::<32>(head.strip_suffix(b" ")?)?;
        let other = if self.side == Side::Accepts { Side::Connects } else { Side::Accepts };
        let is_right = self.secret.has_signed(&self.said(other, self.read, line), &digest);
        self.read += 1;
        is_right.then_some(line)
    }

    fn said(&self, side: Side, number: u64, line: &[u8]) -> Vec<u8> {
        let mut said = vec![u8::from(side == Side::Accepts)];
        said.extend(number.to_be_bytes());
        said.extend(self.nonces.iter().flat_map(|nonce| nonce.0));
        said.extend(line);
        said
    }
}

/// A nonce as a line.
pub(crate) fn nonce_line(nonce: Nonce) -> Vec<u8> {
    (hex(&nonce.0) + "\n").into_bytes()
}

/// A line as a nonce.
pub(crate) fn read_nonce(line: &[u8]) -> Option<Nonce> {
    unhex(line.strip_suffix(b"\n")?).map(Nonce)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(side: Side) -> Seal {
        let secret = Secret::new("sixteen bytes at least").expect("it is long enough");
        Seal::new(secret, side, [Nonce([1; 16]), Nonce([2; 16])])
    }

    #[test]
    fn only_the_next_line_of_the_other_side_is_taken() {
        let (mut client, mut process) = (seal(Side::Connects), seal(Side::Accepts));
        let (first, second) = (client.close(b"one"), client.close(b"two"));
        assert_eq!(process.clone().open(&second), None, "a line is missing");
        assert_eq!(process.open(&first), Some(&b"one"[..]));
        assert_eq!(process.clone().open(&first), None, "it was said before");
        assert_eq!(client.clone().open(&second), None, "it comes back to who said it");
        let mut changed = second.clone();
        *changed.last_mut().expect("it is not empty") ^= 1;
        assert_eq!(process.clone().open(&changed), None);
        let mut elsewhere = Seal { nonces: [Nonce([3; 16]), Nonce([2; 16])], ..process.clone() };
        assert_eq!(elsewhere.open(&second), None, "another connection");
        assert_eq!(process.clone().open(b"two"), None);
        assert_eq!(process.open(&second), Some(&b"two"[..]));
        assert_eq!(read_nonce(&nonce_line(Nonce([0xab; 16]))), Some(Nonce([0xab; 16])));
        assert_eq!(read_nonce(b"no nonce\n"), None);
    }
}
