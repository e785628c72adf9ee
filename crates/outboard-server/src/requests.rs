// SPDX-License-Identifier: GPL-2.0-only
//! The requests that a server with a kernel takes.
//!
//! | request | for |
//! |---|---|
//! | `Start`, `Status`, `Processes`, `Client` | all whom the rules allow |
//! | `Run`, if the server runs programs | the same |
//! | `Log`, and `Halt` if the server can be ended | root inside |

use crate::answers::failed;
use crate::connections::Service;
use crate::listener::NO_USER;
use crate::peer::{ClientPeer, InsideUser};
use crate::server::{ClientRow, ClientServer};
use outboard::{memory_in_use, process_user, release, version, Kernel};
use outboard_protocol::frames::{Frame, FrameKind, ProgramRequest, Request, RunAnswer};
use outboard_protocol::server::{ProcessKind, ProcessRow, ServerStatus, LONGEST_NAME, MOST_ROWS};
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Most connections at a time.
const MOST: usize = 4096;
/// So many of them are for root inside alone.
const FOR_ROOT: usize = 32;
/// Bytes of the kernel's log in a frame.
const LOG_PIECE: usize = 64 << 10;

/// Requests that not every server takes. Without functions of its own, it refuses them all.
pub trait ServerPrograms: Send + Sync + 'static {
    /// The programs at this moment that connections have started, by their numbers.
    fn rows(&self) -> Vec<ProcessRow> {
        Vec::new()
    }

    /// Runs a program for the other end. Blocks until it has ended.
    fn run(
        &self,
        socket: &UnixStream,
        _peer: &ClientPeer,
        _request: ProgramRequest,
    ) -> io::Result<()> {
        Frame::send(&mut &*socket, &failed(NO_PROGRAMS))
    }

    /// A connection of a network is refused, for this reason.
    fn refused(&self, _reason: &str) {}

    /// Ends the server for the other end, who is root inside. The answer may come later.
    fn halt(&self, socket: UnixStream) -> io::Result<()> {
        let process = std::process::id();
        let reason = format!("the kernel belongs to process {process}, and ends with that");
        Frame::send(&mut &socket, &failed(reason))
    }
}

const NO_PROGRAMS: &str =
    "this server has clients alone, and runs no programs: its kernel is that \
                           of another program";

/// A server that runs no programs, and is not ended by requests.
pub struct NoPrograms;

impl ServerPrograms for NoPrograms {}

/// The service of a kernel.
pub struct KernelService<P> {
    kernel: Kernel,
    /// Its clients.
    pub clients: ClientServer,
    /// Its programs.
    pub programs: P,
    began: Instant,
}

impl<P: ServerPrograms> KernelService<P> {
    /// Serves this kernel, of which these are the clients.
    pub fn new(kernel: &Kernel, clients: ClientServer, programs: P) -> Self {
        Self {
            kernel: kernel.clone(),
            clients,
            programs,
            began: Instant::now(),
        }
    }

    fn client_row(&self, row: ClientRow) -> ProcessRow {
        ProcessRow {
            kind: ProcessKind::Client,
            process: row.process,
            user: process_user(self.kernel.system(), row.process).unwrap_or(NO_USER),
            host_process: row.host_process,
            host_user: row.user,
            name: row.name.chars().take(LONGEST_NAME).collect(),
            threads: Some(row.threads as u64),
            calls: Some(row.calls),
        }
    }

    fn status(&self) -> ServerStatus {
        ServerStatus {
            version: version(),
            kernel: release(),
            host_process: std::process::id(),
            seconds: self.began.elapsed().as_secs(),
            clients: self.clients.clients().len() as u64,
            programs: self.programs.rows().len() as u64,
            memory: memory_in_use(self.kernel.system()).unwrap_or_default(),
        }
    }

    fn send_processes(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut rows = self.programs.rows();
        let clients = self.clients.clients().into_iter();
        let add = || rows.extend(clients.map(|row| self.client_row(row)));
        self.kernel.in_first_root(add)?;
        for rows in rows.chunks(MOST_ROWS) {
            Frame::send(&mut socket, &RunAnswer::Processes(rows.to_vec()))?;
        }
        Frame::send(&mut socket, &RunAnswer::Ended(0))
    }

    fn send_log(&self, mut socket: &UnixStream) -> io::Result<()> {
        let log = match self.kernel.system().kernel_log() {
            Ok(log) => log,
            Err(error) => {
                let reason = format!("cannot read the log of the kernel: {error}");
                return Frame::send(&mut socket, &failed(reason));
            }
        };
        for piece in without_levels(&log).chunks(LOG_PIECE) {
            Frame::write(&mut socket, FrameKind::Output, piece)?;
        }
        Frame::send(&mut socket, &RunAnswer::Ended(0))
    }
}

impl<P: ServerPrograms> Service for KernelService<P> {
    fn most(&self, peer: &ClientPeer) -> usize {
        // A client of a network did not prove anything yet.
        if peer.inside == InsideUser::ROOT && peer.user != NO_USER {
            MOST
        } else {
            MOST - FOR_ROOT
        }
    }

    fn refused(&self, reason: &str) {
        self.programs.refused(reason);
    }

    fn serve(&self, socket: UnixStream, peer: ClientPeer, request: Request) -> io::Result<()> {
        let is_root = peer.inside == InsideUser::ROOT;
        match request {
            Request::Start => Frame::send(&mut &socket, &RunAnswer::Started),
            Request::Client(request) => {
                self.clients.serve(socket, &peer, &request);
                Ok(())
            }
            Request::Status => {
                let status = self.kernel.in_first_root(|| self.status())?;
                Frame::send(&mut &socket, &RunAnswer::Status(status))
            }
            Request::Processes => self.send_processes(&socket),
            Request::Log | Request::Halt if !is_root => {
                let reason = format!("user {} of the host is not root inside", peer.user);
                Frame::send(&mut &socket, &failed(reason))
            }
            Request::Log => self.send_log(&socket),
            Request::Halt => self.programs.halt(socket),
            Request::Run(request) => self.programs.run(&socket, &peer, request),
            Request::Stop { .. } | Request::Token(_) => {
                Frame::send(&mut &socket, &failed("a server takes no such request"))
            }
        }
    }
}

/// Lines without the number before them, as in "<6>[    0.5] text".
fn without_levels(log: &[u8]) -> Vec<u8> {
    let lines = log.split_inclusive(|&byte| byte == b'\n');
    let text = lines.map(|line| match line.iter().position(|&byte| byte == b'>') {
        Some(end) if line[0] == b'<' && line[1..end].iter().all(u8::is_ascii_digit) => {
            &line[end + 1..]
        }
        _ => line,
    });
    text.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_left_out() {
        let log = b"<6>[ 0.5] a<1>\n<x>b\n<12>c\n\nd";
        assert_eq!(without_levels(log), b"[ 0.5] a<1>\n<x>b\nc\n\nd");
    }
}
