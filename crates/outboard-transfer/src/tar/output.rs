// SPDX-License-Identifier: GPL-2.0-only
//! Packing a directory of an image into an archive.

use super::compression::{Compressor, Format};
use super::pack::pack;
use super::tree::{Choice, Walk};
use crate::cp::report::Report;
use outboard_sandbox::error::{Error, Result};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the archive goes to.
pub struct Target {
    pub file: File,
    /// For messages.
    pub name: String,
    /// A file that was made for it.
    pub made: Option<PathBuf>,
}

impl Target {
    /// An archive that is not complete must not look like one that is.
    fn remove(&self) {
        if let Some(path) = &self.made {
            let _ = std::fs::remove_file(path);
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::READER_GONE,
            _ => Error::failed(format!("cannot write to {}", self.name), error),
        }
    }
}

/// Packs what is chosen of a directory. `open`: opens the archive once the directory is found.
pub fn pack_place(
    session: &mut Session,
    place: &Place,
    choice: &Choice,
    format: Format,
    new_report: fn() -> Report,
    open: impl FnOnce(&Session) -> Result<Target>,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let id = session.open(place, false)?;
    let _ = session.tree(id).system().raise_file_limit(1 << 16);
    let shown = place.shown();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let root = session
        .tree(id)
        .open_fd(place.path(), flags, 0)
        .map_err(|error| Error::failed(format!("cannot open {shown}"), &error))?;
    let report = new_report();
    if let (TreeId::Mount(index), true) = (id, place.path() == Path::new("/")) {
        let space = session.mounted(index).space();
        report.expect(space.map_or(0, |space| space.size.saturating_sub(space.free)));
    }
    let walk = Walk {
        choice,
        report: &report,
        interrupt: &interrupt,
        shown: &shown,
    };
    let target = open(session)?;
    let threads = session.vcpus();
    let written = Compressor::new(format, &target.file, threads).and_then(|mut output| {
        pack(&walk, root, threads, &mut output)?;
        output.finish()?.flush()
    });
    report.print_losses();
    if interrupt.asked() {
        target.remove();
        let text = "interrupted: the archive is not complete".to_owned();
        return Err(Error::Interrupted(text));
    }
    if let Err(error) = written {
        target.remove();
        return Err(target.failed(&error));
    }
    match report.failures() {
        0 => Ok(()),
        _ => Err(Error::Told),
    }
}
