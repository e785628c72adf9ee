// SPDX-License-Identifier: GPL-2.0-only
//! `outboard status`: the state of a server.

use super::url::{connect, parse_url, ServerUrl};
use crate::commands::connected_program::{ask, refusal};
use crate::output::{Output, Print};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::format::size;
use outboard_error::Result;
use outboard_protocol::frames::{Request, RunAnswer};
use outboard_protocol::server::ServerStatus;
use serde::Serialize;

/// Show the state of a server: versions, how long it runs, its clients, programs and memory
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard status unix:/run/lab/kernel")]
pub struct StatusArgs {
    /// The address of the server
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_url))]
    pub url: ServerUrl,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Shown(ServerStatus);

impl Print for Shown {
    fn print(&self, output: &mut Output) -> Result<()> {
        let status = &self.0;
        let rows = [
            ("outboard", output.text(&status.version)),
            ("kernel", output.text(&status.kernel)),
            ("process", status.host_process.to_string()),
            ("uptime", format!("{} s", status.seconds)),
            ("clients", status.clients.to_string()),
            ("programs", status.programs.to_string()),
            ("memory", size(status.memory)),
        ];
        let mut rows = rows.iter();
        rows.try_for_each(|(name, value)| output.line(format!("{name:<9} {value}")))
    }
}

pub fn run(options: &StatusArgs, output: &mut Output) -> Result<()> {
    match ask(&connect(&options.url)?, &Request::Status)? {
        RunAnswer::Status(status) => output.member("server", &Shown(status)),
        answer => Err(refusal(answer)),
    }
}
