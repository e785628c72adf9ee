// SPDX-License-Identifier: GPL-2.0-only
//! Makes the host drop outdated attributes and pages from its cache.

use fuser::{INodeNo, Notifier};
use std::sync::OnceLock;

/// An offset before all data: only attributes are dropped.
const ATTRIBUTES_ONLY: i64 = -1;

/// All calls ignore errors: the host may have dropped the file.
#[derive(Default)]
pub struct HostCache {
    host: OnceLock<Notifier>,
}

impl HostCache {
    /// Sets the connection to the host.
    pub fn connect(&self, host: Notifier) {
        let _ = self.host.set(host);
    }

    fn drop(&self, id: u64, offset: i64, length: i64) {
        if let Some(host) = self.host.get() {
            let _ = host.inval_inode(INodeNo(id), offset, length);
        }
    }

    /// Makes the host ask for the attributes of the file again. Any thread may call this.
    pub fn drop_attributes(&self, id: u64) {
        self.drop(id, ATTRIBUTES_ONLY, 0);
    }

    /// Makes the host write the dirty pages of a range of the file, which must not be empty, and
    /// drop all pages of the range. This waits for requests: a thread that answers requests must
    /// not call it.
    pub fn drop_range(&self, id: u64, offset: u64, length: u64) {
        let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
        self.drop(id, number(offset), number(length));
    }

    /// As `drop_range`, from an offset to the end.
    pub fn drop_from(&self, id: u64, offset: u64) {
        self.drop(id, i64::try_from(offset).unwrap_or(i64::MAX), 0);
    }
}
