// SPDX-License-Identifier: GPL-2.0-only
//! Messages between the processes of a mount. A process that ends closes its channel.
//!
//! | from | to | message | then |
//! |---|---|---|---|
//! | server | keeper | [`ServerStep::Prepared`] | the keeper mounts |
//! | keeper | server | the FUSE device, a descriptor | the server mounts the image in its kernel |
//! | server | keeper | [`ServerStep::Serving`] | the file system can be used |
//! | keeper | server | the end of the channel | the server stops |
//! | keeper in the background | command | [`KeeperReady`] | the command ends; the keeper goes on |
//! | command | keeper | [`CommandDone`] | the keeper writes to the system's log from now on |

use outboard_worker::{Parent, WorkerProcess};
use serde::{Deserialize, Serialize};

/// Most bytes of a message.
pub const LONGEST: usize = 64;

/// A step of the server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerStep {
    /// All files of the host are open.
    Prepared,
    /// Requests of the host are answered.
    Serving,
}

/// The file system can be used.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeeperReady;

/// The command was there to learn that the file system can be used.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandDone;

/// The server, seen from the keeper. It takes no requests.
pub type ServerProcess = WorkerProcess<(), ServerStep>;
/// The keeper, seen from the server.
pub type ServerParent = Parent<(), ServerStep>;
/// The keeper, seen from the command.
pub type KeeperProcess = WorkerProcess<CommandDone, KeeperReady>;
/// The command, seen from the keeper.
pub type KeeperParent = Parent<CommandDone, KeeperReady>;
