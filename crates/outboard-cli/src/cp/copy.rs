// SPDX-License-Identifier: GPL-2.0-only
//! Copying one thing that is not a directory.

use super::attributes::{self, Kind};
use super::data::{copy_data, Buffer};
use super::links::{Links, Turn};
use super::report::{Loss, Report};
use super::walk::Directory;
use super::{join, shown, Options};
use crate::error::reason;
use crate::interrupt::Interrupt;
use outboard::Fd;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// A file that is to be copied.
pub struct Item {
    pub directory: Arc<Directory>,
    pub name: CString,
    /// The name of the copy, if it is another.
    pub new_name: Option<CString>,
    /// Open what a symbolic link of this name leads to.
    pub follow: bool,
}

impl Item {
    pub fn new_name(&self) -> &CStr {
        self.new_name.as_ref().unwrap_or(&self.name)
    }

    pub fn shown(&self) -> String {
        self.directory.shown(&self.name)
    }

    fn source(&self) -> &Fd {
        &self.directory.source
    }

    fn target(&self) -> &Fd {
        &self.directory.target
    }
}

/// Where an error happened.
pub enum Failure {
    Reading(io::Error),
    Writing(io::Error),
    /// Source and copy are the same file.
    Same,
    /// The user wants to stop.
    Stopped,
}

/// What all copying threads share.
pub struct Copier<'a> {
    pub options: Options,
    interrupt: &'a Interrupt,
    pub report: &'a Report,
    /// What paths of copies are relative to.
    base: Arc<Fd>,
    /// Its name, for messages.
    base_shown: String,
    links: Links,
}

impl<'a> Copier<'a> {
    pub fn new(
        options: Options,
        interrupt: &'a Interrupt,
        report: &'a Report,
        base: Arc<Fd>,
        base_shown: String,
    ) -> Self {
        Self {
            options,
            interrupt,
            report,
            base,
            base_shown,
            links: Links::default(),
        }
    }

    pub fn stopped(&self) -> bool {
        self.interrupt.asked() || self.report.is_hopeless()
    }

    /// A copy's name, for messages. `path` is relative to the top target.
    pub fn copy_shown(&self, path: &[u8]) -> String {
        shown(&join(self.base_shown.as_bytes(), path))
    }

    pub fn worker(&'a self) -> Worker<'a> {
        Worker {
            copier: self,
            buffer: Buffer::new(),
        }
    }
}

/// One copying thread.
pub struct Worker<'a> {
    copier: &'a Copier<'a>,
    buffer: Buffer,
}

impl Worker<'_> {
    /// Copies a file and tells of what went wrong.
    pub fn copy(&mut self, item: &Item) {
        if self.copier.stopped() {
            return;
        }
        let report = self.copier.report;
        match self.copy_any(item) {
            Ok(()) => report.count_file(),
            Err(Failure::Stopped) => {}
            Err(Failure::Same) => report.fail(format!(
                "{} and its copy would be the same file",
                item.shown()
            )),
            Err(Failure::Reading(error)) => {
                report.fail(format!("cannot read {}: {}", item.shown(), reason(&error)));
            }
            Err(Failure::Writing(error)) => {
                let path = item.directory.path_of(item.new_name());
                let copy = self.copier.copy_shown(&path);
                report.fail_writing(format!("cannot write {copy}"), &error);
            }
        }
    }

    fn copy_any(&mut self, item: &Item) -> Result<(), Failure> {
        let mut flags = libc::O_RDONLY;
        if !item.follow {
            flags |= libc::O_NOFOLLOW;
        }
        if self.copier.options.recursive {
            // Opening a FIFO must not wait for a writer.
            flags |= libc::O_NONBLOCK;
        }
        match item.source().open_at(&item.name, flags, 0) {
            Ok(file) => {
                let stat = file.stat().map_err(Failure::Reading)?;
                let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
                if regular || !self.copier.options.recursive {
                    return self.once(item, &stat, |worker| worker.regular(item, &file, &stat));
                }
                self.once(item, &stat, |worker| worker.special(item, &stat))
            }
            // Symbolic links, sockets, devices that may not be opened.
            Err(error) => {
                let stat = item
                    .source()
                    .stat_at(&item.name, libc::AT_SYMLINK_NOFOLLOW)
                    .map_err(Failure::Reading)?;
                match stat.st_mode & libc::S_IFMT {
                    libc::S_IFREG | libc::S_IFDIR => Err(Failure::Reading(error)),
                    libc::S_IFLNK => self.once(item, &stat, |worker| worker.link(item, &stat)),
                    _ if !self.copier.options.recursive => Err(Failure::Reading(error)),
                    _ => self.once(item, &stat, |worker| worker.special(item, &stat)),
                }
            }
        }
    }

    /// Copies a file that has one name, or the first of its names; other names become hard links.
    fn once(
        &mut self,
        item: &Item,
        stat: &libc::stat,
        copy: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.copier.options.archive || stat.st_nlink < 2 {
            return copy(self);
        }
        let key = (item.source().system(), stat.st_dev, stat.st_ino);
        match self.copier.links.turn(key) {
            Turn::First(mark) => {
                let result = copy(self);
                if result.is_ok() {
                    mark.done(item.directory.path_of(item.new_name()));
                }
                result
            }
            Turn::Later(path) => match self.link_to(item, &path) {
                Ok(()) => Ok(()),
                Err(_) => {
                    copy(self)?;
                    self.copier.report.lose(Loss::HardLink, || item.shown());
                    Ok(())
                }
            },
        }
    }

    fn link_to(&self, item: &Item, path: &[u8]) -> io::Result<()> {
        let path = CString::new(path)?;
        let (target, name) = (item.target(), item.new_name());
        replacing(target, name, || {
            self.copier.base.link_at(&path, target, name, 0)
        })
    }

    fn regular(&mut self, item: &Item, source: &Fd, stat: &libc::stat) -> Result<(), Failure> {
        let copier = self.copier;
        let mode = match copier.options.archive {
            true => attributes::first_mode(item.target().system(), stat.st_mode),
            false => stat.st_mode & 0o777 & !copier.options.umask,
        };
        let target = create(item, mode, source, stat, copier.options.recursive)?;
        copy_data(copier, &mut self.buffer, source, &target, stat)?;
        if copier.options.archive {
            let now = target.stat().map_err(Failure::Writing)?;
            let kind = Kind::Open {
                source,
                target: &target,
            };
            attributes::keep(copier, &kind, stat, Some(&now), &|| item.shown());
        }
        Ok(())
    }

    fn link(&mut self, item: &Item, stat: &libc::stat) -> Result<(), Failure> {
        let text = item
            .source()
            .read_link_at(&item.name)
            .map_err(Failure::Reading)?;
        let (target, name) = (item.target(), item.new_name());
        replacing(target, name, || target.make_symlink_at(&text, name))
            .map_err(Failure::Writing)?;
        self.keep_named(item, stat);
        Ok(())
    }

    fn special(&mut self, item: &Item, stat: &libc::stat) -> Result<(), Failure> {
        let mut mode = stat.st_mode;
        if !self.copier.options.archive {
            mode &= libc::S_IFMT | 0o777 & !self.copier.options.umask;
        }
        let (target, name) = (item.target(), item.new_name());
        replacing(target, name, || {
            target.make_node_at(name, mode, stat.st_rdev)
        })
        .map_err(Failure::Writing)?;
        self.keep_named(item, stat);
        Ok(())
    }

    fn keep_named(&self, item: &Item, stat: &libc::stat) {
        if self.copier.options.archive {
            let kind = Kind::Named {
                source: item.source(),
                name: &item.name,
                target: item.target(),
                new_name: item.new_name(),
            };
            attributes::keep(self.copier, &kind, stat, None, &|| item.shown());
        }
    }
}

/// Makes something under a name, in place of what has the name now unless that is a directory.
fn replacing(directory: &Fd, name: &CStr, make: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory.unlink_at(name, 0)?;
            make()
        }
        other => other,
    }
}

/// Creates the copy of a regular file, or opens and empties the file that is there. Symbolic links
/// of that name are replaced, never written through; so are devices and FIFOs if `recursive`.
fn create(
    item: &Item,
    mode: u32,
    source: &Fd,
    stat: &libc::stat,
    recursive: bool,
) -> Result<Fd, Failure> {
    let (directory, name) = (item.target(), item.new_name());
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let error = match directory.open_at(name, flags, mode) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    if error.kind() != io::ErrorKind::AlreadyExists {
        return Err(Failure::Writing(error));
    }
    let old = directory
        .stat_at(name, libc::AT_SYMLINK_NOFOLLOW)
        .map_err(Failure::Writing)?;
    if directory.system() == source.system()
        && (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)
    {
        return Err(Failure::Same);
    }
    let kind = old.st_mode & libc::S_IFMT;
    if kind == libc::S_IFDIR {
        let error = io::Error::from_raw_os_error(libc::EISDIR);
        return Err(Failure::Writing(error));
    }
    if kind == libc::S_IFLNK || (recursive && kind != libc::S_IFREG) {
        directory.unlink_at(name, 0).map_err(Failure::Writing)?;
        return directory
            .open_at(name, flags, mode)
            .map_err(Failure::Writing);
    }
    let flags = libc::O_WRONLY | libc::O_TRUNC | libc::O_NOFOLLOW;
    directory.open_at(name, flags, 0).map_err(Failure::Writing)
}
