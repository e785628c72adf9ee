// SPDX-License-Identifier: GPL-2.0-only
//! Connections to a kernel in this process: those of commands to a run in the background, by its
//! control socket, and all of a server.
//!
//! | thread | does |
//! |---|---|
//! | of each socket | accepts connections, until the process ends |
//! | of a connection | serves one request ([`Request`]) |
//!
//! A command that stops reading holds up its own program, and nothing else.

use super::answers::failed;
use super::children::Children;
use super::connected_program::ProgramStart;
use super::first_program::FirstProgram;
use super::kernel_server::{check_user, shown_words, KernelServer};
use super::start::ProgramRun;
use crate::parting::send_last;
use crate::server_listener::Accepted;
use outboard::Fd;
use outboard_protocol::frames::{Frame, ProgramRequest, Request, RunAnswer};
use outboard_server::{ClientPeer, InsideUser};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Most connections at a time to a run, and to a server.
const MOST_OF_RUN: usize = 64;
const MOST_OF_SERVER: usize = 4096;
/// So many of them are for root inside alone.
const FOR_ROOT: usize = 32;
/// How long a connection may take until its request begins, in milliseconds.
const REQUEST_PATIENCE: i32 = 10_000;
/// The user of the host in whose place a client of a network is.
const NO_USER: u32 = u32::MAX;
/// After an error.
const PAUSE: Duration = Duration::from_millis(100);

/// The service behind connections.
pub(super) enum Service {
    Run(FirstProgram),
    Kernel(KernelServer),
}

/// All that the process and its connections share.
pub(super) struct ControlServer {
    pub(super) run: Arc<ProgramRun>,
    pub(super) children: Arc<Children>,
    pub(super) service: Service,
    connections: AtomicUsize,
}

impl Service {
    /// The error: an answer.
    fn peer(&self, accepted: &Accepted) -> Result<ClientPeer, RunAnswer> {
        let unknown = |error| failed(format!("cannot see who connects: {error}"));
        match (self, accepted) {
            // The directory of its socket keeps all others out.
            (Self::Run(_), _) => Ok(ClientPeer {
                process: 0,
                user: 0,
                inside: InsideUser::ROOT,
            }),
            (Self::Kernel(_), Accepted::Network(connection)) => Ok(ClientPeer {
                process: 0,
                user: NO_USER,
                inside: InsideUser {
                    user: connection.user.0,
                    group: connection.user.1,
                },
            }),
            (Self::Kernel(server), Accepted::Host(socket)) => {
                let peer = server.rules.peer(socket).map_err(unknown)?;
                peer.map_err(|user| failed(format!("the server has no rule for user {user}")))
            }
        }
    }

    fn most(&self, peer: &ClientPeer) -> usize {
        match self {
            Self::Run(_) => MOST_OF_RUN,
            // A client of a network did not prove anything yet.
            Self::Kernel(_) if peer.inside == InsideUser::ROOT && peer.user != NO_USER => {
                MOST_OF_SERVER
            }
            Self::Kernel(_) => MOST_OF_SERVER - FOR_ROOT,
        }
    }
}

/// One of the connections at this moment.
struct Counted(Arc<ControlServer>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ControlServer {
    pub(super) fn new(run: &Arc<ProgramRun>, children: Arc<Children>, service: Service) -> Self {
        Self {
            run: Arc::clone(run),
            children,
            service,
            connections: AtomicUsize::new(0),
        }
    }

    /// Accepts connections from now on.
    pub(super) fn start(
        self: &Arc<Self>,
        accept: impl Fn() -> io::Result<Accepted> + Send + 'static,
    ) -> io::Result<()> {
        let server = Arc::clone(self);
        let accept_all = move || loop {
            match accept() {
                Ok(accepted) => server.accept(accepted),
                // There are too many files, which others close.
                Err(_) => thread::sleep(PAUSE),
            }
        };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(accept_all)
            .map(drop)
    }

    /// Whether there are connections.
    pub(super) fn is_used(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    fn accept(self: &Arc<Self>, accepted: Accepted) {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(self));
        let refused = match self.service.peer(&accepted) {
            Ok(peer) if before < self.service.most(&peer) => {
                let serve = move || {
                    // Nobody is left to tell.
                    let _ = counted.0.serve(accepted, peer);
                };
                // Without a thread, the connection ends.
                let _ = thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(serve);
                return;
            }
            Ok(_) => failed(format!("{before} connections are in use already")),
            Err(answer) => answer,
        };
        let _ = Frame::send(&mut accepted.stream(), &refused);
    }

    fn serve(&self, accepted: Accepted, peer: ClientPeer) -> io::Result<()> {
        if let Accepted::Network(connection) = &accepted {
            if !connection.is_proven() {
                let refused = failed("this is not the token of the server");
                return send_last(&connection.stream, &refused);
            }
        }
        let socket = accepted.into_stream();
        let waiting = Fd::from(OwnedFd::from(socket.try_clone()?));
        if !waiting.wait_to_read(REQUEST_PATIENCE)? {
            return Ok(());
        }
        let Some(frame) = Frame::read(&mut &socket)? else {
            return Ok(());
        };
        match (frame.message(), &self.service) {
            (Ok(Request::Run(request)), _) => self.run_program(&socket, peer, request),
            (Ok(request), Service::Run(first)) => first.serve(&self.run, &socket, request),
            (Ok(request), Service::Kernel(server)) => {
                server.serve(&self.run, socket, peer, request)
            }
            (Err(error), _) => Frame::send(&mut &socket, &failed(error.to_string())),
        }
    }

    fn run_program(
        &self,
        socket: &UnixStream,
        peer: ClientPeer,
        mut request: ProgramRequest,
    ) -> io::Result<()> {
        if let Err(reason) = check_user(&peer, &mut request) {
            return Frame::send(&mut &*socket, &failed(reason));
        }
        let name = shown_words(&request.words);
        let program = ProgramStart {
            run: &self.run,
            children: &self.children,
            terminal: request.terminal,
            has_error_apart: request.has_error_apart(),
            command: self.run.command.further(request),
        };
        program.serve(socket, |number, user| match &self.service {
            Service::Run(_) => None,
            Service::Kernel(server) => Some(server.list(number, &peer, name, user)),
        })
    }
}
