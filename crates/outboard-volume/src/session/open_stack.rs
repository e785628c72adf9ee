// SPDX-License-Identifier: GPL-2.0-only
//! A stack of layers that a session has opened.

use crate::layers::Stack;
use outboard::BlockDevice;
use outboard_error::{ErrorKind, Failure};

/// A stack, and the session's disks in it.
pub(super) struct OpenStack {
    pub(super) disks: Vec<usize>,
    pub(super) stack: Stack,
    /// See [`Context::spent`](crate::layers::Context::spent).
    pub(super) spent: Vec<BlockDevice>,
}

impl OpenStack {
    /// See [`Stack::must_be_closed`].
    pub(super) fn must_be_closed(&self) -> bool {
        self.stack.must_be_closed()
    }

    /// See [`Stack::lost_snapshots`].
    pub(super) fn lost_snapshots(&self) -> impl Iterator<Item = Failure> + '_ {
        let lost = self.stack.lost_snapshots();
        lost.map(|text| Failure::new(ErrorKind::NoSpace, text))
    }
}
