// SPDX-License-Identifier: MIT
//! Where the server is: its URL, and what a new program finds in its environment.

use crate::error::ClientError;
use outboard_protocol::client::Ticket;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The environment variable with the URL of the server.
pub const SERVER_VARIABLE: &str = "OUTBOARD_SERVER";
/// The environment variable of a program that another client has become by an exec: a ticket, a
/// space, and the URL.
pub const SESSION_VARIABLE: &str = "OUTBOARD_SESSION";

const UNIX: &[u8] = b"unix:";

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerPlace {
    /// The path of its socket. A change of the working directory does not matter.
    pub(crate) path: PathBuf,
}

impl ServerPlace {
    pub(crate) fn parse(url: &OsStr) -> Result<Self, ClientError> {
        let path = match url.as_bytes().strip_prefix(UNIX) {
            Some(path) if !path.is_empty() => Path::new(OsStr::from_bytes(path)),
            _ => {
                let message = format!(
                    "cannot connect to {}: a server's URL is unix:PATH",
                    Path::new(url).display()
                );
                return Err(ClientError::new(libc::EINVAL, message));
            }
        };
        // Without a working directory the path stays relative.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path })
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// The value of [`SESSION_VARIABLE`] for the next program.
    pub(crate) fn session(&self, ticket: Ticket) -> OsString {
        let mut value = format!("{ticket} ").into_bytes();
        value.extend(UNIX);
        value.extend(self.path.as_os_str().as_bytes());
        OsString::from_vec(value)
    }
}

/// Reads the value of [`SESSION_VARIABLE`].
fn parse_session(value: &OsStr) -> Result<(ServerPlace, Ticket), ClientError> {
    let wrong = || {
        let message = format!("{SESSION_VARIABLE} is not a ticket, a space and a URL: unset it");
        ClientError::new(libc::EINVAL, message)
    };
    let bytes = value.as_bytes();
    let space = bytes
        .iter()
        .position(|&byte| byte == b' ')
        .ok_or_else(wrong)?;
    let ticket = std::str::from_utf8(&bytes[..space]).map_err(|_| wrong())?;
    let ticket = ticket.parse().map_err(|_| wrong())?;
    let place = ServerPlace::parse(OsStr::from_bytes(&bytes[space + 1..]))?;
    Ok((place, ticket))
}

/// The place that the environment names, and the ticket of an exec, which can be used once: the
/// variable is removed.
pub(crate) fn from_environment() -> Result<(ServerPlace, Option<Ticket>), ClientError> {
    if let Some(session) = env::var_os(SESSION_VARIABLE) {
        env::remove_var(SESSION_VARIABLE);
        let (place, ticket) = parse_session(&session)?;
        return Ok((place, Some(ticket)));
    }
    let url = env::var_os(SERVER_VARIABLE).ok_or_else(|| {
        let message = format!("no server is named: set {SERVER_VARIABLE} to its URL");
        ClientError::new(libc::EINVAL, message)
    })?;
    Ok((ServerPlace::parse(&url)?, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKET: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn a_session_is_read_as_it_was_written() {
        let place = ServerPlace::parse(OsStr::new("unix:/a b/c")).unwrap();
        let ticket: Ticket = TICKET.parse().unwrap();
        let session = place.session(ticket);
        assert_eq!(session, OsString::from(format!("{TICKET} unix:/a b/c")));
        assert_eq!(parse_session(&session).unwrap(), (place, ticket));
    }

    #[test]
    fn other_texts_are_refused() {
        for url in ["", "unix:", "/a", "tcp:1.2.3.4:5"] {
            assert!(ServerPlace::parse(OsStr::new(url)).is_err(), "{url}");
        }
        for session in ["", "unix:/a", "00 unix:/a", &format!("{TICKET} /a"), TICKET] {
            assert!(parse_session(OsStr::new(session)).is_err(), "{session}");
        }
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        let place = ServerPlace::parse(OsStr::new("unix:a")).unwrap();
        assert_eq!(place.path, env::current_dir().unwrap().join("a"));
    }
}
