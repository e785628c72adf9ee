// SPDX-License-Identifier: GPL-2.0-only
//! Access to a volume, until the gate is closed.

use super::ServedVolume;
use std::io;
use std::sync::RwLock;

/// A volume, until it is closed.
pub struct Gate {
    volume: RwLock<Option<ServedVolume>>,
}

impl Gate {
    /// An open gate to a volume.
    pub fn new(volume: ServedVolume) -> Self {
        Self {
            volume: RwLock::new(Some(volume)),
        }
    }

    /// Runs a request. ENOTCONN: the gate is closed.
    pub fn run<T>(&self, work: impl FnOnce(&ServedVolume) -> io::Result<T>) -> io::Result<T> {
        match &*self.volume.read().expect("no thread panics") {
            Some(volume) => work(volume),
            None => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
        }
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        self.volume.try_write().is_err()
    }

    /// Waits for requests under way, drops all files, and refuses later requests.
    pub fn close(&self) {
        *self.volume.write().expect("no thread panics") = None;
    }
}
