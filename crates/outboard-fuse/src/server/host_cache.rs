// SPDX-License-Identifier: GPL-2.0-only
//! The host's cache of attributes and pages: makes the host drop what is no longer true.

use fuser::{INodeNo, Notifier};
use std::sync::OnceLock;

/// An offset before all data: only attributes are dropped.
const ATTRIBUTES_ONLY: i64 = -1;

/// Errors of all calls are ignored: the host may not know the file any more.
#[derive(Default)]
pub struct HostCache {
    host: OnceLock<Notifier>,
}

impl HostCache {
    /// Uses the host's connection from now on.
    pub fn connect(&self, host: Notifier) {
        let _ = self.host.set(host);
    }

    fn drop(&self, id: u64, offset: i64, length: i64) {
        if let Some(host) = self.host.get() {
            let _ = host.inval_inode(INodeNo(id), offset, length);
        }
    }

    /// The host asks for the attributes of the file again. Any thread may call this.
    pub fn drop_attributes(&self, id: u64) {
        self.drop(id, ATTRIBUTES_ONLY, 0);
    }

    /// The host writes the dirty pages of a range of the file, which is not empty, and drops all of
    /// its pages. This waits for requests: a thread that answers them must not call it.
    pub fn drop_range(&self, id: u64, offset: u64, length: u64) {
        let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
        self.drop(id, number(offset), number(length));
    }

    /// As `drop_range` for all from an offset on.
    pub fn drop_from(&self, id: u64, offset: u64) {
        self.drop(id, i64::try_from(offset).unwrap_or(i64::MAX), 0);
    }
}
