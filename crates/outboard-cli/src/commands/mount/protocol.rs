// SPDX-License-Identifier: GPL-2.0-only
//! Messages between the processes of a mount. A process that ends closes its channel.
//!
//! | from | to | message | then |
//! |---|---|---|---|
//! | server | keeper | [`ServerStep::Prepared`] | the keeper mounts |
//! | keeper | server | the FUSE device, a descriptor | the server mounts the image in its kernel |
//! | server | keeper | [`ServerStep::Serving`] | the file system can be used |
//! | keeper | server | the end of the channel | the server stops |
//!
//! Those of a keeper in the background and its command: [`keeper`](crate::commands::keeper).

use outboard_worker::{Parent, WorkerProcess};
use serde::{Deserialize, Serialize};

/// A step of the server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerStep {
    /// All files of the host are open.
    Prepared,
    /// Requests of the host are answered.
    Serving,
}

/// The server, seen from the keeper. It takes no requests.
pub type ServerProcess = WorkerProcess<(), ServerStep>;
/// The keeper, seen from the server.
pub type ServerParent = Parent<(), ServerStep>;
