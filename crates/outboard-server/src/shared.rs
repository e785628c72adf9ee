// SPDX-License-Identifier: GPL-2.0-only
//! All that threads of a server share.

use crate::client_root::ClientRoot;
use crate::groups::ClientGroups;
use crate::keeper::Keeper;
use crate::limits::ClientLimits;
use outboard::{Instance, Kernel};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// See above.
pub(crate) struct Shared {
    pub(crate) kernel: Kernel,
    pub(crate) instance: Instance,
    pub(crate) limits: ClientLimits,
    pub(crate) root: ClientRoot,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) groups: Arc<ClientGroups>,
    pub(crate) connections: AtomicU64,
}

impl Shared {
    /// A number for a connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether there may be a further client.
    pub(crate) fn check_room(&self) -> io::Result<()> {
        if self.keeper.count() >= self.limits.clients {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        Ok(())
    }
}
