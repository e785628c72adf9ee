// SPDX-License-Identifier: GPL-2.0-only
//! The root directory in which new processes of clients begin.

use outboard::{ProgramRoot, RootEntry};
use std::io;
use std::sync::{PoisonError, RwLock};

/// Where new processes begin.
enum Beginning {
    /// In the kernel's own tree.
    Tree,
    /// In the root of programs.
    Root(RootEntry),
    /// Nowhere: the server ends.
    Ended,
}

/// See above.
pub(crate) struct ClientRoot(RwLock<Beginning>);

impl ClientRoot {
    /// `root`: of programs, if there is one.
    pub(crate) fn new(root: Option<&ProgramRoot>) -> io::Result<Self> {
        let entry = root.map(ProgramRoot::entry).transpose()?;
        let beginning = entry.map_or(Beginning::Tree, Beginning::Root);
        Ok(Self(RwLock::new(beginning)))
    }

    /// The calling thread, which has claimed the only task of a new process, enters the root.
    pub(crate) fn enter(&self) -> io::Result<()> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Beginning::Tree => Ok(()),
            Beginning::Root(entry) => entry.enter(),
            Beginning::Ended => Err(io::Error::from_raw_os_error(libc::ESHUTDOWN)),
        }
    }

    /// No further process begins. The root is not in use by this any more.
    pub(crate) fn end(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Beginning::Ended;
    }
}
