// SPDX-License-Identifier: GPL-2.0-only
//! Digests by which images of containers name their parts.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Display};
use std::io::{self, Read};

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;
const PREFIX: &str = "sha256:";

/// A digest by SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlobDigest([u8; 32]);

impl BlobDigest {
    /// Of `sha256:` and 64 digits. `None`: another algorithm, or none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::of_digits(text.strip_prefix(PREFIX)?)
    }

    /// Of 64 digits alone, in lower case.
    pub(super) fn of_digits(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let mut bytes = [0; 32];
        let good = digits.len() == 64 && digits.bytes().all(is_digit);
        (good && hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(Self(bytes))
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of all that was added to a hash.
    pub(super) fn of_hash(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// Of all that a reader has.
    pub(super) fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self::of_hash(hash)),
                length => hash.update(&buffer[..length]),
            }
        }
    }

    /// The 64 digits.
    pub(super) fn digits(&self) -> String {
        hex::encode(self.0)
    }
}

impl Display for BlobDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.digits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_digests_are_read() {
        let digits = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let empty = BlobDigest::parse(&format!("sha256:{digits}")).unwrap();
        assert_eq!(empty, BlobDigest::of_bytes(b""));
        assert_eq!(empty, BlobDigest::of_reader(&b""[..]).unwrap());
        assert_eq!(empty.to_string(), format!("sha256:{digits}"));
        let wrong = [
            "",
            "sha256:",
            "sha512:00",
            "sha256:../../../etc/passwd",
            digits,
        ];
        for text in wrong {
            assert_eq!(BlobDigest::parse(text), None, "{text}");
        }
        assert_eq!(BlobDigest::of_digits(&digits.to_uppercase()), None);
    }
}
