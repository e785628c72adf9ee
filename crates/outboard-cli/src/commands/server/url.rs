// SPDX-License-Identifier: GPL-2.0-only
//! Servers by their URLs, as commands reach them.

use outboard_error::{Error, Result};
pub use outboard_protocol::url::{is_url, ServerUrl};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;

pub fn parse_url(text: OsString) -> std::result::Result<ServerUrl, String> {
    ServerUrl::parse(text)
}

/// Connects to the server. Blocks for 10 s at most for each address of its host, or if it has too
/// many connections to accept.
pub fn connect(url: &ServerUrl) -> Result<UnixStream> {
    outboard_tls::connect(url).map_err(|error| unreached(url, &error))
}

fn unreached(url: &ServerUrl, error: &io::Error) -> Error {
    let next = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; no server listens there: start one by \"outboard server\""
        }
        io::ErrorKind::PermissionDenied => "; the server's owner allows users by --allow",
        _ => "",
    };
    Error::Failed(format!("cannot reach {url}: {error}{next}"))
}
