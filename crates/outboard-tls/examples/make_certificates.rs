// SPDX-License-Identifier: MIT
//! Makes the certificates of a server and of its clients: make_certificates DIRECTORY.

use std::io;

fn main() -> io::Result<()> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or(io::ErrorKind::InvalidInput)?;
    outboard_tls::make_certificates(directory.as_ref())
}
