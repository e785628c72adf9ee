// SPDX-License-Identifier: GPL-2.0-only
//! The tar archive that a file system is made from. Its size is found by reading it once before it
//! is unpacked, so a pipe is kept in a private file.

use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::tar::input::ArchiveInput;
use outboard_volume::standard_input::StandardInput;
use outboard_volume::temporary;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// An archive of the host.
#[derive(Debug)]
pub(super) struct SourceArchive {
    path: PathBuf,
    /// It has no end before it is read, and can be read once.
    is_stream: bool,
    /// All of a stream, in a file without a name.
    kept: Option<File>,
}

impl SourceArchive {
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        Ok(Self {
            path: path.to_path_buf(),
            is_stream: !kind.is_file() && !kind.is_block_device(),
            kept: None,
        })
    }

    /// The file that the user has named.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn can_be_read_again(&self) -> bool {
        !self.is_stream || self.kept.is_some()
    }

    /// Keeps a stream, so that it can be read again.
    pub(super) fn keep(&mut self, interrupt: &Interrupt) -> Result<()> {
        if self.can_be_read_again() {
            return Ok(());
        }
        let operand = self.path.as_os_str().as_bytes();
        let copy = || -> io::Result<File> {
            let mut input = StandardInput::of_file(&File::open(&self.path)?, interrupt)?;
            let place = temporary::large_place();
            let mut kept =
                tempfile::tempfile_in(&place).map_err(|error| temporary::failure(&place, error))?;
            io::copy(&mut input, &mut kept)?;
            Ok(kept)
        };
        let kept = copy();
        interrupt.check()?;
        let failed = |error| Error::of_file("cannot read archive", operand.to_vec(), &error);
        self.kept = Some(kept.map_err(failed)?);
        Ok(())
    }

    /// Opens it at its start.
    pub(super) fn open(&self) -> Result<ArchiveInput<'static>> {
        let Some(kept) = &self.kept else {
            return ArchiveInput::open(Some(self.path.as_os_str()));
        };
        let name = escaped(self.path.as_os_str().as_bytes());
        let open = || -> io::Result<File> {
            let mut file = kept.try_clone()?;
            file.rewind()?;
            Ok(file)
        };
        let file = open().map_err(|error| Error::failed(format!("cannot read {name}"), &error))?;
        Ok(ArchiveInput::of(file, name))
    }
}
