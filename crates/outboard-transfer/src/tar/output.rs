// SPDX-License-Identifier: GPL-2.0-only
//! Packs a directory of an image into an archive.

use super::compression::{Compressor, Format};
use super::directories::{clean, split};
use super::pack::pack;
use super::tree::{Choice, Folder, PackStart, PackedTree};
use crate::hidden::HiddenFinder;
use crate::report::Report;
use outboard::{Fd, Mount, Tree};
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use outboard_volume::stream_output::StreamOutput;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The output of the archive.
pub struct ArchiveOutput<W> {
    pub writer: W,
    /// For messages.
    pub name: String,
    /// The file, if this command created it.
    pub made: Option<PathBuf>,
}

impl<W> ArchiveOutput<W> {
    /// Removes an incomplete archive, so that it does not look complete.
    fn remove(&self) {
        if let Some(path) = &self.made {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl ArchiveOutput<File> {
    /// The same output, whose writes end when the user wants to stop.
    pub(crate) fn polled(self, interrupt: &Interrupt) -> Result<ArchiveOutput<StreamOutput>> {
        let file = self.writer.try_clone();
        match file.and_then(|file| StreamOutput::new(Fd::from(OwnedFd::from(file)), interrupt)) {
            Ok(writer) => Ok(ArchiveOutput {
                writer,
                name: self.name,
                made: self.made,
            }),
            Err(error) => {
                self.remove();
                Err(Error::of_output(&self.name, &error))
            }
        }
    }
}

/// Opens the directories of the paths to pack. A missing path is a failure.
fn find_starts(
    paths: &[OsString],
    tree: &Tree,
    place: &Place,
    root: Fd,
    report: &Report,
) -> Result<Vec<PackStart>> {
    let start = |fd, path: &[u8], name| PackStart {
        folder: Folder {
            fd: Arc::new(fd),
            path: path.to_vec(),
        },
        name,
    };
    if paths.is_empty() {
        return Ok(vec![start(root, b"", c".".to_owned())]);
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let mut starts = Vec::new();
    for text in paths {
        let path = clean(text.as_bytes()).ok_or_else(|| {
            let shown = escaped(text.as_bytes());
            Error::Usage(format!("{shown}: a path in an archive has no \"..\""))
        })?;
        let (parent, name) = split(&path);
        let opened = tree.open_fd(place.below(parent).path(), flags, 0);
        let found = opened.and_then(|parent| {
            if !path.is_empty() {
                parent.stat_at(&name, libc::AT_SYMLINK_NOFOLLOW)?;
            }
            Ok(parent)
        });
        match found {
            Ok(fd) if path.is_empty() => starts.push(start(fd, b"", c".".to_owned())),
            Ok(fd) => {
                let end = path.len() - name.as_bytes().len();
                starts.push(start(fd, &path[..end], name));
            }
            Err(error) => {
                report.fail_reading("cannot read", place.below(&path).operand(), &error);
            }
        }
    }
    Ok(starts)
}

/// Packs the chosen files of a directory. `open`: opens the archive once the directory is found.
pub fn pack_place(
    session: &mut Session,
    place: &Place,
    choice: &Choice,
    format: Format,
    new_report: fn() -> Report,
    open: impl FnOnce(&Session) -> Result<ArchiveOutput<File>>,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let id = session.open(place, false)?;
    let _ = session.tree(id).system().raise_file_limit(1 << 16);
    let session: &Session = session;
    let source = PackSource {
        tree: session.tree(id),
        place,
        mount: match id {
            TreeId::Host => None,
            TreeId::Mount(index) => Some(session.mounted(index)),
        },
        threads: session.vcpus(),
    };
    let report = new_report();
    pack_from(&source, choice, format, &interrupt, &report, || {
        open(session)?.polled(&interrupt)
    })
}

/// The directory that is packed.
pub(crate) struct PackSource<'a> {
    pub tree: &'a Tree,
    pub place: &'a Place,
    /// `None`: it is in no mounted image.
    pub mount: Option<&'a Mount>,
    pub threads: u32,
}

/// Packs what is chosen of a directory. `open`: opens the archive once the directory is found.
pub(crate) fn pack_from<W: Write>(
    source: &PackSource,
    choice: &Choice,
    format: Format,
    interrupt: &Interrupt,
    report: &Report,
    open: impl FnOnce() -> Result<ArchiveOutput<W>>,
) -> Result<()> {
    let (place, tree) = (source.place, source.tree);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let root = tree
        .open_fd(place.path(), flags, 0)
        .map_err(|error| Error::of_file("cannot open", place.operand(), &error))?;
    let starts = find_starts(&choice.paths, tree, place, root, report)?;
    let whole = choice.paths.is_empty() && place.path() == Path::new("/");
    if let (Some(mount), true) = (source.mount, whole) {
        let space = mount.space();
        report.expect(space.map_or(0, |space| space.size.saturating_sub(space.free)));
    }
    let packed = PackedTree {
        choice,
        report,
        interrupt,
        place,
        hidden: HiddenFinder::default(),
    };
    let mut target = open()?;
    let written = write(&packed, starts, format, source.threads, &mut target.writer);
    report.print_losses();
    if interrupt.asked() {
        target.remove();
        let text = "interrupted: the archive is not complete".to_owned();
        return Err(Error::Interrupted(text));
    }
    if let Err(error) = written {
        target.remove();
        return Err(Error::of_output(&target.name, &error));
    }
    match report.failures() {
        0 => Ok(()),
        _ => Err(Error::AlreadyReported),
    }
}

fn write(
    packed: &PackedTree,
    starts: Vec<PackStart>,
    format: Format,
    threads: u32,
    writer: impl Write,
) -> io::Result<()> {
    let mut output = Compressor::new(format, writer, threads)?;
    pack(packed, starts, threads, &mut output)?;
    output.finish()?.flush()
}
