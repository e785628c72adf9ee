// SPDX-License-Identifier: GPL-2.0-only
//! The contents of a new file system: a directory of the host, or a tar archive.

use super::archive::SourceArchive;
use super::estimate::{Storing, TreeSize};
use super::volume_plan::VolumePlan;
use outboard_error::format::escaped;
use outboard_error::{Error, Hint, Result};
use outboard_transfer::tar::input::unpack_reads;
use outboard_volume::scratch::PlainPath;
use outboard_volume::session::Session;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The source of the contents.
#[derive(Debug)]
pub(super) enum ContentSource {
    Directory(PathBuf),
    Tar(SourceArchive),
}

impl ContentSource {
    pub(super) fn find(path: &Path) -> Result<Self> {
        let operand = || path.as_os_str().as_bytes().to_vec();
        let failed = |error| Error::of_file("cannot use", operand(), &error);
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            Ok(Self::Directory(path.to_path_buf()))
        } else {
            SourceArchive::find(path).map(Self::Tar).map_err(failed)
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Tar(archive) => archive.path(),
        }
    }

    pub(super) fn shown(&self) -> String {
        escaped(self.path().as_os_str().as_bytes())
    }

    /// The host's files that the kernel's process reads.
    pub(super) fn reads(&self) -> Vec<PathBuf> {
        match self {
            Self::Directory(path) => vec![path.clone()],
            Self::Tar(archive) => unpack_reads(archive.path()),
        }
    }

    /// Whether it can be read more than once.
    pub(super) fn can_be_read_again(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            Self::Tar(archive) => archive.can_be_read_again(),
        }
    }

    /// How much is in it, as a type stores it. `closed`: descriptors that the reader of an archive
    /// must not have.
    pub(super) fn content(
        &self,
        session: &mut Session,
        storing: Storing,
        closed: &[RawFd],
    ) -> Result<TreeSize> {
        match self {
            Self::Directory(path) => {
                TreeSize::of_directory(path, storing, session.catch_interrupts())
            }
            Self::Tar(archive) => TreeSize::of_tar(session, archive, storing, closed),
        }
    }

    /// The directory, for tools that take one.
    pub(super) fn directory(&self) -> Result<PlainPath> {
        match self {
            Self::Directory(path) => PlainPath::new(path),
            Self::Tar(_) => Err(Error::Usage(format!(
                "{} is no directory, which the tool of this type needs: unpack it first",
                self.shown()
            ))),
        }
    }

    /// A tar archive itself says who owns its files.
    pub(super) fn check(&self, plan: &VolumePlan) -> Result<()> {
        let changes = plan.owner.is_some()
            || !plan.owner_map.is_empty()
            || plan.file_contexts.is_some()
            || plan.reproducible;
        if changes && matches!(self, Self::Tar(_)) {
            let settings = Hint::ChangesOfTree;
            let text = format!("{settings} are for directories, not for a tar");
            return Err(Error::Usage(text));
        }
        Ok(())
    }
}
