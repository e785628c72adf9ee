// SPDX-License-Identifier: GPL-2.0-only
//! Directories and files of the host that programs of a volume see.

use outboard::{HostDirectory, HostDirectoryOptions, Kernel, ProgramRoot};
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use std::path::PathBuf;

/// A directory of the host, or a regular file, at a place of the programs' root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBind {
    /// On the host.
    pub source: PathBuf,
    /// In the root of the programs: an absolute path.
    pub target: PathBuf,
    /// Programs cannot change it.
    pub read_only: bool,
}

impl HostBind {
    /// Adds the need of the host for it.
    pub fn add_access(&self, access: &mut HostAccess) {
        let paths = if self.read_only {
            &mut access.reads
        } else {
            &mut access.writes
        };
        paths.push(self.source.clone());
    }

    /// Shows it to the programs, as long as the result lives.
    pub(crate) fn show(&self, kernel: &Kernel, root: &ProgramRoot) -> Result<HostDirectory> {
        let options = if self.read_only {
            HostDirectoryOptions::read_only()
        } else {
            HostDirectoryOptions::read_write()
        };
        let failed = |error| Error::failed("cannot show a directory to programs", &error);
        let directory = kernel
            .add_directory(&self.source, options)
            .map_err(failed)?;
        root.bind(&directory, &self.target).map_err(failed)?;
        Ok(directory)
    }
}
