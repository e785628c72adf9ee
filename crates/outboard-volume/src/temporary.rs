// SPDX-License-Identifier: GPL-2.0-only
//! Temporary files, and private directories that the command always removes: signals wait for that.
//! Errors name the directory and the variable that chooses it.

use outboard::explained;
use outboard_error::reason;
use outboard_sandbox::interrupt::Guard;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory for small files.
pub fn place() -> PathBuf {
    std::env::temp_dir()
}

/// The directory for files as large as a disk: on many hosts /tmp is in memory.
pub fn large_place() -> PathBuf {
    let place = std::env::var_os("TMPDIR").filter(|place| !place.is_empty());
    place.map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// The reason of an error of the crate tempfile, without the random name that it adds.
pub fn short_reason(error: &io::Error) -> String {
    let why = reason(error);
    why.split(" (os error ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The error of creating a file in one of these directories.
pub fn failure(place: &Path, error: io::Error) -> io::Error {
    let text = format!(
        "cannot make a temporary file in {}: {} (set TMPDIR to a directory that can be written)",
        place.display(),
        short_reason(&error)
    );
    explained(error, text)
}

/// A directory that only its owner may use. Dropping it removes it with its contents.
pub struct PrivateDirectory {
    directory: TempDir,
    /// Dropped after the directory.
    _guard: Guard,
}

impl PrivateDirectory {
    /// Creates one in the directory for small files.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let place = place();
        Self::new_in(&place, prefix).map_err(|error| failure(&place, error))
    }

    /// Creates one in the directory for large files.
    pub fn new_large(prefix: &str) -> io::Result<Self> {
        let place = large_place();
        Self::new_in(&place, prefix).map_err(|error| failure(&place, error))
    }

    /// Creates one in a directory that an operand names.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        let guard = Guard::new();
        let directory = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        Ok(Self {
            directory,
            _guard: guard,
        })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Keeps the directory.
    pub fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The umask has no effect: nobody else may look at the files that a command works on.
    #[test]
    fn a_private_directory_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let made = PrivateDirectory::new_in(parent.path(), "private-").unwrap();
        let mode = std::fs::metadata(made.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let path = made.path().to_owned();
        drop(made);
        assert!(!path.exists());
    }
}
