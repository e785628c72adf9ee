// SPDX-License-Identifier: GPL-2.0-only
//! Why a process waits for a connection.

/// Why a process waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It is a copy, and its host process did not attach yet.
    Copy,
    /// Its next program did not attach yet.
    Program,
    /// A further thread did not attach yet. The process runs.
    Thread,
}
