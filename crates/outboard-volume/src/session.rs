// SPDX-License-Identifier: GPL-2.0-only
//! One run of the kernel: boots it when it is needed, mounts each file system once,
//! and at the end writes and unmounts everything.
//!
//! A session of the program owns its process: it sandboxes the process. A session of a library
//! (`Session::in_library`) changes nothing of its process.
//!
//! | part, with private fields | owns |
//! |---|---|
//! | `host_part` | what the session has from the host: images held open, keys, network, sandbox |
//! | `machine` | the kernel: settings of its boot, the log |
//! | `slots` | what the kernel has open: disks, stacks of layers, mounts |
//!
//! `whole` puts the parts together. The other files work on a session: each finds, opens or lists
//! something by a name.

mod apart;
mod devices;
mod directories;
mod disk_volumes;
mod disks;
mod ending;
mod exclusion;
mod file_systems;
mod host_part;
mod layered;
mod machine;
mod mounted;
mod mounts;
#[cfg(not(feature = "remote"))]
mod no_servers;
mod open_disk;
mod open_stack;
mod problems;
mod program_network;
#[cfg(feature = "remote")]
mod servers;
mod slots;
mod used;
mod whole;
mod words;

#[cfg(not(feature = "remote"))]
use no_servers as servers;

pub use apart::{apart, apart_without, start_apart};
pub use devices::WantedDevice;
pub use ending::{in_session, with_session};
pub use host_part::ProcessState;
pub(crate) use machine::{messages_since, without_time};
pub(crate) use mounted::unsynced;
pub use mounted::Style;
pub use whole::{Session, TreeId};
