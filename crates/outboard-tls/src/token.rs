// SPDX-License-Identifier: MIT
//! The secret by which a client of `tcp:` proves that it may use the server.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The least and the most bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=1024;

/// See above.
pub(crate) struct Token(String);

fn wrong(file: &Path, reason: impl std::fmt::Display) -> io::Error {
    let text = format!("{}: {reason}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Token {
    /// Reads it: the file's only line. Nobody but its owner may read the file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let of = |error| wrong(path, error);
        let file = File::open(path).map_err(of)?;
        let mode = file.metadata().map_err(of)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(wrong(path, "others may read the token: chmod 600 it"));
        }
        let mut text = String::new();
        let most = *LENGTHS.end() as u64 + 2;
        file.take(most).read_to_string(&mut text).map_err(of)?;
        let token = text.trim_end_matches(['\n', '\r']);
        if !LENGTHS.contains(&token.len()) || token.contains('\n') {
            let reason =
                "a token is one line of 16 to 1,024 bytes: \"openssl rand -hex 32\" makes one";
            return Err(wrong(path, reason));
        }
        Ok(Self(token.to_owned()))
    }

    /// The secret itself.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is it. The time does not depend on how much of it is right.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let pairs = own.iter().zip(given);
        let differences = pairs.fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == given.len() && std::hint::black_box(differences) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{write, Permissions};
    use tempfile::NamedTempFile;

    fn read(text: &str, mode: u32) -> io::Result<Token> {
        let file = NamedTempFile::new().unwrap();
        write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn a_token_is_one_private_line() {
        let token = read("0123456789abcdef\n", 0o600).unwrap();
        assert!(token.is("0123456789abcdef"));
        for other in [
            "",
            "0123456789abcdeF",
            "0123456789abcdef0",
            "0123456789abcde",
        ] {
            assert!(!token.is(other), "{other}");
        }
        assert!(read("0123456789abcdef", 0o640).is_err());
        assert!(read("short\n", 0o600).is_err());
        assert!(read("0123456789abcdef\nmore", 0o600).is_err());
        assert!(read(&"x".repeat(2000), 0o600).is_err());
        assert!(Token::read(Path::new("/nowhere")).is_err());
    }
}
