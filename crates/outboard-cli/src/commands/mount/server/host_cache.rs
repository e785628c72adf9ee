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

    /// The host writes the dirty pages of the file, and drops all pages. This waits for requests:
    /// a thread that answers them must not call it.
    pub fn drop_pages(&self, id: u64) {
        self.drop(id, 0, 0);
    }

    /// As `drop_pages` for a range, which is not empty.
    pub fn drop_range(&self, id: u64, offset: u64, length: usize) {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        self.drop(id, offset, length as i64);
    }
}
