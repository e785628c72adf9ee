// SPDX-License-Identifier: GPL-2.0-only
//! The programs and clients of a server, for `outboard ps --on`.

use super::url::{connect, ServerUrl};
use crate::commands::connected_program::{ask, lost, next_answer, refusal};
use crate::output::{Output, Print};
use outboard_error::Result;
use outboard_protocol::frames::{Request, RunAnswer};
use outboard_protocol::server::{ProcessKind, ProcessRow};
use serde::Serialize;

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    process: i32,
    user: u32,
    host_process: i32,
    host_user: u32,
    threads: Option<u64>,
    calls: Option<u64>,
    name: String,
}

impl From<ProcessRow> for Row {
    fn from(row: ProcessRow) -> Self {
        Self {
            kind: match row.kind {
                ProcessKind::Program => "program",
                ProcessKind::Client => "client",
            },
            process: row.process,
            user: row.user,
            host_process: row.host_process,
            host_user: row.host_user,
            threads: row.threads,
            calls: row.calls,
            name: row.name,
        }
    }
}

impl Print for Row {
    fn print(&self, output: &mut Output) -> Result<()> {
        let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let (threads, calls) = (number(self.threads), number(self.calls));
        let name = output.text(&self.name);
        output.line(format!(
            "{:<8} {:>8} {:>6} {:>8} {:>6} {threads:>5} {calls:>10}  {name}",
            self.kind, self.process, self.user, self.host_process, self.host_user
        ))
    }
}

/// Lists them.
pub fn run(url: &ServerUrl, output: &mut Output) -> Result<()> {
    let socket = connect(url)?;
    let mut answer = ask(&socket, &Request::Processes)?;
    loop {
        match answer {
            RunAnswer::Processes(rows) => {
                let mut rows = rows.into_iter().map(Row::from);
                rows.try_for_each(|row| output.item(&row))?;
            }
            RunAnswer::Ended(_) => return Ok(()),
            answer => return Err(refusal(answer)),
        }
        answer = next_answer(&socket).map_err(|error| lost(&error))?;
    }
}
