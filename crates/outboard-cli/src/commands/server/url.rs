// SPDX-License-Identifier: GPL-2.0-only
//! Where a server listens: `unix:PATH`.

use outboard_error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// How URLs begin.
const UNIX: &[u8] = b"unix:";
/// Those that are not there yet.
const LATER: [&[u8]; 2] = [b"tcp:", b"tls:"];

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerUrl {
    /// A Unix socket.
    Unix(PathBuf),
}

/// Whether a word is a URL, not an image.
pub fn is_url(text: &OsStr) -> bool {
    let bytes = text.as_bytes();
    bytes.starts_with(UNIX) || LATER.iter().any(|scheme| bytes.starts_with(scheme))
}

pub fn parse_url(text: OsString) -> std::result::Result<ServerUrl, String> {
    let bytes = text.as_bytes();
    match bytes.strip_prefix(UNIX) {
        Some(b"") => Err("a path follows unix:, as in unix:/run/lab/kernel".to_owned()),
        Some(path) => Ok(ServerUrl::Unix(OsStr::from_bytes(path).into())),
        None if is_url(&text) => Err(
            "servers are reached by unix:PATH alone: tcp: and tls: are not there yet".to_owned(),
        ),
        None => Err("a server has a URL such as unix:/run/lab/kernel".to_owned()),
    }
}

impl Display for ServerUrl {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerUrl {
    /// Connects to the server. Blocks only if it has too many connections to accept.
    pub fn connect(&self) -> Result<UnixStream> {
        let Self::Unix(path) = self;
        UnixStream::connect(path).map_err(|error| self.unreached(&error))
    }

    fn unreached(&self, error: &io::Error) -> Error {
        let next = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "; no server listens there: start one by \"outboard server\""
            }
            io::ErrorKind::PermissionDenied => "; the server's owner allows users by --allow",
            _ => "",
        };
        Error::Failed(format!("cannot reach {self}: {error}{next}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_paths() {
        let unix = |path: &str| Ok(ServerUrl::Unix(path.into()));
        assert_eq!(parse_url("unix:/a:b".into()), unix("/a:b"));
        assert_eq!(parse_url("unix:a".into()), unix("a"));
        for wrong in ["", "unix:", "/a", "tcp:1.2.3.4:5", "tls:a:1", "Unix:/a"] {
            assert!(parse_url(wrong.into()).is_err(), "{wrong}");
        }
        assert!(is_url("tcp:a".as_ref()) && !is_url("./unix:a".as_ref()));
    }
}
