// SPDX-License-Identifier: GPL-2.0-only
//! The settings and counters of a copy, which its threads share.

use super::changes::Changes;
use super::handle_cache::HandleCache;
use super::links::{Key, Links};
use super::options::{CopyRequest, Options};
use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use crate::made::{Claim, OverwrittenLinks};
use crate::report::{Loss, NamePrinter, Report};
use crate::walk::join;
use outboard::Fd;
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::destination::{archive_kind, FdSource, Overwrite, UsedFiles};
use std::ffi::CStr;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The place of an error.
pub enum CopyFailure {
    Reading(io::Error),
    Writing(io::Error),
    /// Source and copy are the same file.
    Same,
    /// The existing file stays as it is: no failure.
    Stays,
    /// The user wants to stop.
    Stopped,
}

/// Data that all copying threads share.
pub struct Copier<'a> {
    pub options: Options,
    pub changes: &'a Changes,
    pub excluded: &'a Exclusion,
    pub names: Option<&'a dyn NamePrinter>,
    pub interrupt: &'a Interrupt,
    pub report: &'a Report,
    /// The directory that paths of copies are relative to.
    pub base: Arc<Fd>,
    /// Its name, as the user would write it.
    base_operand: Vec<u8>,
    /// Files that must not be overwritten.
    pub used: Arc<UsedFiles>,
    pub links: Links,
    overwritten: OverwrittenLinks,
    hidden: &'a HiddenFinder,
    /// Complete copies in an image.
    handles: HandleCache,
    /// Whether files may be written in another order than they are copied.
    unordered: bool,
    /// Whether copies are made by ntfs3.
    is_ntfs: bool,
}

/// The magic number of ntfs3, as statfs(2) returns it.
pub const NTFS3: i64 = 0x7366_746e;

impl<'a> Copier<'a> {
    /// `base` and `base_operand`: the directory of the copies, and its name for the user. `used`:
    /// files that must not be overwritten.
    pub fn new(
        request: &CopyRequest<'a>,
        interrupt: &'a Interrupt,
        report: &'a Report,
        (base, base_operand): (Arc<Fd>, Vec<u8>),
        used: Arc<UsedFiles>,
    ) -> Self {
        let inside = !base.system().is_host();
        Self {
            is_ntfs: inside && base.statfs().is_ok_and(|found| found.kind == NTFS3),
            options: request.options,
            changes: request.changes,
            excluded: request.excluded,
            names: request.names,
            interrupt,
            report,
            base,
            base_operand,
            used,
            links: Links::default(),
            overwritten: OverwrittenLinks::default(),
            hidden: request.hidden,
            handles: HandleCache::default(),
            unordered: inside && !request.options.sorted,
        }
    }

    pub fn stopped(&self) -> bool {
        self.interrupt.asked()
            || self.report.is_hopeless()
            || self.names.is_some_and(NamePrinter::failed)
    }

    /// Reports a write error, unless the caller expects it.
    pub fn fail_writing(&self, what: &str, path: Vec<u8>, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::ENOSPC) if self.options.may_be_full => self.report.note_full(),
            _ => self.report.fail_writing(what, path, error),
        }
    }

    /// Completes a copy that keeps no times. Linux 6.12's ntfs3 stores a file's valid size only
    /// together with a changed time or size (fs/ntfs3/frecord.c, _ni_write_inode). Writeback in the
    /// middle of a write uses up the change of that write: bytes written after it would read as
    /// zeros. So the modification time is set, to the nanosecond.
    pub fn store_size(&self, file: &Fd) -> io::Result<()> {
        if !self.is_ntfs {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_err(io::Error::other)?;
        let omit = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        };
        let modified = libc::timespec {
            tv_sec: now.as_secs() as i64,
            tv_nsec: i64::from(now.subsec_nanos()),
        };
        file.set_times(&[omit, modified])
    }

    /// Takes a copy that is complete. Its pages need not stay in memory.
    pub fn close(&self, file: Fd, size: u64) -> io::Result<()> {
        if self.unordered {
            self.handles.add(file, size);
            return Ok(());
        }
        file.close()
    }

    /// Notes that this directory of the destination, or a file in it, is complete.
    pub fn note(&self, directory: &Fd) {
        if !self.unordered {
            return;
        }
        if let Err(error) = self.handles.note(directory) {
            self.fail_writing("cannot write", self.base_operand.clone(), &error);
        }
    }

    /// A copy's name, as the user would write it. `path` is relative to the top target.
    pub fn operand_of(&self, path: &[u8]) -> Vec<u8> {
        join(&self.base_operand, path)
    }

    /// The names of a file or directory and of its copy, as `-v` prints them.
    pub fn print_names(&self, source: impl FnOnce() -> Vec<u8>, path: impl FnOnce() -> Vec<u8>) {
        let Some(names) = self.names else { return };
        let copy = self.operand_of(&path());
        names.copied(self.report, &source(), &copy);
    }

    /// The files that a copy of `source` may overwrite; `None`: something without contents.
    pub fn allowed(&self, source: Option<&Fd>) -> Overwrite {
        let kind = || archive_kind_of(source?);
        if self.options.force {
            Overwrite::Everything
        } else {
            kind().map_or(Overwrite::Plain, Overwrite::Archive)
        }
    }

    /// Creates a file under a name, and replaces an existing file of that name that `allowed` lets
    /// go, but no directory.
    pub fn replacing<T>(
        &self,
        directory: &Fd,
        claim: &Claim,
        allowed: impl Fn() -> Overwrite,
        make: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        match make() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                claim.check_existing(directory)?;
                let name = claim.name();
                self.used.check_name(directory, name, allowed())?;
                directory.unlink_at(name, 0)?;
                make()
            }
            other => other,
        }
    }

    /// Whether a copy of the file `source` takes the name of the existing file `old`, and leaves
    /// the file to its other names. Two files of the source must not become one that way.
    pub fn parts(&self, old: &libc::stat, source: Key) -> bool {
        let linked = kind(old) == libc::S_IFREG && old.st_nlink > 1;
        linked && (self.options.archive() || self.overwritten.has_other(old, source))
    }

    /// Opens and empties a file for the contents of `source`. `mode`: permissions to set before its
    /// first byte is written.
    pub fn overwrite(
        &self,
        directory: &Fd,
        name: &CStr,
        source: &Fd,
        mode: Option<u32>,
    ) -> io::Result<Fd> {
        // Names in an image are free.
        let what = if directory.system().is_host() {
            self.allowed(Some(source))
        } else {
            Overwrite::Everything
        };
        let file = self.used.overwrite(directory, name, what)?;
        if let Some(mode) = mode {
            // Only the owner of the file may set this; the report at the end counts the lost mode.
            let _ = file.set_mode(mode);
        }
        Ok(file)
    }

    /// Reports the parts of a file that its copy will not have, if it is to have everything.
    /// `near`: a file of the same file system. An error: the contents are such a part.
    pub fn find_hidden(
        &self,
        near: &Fd,
        stat: &libc::stat,
        named: &dyn CopiedFile,
    ) -> io::Result<()> {
        if let Some(parts) = self
            .hidden
            .find(near, stat)?
            .filter(|_| self.options.archive())
        {
            let shown = || format!("{} ({parts})", named.shown());
            self.report.lose(Loss::Hidden, shown);
        }
        Ok(())
    }
}

/// The kind of file, `S_IF*`.
pub fn kind(stat: &libc::stat) -> u32 {
    stat.st_mode & libc::S_IFMT
}

/// The kind of archive that a file is. The copy itself reports a file that cannot be read.
pub fn archive_kind_of(source: &Fd) -> Option<&'static str> {
    let stat = source.stat().ok()?;
    if kind(&stat) != libc::S_IFREG {
        return None;
    }
    let size = stat.st_size.max(0) as u64;
    archive_kind(&FdSource { file: source, size })
        .ok()
        .flatten()
}

/// A file that is copied.
pub trait CopiedFile {
    /// The source, for messages.
    fn shown(&self) -> String;

    /// The path of the copy below the top target.
    fn copy_path(&self) -> Vec<u8>;
}
