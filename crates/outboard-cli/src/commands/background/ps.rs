// SPDX-License-Identifier: GPL-2.0-only
//! `outboard ps`: the runs in the background, or the programs and clients of a server.

use super::named::{self, NamedRun, Record, RunState};
use crate::commands::server::processes;
use crate::commands::server::url::{parse_url, ServerUrl};
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use outboard_error::Result;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;

/// List runs in the background, or the programs and clients of a server
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard ps --all\
                        \n  outboard ps --on unix:/run/lab/kernel")]
pub struct PsArgs {
    /// Also those that have ended, until their name is used again
    #[arg(short, long)]
    pub all: bool,
    /// List the programs and clients of a server: kind, process and user in the kernel, process and
    /// user on the host, threads, calls, name
    #[arg(long, value_name = "URL", conflicts_with = "all",
          value_parser = OsStringValueParser::new().try_map(parse_url))]
    pub on: Option<ServerUrl>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    state: &'static str,
    exit_code: Option<u8>,
    pid: u32,
    /// Seconds since 1970.
    began: i64,
    #[serde(flatten)]
    image: Bytes<'static>,
    program: Vec<String>,
    /// For people.
    #[serde(skip)]
    shown: String,
}

impl Print for Row {
    fn print(&self, output: &mut Output) -> Result<()> {
        let state = match self.exit_code {
            Some(code) => format!("exited {code}"),
            None => self.state.to_owned(),
        };
        let began = Timestamp::from_second(self.began).unwrap_or_default();
        let began = began
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M");
        let (name, pid, shown) = (&self.name, self.pid, output.text(&self.shown));
        output.line(format!("{name:<16} {state:<10} {pid:>8}  {began}  {shown}"))
    }
}

pub fn run(options: &PsArgs, output: &mut Output) -> Result<()> {
    if let Some(url) = &options.on {
        return processes::run(url, output);
    }
    for run in named::all()? {
        let state = run.state();
        if let Some(record) = run
            .record()
            .filter(|_| options.all || state == RunState::Running)
        {
            output.item(&row(&run, state, record))?;
        }
    }
    Ok(())
}

fn row(run: &NamedRun, state: RunState, record: Record) -> Row {
    let words = record
        .program
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let program: Vec<String> = words.collect();
    let image = record.image.to_string_lossy();
    Row {
        name: run.name().to_owned(),
        state: match state {
            RunState::Running => "running",
            RunState::Exited(_) => "exited",
            RunState::Lost => "lost",
        },
        exit_code: match state {
            RunState::Exited(code) => Some(code),
            _ => None,
        },
        pid: record.pid,
        began: record.began,
        shown: format!("{image}: {}", program.join(" ")),
        image: Bytes::new("image", record.image.as_bytes().to_vec()),
        program,
    }
}
