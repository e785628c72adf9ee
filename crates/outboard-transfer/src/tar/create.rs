// SPDX-License-Identifier: GPL-2.0-only
//! Creates the files that an archive describes, with their attributes.

use super::directories::ExtractedDirectory;
use super::flights::{Flight, Flights};
use super::member::{Member, MemberKind};
use super::sparse::Map;
use super::stream::ArchivePiece;
use crate::attributes::AttributeTarget;
use crate::cp::handle_cache::HandleCache;
use crate::cp::trail::Trail;
use crate::made::Claim;
use crate::report::Report;
use outboard::{Fd, Limits};
use outboard_error::format::escaped;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

/// The bytes of a member.
pub enum MemberBytes {
    Whole(Vec<ArchivePiece>),
    /// They are still being read.
    Stream(Receiver<ArchivePiece>),
}

/// A member to create.
pub struct CreateJob {
    pub directory: Arc<ExtractedDirectory>,
    pub name: CString,
    pub member: Box<Member>,
    pub content: MemberBytes,
    pub flight: Flight,
}

/// Why a member was not made.
enum MakeFailure {
    Writing(io::Error),
    /// The reader stopped in the middle of the member, and reports why.
    Cut,
}

impl From<io::Error> for MakeFailure {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

/// State that all threads which create files share.
pub struct MemberMaker<'a> {
    pub report: &'a Report,
    pub flights: &'a Flights,
    /// Complete files.
    pub handles: &'a HandleCache,
    /// The destination, as the user would write it.
    pub operand: &'a [u8],
}

impl MemberMaker<'_> {
    /// A path in the destination, as the user would write it.
    pub fn operand_of(&self, path: &[u8]) -> Vec<u8> {
        let path = path.strip_prefix(b"./").unwrap_or(path);
        let slash: &[u8] = if self.operand.ends_with(b"/") {
            b""
        } else {
            b"/"
        };
        [self.operand, slash, path].concat()
    }

    /// A path in the destination, for messages.
    pub fn shown(&self, path: &[u8]) -> String {
        escaped(&self.operand_of(path))
    }

    /// Creates a member and reports failures.
    pub fn make(&self, job: &CreateJob) {
        match self.make_any(job) {
            Ok(()) => self.report.count_file(),
            Err(MakeFailure::Cut) => {}
            Err(MakeFailure::Writing(error)) => {
                let path = self.operand_of(&job.member.path);
                self.report.fail_writing("cannot write", path, &error);
            }
        }
        self.flights.land(job.flight);
        self.note(&job.directory.fd);
    }

    /// Notes that this directory, or a file in it, is complete.
    pub fn note(&self, directory: &Fd) {
        if let Err(error) = self.handles.note(directory) {
            self.report
                .fail_writing("cannot write", self.operand.to_vec(), &error);
        }
    }

    fn make_any(&self, job: &CreateJob) -> Result<(), MakeFailure> {
        let (directory, name) = (&job.directory.fd, job.name.as_c_str());
        let mode = job.member.attributes.mode;
        let claim = job.directory.claim(name);
        match &job.member.kind {
            MemberKind::Symlink(target) => {
                replacing(directory, &claim, || {
                    directory.make_symlink_at(target, name)
                })?;
            }
            MemberKind::Node(kind, device) => {
                replacing(directory, &claim, || {
                    directory.make_node_at(name, kind | mode, *device)
                })?;
            }
            _ => return self.file(job, &claim),
        }
        claim.keep();
        let made = directory.open_path_at(name)?;
        let now = made.stat()?;
        let path = || self.shown(&job.member.path);
        job.member
            .attributes
            .give(self.report, &AttributeTarget::Path(&made), &now, &path);
        Ok(())
    }

    fn file(&self, job: &CreateJob, claim: &Claim) -> Result<(), MakeFailure> {
        let (directory, name) = (&job.directory.fd, job.name.as_c_str());
        let mode = job.member.attributes.mode;
        let flags = libc::O_WRONLY | libc::O_NOFOLLOW;
        let file = match &job.member.kind {
            // The link is there, and its data go into the file that has the name.
            MemberKind::Link(_) => open_linked(directory, name)?,
            _ => {
                let flags = flags | libc::O_CREAT | libc::O_EXCL;
                replacing(directory, claim, || directory.open_at(name, flags, mode))?
            }
        };
        let result = self.fill(job, &file);
        if result.is_err() {
            // A part of a file must not look like all of it.
            let _ = Limits::for_cleanup().run(|| directory.unlink_at(name, 0));
            return result;
        }
        claim.keep();
        let now = file.stat()?;
        let path = || self.shown(&job.member.path);
        job.member
            .attributes
            .give(self.report, &AttributeTarget::Open(&file), &now, &path);
        self.handles.add(file, job.member.map.data());
        Ok(())
    }

    /// Writes the bytes of a member at their offsets.
    fn fill(&self, job: &CreateJob, file: &Fd) -> Result<(), MakeFailure> {
        let map = &job.member.map;
        let mut filler = Filler {
            file,
            map,
            part: 0,
            done: 0,
            trail: Trail::new(file, true),
        };
        let mut missing = map.data();
        let mut put = |piece: &ArchivePiece| -> io::Result<()> {
            filler.put(piece)?;
            missing = missing.saturating_sub(piece.len() as u64);
            self.report.count_bytes(piece.len() as u64);
            Ok(())
        };
        match &job.content {
            MemberBytes::Whole(pieces) => pieces.iter().try_for_each(&mut put)?,
            MemberBytes::Stream(pieces) => pieces.iter().try_for_each(|piece| put(&piece))?,
        }
        if missing > 0 {
            return Err(MakeFailure::Cut);
        }
        if job.member.sparse {
            file.truncate(map.size)?;
        }
        Ok(())
    }
}

pub fn is_regular(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// Opens an existing file for new contents. It does not wait for the reader of a FIFO.
fn open_linked(directory: &Fd, name: &CStr) -> io::Result<Fd> {
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = directory.open_at(name, flags, 0)?;
    if !is_regular(&file.stat()?) {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.truncate(0)?;
    Ok(file)
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
/// empty, and what a member of another name has made.
pub fn replacing<T>(
    directory: &Fd,
    claim: &Claim,
    make: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    claim.check_existing(directory)?;
    let name = claim.name();
    match directory.unlink_at(name, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {
            directory.unlink_at(name, libc::AT_REMOVEDIR)?;
        }
        other => other?,
    }
    make()
}
