// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that other processes use by their system calls.

use crate::connection;
use crate::keeper::{Keeper, Watcher};
use crate::limits::ClientLimits;
use crate::peer::ClientPeer;
use crate::shared::Shared;
use crate::waits::Waits;
use outboard::{Kernel, System};
use outboard_protocol::client::ClientRequest;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

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
    watcher: Option<Watcher>,
}

impl ClientServer {
    /// Serves clients of this kernel from now on. `Unsupported`: the kernel is the host's.
    pub fn start(kernel: &Kernel, limits: ClientLimits) -> io::Result<Self> {
        let System::Kernel(instance) = kernel.system() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (keeper, watcher) = Keeper::start(kernel.system())?;
        let shared = Shared {
            kernel: kernel.clone(),
            instance: instance.clone(),
            limits,
            keeper,
            connections: AtomicU64::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            watcher: Some(watcher),
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
        if let Some(watcher) = self.watcher.take() {
            watcher.stop(&self.shared.instance);
        }
    }
}
