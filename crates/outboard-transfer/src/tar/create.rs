// SPDX-License-Identifier: GPL-2.0-only
//! Creates the files that an archive describes, with their attributes.

use super::directories::Directory;
use super::flights::{Flight, Flights};
use super::member::{Attributes, Kind, Member};
use super::sparse::Map;
use super::stream::Piece;
use crate::cp::data::Trail;
use crate::cp::handle_cache::HandleCache;
use crate::cp::report::{Loss, Report};
use crate::moment::{is_kept, stored};
use outboard::{Fd, PathFd};
use outboard_sandbox::format::escaped;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

/// Special bits of a mode, which chown(2) clears.
const SPECIAL: u32 = libc::S_ISUID | libc::S_ISGID;

/// The bytes of a member.
pub enum Content {
    Whole(Vec<Piece>),
    /// They are still being read.
    Stream(Receiver<Piece>),
}

/// A member to create.
pub struct Job {
    pub directory: Arc<Directory>,
    pub name: CString,
    pub member: Box<Member>,
    pub content: Content,
    pub flight: Flight,
}

/// A file that gets its attributes.
pub enum Target<'a> {
    Open(&'a Fd),
    Path(&'a PathFd),
}

impl Target<'_> {
    fn set_owner(&self, user: u32, group: u32) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_owner_at(c"", user, group, libc::AT_EMPTY_PATH),
            Self::Path(file) => file.set_owner(user, group),
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_mode(mode),
            Self::Path(file) => file.set_mode(mode),
        }
    }

    fn set_times(&self, times: &[libc::timespec; 2]) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_times(times),
            Self::Path(file) => file.set_times(times),
        }
    }

    /// Whether the file has the modification time now: file systems store the nearest one that they
    /// can.
    fn has_times(&self, times: &[libc::timespec; 2]) -> bool {
        let (found, target): (_, &Fd) = match self {
            Self::Open(file) => (file.stat(), file),
            Self::Path(file) => (file.stat(), file.fd()),
        };
        let file_system = || target.statfs().ok().map(|found| found.kind);
        found.is_ok_and(|found| is_kept(&times[1], stored(found.st_mtime, file_system)))
    }

    fn set_xattr(&self, name: &CStr, value: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_xattr(name, value, 0),
            Self::Path(file) => file.set_xattr(name, value),
        }
    }
}

/// Gives a file its attributes, in an order in which none undoes another (docs/engine.md). `now`:
/// its present metadata.
pub fn keep(
    report: &Report,
    target: &Target,
    attributes: &Attributes,
    now: &libc::stat,
    path: &dyn Fn() -> String,
) {
    let mut mode = attributes.mode;
    let mut mode_now = now.st_mode & 0o7777;
    let user = attributes.user_after(now.st_uid);
    let group = attributes.group_after(now.st_gid);
    if (now.st_uid, now.st_gid) != (user, group) {
        if target.set_owner(user, group).is_err() {
            report.lose(Loss::Owner, path);
            // A set-user-ID program must not run as another user.
            mode &= !SPECIAL;
        }
        mode_now &= !SPECIAL;
    }
    let link = now.st_mode & libc::S_IFMT == libc::S_IFLNK;
    if !link && mode != mode_now && target.set_mode(mode).is_err() {
        report.lose(Loss::Mode, path);
    }
    // An access list comes after the mode: not all programs write the list's mask as the group's
    // permissions, and the mode would change the mask.
    for _ in 0..attributes.strange_acls {
        report.lose(Loss::AccessList, || {
            format!("{} (of unknown users)", path())
        });
    }
    for (name, value) in &attributes.xattrs {
        if target.set_xattr(name, value).is_err() {
            let loss = Loss::of_xattr(name);
            report.lose(loss, || {
                format!("{} ({})", path(), escaped(name.to_bytes()))
            });
        }
    }
    if target.set_times(&attributes.times).is_err() || !target.has_times(&attributes.times) {
        report.lose(Loss::Times, path);
    }
}

/// Why a member was not made.
enum Failure {
    Writing(io::Error),
    /// The reader stopped in the middle of the member, and reports why.
    Cut,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

/// State that all threads which create files share.
pub struct Maker<'a> {
    pub report: &'a Report,
    pub flights: &'a Flights,
    /// Complete files.
    pub handles: &'a HandleCache,
    /// The destination, for messages.
    pub shown: &'a str,
}

impl Maker<'_> {
    /// A path in the destination, for messages.
    pub fn shown(&self, path: &[u8]) -> String {
        let path = path.strip_prefix(b"./").unwrap_or(path);
        let slash = if self.shown.ends_with('/') { "" } else { "/" };
        format!("{}{slash}{}", self.shown, escaped(path))
    }

    /// Creates a member and reports failures.
    pub fn make(&self, job: &Job) {
        match self.make_any(job) {
            Ok(()) => self.report.count_file(),
            Err(Failure::Cut) => {}
            Err(Failure::Writing(error)) => {
                let shown = self.shown(&job.member.path);
                self.report
                    .fail_writing(format!("cannot write {shown}"), &error);
            }
        }
        self.flights.land(job.flight);
        self.note(&job.directory.fd);
    }

    /// Notes that this directory, or a file in it, is complete.
    pub fn note(&self, directory: &Fd) {
        if let Err(error) = self.handles.note(directory) {
            let what = format!("cannot write {}", self.shown);
            self.report.fail_writing(what, &error);
        }
    }

    fn make_any(&self, job: &Job) -> Result<(), Failure> {
        let (directory, name) = (&job.directory.fd, job.name.as_c_str());
        let mode = job.member.attributes.mode;
        match &job.member.kind {
            Kind::Symlink(target) => {
                replacing(directory, name, || directory.make_symlink_at(target, name))?;
            }
            Kind::Node(kind, device) => {
                replacing(directory, name, || {
                    directory.make_node_at(name, kind | mode, *device)
                })?;
            }
            _ => return self.file(job),
        }
        let made = directory.open_path_at(name)?;
        let now = made.stat()?;
        let path = || self.shown(&job.member.path);
        keep(
            self.report,
            &Target::Path(&made),
            &job.member.attributes,
            &now,
            &path,
        );
        Ok(())
    }

    fn file(&self, job: &Job) -> Result<(), Failure> {
        let (directory, name) = (&job.directory.fd, job.name.as_c_str());
        let mode = job.member.attributes.mode;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = replacing(directory, name, || directory.open_at(name, flags, mode))?;
        let result = self.fill(job, &file);
        if result.is_err() {
            // A part of a file must not look like all of it.
            let _ = directory.unlink_at(name, 0);
            return result;
        }
        let now = file.stat()?;
        let path = || self.shown(&job.member.path);
        keep(
            self.report,
            &Target::Open(&file),
            &job.member.attributes,
            &now,
            &path,
        );
        self.handles.add(file, job.member.map.data());
        Ok(())
    }

    /// Writes the bytes of a member at their offsets.
    fn fill(&self, job: &Job, file: &Fd) -> Result<(), Failure> {
        let map = &job.member.map;
        let mut filler = Filler {
            file,
            map,
            part: 0,
            done: 0,
            trail: Trail::new(file, true),
        };
        let mut missing = map.data();
        let mut put = |piece: &Piece| -> io::Result<()> {
            filler.put(piece)?;
            missing = missing.saturating_sub(piece.len() as u64);
            self.report.count_bytes(piece.len() as u64);
            Ok(())
        };
        match &job.content {
            Content::Whole(pieces) => pieces.iter().try_for_each(&mut put)?,
            Content::Stream(pieces) => pieces.iter().try_for_each(|piece| put(&piece))?,
        }
        if missing > 0 {
            return Err(Failure::Cut);
        }
        if job.member.sparse {
            file.truncate(map.size)?;
        }
        Ok(())
    }
}

/// Writes bytes that follow each other in an archive to the parts of a file.
struct Filler<'a> {
    file: &'a Fd,
    map: &'a Map,
    /// Index of the current part, and how much of it is written.
    part: usize,
    done: u64,
    trail: Option<Trail<'a>>,
}

impl Filler<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(&(offset, length)) = self.map.parts.get(self.part) else {
                return Ok(());
            };
            let room = (length - self.done).min(bytes.len() as u64) as usize;
            self.file.write_all_at(&bytes[..room], offset + self.done)?;
            bytes = &bytes[room..];
            self.done += room as u64;
            if let Some(trail) = &mut self.trail {
                trail.reached(offset + self.done);
            }
            if self.done == length {
                self.part += 1;
                self.done = 0;
            }
        }
        Ok(())
    }
}

/// Creates a file under a name, and replaces what has that name, except a directory that is not
/// empty.
pub fn replacing<T>(
    directory: &Fd,
    name: &CStr,
    make: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    match directory.unlink_at(name, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {
            directory.unlink_at(name, libc::AT_REMOVEDIR)?;
        }
        other => other?,
    }
    make()
}
