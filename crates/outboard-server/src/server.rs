// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that other processes use by their system calls.

use crate::client_root::ClientRoot;
use crate::connection;
use crate::groups::ClientGroups;
use crate::keeper::{Keeper, Watcher};
use crate::limits::ClientLimits;
use crate::peer::ClientPeer;
use crate::shared::Shared;
use crate::waits::Waits;
use outboard::{Kernel, ProgramRoot, System};
use outboard_protocol::client::ClientRequest;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Until processes that were killed have ended.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A client, for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// The number of its process in the kernel.
    pub process: i32,
    /// The number of its process on the host; 0: it did not attach yet.
    pub host_process: i32,
    /// Its user on the host.
    pub user: u32,
    /// Its name, as it says.
    pub name: String,
    /// Threads that can make calls.
    pub threads: usize,
    /// Calls that it has made.
    pub calls: u64,
}

/// A kernel that other processes use by their system calls.
///
/// A client's thread has a thread of this process, which makes the calls. The kernel checks rights
/// and limits as for any process. A client can end its own connection, and no other thing.
///
/// When this is dropped, all clients are disconnected.
pub struct ClientServer {
    shared: Arc<Shared>,
    watcher: Mutex<Option<Watcher>>,
}

impl ClientServer {
    /// Serves clients of this kernel from now on, which begin in the kernel's own tree.
    /// `Unsupported`: the kernel is the host's.
    pub fn start(kernel: &Kernel, limits: ClientLimits) -> io::Result<Self> {
        Self::start_in(kernel, None, limits)
    }

    /// As [`Self::start`], but clients begin in a root of programs. [`Self::end`] the server before
    /// the root goes.
    pub fn start_in(
        kernel: &Kernel,
        root: Option<&ProgramRoot>,
        limits: ClientLimits,
    ) -> io::Result<Self> {
        let System::Kernel(instance) = kernel.system() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let groups = ClientGroups::start(kernel, &limits)?;
        let (keeper, watcher) = Keeper::start(kernel.system())?;
        let shared = Shared {
            kernel: kernel.clone(),
            instance: instance.clone(),
            limits,
            root: ClientRoot::new(root)?,
            keeper,
            groups,
            connections: AtomicU64::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            watcher: Mutex::new(Some(watcher)),
        })
    }

    /// Serves a connection whose first message was this request, until it ends. Blocks.
    pub fn serve(&self, socket: UnixStream, peer: &ClientPeer, request: &ClientRequest) {
        connection::serve(&self.shared, socket, peer, request);
    }

    /// The clients at the moment.
    pub fn clients(&self) -> Vec<ClientRow> {
        let all = self.shared.keeper.all().into_iter();
        all.map(|process| {
            let status = process.status();
            ClientRow {
                process: process.number,
                host_process: status.host_process,
                user: process.user,
                name: status.name,
                threads: status.threads,
                calls: status.calls,
            }
        })
        .collect()
    }

    /// Serves no further client, and ends all. Blocks until their processes have ended, but not for
    /// long.
    pub fn end(&self) {
        self.shared.root.end();
        let begin = Instant::now();
        loop {
            // Again: one may have been copied meanwhile.
            let mut running = self.shared.keeper.all();
            running.retain(|process| !process.has_ended(Duration::ZERO));
            let rest = END_PATIENCE.saturating_sub(begin.elapsed());
            // One that does not end keeps its files open until the kernel halts.
            let Some(first) = running.first().filter(|_| !rest.is_zero()) else {
                break;
            };
            running.iter().for_each(|process| process.kill());
            first.has_ended(rest);
        }
        self.disconnect_all();
    }

    /// Ends the thread that watches for ends of clients: no further client may come. Blocks for a
    /// moment.
    pub(crate) fn stop(&self) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = watcher.take() {
            watcher.stop(&self.shared.instance);
        }
    }

    /// Ends all connections of clients. Those that come later are served.
    pub fn disconnect_all(&self) {
        for process in self.shared.keeper.all() {
            if !process.disconnect() {
                process.give_up(Waits::Copy);
            }
        }
    }
}

impl Drop for ClientServer {
    fn drop(&mut self) {
        self.disconnect_all();
        self.stop();
    }
}
