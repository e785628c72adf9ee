// SPDX-License-Identifier: GPL-2.0-only
//! Error messages of a session, with lines of the kernel's log.

use super::machine::messages_since;
use super::mounted::MountedDevice;
use super::open_disk::OpenDisk;
use super::whole::Session;
use crate::remote::is_remote;
use crate::scratch::directory_of;
use outboard::image::State;
use outboard::{HostTree, Level, Space, System};
use outboard_error::format::{escaped, size as size_text};
use outboard_error::{reason, report, warn, Error, ErrorKind, Failure, Hint, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kernel's log message (block/blk-mq.c) about a disk without room on the host, before the
/// disk's name.
const NO_ROOM: &str = "critical space allocation error, dev ";
/// The message of nilfs2 (fs/nilfs2/recovery.c) about a log that it leaves out, behind the disk's
/// name: it mounts an older checkpoint.
const LEFT_OUT: &str = "): invalid segment: ";
/// No write makes the file of an image longer than by this: clusters of a qcow2, blocks of a VHD
/// and their tables.
const LARGEST_STEP: u64 = 8 << 20;
/// With this many free bytes, missing inodes and not missing space are the reason. XFS counts free
/// inodes by the space left for them.
const MUCH_ROOM: u64 = 1 << 20;

impl Session {
    /// Notes file systems with free space, but no free inodes: the error itself only says "no
    /// space".
    pub fn note_missing_inodes(&mut self) {
        let full = |mounted: &MountedDevice| {
            let space = mounted.mount.space().ok()?;
            let writable = !mounted.mount.is_read_only();
            (space.lacks_inodes(MUCH_ROOM) && writable).then(|| {
                format!(
                    "note: {} has no inodes left: all {} are in use, though {} are free (remove \
                     files, or make it again with more{})",
                    mounted.name,
                    space.files,
                    size_text(space.available),
                    Hint::MoreInodes
                )
            })
        };
        let notes: Vec<String> = self.slots.mounts().filter_map(full).collect();
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// The same for file systems of the host. `paths`: destinations of the command, and images.
    pub fn note_missing_host_inodes(&mut self, paths: &[&Path]) {
        for path in paths {
            let directory = if path.is_dir() {
                path
            } else {
                directory_of(path)
            };
            let found = HostTree.open_fd(directory, libc::O_PATH, 0);
            let Ok(space) = found.and_then(|directory| Space::of(&directory)) else {
                continue;
            };
            if space.lacks_inodes(MUCH_ROOM) {
                self.note(format!(
                    "note: the host's file system of {} has no inodes left: all {} are in use, \
                     though {} are free (remove files there)",
                    escaped(directory.as_os_str().as_bytes()),
                    space.files,
                    size_text(space.available)
                ));
            }
        }
    }

    /// The failure of a mount that shows an older state of its file system than the last one. The
    /// mount began at this position of the log.
    pub(super) fn older_state(&self, shown: &str, position: usize) -> Option<Failure> {
        let lines = messages_since(self.machine.log(), position);
        if !lines.iter().any(|line| line.contains(LEFT_OUT)) {
            return None;
        }
        let text = format!(
            "{shown}: damaged: its last log cannot be read, so files are as an earlier checkpoint \
             has them; newer ones are missing"
        );
        let failure = Failure::new(ErrorKind::Damaged, text).with_path(shown.as_bytes().to_vec());
        Some(failure.with_kernel(self.machine.lines_since(position)))
    }

    /// Reports a mount that shows an older state, once for each command that uses it. The command
    /// goes on, and ends as failed.
    pub(super) fn report_older_state(&mut self, index: usize) {
        let Some(failure) = self.slots.mounted(index).older.clone() else {
            return;
        };
        if !self.older.contains(&index) {
            self.older.push(index);
            report(failure);
        }
    }

    /// Prints a note once.
    pub(super) fn note(&mut self, note: String) {
        if self.noted.insert(note.clone()) {
            warn(note);
        }
    }

    pub(super) fn explain(
        &self,
        shown: &str,
        kind: &str,
        error: &io::Error,
        position: usize,
        state: State,
        cut: Option<String>,
    ) -> Error {
        let (reason_kind, text, hint) = match error.raw_os_error() {
            Some(libc::EINVAL) if matches!(state, State::Unclean(_)) => {
                let (text, hint) = unclean(shown);
                (ErrorKind::Damaged, text, hint)
            }
            Some(libc::ENODEV) if self.has_driver(kind) => (
                ErrorKind::Incomplete,
                "a further device that it needs is missing".to_owned(),
                Some(Hint::AddDisks),
            ),
            Some(libc::ENODEV) => (
                ErrorKind::Unsupported,
                format!("this outboard has no driver for file systems of type {kind}"),
                None,
            ),
            Some(libc::ENOTBLK) => (
                ErrorKind::Usage,
                format!(
                    "file systems of this type lie on no device: nothing of the image would be \
                     read or written ({})",
                    Hint::OtherType
                ),
                Some(Hint::OtherType),
            ),
            Some(libc::EROFS | libc::EACCES) if !self.options().read_only => (
                ErrorKind::ReadOnly,
                "read-only file system: this type can only be read, or it was not left well"
                    .to_owned(),
                None,
            ),
            // The probe found a file system that the kernel's driver cannot use.
            Some(libc::EINVAL) => (ErrorKind::Damaged, reason(error), None),
            _ => (ErrorKind::of(error), reason(error), None),
        };
        let cut = cut.map_or(String::new(), |text| format!("; {text}"));
        Failure::of(error)
            .with_text(
                reason_kind,
                format!("{shown}: cannot mount as {kind}: {text}{cut}"),
            )
            .with_hint(hint)
            .with_kernel(self.machine.lines_since(position))
            .into()
    }

    /// Whether the kernel has a driver for a type of file system, now that a mount has loaded what
    /// there is.
    fn has_driver(&self, kind: &str) -> bool {
        let kernel = self.machine.kernel();
        kernel.is_some_and(|kernel| kernel.has_driver(kind))
    }

    /// Messages about images that the host had no room for. File systems report that as an ordinary
    /// disk error.
    pub(super) fn full_disks(&self) -> String {
        let lines = self.machine.log().since(0, Level::Warning);
        let is_full = |open: &&OpenDisk| {
            let text = format!("{NO_ROOM}{}, ", open.disk.name());
            lines.iter().any(|line| line.contains(&text))
        };
        let full = self.slots.disks().filter(is_full);
        full.map(|open| {
            let length = self.host.held().length(open.image.identity);
            format!("\n  {}: {}", open.image.shown(), no_room(length))
        })
        .collect()
    }

    /// The error of several problems: of the kind and errno of the first one.
    pub(crate) fn told(&self, problems: Vec<Failure>, position: usize) -> Result<()> {
        let Some(first) = problems.first() else {
            return Ok(());
        };
        let full = self.full_disks();
        let kind = if full.is_empty() {
            first.kind()
        } else {
            ErrorKind::NoSpace
        };
        let texts: Vec<&str> = problems.iter().map(Failure::message).collect();
        let text = format!("{}{full}", texts.join("\n  "));
        let failure = first.clone().with_text(kind, text);
        Err(failure
            .with_kernel(self.machine.lines_since(position))
            .into())
    }
}

/// Why the host refuses to store more in an image's file of this length.
fn no_room(length: u64) -> String {
    let limit = System::Host.raise_limit(libc::RLIMIT_FSIZE, 0);
    match limit {
        Ok(limit) if length.saturating_add(LARGEST_STEP) > limit => format!(
            "its file may not become larger than {} (ulimit -f)",
            size_text(limit)
        ),
        _ => "no space left on the host's file system, or its quota is used up".to_owned(),
    }
}

/// The reason of a file system that was not left well.
fn unclean(shown: &str) -> (String, Option<Hint>) {
    if is_remote(Path::new(shown)) {
        return ("not clean: check the disk on the server".to_owned(), None);
    }
    let repair = Hint::RunFsck {
        volume: Some(shown.to_owned()),
        repair: true,
    };
    (format!("not clean: run {repair}"), Some(repair))
}
