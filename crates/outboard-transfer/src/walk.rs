// SPDX-License-Identifier: GPL-2.0-only
//! The walk of crate `outboard`, as commands use it: from an operand, until the user wants to stop,
//! with messages.

use crate::operand::Named;
use outboard::walk::{append, Start};
pub use outboard::walk::{Entry, OpenDirectory, Step, Walk};
use outboard_error::format::escaped;
use outboard_error::{Failure, Reported};
use std::io;
use std::sync::Arc;

impl From<Named> for Start {
    fn from(named: Named) -> Self {
        Self {
            directory: Arc::new(named.directory),
            name: named.name,
            kind: named.stat.st_mode & libc::S_IFMT,
        }
    }
}

/// A path with a name after it.
pub fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    append(&mut joined, name);
    joined
}

/// Texts of messages about a file of a walk.
pub trait EntryText {
    /// Its path.
    fn shown(&self) -> String;

    /// The failure to do `what` with it.
    fn failure(&self, what: &str, error: &io::Error) -> Reported;
}

impl EntryText for Entry<'_> {
    fn shown(&self) -> String {
        escaped(self.path)
    }

    fn failure(&self, what: &str, error: &io::Error) -> Reported {
        Failure::of_file(&format!("cannot {what}"), self.path.to_vec(), error).into()
    }
}
