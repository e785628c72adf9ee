// SPDX-License-Identifier: GPL-2.0-only
//! A disk of an NBD server, as the server describes it.

/// Limits that a server states for one request, in bytes.
#[derive(Clone, Copy)]
pub struct RequestSizes {
    pub least: u32,
    pub most: u32,
}

/// The disk as the server describes it.
pub struct NbdExport {
    pub size: u64,
    pub flags: u16,
    pub sizes: RequestSizes,
}
