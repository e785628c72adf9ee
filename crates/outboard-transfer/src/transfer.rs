// SPDX-License-Identifier: GPL-2.0-only
//! Copies and archives for programs: the engines of `outboard cp`, `tar-in` and `tar-out` behind
//! one type. Nothing is printed, and no setting of the process is changed.

use crate::callback::{CallbackProgress, Count, OnProgress};
use crate::cp::{Changes, CopyRequest, CopySource, CopyTarget, Keep, Options, TreeCopy};
use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use crate::report::Report;
use crate::tar::input::{unpack_into, ArchiveInput, UnpackTarget};
use crate::tar::output::{pack_from, ArchiveOutput, PackSource};
use crate::tar::{Choice, Format, Options as Unpacking, Selection};
use outboard::{stopped, AnyTree, Cancel, Stopped};
use outboard_error::{Error, ErrorKind, Failure, Notes};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::destination::of_open_volumes;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Threads beyond this do not make copying faster.
const USEFUL_THREADS: u32 = 4;
/// Permissions that new files do not get where modes are not kept.
const UMASK: u32 = 0o022;
/// The name of an archive in messages.
const ARCHIVE: &str = "the archive";
/// Files that could not be copied that an error names.
const NAMED: usize = 4;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// The result of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Files that were copied.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Attributes that could not be kept, such as owners that the destination does not have, and
    /// other notes.
    pub warnings: Vec<String>,
}

/// How trees are copied, packed and unpacked: between volumes, and between a volume and the host
/// ([`HostTree`](outboard::HostTree)).
///
/// ```no_run
/// use outboard_transfer::Transfer;
/// use outboard_volume::{HostTree, Options, Volume};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Volume::open_writable("disk.img@1", Options::new())?;
/// let summary = Transfer::new().copy(&HostTree, "site", &disk, "/srv/site")?;
/// println!("{} files", summary.files);
/// disk.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Transfer {
    keep: Keep,
    follow: bool,
    force: bool,
    threads: u32,
    on_progress: Option<Arc<OnProgress>>,
    cancel: Option<Cancel>,
    record: Option<Arc<Mutex<Summary>>>,
}

impl Default for Transfer {
    fn default() -> Self {
        Self::new()
    }
}

impl Transfer {
    /// A transfer that keeps everything and follows no symbolic link.
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Self {
            keep: Keep::Everything,
            follow: false,
            force: false,
            threads: (processors as u32).min(USEFUL_THREADS),
            on_progress: None,
            cancel: None,
            record: None,
        }
    }

    /// The attributes that copies keep of their sources. Archives keep all.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Whether a copy has what symbolic links lead to, in place of the links.
    pub fn follow(mut self, yes: bool) -> Self {
        self.follow = yes;
        self
    }

    /// Whether a copy replaces files of the host that look like disk images.
    pub fn force(mut self, yes: bool) -> Self {
        self.force = yes;
        self
    }

    /// How many threads write files. Default: as many as the host has processors, at most 4.
    pub fn threads(mut self, count: u32) -> Self {
        self.threads = count.max(1);
        self
    }

    /// Calls a function for each file, and within large ones, from any thread. `Break` cancels the
    /// transfer. It must not wait for the transfer.
    pub fn on_progress(
        mut self,
        function: impl Fn(&Count) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(function));
        self
    }

    /// The handle with which another thread can cancel the transfer.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Stores the counts of each call there, also of one that fails or is cancelled.
    pub fn record(mut self, summary: &Arc<Mutex<Summary>>) -> Self {
        self.record = Some(Arc::clone(summary));
        self
    }

    /// Copies a file, or a directory with all in it. `to_path` is the path of the copy itself: a
    /// directory is merged into one that is there, and a file replaces one that is there.
    ///
    /// A copy that is cancelled ([`ErrorKind::Interrupted`]) or whose
    /// [`Deadline`](outboard::Deadline) has passed ([`ErrorKind::TimedOut`]) leaves complete files,
    /// and removes new ones that are not complete. A file that was there before may have only a
    /// part of the new contents then; the error names it. Files that cannot be copied do not end
    /// the copy; the error at its end names them.
    ///
    /// Image files of volumes that this process has open are never overwritten
    /// ([`ErrorKind::InUse`]), by whatever name, nor are their keys. A file that looks like a disk
    /// image is overwritten only with [`Transfer::force`] ([`ErrorKind::AlreadyExists`]).
    pub fn copy(
        &self,
        from: &impl AnyTree,
        from_path: impl AsRef<Path>,
        to: &impl AnyTree,
        to_path: impl AsRef<Path>,
    ) -> Result<Summary> {
        let options = Options {
            keep: self.keep,
            recursive: true,
            follow: self.follow,
            force: self.force,
            umask: UMASK,
            ..Options::default()
        };
        let source = Place::Host(from_path.as_ref().to_owned());
        let destination = Place::Host(to_path.as_ref().to_owned());
        self.run(|report, interrupt| {
            let request = CopyRequest {
                options,
                changes: &Changes::default(),
                excluded: &Exclusion::default(),
                names: None,
                hidden: &HiddenFinder::default(),
                operand: None,
            };
            let source = CopySource {
                place: &source,
                tree: from.any_tree(),
            };
            let trees = TreeCopy {
                sources: vec![source],
                target: CopyTarget::exact(to.any_tree(), &destination)?,
                used: Arc::new(of_open_volumes()),
                threads: self.threads,
            };
            let copied = trees.run(&request, interrupt, report);
            report.print_losses();
            copied
        })
    }

    /// Packs all that is in a directory into an archive in PAX format. The same tree makes the same
    /// archive. The bytes are written by this thread, and flushed.
    ///
    /// The archive of a cancelled call, and one that cannot be written, has no end mark, and no end
    /// of its compressed stream. Files that cannot be read do not end the call: the archive has all
    /// others, zeros in place of bytes that cannot be read, and an end mark. The error names them.
    ///
    /// A cancel takes effect when the last call of `write` returns. [`Transfer::pack_file`] ends a
    /// write that waits, and never overwrites a file of an open volume.
    pub fn pack(
        &self,
        from: &impl AnyTree,
        directory: impl AsRef<Path>,
        archive: impl Write,
        format: Format,
    ) -> Result<Summary> {
        self.pack_to(from, directory, format, |_| {
            Ok(ArchiveOutput {
                writer: archive,
                name: ARCHIVE.to_owned(),
                made: None,
            })
        })
    }

    /// As [`Transfer::pack`], to a file, pipe or socket of the host. It must not be a file of an
    /// open volume ([`ErrorKind::InUse`]).
    pub fn pack_file(
        &self,
        from: &impl AnyTree,
        directory: impl AsRef<Path>,
        archive: &File,
        format: Format,
    ) -> Result<Summary> {
        self.pack_to(from, directory, format, |interrupt| {
            let file = of_open_volumes().check_open(archive);
            let file = file.and_then(|()| archive.try_clone());
            let output = ArchiveOutput {
                writer: file.map_err(|error| Error::failed("cannot use the archive", &error))?,
                name: ARCHIVE.to_owned(),
                made: None,
            };
            output.polled(interrupt)
        })
    }

    fn pack_to<W: Write>(
        &self,
        from: &impl AnyTree,
        directory: impl AsRef<Path>,
        format: Format,
        open: impl FnOnce(&Interrupt) -> outboard_error::Result<ArchiveOutput<W>>,
    ) -> Result<Summary> {
        let place = Place::Host(directory.as_ref().to_owned());
        let source = PackSource {
            tree: from.any_tree(),
            place: &place,
            mount: None,
            threads: self.threads,
        };
        let choice = Choice {
            sorted: true,
            ..Choice::default()
        };
        self.run(|report, interrupt| {
            let open = || open(interrupt);
            pack_from(&source, &choice, format, interrupt, report, open)
        })
    }

    /// Unpacks an archive into a directory: of v7, ustar, GNU or PAX format, also compressed by
    /// gzip, zstd or xz. Members before a damaged place, or before a cancel, are unpacked.
    ///
    /// A thread reads ahead. After a cancel this call waits until the last call of `read` returns;
    /// [`Transfer::unpack_file`] ends a read that waits.
    pub fn unpack(
        &self,
        archive: impl Read + Send,
        to: &impl AnyTree,
        directory: impl AsRef<Path>,
    ) -> Result<Summary> {
        self.unpack_input(ArchiveInput::of_reader(archive, ARCHIVE), to, directory)
    }

    /// As [`Transfer::unpack`], from a file, pipe or socket of the host.
    pub fn unpack_file(
        &self,
        archive: File,
        to: &impl AnyTree,
        directory: impl AsRef<Path>,
    ) -> Result<Summary> {
        self.unpack_input(ArchiveInput::of(archive, ARCHIVE.to_owned()), to, directory)
    }

    fn unpack_input(
        &self,
        input: ArchiveInput,
        to: &impl AnyTree,
        directory: impl AsRef<Path>,
    ) -> Result<Summary> {
        let place = Place::Host(directory.as_ref().to_owned());
        let target = UnpackTarget {
            tree: to.any_tree(),
            place: &place,
            operand: &place.operand(),
        };
        let selection = Selection::default();
        let how = Unpacking {
            threads: self.threads,
            keep_links: false,
            selection: &selection,
        };
        self.run(|report, interrupt| unpack_into(&target, input, how, interrupt, report))
    }

    fn run(
        &self,
        work: impl FnOnce(&Report, &Interrupt) -> outboard_error::Result<()>,
    ) -> Result<Summary> {
        let notes = Notes::default();
        let cancel = self.cancel.clone().unwrap_or_default();
        let function = self.on_progress.clone();
        let progress = CallbackProgress::new(function, cancel.clone(), notes.clone());
        let report = Report::new(Box::new(progress));
        let interrupt = Interrupt::by(cancel);
        let work = || notes.collect(|| work(&report, &interrupt));
        let done = match &self.cancel {
            Some(cancel) => cancel.run(work),
            None => work(),
        };
        let files = report.files();
        let mut summary = Summary {
            files,
            bytes: report.bytes(),
            warnings: Vec::new(),
        };
        if let Some(record) = &self.record {
            *record.lock().unwrap_or_else(PoisonError::into_inner) = summary.clone();
        }
        if interrupt.asked() {
            let stopped = stopped().unwrap_or(Stopped::Cancelled);
            let mut lines = vec![format!("{stopped} after {files} files, which are complete")];
            lines.extend(failed_files(&report, &notes));
            return Err(Failure::of(&stopped.into()).with_message(lines.join("\n")));
        }
        match done {
            Ok(()) => {
                summary.warnings = notes.lines();
                Ok(summary)
            }
            Err(Error::AlreadyReported) => {
                let text = failed_files(&report, &notes).join("\n");
                let other = || Failure::new(ErrorKind::Other, "");
                let first = report.first_failure().cloned().unwrap_or_else(other);
                Err(first.with_message(text))
            }
            Err(Error::ReaderGone) => {
                let gone = std::io::Error::from_raw_os_error(libc::EPIPE);
                Err(Failure::of(&gone).after("cannot write to the archive"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Lines about the files that could not be copied.
fn failed_files(report: &Report, notes: &Notes) -> Vec<String> {
    let mut lines = notes.lines();
    let more = report.failures().saturating_sub(NAMED as u64);
    lines.truncate(NAMED);
    if more > 0 {
        lines.push(format!("and {more} more files failed"));
    }
    lines
}
