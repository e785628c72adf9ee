// SPDX-License-Identifier: GPL-2.0-only
//! Temporary files, and private directories that do not outlive the command: signals wait for their
//! end. Errors name the directory and the variable that chooses it.

use outboard::explained;
use outboard_sandbox::error::reason;
use outboard_sandbox::interrupt::Guard;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory for what is small.
pub fn place() -> PathBuf {
    std::env::temp_dir()
}

/// The directory for what may be as large as a disk: /tmp is in memory on many hosts.
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

/// Explains why nothing can be made in one of these directories.
pub fn failure(place: &Path, error: io::Error) -> io::Error {
    let text = format!(
        "cannot make a temporary file in {}: {} (set TMPDIR to a directory that can be written)",
        place.display(),
        short_reason(&error)
    );
    explained(error, text)
}

/// A directory that only its owner may use. It goes with all that is in it when it is dropped.
pub struct PrivateDirectory {
    directory: TempDir,
    /// Dropped after the directory.
    _guard: Guard,
}

impl PrivateDirectory {
    /// Makes one in the directory for what is small.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let place = place();
        Self::new_in(&place, prefix).map_err(|error| failure(&place, error))
    }

    /// Makes one in the directory for what may be large.
    pub fn new_large(prefix: &str) -> io::Result<Self> {
        let place = large_place();
        Self::new_in(&place, prefix).map_err(|error| failure(&place, error))
    }

    /// Makes one in a directory that the user's operands name.
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

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// It stays.
    pub fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}
