// SPDX-License-Identifier: GPL-2.0-only
//! Private directories of the host that do not outlive the command: signals wait for their end.

use crate::interrupt::Guard;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory that only its owner may use. It goes with all that is in it when it is dropped.
pub struct PrivateDirectory {
    directory: TempDir,
    /// Dropped after the directory.
    _guard: Guard,
}

impl PrivateDirectory {
    /// Makes one in `parent`, or where `TMPDIR` says.
    pub fn new(prefix: &str, parent: Option<&Path>) -> io::Result<Self> {
        let guard = Guard::new();
        let mut builder = tempfile::Builder::new();
        builder
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700));
        let directory = match parent {
            Some(parent) => builder.tempdir_in(parent)?,
            None => builder.tempdir()?,
        };
        Ok(Self {
            directory,
            _guard: guard,
        })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// It stays.
    pub fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}
