// SPDX-License-Identifier: GPL-2.0-only
//! Unpacks an archive into a directory.
//!
//! One thread reads the archive, and creates directories and hard links ([`Extraction`]). It hands
//! jobs to other threads, which create everything else ([`MemberMaker`]). Members that depend on
//! each other wait for each other ([`Flights`]): the result is that of one thread. Directories get
//! their attributes at the end ([`Pending`]), when nothing changes them any more.

use super::attributes::MemberAttributes;
use super::create::{is_regular, replacing, CreateJob, MemberBytes, MemberMaker};
use super::directories::{clean, split, Directories, ExtractedDirectory};
use super::flights::Flights;
use super::member::{Archive, Member, MemberKind, NextMember};
use super::pending::{self, Later, Pending};
use super::selection::Selection;
use super::stream::{ArchivePiece, StopReason};
use crate::attributes::AttributeTarget;
use crate::cp::handle_cache::HandleCache;
use crate::cp::queue::Queue;
use crate::report::Report;
use outboard::{explained, Fd, Limits};
use outboard_error::format::{escaped, size};
use outboard_error::{reason, warn, ErrorKind, Failure};
use outboard_sandbox::interrupt::Interrupt;
use std::ffi::CString;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;

/// Members that a thread takes at once.
const BATCH: usize = 16;
/// Bytes at which a batch is full.
const BATCH_BYTES: u64 = 512 * 1024;
/// Batches that may wait.
const WAITING: usize = 8;
/// Members larger than this are written while they are read.
const LARGE: u64 = 1 << 20;
/// Pieces of a large member that may wait.
const PIECES: usize = 8;

/// Options of unpacking.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads that make files.
    pub threads: u32,
    /// Keep a symbolic link to a directory where the archive has a directory.
    pub keep_links: bool,
    /// Selects and renames members.
    pub selection: &'a Selection,
}

/// How reading ended.
pub enum ArchiveEnd {
    Complete {
        marked: bool,
    },
    /// Reading stopped: why, and where in the archive.
    Stopped(StopReason, u64),
}

/// Unpacks an archive into the directory `root`, which the user writes as `operand`.
pub fn extract(
    archive: &mut Archive,
    root: Fd,
    operand: &[u8],
    options: Options,
    interrupt: &Interrupt,
    report: &Report,
) -> io::Result<ArchiveEnd> {
    let flights = Flights::default();
    let handles = HandleCache::default();
    let queue: Queue<Vec<CreateJob>> = Queue::new(WAITING);
    let maker = MemberMaker {
        report,
        flights: &flights,
        handles: &handles,
        operand,
    };
    let mut extraction = Extraction {
        maker: &maker,
        queue: &queue,
        directories: Directories::new(root)?,
        batch: Batch::default(),
        pending: Pending::new(pending::MOST),
        options,
        interrupt,
        told_absolute: false,
    };
    let limits = Limits::current();
    let result = std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                let _limits = limits.clone().enter();
                let _breaking = (flights.breaking(), queue.breaking());
                while let Some(jobs) = queue.take() {
                    for job in jobs {
                        maker.make(&job);
                    }
                }
            });
        }
        let _closing = queue.closing();
        let result = extraction.run(archive);
        extraction.batch.give(&queue);
        result
    });
    Limits::for_cleanup().run(|| extraction.finish_directories());
    Ok(match result {
        Ok(marked) => ArchiveEnd::Complete { marked },
        Err(stop) => ArchiveEnd::Stopped(stop, archive.offset()),
    })
}

/// Jobs that are handed over together.
#[derive(Default)]
struct Batch {
    jobs: Vec<CreateJob>,
    bytes: u64,
}

impl Batch {
    fn give(&mut self, queue: &Queue<Vec<CreateJob>>) {
        self.bytes = 0;
        if !self.jobs.is_empty() {
            queue.give(std::mem::take(&mut self.jobs));
        }
    }
}

struct Extraction<'a> {
    maker: &'a MemberMaker<'a>,
    queue: &'a Queue<Vec<CreateJob>>,
    directories: Directories,
    batch: Batch,
    pending: Pending,
    options: Options<'a>,
    interrupt: &'a Interrupt,
    told_absolute: bool,
}

/// Waits for names that other threads are writing, after handing over the jobs that are still here.
fn settle(
    flights: &Flights,
    batch: &mut Batch,
    queue: &Queue<Vec<CreateJob>>,
    which: Option<(&ExtractedDirectory, &std::ffi::CStr)>,
) {
    match which.map(|(directory, name)| flights.flight(directory.identity, name)) {
        Some(flight) if !flights.is_going(flight) => {}
        Some(flight) => {
            batch.give(queue);
            flights.wait(flight);
        }
        None => {
            batch.give(queue);
            flights.wait_for_all();
        }
    }
}

impl Extraction<'_> {
    fn stopped(&self) -> bool {
        self.interrupt.asked() || self.maker.report.is_hopeless() || self.queue.is_broken()
    }

    /// Reads to the end. Returns whether the archive has an end mark.
    fn run(&mut self, archive: &mut Archive) -> Result<bool, StopReason> {
        loop {
            if self.stopped() {
                return Err(StopReason::Asked);
            }
            self.maker.report.reach(archive.position());
            match archive.next()? {
                NextMember::End { marked } => {
                    archive.finish()?;
                    return Ok(marked);
                }
                NextMember::Refused(path, why) if self.options.selection.takes(&path) => {
                    self.refuse(&path, &why);
                }
                NextMember::Refused(..) => {}
                NextMember::Member(mut member) => {
                    if member.unclear {
                        self.doubt(&member.path);
                    }
                    let selection = self.options.selection;
                    if selection.takes(&member.path) && selection.change(&mut member) {
                        self.member(archive, member)?;
                    }
                }
            }
        }
    }

    fn refuse(&self, path: &[u8], why: &str) {
        let report = self.maker.report;
        let text = format!("left out {}: {why}", escaped(path));
        report.fail(Failure::new(ErrorKind::Other, text).with_path(self.maker.operand_of(path)));
    }

    /// Reports a hard link whose data may be the members that follow.
    fn doubt(&self, path: &[u8]) {
        let text = format!(
            "the hard link {} has a size, and its data or other members follow: taken as members",
            escaped(path)
        );
        let failure = Failure::new(ErrorKind::Other, text);
        let path = self.maker.operand_of(path);
        self.maker.report.fail(failure.with_path(path));
    }

    fn member(&mut self, archive: &mut Archive, member: Box<Member>) -> Result<(), StopReason> {
        let Some(path) = clean(&member.path) else {
            self.refuse(&member.path, "its name has \"..\" or a NUL in it");
            return Ok(());
        };
        if member.path.starts_with(b"/") && !self.told_absolute {
            self.told_absolute = true;
            warn(
                "note: names in the archive begin with \"/\"; they are taken as names in the \
                 destination",
            );
        }
        let shown = member.path.clone();
        let done = match &member.kind {
            MemberKind::Directory => self.directory(path, member.attributes),
            _ if path.is_empty() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
            MemberKind::Link(_) if archive.rest() > 0 => {
                return self.link_with_data(archive, path, member)
            }
            MemberKind::Link(target) => self.link(&path, target, false),
            _ => return self.other(archive, path, member),
        };
        self.tell(&shown, done);
        Ok(())
    }

    fn tell(&self, path: &[u8], done: io::Result<()>) {
        match done {
            Ok(()) => self.maker.report.count_file(),
            Err(error) => {
                let path = self.maker.operand_of(path);
                self.maker.report.fail_writing("cannot write", path, &error);
            }
        }
    }

    /// The directories, and the function that waits for names in them.
    fn parts(
        &mut self,
    ) -> (
        &mut Directories,
        impl FnMut(Option<(&ExtractedDirectory, &std::ffi::CStr)>) + '_,
    ) {
        let (batch, queue, flights) = (&mut self.batch, self.queue, self.maker.flights);
        let settle = move |which: Option<(&ExtractedDirectory, &std::ffi::CStr)>| {
            settle(flights, batch, queue, which);
        };
        (&mut self.directories, settle)
    }

    fn find(&mut self, path: &[u8]) -> io::Result<Arc<ExtractedDirectory>> {
        let (directories, mut settle) = self.parts();
        directories.find(path, &mut settle)
    }

    fn existing(&mut self, path: &[u8]) -> io::Result<Arc<ExtractedDirectory>> {
        let (directories, mut settle) = self.parts();
        directories.existing(path, &mut settle)
    }

    fn settle(&mut self, which: Option<(&ExtractedDirectory, &std::ffi::CStr)>) {
        settle(self.maker.flights, &mut self.batch, self.queue, which);
    }

    fn directory(&mut self, path: Vec<u8>, attributes: MemberAttributes) -> io::Result<()> {
        let keep_links = self.options.keep_links;
        let made = {
            let (directories, mut settle) = self.parts();
            directories.make(&path, keep_links, &mut settle)
        };
        let made = made?;
        let later = Later { path, attributes };
        let Err(mut later) = self.pending.add(made.identity, later) else {
            return Ok(());
        };
        // Access lists wait: files that are made in the directory would inherit them.
        let (report, shown) = (self.maker.report, || self.maker.shown(&later.path));
        let target = AttributeTarget::Open(&made.fd);
        later.attributes.give_xattrs(report, &target, &shown);
        self.pending.add(made.identity, later).map_err(|_| {
            io::Error::other(format!(
                "names and access lists of the archive's directories have more than {} in all",
                size(pending::MOST as u64)
            ))
        })
    }

    /// Creates a hard link to an existing file. `filled`: data follow, so it is a regular one.
    fn link(&mut self, path: &[u8], target: &[u8], filled: bool) -> io::Result<()> {
        let target = clean(target).filter(|target| !target.is_empty());
        let target =
            target.ok_or_else(|| io::Error::other("the target of the link is not a valid name"))?;
        let (old_parent, old_name) = split(&target);
        let (parent, name) = split(path);
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let (old_directory, old) = self
            .existing(old_parent)
            .and_then(|directory| {
                self.settle(Some((&directory, &old_name)));
                let stat = directory.fd.stat_at(&old_name, flags)?;
                directory.check_own_name(&old_name)?;
                Ok((directory, stat))
            })
            .map_err(|error| {
                let text = format!("it is a link to {}: {}", escaped(&target), reason(&error));
                explained(error, text)
            })?;
        if filled && !is_regular(&old) {
            return Err(io::Error::other(format!(
                "it has data, but is a link to {}, which is not a regular file",
                escaped(&target)
            )));
        }
        let directory = self.find(parent)?;
        self.settle(Some((&directory, &name)));
        let claim = directory.claim(&name);
        if let Ok(now) = directory.fd.stat_at(&name, flags) {
            if (now.st_dev, now.st_ino) == (old.st_dev, old.st_ino) {
                claim.check_existing(&directory.fd)?;
                claim.keep();
                return Ok(());
            }
        }
        self.leave_directory(path);
        replacing(&directory.fd, &claim, || {
            old_directory.fd.link_at(&old_name, &directory.fd, &name, 0)
        })?;
        claim.keep();
        Ok(())
    }

    /// Creates a hard link whose data follow: they are the contents of all its names. A target of
    /// the same size has them already; one that is not there is not needed.
    fn link_with_data(
        &mut self,
        archive: &mut Archive,
        path: Vec<u8>,
        mut member: Box<Member>,
    ) -> Result<(), StopReason> {
        let MemberKind::Link(target) = &member.kind else {
            return Ok(());
        };
        // Data of another name of the same file may still be on their way.
        self.settle(None);
        match self.link(&path, target, true) {
            Ok(()) if self.size_of(&path) == Some(member.map.size) => {
                self.tell(&member.path, Ok(()));
                return Ok(());
            }
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => member.kind = MemberKind::File,
            Err(error) => {
                self.tell(&member.path, Err(error));
                return Ok(());
            }
        }
        self.other(archive, path, member)
    }

    /// The size of a complete file; `None`: it is none.
    fn size_of(&mut self, path: &[u8]) -> Option<u64> {
        let (parent, name) = split(path);
        let directory = self.existing(parent).ok()?;
        let stat = directory.fd.stat_at(&name, libc::AT_SYMLINK_NOFOLLOW);
        let stat = stat.ok()?;
        is_regular(&stat).then_some(stat.st_size.max(0) as u64)
    }

    /// Another file takes a name that may have been a directory's.
    fn leave_directory(&mut self, path: &[u8]) {
        if self.directories.knows(path) {
            self.settle(None);
            self.directories.forget();
        }
    }

    /// Creates a job for another thread.
    fn other(
        &mut self,
        archive: &mut Archive,
        path: Vec<u8>,
        member: Box<Member>,
    ) -> Result<(), StopReason> {
        let (parent, name) = split(&path);
        let directory = match self.find(parent) {
            Ok(directory) => directory,
            Err(error) => {
                self.tell(&member.path, Err(error));
                return Ok(());
            }
        };
        self.settle(Some((&directory, &name)));
        self.leave_directory(&path);
        if archive.rest() > LARGE {
            return self.stream(archive, directory, name, member);
        }
        let bytes = archive.rest();
        let mut pieces = Vec::new();
        while let Some(piece) = archive.data()? {
            pieces.push(piece);
        }
        let job = self.job(directory, name, member, MemberBytes::Whole(pieces));
        self.batch.jobs.push(job);
        self.batch.bytes += bytes;
        if self.batch.jobs.len() >= BATCH || self.batch.bytes >= BATCH_BYTES {
            self.batch.give(self.queue);
        }
        Ok(())
    }

    fn job(
        &self,
        directory: Arc<ExtractedDirectory>,
        name: CString,
        member: Box<Member>,
        content: MemberBytes,
    ) -> CreateJob {
        let flight = self.maker.flights.flight(directory.identity, &name);
        self.maker.flights.start(flight);
        CreateJob {
            directory,
            name,
            member,
            content,
            flight,
        }
    }

    /// Hands over the bytes of a large member while they are read.
    fn stream(
        &mut self,
        archive: &mut Archive,
        directory: Arc<ExtractedDirectory>,
        name: CString,
        member: Box<Member>,
    ) -> Result<(), StopReason> {
        self.batch.give(self.queue);
        let (sender, pieces) = sync_channel::<ArchivePiece>(PIECES);
        let job = self.job(directory, name, member, MemberBytes::Stream(pieces));
        self.queue.give(vec![job]);
        while let Some(piece) = archive.data()? {
            // The writer failed, and has reported that.
            if sender.send(piece).is_err() {
                break;
            }
            if self.stopped() {
                return Err(StopReason::Asked);
            }
        }
        Ok(())
    }

    fn finish_directories(&mut self) {
        let report = self.maker.report;
        let mut pending: Vec<_> = self.pending.take().into_iter().collect();
        // Neighbours follow each other, so that the open directories serve them.
        pending.sort_by(|(_, one), (_, other)| other.path.cmp(&one.path));
        for (identity, later) in pending {
            let shown = || self.maker.shown(&later.path);
            let again = self.directories.again(&later.path, identity);
            let found = again.and_then(|directory| match directory {
                Some(directory) => directory.stat().map(|now| Some((directory, now))),
                None => Ok(None),
            });
            match found {
                Ok(Some((directory, now))) => {
                    let target = AttributeTarget::Open(&directory);
                    later.attributes.give(report, &target, &now, &shown);
                    self.maker.note(&directory);
                }
                Ok(None) => {}
                Err(error) => {
                    let path = self.maker.operand_of(&later.path);
                    report.fail(Failure::of_file("cannot finish", path, &error));
                }
            }
        }
    }
}
