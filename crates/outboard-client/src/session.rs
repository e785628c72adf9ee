// SPDX-License-Identifier: MIT
//! The address of the server, and the environment of a new program.

use crate::error::ClientError;
use outboard_protocol::client::Ticket;
use outboard_protocol::url::{NetworkProof, ServerUrl};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The environment variable with the URL of the server.
pub const SERVER_VARIABLE: &str = "OUTBOARD_SERVER";
/// The environment variable of a program that another client has become by an exec: a ticket, a
/// space, and the URL.
pub const SESSION_VARIABLE: &str = "OUTBOARD_SESSION";

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerPlace {
    /// A change of the working directory does not matter to its paths.
    pub(crate) url: ServerUrl,
}

/// Without a working directory a path stays relative.
fn absolute(path: &mut PathBuf) {
    if let Ok(found) = std::path::absolute(&*path) {
        *path = found;
    }
}

impl ServerPlace {
    pub(crate) fn parse(url: &OsStr) -> Result<Self, ClientError> {
        let mut parsed = ServerUrl::parse(url.to_owned()).map_err(|reason| {
            let message = format!("cannot connect to {}: {reason}", Path::new(url).display());
            ClientError::new(libc::EINVAL, message)
        })?;
        absolute(file_of(&mut parsed));
        Ok(Self { url: parsed })
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        self.url.to_string()
    }

    /// Whether threads share memory with the server.
    pub(crate) fn has_slots(&self) -> bool {
        matches!(self.url, ServerUrl::Unix(_))
    }

    /// The value of [`SESSION_VARIABLE`] for the next program.
    pub(crate) fn session(&self, ticket: Ticket) -> OsString {
        let begin = match &self.url {
            ServerUrl::Unix(_) => "unix:".to_owned(),
            ServerUrl::Network(network) => match network.proof {
                NetworkProof::Token(_) => format!("{},token=", self.url),
                NetworkProof::Certificates(_) => format!("{},certificates=", self.url),
            },
        };
        let mut value = OsString::from(format!("{ticket} {begin}"));
        value.push(file_of(&mut self.url.clone()));
        value
    }
}

/// The path in a URL: of the socket, or of the proof.
fn file_of(url: &mut ServerUrl) -> &mut PathBuf {
    match url {
        ServerUrl::Unix(path) => path,
        ServerUrl::Network(network) => match &mut network.proof {
            NetworkProof::Token(path) | NetworkProof::Certificates(path) => path,
        },
    }
}

/// Reads a URL of [`ServerPlace::session`]. The path is its last part, and may have commas.
fn parse_place(url: &[u8]) -> Result<ServerPlace, ClientError> {
    let equals = url.iter().position(|&byte| byte == b'=');
    let of_network = equals.filter(|_| !url.starts_with(b"unix:"));
    let Some(equals) = of_network.filter(|&equals| equals + 1 < url.len()) else {
        return ServerPlace::parse(OsStr::from_bytes(url));
    };
    let (begin, path) = url.split_at(equals + 1);
    let any = [begin, b"/"].concat();
    let mut place = ServerPlace::parse(OsStr::from_bytes(&any))?;
    *file_of(&mut place.url) = OsStr::from_bytes(path).into();
    Ok(place)
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
    let place = parse_place(&bytes[space + 1..])?;
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
    fn a_session_leads_over_the_network() {
        let ticket: Ticket = TICKET.parse().unwrap();
        for url in ["tcp:[::1]:5,token=/a b/c", "tls:host:7,certificates=/d"] {
            let mut place = ServerPlace::parse(OsStr::new(url)).unwrap();
            let session = place.session(ticket);
            assert_eq!(session, OsString::from(format!("{TICKET} {url}")));
            assert_eq!(parse_session(&session).unwrap(), (place.clone(), ticket));
            // As of a relative path, in such a directory.
            *file_of(&mut place.url) = "/a,user=1/b=c,d".into();
            let session = place.session(ticket);
            assert_eq!(parse_session(&session).unwrap(), (place, ticket));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for url in ["", "unix:", "/a", "tcp:1.2.3.4:5", "tls:a:5,token=b"] {
            assert!(ServerPlace::parse(OsStr::new(url)).is_err(), "{url}");
        }
        for session in ["", "unix:/a", "00 unix:/a", &format!("{TICKET} /a"), TICKET] {
            assert!(parse_session(OsStr::new(session)).is_err(), "{session}");
        }
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        let place = ServerPlace::parse(OsStr::new("unix:a")).unwrap();
        let own = env::current_dir().unwrap();
        assert_eq!(place.url, ServerUrl::Unix(own.join("a")));
        let place = ServerPlace::parse(OsStr::new("tls:h:1,certificates=a")).unwrap();
        let session = place.session(TICKET.parse().unwrap());
        let end = format!("certificates={}/a", own.display());
        assert!(session.to_str().unwrap().ends_with(&end));
    }
}
