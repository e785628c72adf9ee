// SPDX-License-Identifier: GPL-2.0-only
//! Copies one file that is not a directory.

use super::attributes::{self, SourceAndCopy};
use super::copier::{kind, CopiedFile, Copier, CopyFailure, NTFS3};
use super::data::{copy_data, Buffer};
use super::following::with_hint;
use super::item::Item;
use super::links::{self, Turn};
use super::options::Existing;
use crate::claimed_size;
use crate::file_state::FileState;
use crate::hidden::check_key;
use crate::made::Claim;
use crate::report::Loss;
use outboard::{Fd, Limits};
use outboard_error::format::escaped;
use outboard_error::{ErrorKind, Failure};
use std::ffi::CString;
use std::io;

/// One copying thread.
pub struct Worker<'a> {
    copier: &'a Copier<'a>,
    buffer: Buffer,
}

impl<'a> Worker<'a> {
    pub fn new(copier: &'a Copier<'a>) -> Self {
        Self {
            copier,
            buffer: Buffer::new(),
        }
    }

    /// Copies a file and reports failures.
    pub fn copy(&mut self, item: &Item) {
        if self.copier.stopped() {
            return;
        }
        let report = self.copier.report;
        match self.copy_any(item) {
            Ok(()) => {
                report.count_file();
                let source = || item.directory.raw_path_of(&item.name);
                let path = || item.directory.path_of(item.new_name());
                self.copier.print_names(source, path);
            }
            Err(CopyFailure::Stays) => {}
            Err(CopyFailure::Stopped) => {}
            Err(CopyFailure::Same) => report.fail(format!(
                "cannot copy {}: its copy would be the same file",
                item.shown()
            )),
            Err(CopyFailure::Reading(error)) => {
                let path = item.directory.raw_path_of(&item.name);
                report.fail_reading("cannot read", path, &error);
            }
            Err(CopyFailure::Writing(error)) => {
                let path = item.directory.path_of(item.new_name());
                let copy = self.copier.operand_of(&path);
                self.copier.fail_writing("cannot write", copy, &error);
            }
        }
        self.copier.note(item.target());
    }

    /// Checks the type before it opens the file: opening a device can have effects, and opening a
    /// FIFO waits for a writer.
    fn copy_any(&mut self, item: &Item) -> Result<(), CopyFailure> {
        let flags = if item.follow {
            0
        } else {
            libc::AT_SYMLINK_NOFOLLOW
        };
        let stat = item
            .source()
            .stat_at(item.source_name(), flags)
            .map_err(CopyFailure::Reading)?;
        let claim = item.claim();
        if !item.into_pipe {
            claim.check_first().map_err(CopyFailure::Writing)?;
        }
        if self.stays(item, &stat, &claim)? {
            return Err(CopyFailure::Stays);
        }
        self.copy_kind(item, &stat, &claim)?;
        claim.keep();
        Ok(())
    }

    fn copy_kind(
        &mut self,
        item: &Item,
        stat: &libc::stat,
        claim: &Claim,
    ) -> Result<(), CopyFailure> {
        match kind(stat) {
            libc::S_IFDIR => {
                let error = io::Error::from_raw_os_error(libc::EISDIR);
                Err(CopyFailure::Reading(error))
            }
            libc::S_IFLNK => self.once(item, stat, claim, |worker| worker.link(item, stat, claim)),
            other if other != libc::S_IFREG && self.copier.options.recursive => {
                self.once(item, stat, claim, |worker| {
                    worker.special(item, stat, claim)
                })
            }
            other if other != libc::S_IFREG && !item.source().system().is_host() => {
                Err(CopyFailure::Reading(io::Error::other(no_contents(other))))
            }
            _ => {
                let file = self.open(item)?;
                let now = file.stat().map_err(CopyFailure::Reading)?;
                if kind(&now) != kind(stat) {
                    return Err(CopyFailure::Reading(replaced()));
                }
                self.once(item, &now, claim, |worker| {
                    worker.regular(item, &file, &now, claim)
                })
            }
        }
    }

    /// Whether the file that has the copy's name stays as it is. `stat`: of the source.
    fn stays(&self, item: &Item, stat: &libc::stat, claim: &Claim) -> Result<bool, CopyFailure> {
        let options = self.copier.options;
        if options.existing == Existing::Overwrite || item.into_pipe {
            return Ok(false);
        }
        let old = match item
            .target()
            .stat_at(item.new_name(), libc::AT_SYMLINK_NOFOLLOW)
        {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(CopyFailure::Writing(error)),
        };
        // A directory of that name is a failure nevertheless.
        if kind(&old) == libc::S_IFDIR || is_same(item.source(), stat, item.target(), &old) {
            return Ok(false);
        }
        claim
            .check_existing(item.target())
            .map_err(CopyFailure::Writing)?;
        if options.existing == Existing::Stay {
            return Ok(true);
        }
        let steps = if options.keeps() {
            item.target()
                .statfs()
                .map_or(1, |found| time_step(found.kind))
        } else {
            1
        };
        Ok(!is_newer(stat, &old, steps))
    }

    fn open(&self, item: &Item) -> Result<Fd, CopyFailure> {
        let source = item.source();
        let mut flags = libc::O_RDONLY | libc::O_NOCTTY;
        if !item.follow {
            flags |= libc::O_NOFOLLOW;
        }
        // Opens a FIFO without waiting for a writer: an interrupt would not end that wait.
        flags |= libc::O_NONBLOCK;
        source
            .open_at(item.source_name(), flags, 0)
            .map_err(|error| match item.elsewhere {
                Some(_) => with_hint(source.system(), error),
                None => error,
            })
            .map_err(CopyFailure::Reading)
    }

    /// Copies a file that has one name, or the first of its names; other names become hard links.
    fn once(
        &mut self,
        item: &Item,
        stat: &libc::stat,
        claim: &Claim,
        copy: impl FnOnce(&mut Self) -> Result<(), CopyFailure>,
    ) -> Result<(), CopyFailure> {
        if !self.copier.options.archive() || stat.st_nlink < 2 {
            return copy(self);
        }
        let key = item.key(stat);
        let turn = self.copier.links.turn(&key);
        match turn {
            Turn::First(mark) => {
                copy(self)?;
                let made = item
                    .target()
                    .stat_at(item.new_name(), libc::AT_SYMLINK_NOFOLLOW)
                    .map_err(CopyFailure::Writing)?;
                mark.done(links::Copy {
                    path: item.directory.path_of(item.new_name()),
                    identity: (made.st_dev, made.st_ino),
                });
                Ok(())
            }
            Turn::Later(first) => match self.link_to(item, &first, claim) {
                Ok(()) => Ok(()),
                Err(_) => {
                    copy(self)?;
                    self.copier.report.lose(Loss::HardLink, || item.shown());
                    Ok(())
                }
            },
        }
    }

    /// Links to the first copy. Another process may have replaced its directories by now.
    fn link_to(&self, item: &Item, first: &links::Copy, claim: &Claim) -> io::Result<()> {
        let path = CString::new(first.path.as_slice())?;
        let file = self.copier.base.open_path_beneath(&path)?;
        let found = file.stat()?;
        if (found.st_dev, found.st_ino) != first.identity {
            return Err(replaced());
        }
        let (target, name) = (item.target(), item.new_name());
        let allowed = || self.copier.allowed(self.open(item).ok().as_ref());
        self.copier
            .replacing(target, claim, allowed, || file.link_at(target, name))
    }

    fn regular(
        &mut self,
        item: &Item,
        source: &Fd,
        stat: &libc::stat,
        claim: &Claim,
    ) -> Result<(), CopyFailure> {
        let copier = self.copier;
        // Before the copy, or what it replaces, is touched.
        let size = stat.st_size.max(0) as u64;
        claimed_size::check(source, size).map_err(CopyFailure::Reading)?;
        copier
            .find_hidden(source, stat, item)
            .map_err(CopyFailure::Reading)?;
        let (target, created) = create(copier, item, source, stat, claim)?;
        let result = self.fill(item, source, target, stat);
        match &result {
            Err(_) if created => {
                // A part of a file must not look like all of it.
                let remove = || item.target().unlink_at(item.new_name(), 0);
                let _ = Limits::for_cleanup().run(remove);
            }
            Err(_) => {
                let copy = copier.operand_of(&item.directory.path_of(item.new_name()));
                let (source, shown) = (item.shown(), escaped(&copy));
                let text =
                    format!("cannot end copying {source}: {shown} has only a part of it now");
                let failure = Failure::new(ErrorKind::Other, text).with_path(copy);
                copier.report.fail(failure);
            }
            Ok(()) => {}
        }
        result
    }

    /// Gives a copy its contents and attributes.
    fn fill(
        &mut self,
        item: &Item,
        source: &Fd,
        target: Fd,
        stat: &libc::stat,
    ) -> Result<(), CopyFailure> {
        let copier = self.copier;
        copy_data(copier, &mut self.buffer, source, &target, stat)?;
        if FileState::of(stat).has_changed(source) {
            copier.report.lose(Loss::Changed, || item.shown());
        }
        let pair = SourceAndCopy::Open {
            source,
            target: &target,
        };
        if copier.options.keeps() {
            let now = target.stat().map_err(CopyFailure::Writing)?;
            attributes::keep(copier, &pair, stat, &now, item);
        } else {
            attributes::give_owner(copier, &pair, item);
            copier.store_size(&target).map_err(CopyFailure::Writing)?;
        }
        let closed = copier.close(target, stat.st_size.max(0) as u64);
        closed.map_err(CopyFailure::Writing)
    }

    fn link(&mut self, item: &Item, stat: &libc::stat, claim: &Claim) -> Result<(), CopyFailure> {
        let (source, name) = (item.source(), item.source_name());
        check_key(source, name).map_err(CopyFailure::Reading)?;
        let text = source.read_link_at(name).map_err(CopyFailure::Reading)?;
        let (target, name) = (item.target(), item.new_name());
        self.copier
            .replacing(
                target,
                claim,
                || self.copier.allowed(None),
                || target.make_symlink_at(&text, name),
            )
            .map_err(CopyFailure::Writing)?;
        self.keep_named(item, stat)
    }

    fn special(
        &mut self,
        item: &Item,
        stat: &libc::stat,
        claim: &Claim,
    ) -> Result<(), CopyFailure> {
        let mut mode = stat.st_mode;
        if !self.copier.options.keeps() {
            mode &= libc::S_IFMT | 0o777 & !self.copier.options.umask;
        }
        let (target, name) = (item.target(), item.new_name());
        self.copier
            .replacing(
                target,
                claim,
                || self.copier.allowed(None),
                || target.make_node_at(name, mode, stat.st_rdev),
            )
            .map_err(CopyFailure::Writing)?;
        self.keep_named(item, stat)
    }

    /// Gives a copy that is not open its attributes, unless another process has replaced it.
    fn keep_named(&self, item: &Item, stat: &libc::stat) -> Result<(), CopyFailure> {
        let found = self.copier.find_hidden(item.source(), stat, item);
        found.map_err(CopyFailure::Reading)?;
        let keeps = self.copier.options.keeps();
        if !keeps && self.copier.changes.owner.is_none() {
            return Ok(());
        }
        let target = item
            .target()
            .open_path_at(item.new_name())
            .map_err(CopyFailure::Writing)?;
        let now = target.stat().map_err(CopyFailure::Writing)?;
        if kind(&now) != kind(stat) || now.st_nlink > 1 {
            return Err(CopyFailure::Writing(replaced()));
        }
        let pair = SourceAndCopy::Named {
            source: item.source(),
            name: item.source_name(),
            target: &target,
        };
        if keeps {
            attributes::keep(self.copier, &pair, stat, &now, item);
        } else {
            attributes::give_owner(self.copier, &pair, item);
        }
        Ok(())
    }
}

/// The type of a file without contents, in words.
pub fn no_contents(kind: u32) -> &'static str {
    match kind {
        libc::S_IFIFO => "it is a FIFO",
        libc::S_IFSOCK => "it is a socket",
        _ => "it is a device",
    }
}

/// Whether two files are one.
fn is_same(source: &Fd, stat: &libc::stat, target: &Fd, old: &libc::stat) -> bool {
    target.system() == source.system() && (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)
}

/// Nanoseconds between two times of modification that a file system can hold, by its kind (statfs).
fn time_step(kind: i64) -> i128 {
    const SECOND: i128 = 1_000_000_000;
    match kind {
        // FAT.
        0x4d44 => 2 * SECOND,
        // exFAT.
        0x2011_bab0 => SECOND / 100,
        NTFS3 => 100,
        // UDF.
        0x1501_3346 => 1000,
        // HFS, HFS+, minix.
        0x4244 | 0x482b | 0x137f | 0x138f | 0x2468 | 0x2478 | 0x4d5a => SECOND,
        _ => 1,
    }
}

/// Whether the file `new` is newer than `old`, whose file system rounds times down to steps.
fn is_newer(new: &libc::stat, old: &libc::stat, step: i128) -> bool {
    let time = |stat: &libc::stat| {
        i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
    };
    time(new).div_euclid(step) * step > time(old)
}

fn replaced() -> io::Error {
    io::Error::other("it was replaced by another file meanwhile")
}

/// Creates the copy of a regular file, or opens and empties the existing file. Returns whether the
/// copy was created. Symbolic links of that name are replaced, never written through; so are
/// devices and FIFOs in recursive copies, and files that keep other names ([`Copier::parts`]).
fn create(
    copier: &Copier,
    item: &Item,
    source: &Fd,
    stat: &libc::stat,
    claim: &Claim,
) -> Result<(Fd, bool), CopyFailure> {
    let options = copier.options;
    let (directory, name) = (item.target(), item.new_name());
    if item.into_pipe {
        let opened = directory.open_at(name, libc::O_WRONLY, 0);
        let opened = opened.and_then(|pipe| {
            copier.used.check(&pipe.stat()?)?;
            Ok((pipe, false))
        });
        return opened.map_err(CopyFailure::Writing);
    }
    let mode = if options.keeps() {
        attributes::first_mode(directory.system(), stat.st_mode)
    } else {
        stat.st_mode & 0o777 & !options.umask
    };
    let make = || {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        directory.open_at(name, flags, mode)
    };
    match make() {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(CopyFailure::Writing(error)),
    }
    let old = directory
        .stat_at(name, libc::AT_SYMLINK_NOFOLLOW)
        .map_err(CopyFailure::Writing)?;
    if is_same(source, stat, directory, &old) {
        return Err(CopyFailure::Same);
    }
    claim
        .check_existing(directory)
        .map_err(CopyFailure::Writing)?;
    match kind(&old) {
        libc::S_IFDIR => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        other if other == libc::S_IFLNK || (options.recursive && other != libc::S_IFREG) => {
            let removed = directory.unlink_at(name, 0);
            removed.and_then(|()| make()).map(|file| (file, true))
        }
        _ if copier.parts(&old, item.key(stat)) => copier
            .replacing(directory, claim, || copier.allowed(Some(source)), make)
            .map(|file| (file, true)),
        _ => {
            let mode = options.keeps().then_some(mode);
            let opened = copier.overwrite(directory, name, source, mode);
            opened.map(|file| (file, false))
        }
    }
    .map_err(CopyFailure::Writing)
}
