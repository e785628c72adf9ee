// SPDX-License-Identifier: GPL-2.0-only
//! The other end of a connection, and its user inside.

/// A user of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsideUser {
    /// The user's number. 0 has all rights in the kernel.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

impl InsideUser {
    /// The one with all rights.
    pub const ROOT: Self = Self { user: 0, group: 0 };
}

/// The other end of a connection, as the host vouches for it, and the rules of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPeer {
    /// The number of its process on the host; 0: it is on another host.
    pub process: i32,
    /// The number of its user there. Tickets are good for the user who has got them.
    pub user: u32,
    /// Its user inside.
    pub inside: InsideUser,
}
