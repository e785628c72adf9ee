// SPDX-License-Identifier: GPL-2.0-only
//! Requests of connections to the kernel of programs: those of commands to a run in the background,
//! by its control socket, and the programs of a server.

use super::children::Children;
use super::connected_program::ProgramStart;
use super::first_program::FirstProgram;
use super::start::ProgramRun;
use outboard_protocol::frames::{ProgramRequest, Request};
use outboard_server::{ClientPeer, Service};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Most connections at a time to a run.
const MOST: usize = 64;

/// The further programs of a run or a server.
pub(super) struct FurtherPrograms {
    pub(super) run: Arc<ProgramRun>,
    pub(super) children: Arc<Children>,
}

/// A run in the background, for its commands. The directory of its socket keeps all others out.
pub(super) struct RunService {
    pub(super) further: FurtherPrograms,
    pub(super) first: FirstProgram,
}

impl FurtherPrograms {
    pub(super) fn new(run: &Arc<ProgramRun>, children: &Arc<Children>) -> Self {
        Self {
            run: Arc::clone(run),
            children: Arc::clone(children),
        }
    }

    /// Runs a program until its connection ends. `began` gets the numbers of its process and of its
    /// user. Its result is dropped when the program has ended.
    pub(super) fn serve<T: Send + 'static>(
        &self,
        socket: &UnixStream,
        request: ProgramRequest,
        began: impl FnOnce(i32, u32) -> T,
    ) -> io::Result<()> {
        let program = ProgramStart {
            run: &self.run,
            children: &self.children,
            terminal: request.terminal,
            has_error_apart: request.has_error_apart(),
            command: self.run.command.further(request),
        };
        program.serve(socket, began)
    }
}

impl Service for RunService {
    fn most(&self, _peer: &ClientPeer) -> usize {
        MOST
    }

    fn serve(&self, socket: UnixStream, _peer: ClientPeer, request: Request) -> io::Result<()> {
        match request {
            Request::Run(request) => self.further.serve(&socket, request, |_, _| ()),
            request => self.first.serve(&self.further.run, &socket, request),
        }
    }
}
