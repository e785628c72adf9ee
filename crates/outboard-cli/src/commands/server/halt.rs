// SPDX-License-Identifier: GPL-2.0-only
//! `outboard halt`: ends a server.

use super::url::{connect, parse_url, ServerUrl};
use crate::commands::connected_program::{ask, refusal};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::Result;
use outboard_protocol::frames::{Request, RunAnswer};

/// End a server; when halt returns, all changes are on stable storage
///
/// Programs and clients of the server end, and its images are unmounted. Only those who are root in
/// the server may end it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard halt unix:/run/lab/kernel")]
pub struct HaltArgs {
    /// The address of the server
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_url))]
    pub url: ServerUrl,
}

pub fn run(options: &HaltArgs) -> Result<()> {
    match ask(&connect(&options.url)?, &Request::Halt)? {
        RunAnswer::Ended(_) => Ok(()),
        answer => Err(refusal(answer)),
    }
}
