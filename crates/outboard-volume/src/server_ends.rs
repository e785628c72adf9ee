// SPDX-License-Identifier: GPL-2.0-only
//! All that the process of a server gets from its keeper, the process that has made its sockets.
//!
//! The *parting socket* is one end of a pair.
//!
//! | from | to | message | then |
//! |---|---|---|---|
//! | keeper | server | [`GivenSockets`], and so many sockets | the server opens files |
//! | server | keeper | [`ServerReady`] | connections are served |
//! | keeper | server | the end of the channel | the server ends |
//! | server | keeper | the end of the parting socket | the keeper removes files of sockets |
//! | keeper | server | the end of the parting socket | connections that wait are told |

use outboard::receive_fd;
use outboard_error::{Error, Result};
use outboard_protocol::frames::RunAnswer;
use outboard_protocol::url::ServerUrl;
use outboard_server::{send_last, PeerRules, ServerListener};
use outboard_worker::{Parent, WorkerProcess};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// How many sockets follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GivenSockets {
    /// Those of the server itself.
    pub listeners: usize,
    /// TCP sockets that lead to programs.
    pub passed: usize,
}

/// Connections are served.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServerReady;

/// The server, seen from its keeper.
pub type KernelServerProcess = WorkerProcess<GivenSockets, ServerReady>;

/// All that a server has of the host.
pub struct ServerEnds {
    pub(crate) keeper: Parent<GivenSockets, ServerReady>,
    pub(crate) listeners: Vec<ServerListener>,
    pub(crate) waiting: WaitingForEnd,
}

/// Connections that wait for the server's end.
#[derive(Clone, Debug)]
pub struct WaitingForEnd {
    connections: Arc<Mutex<Vec<UnixStream>>>,
    parting: Arc<UnixStream>,
}

impl ServerEnds {
    /// Takes standard output as the channel to the keeper. Returns the TCP sockets, too. To be
    /// called before the sandbox closes. Blocks until all has come. `rules`: who of this host may
    /// connect; `urls`: where the sockets listen.
    pub fn receive(rules: PeerRules, urls: &[ServerUrl]) -> Result<(Self, Vec<OwnedFd>)> {
        let failed = |error| Error::failed("cannot use the sockets of the server", &error);
        let mut keeper = Parent::of_program().map_err(failed)?;
        let given: Option<GivenSockets> = keeper.receive().map_err(Error::from)?;
        let given = given.ok_or(Error::AlreadyReported)?;
        let receive = |count| {
            let sockets: io::Result<Vec<OwnedFd>> =
                (0..count).map(|_| receive_fd(io::stdout())).collect();
            sockets.map_err(failed)
        };
        let parting = Arc::new(receive_fd(io::stdout()).map_err(failed)?.into());
        let at = |(socket, url): (OwnedFd, &ServerUrl)| {
            let listener = ServerListener::new(socket, url, rules.clone());
            listener.map_err(|error| Error::failed(format!("cannot serve {url}"), &error))
        };
        let sockets = receive(given.listeners)?.into_iter();
        let listeners: Result<_> = sockets.zip(urls).map(at).collect();
        let ends = Self {
            keeper,
            listeners: listeners?,
            waiting: WaitingForEnd {
                connections: Arc::default(),
                parting,
            },
        };
        Ok((ends, receive(given.passed)?))
    }

    /// The connections that will wait.
    pub fn waiting(&self) -> WaitingForEnd {
        self.waiting.clone()
    }
}

impl WaitingForEnd {
    pub(crate) fn add(&self, socket: UnixStream) {
        let connections = self.connections.lock();
        connections
            .unwrap_or_else(PoisonError::into_inner)
            .push(socket);
    }

    /// Tells all of them how the server has ended, when the files of its sockets are gone. Blocks
    /// until then.
    pub fn tell(&self, answer: &RunAnswer) {
        let _ = self.parting.shutdown(Shutdown::Write);
        // The end, or an error: the keeper has gone.
        let _ = (&*self.parting).read(&mut [0]);
        let waiting = self.connections.lock();
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        for socket in waiting.iter() {
            // It may have gone.
            let _ = send_last(socket, answer);
        }
    }
}
