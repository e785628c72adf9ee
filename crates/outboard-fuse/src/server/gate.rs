// SPDX-License-Identifier: GPL-2.0-only
//! The way to a volume, which can be closed.

use super::Volume;
use std::io;
use std::sync::RwLock;

/// A volume, until it is closed.
pub struct Gate {
    volume: RwLock<Option<Volume>>,
}

impl Gate {
    /// An open gate to a volume.
    pub fn new(volume: Volume) -> Self {
        Self {
            volume: RwLock::new(Some(volume)),
        }
    }

    /// Carries out a request. ENOTCONN: the end has come.
    pub fn run<T>(&self, work: impl FnOnce(&Volume) -> io::Result<T>) -> io::Result<T> {
        match &*self.volume.read().expect("no thread panics") {
            Some(volume) => work(volume),
            None => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
        }
    }

    /// Waits for the requests under way, lets go of all files, and refuses what comes.
    pub fn close(&self) {
        *self.volume.write().expect("no thread panics") = None;
    }
}
