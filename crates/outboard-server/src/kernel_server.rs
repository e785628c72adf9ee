// SPDX-License-Identifier: GPL-2.0-only
//! A program's own kernel, served at URLs in the background.

use crate::connections::Connections;
use crate::limits::ClientLimits;
use crate::listener::ServerListener;
use crate::peer_rules::PeerRules;
use crate::requests::{KernelService, NoPrograms};
use crate::server::{ClientRow, ClientServer};
use crate::socket_file::{BoundSocket, SocketFile};
use outboard::{explained, without_signals, HaltHook, Kernel};
use outboard_protocol::url::ServerUrl;
use outboard_slot::forks::ClosedInChildren;
use std::ffi::OsStr;
use std::io;
use std::mem::forget;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type KernelConnections = Connections<KernelService<NoPrograms>>;

/// A kernel of this process that serves clients in the background: see the
/// [README](crate#a-program-that-serves). The program goes on to use the kernel.
///
/// Serving ends when this is dropped, and before the kernel halts: connections end, clients are
/// killed in the kernel, files of sockets are removed. This waits for calls of clients to end, for
/// 20 s at most. In a child of fork(2) a drop does nothing, since its parent serves.
pub struct KernelServer {
    shared: Arc<Shared>,
    _hook: HaltHook,
}

struct Shared {
    connections: Arc<KernelConnections>,
    /// `None`: serving has ended.
    sockets: Mutex<Option<Vec<ServedSocket>>>,
    /// The process that serves.
    process: u32,
}

/// A socket that listens.
struct ServedSocket {
    /// Another descriptor of it.
    socket: UnixStream,
    _closed: Option<ClosedInChildren>,
    _file: Option<SocketFile>,
}

impl KernelServer {
    /// Prepares to serve a kernel. Nobody can connect before [`Self::listen`]. `Unsupported`: the
    /// kernel is the host's. Starts two threads. Those that serve handle no signals of the process.
    pub fn start(kernel: &Kernel, limits: ClientLimits) -> io::Result<Self> {
        let start = || ClientServer::start(kernel, limits);
        let clients = without_signals(|| kernel.in_first_root(start))??;
        let service = KernelService::new(kernel, clients, NoPrograms);
        let shared = Arc::new(Shared {
            connections: Connections::new(service),
            sockets: Mutex::new(Some(Vec::new())),
            process: process::id(),
        });
        let ending = Arc::downgrade(&shared);
        let end = move || {
            if let Some(shared) = ending.upgrade() {
                shared.end();
            }
        };
        let hook = kernel.before_halt(end)?;
        Ok(Self {
            shared,
            _hook: hook,
        })
    }

    /// Listens at a URL, `unix:PATH`, `tcp:HOST:PORT,token=FILE[,user=USER[:GROUP]]` or
    /// `tls:HOST:PORT,certificates=DIRECTORY[,user=USER[:GROUP]]`, beside those at which it listens
    /// already. `rules`: who of the host may connect to a `unix:` socket, and as whom. A file that
    /// a killed server has left is replaced. Returns the address of a socket of a network, also for
    /// port 0. `EINVAL`: it is no URL of a server; `EADDRINUSE`: somebody listens there; `ENODEV`:
    /// serving has ended. Blocks for a second at most, if another server starts at the same path.
    pub fn listen(
        &self,
        url: impl AsRef<OsStr>,
        rules: &PeerRules,
    ) -> io::Result<Option<SocketAddr>> {
        let url = ServerUrl::parse(url.as_ref().to_owned()).map_err(invalid)?;
        let made = BoundSocket::listen(&url, rules.allow_others())?;
        let socket = UnixStream::from(made.listener.as_fd().try_clone_to_owned()?);
        let listener = ServerListener::new(made.listener, &url, rules.clone())?;
        let mut sockets = self.shared.sockets();
        let sockets = sockets.as_mut().ok_or_else(ended)?;
        let accept = move || listener.accept();
        without_signals(|| self.shared.connections.start(accept))?;
        sockets.push(ServedSocket {
            _closed: ClosedInChildren::of(socket.as_raw_fd()),
            socket,
            _file: made.file,
        });
        Ok(made.address)
    }

    /// Ends serving, as a drop does.
    pub fn end(&self) {
        if self.shared.process == process::id() {
            self.shared.end();
        }
    }

    /// The clients at the moment.
    pub fn clients(&self) -> Vec<ClientRow> {
        self.shared.connections.service.clients.clients()
    }
}

fn invalid(reason: String) -> io::Error {
    explained(io::Error::from_raw_os_error(libc::EINVAL), reason)
}

fn ended() -> io::Error {
    let cause = io::Error::from_raw_os_error(libc::ENODEV);
    explained(cause, "serving has ended, as the kernel was halted")
}

impl Shared {
    fn sockets(&self) -> MutexGuard<'_, Option<Vec<ServedSocket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all. The second of two callers waits for the first one.
    fn end(&self) {
        let mut sockets = self.sockets();
        for served in sockets.take().into_iter().flatten() {
            // Its thread's accept(2) fails from now on, and so does a client's connect(2).
            let _ = served.socket.shutdown(Shutdown::Both);
        }
        let connections = &self.connections;
        let clients = &connections.service.clients;
        clients.end();
        connections.end(|| clients.disconnect_all());
        clients.stop();
    }
}

impl Drop for KernelServer {
    fn drop(&mut self) {
        if self.shared.process == process::id() {
            self.shared.end();
        } else {
            // Its threads are the parent's: nothing here could end them.
            forget(Arc::clone(&self.shared));
        }
    }
}
