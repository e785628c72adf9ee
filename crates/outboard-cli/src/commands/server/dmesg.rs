// SPDX-License-Identifier: GPL-2.0-only
//! `outboard dmesg`: the log of a server's kernel.

use super::url::{connect, parse_url, ServerUrl};
use crate::commands::connected_program::{lost, refusal};
use crate::output::Output;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::Result;
use outboard_protocol::frames::{Frame, FrameKind, Request, RunAnswer};
use std::io;

/// Print the log of a server's kernel
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard dmesg unix:/run/lab/kernel | tail")]
pub struct DmesgArgs {
    /// The address of the server
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_url))]
    pub url: ServerUrl,
}

pub fn run(options: &DmesgArgs) -> Result<()> {
    let mut socket = connect(&options.url)?;
    let mut output = Output::new()?;
    // The answer says more.
    let _ = Frame::send(&mut socket, &Request::Log);
    loop {
        let frame = Frame::read(&mut socket).and_then(|frame| {
            let end = io::ErrorKind::UnexpectedEof;
            frame.ok_or(end.into())
        });
        let frame = frame.map_err(|error| lost(&error))?;
        if frame.kind == FrameKind::Output {
            output.bytes(&frame.bytes)?;
            continue;
        }
        return match frame.message().map_err(|error| lost(&error))? {
            RunAnswer::Ended(_) => output.flush(),
            answer => Err(refusal(answer)),
        };
    }
}
