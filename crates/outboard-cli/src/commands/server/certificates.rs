// SPDX-License-Identifier: GPL-2.0-only
//! `outboard certificates`: what the two sides of `tls:` need.

use clap::Args;
use outboard_error::{Error, Result};
use outboard_tls::make_certificates;
use std::path::PathBuf;

/// Make the certificates and keys for a server at a tls: URL, and for its clients
///
/// The directory gets authority.pem, server.pem, server-key.pem, client.pem and client-key.pem. A
/// server needs the first three, a client the first and the last two. Nothing is replaced. The key
/// of the authority is not kept: to shut a client out, make new ones for all.
#[derive(Args, Debug)]
#[command(after_help = "Example:\
                        \n  outboard certificates keys\
                        \n  outboard server debian.img tls:0.0.0.0:7000,certificates=keys\
                        \n  outboard run --on tls:host:7000,certificates=keys -- ip addr")]
pub struct CertificatesArgs {
    /// The directory, which is made if there is none
    pub directory: PathBuf,
}

pub fn run(options: &CertificatesArgs) -> Result<()> {
    let shown = options.directory.display();
    make_certificates(&options.directory)
        .map_err(|error| Error::failed(format!("cannot make certificates in {shown}"), &error))
}
