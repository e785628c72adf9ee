// SPDX-License-Identifier: GPL-2.0-only
//! One of the two trees that are compared.

use outboard::walk::Start;
use outboard::Fd;
use outboard_volume::address::Place;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

/// One of the two trees.
pub struct Side {
    pub place: Place,
    pub root: Fd,
}

impl Side {
    pub fn place_of(&self, path: &[u8]) -> Place {
        match path {
            b"" => self.place.clone(),
            path => self.place.below(path),
        }
    }

    /// The root of the walk through the tree.
    pub fn start(&self) -> io::Result<Start> {
        let kind = self.root.stat()?.st_mode & libc::S_IFMT;
        Ok(Start {
            directory: Arc::new(self.root.duplicate()?),
            name: CString::default(),
            kind,
        })
    }
}
