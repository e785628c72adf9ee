// SPDX-License-Identifier: GPL-2.0-only
//! Unpacks an archive into a directory of an image.

use super::extract::{extract, ArchiveEnd, Options};
pub use super::member::Member;
use super::member::{Archive, NextMember};
use super::polled::{Gone, Polled, Unpolled};
use super::selection::Selection;
use super::stream::{Counted, StopReason, Stream};
use crate::accounts::Accounts;
use crate::report::Report;
use outboard::{HostTree, Tree};
use outboard_error::format::escaped;
use outboard_error::{warn, Error, ErrorKind, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::thread::Scope;

/// Access lists may have names; those that the image does not have are looked up on the host.
pub const NAMES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The bytes of an archive.
enum ArchiveBytes<'a> {
    /// A file, pipe or socket of the host.
    File(File),
    /// A program's own stream, which nobody can poll.
    Reader(Box<dyn Read + Send + 'a>),
}

/// The source of the archive.
pub struct ArchiveInput<'a> {
    source: ArchiveBytes<'a>,
    /// For messages.
    pub name: String,
    size: Option<u64>,
    /// Size of the archive's file.
    pub metadata: Option<Metadata>,
}

impl<'a> ArchiveInput<'a> {
    /// Opens the file that an operand names, or standard input.
    pub fn open(operand: Option<&OsStr>) -> Result<Self> {
        let Some(path) = operand.filter(|path| *path != "-") else {
            let stdin = std::io::stdin();
            if stdin.is_terminal() {
                return Err(Error::Usage(
                    "tar-in reads the archive from standard input, which is a terminal: write < \
                     ARCHIVE, or -f ARCHIVE"
                        .to_owned(),
                ));
            }
            let name = "the archive on standard input".to_owned();
            let file = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned();
            let file = File::from(
                file.map_err(|error| Error::failed(format!("cannot read {name}"), &error))?,
            );
            return Ok(Self::of(file, name));
        };
        let name = escaped(path.as_bytes());
        let operand = || path.as_bytes().to_vec();
        let failed = |error| Error::of_file("cannot open archive", operand(), &error);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(Error::known(
                ErrorKind::Usage,
                format!("{name} is a directory, not an archive"),
            ));
        }
        Ok(Self::of(file, name))
    }

    /// Reads from a program's own stream. `name`: for messages.
    pub fn of_reader(reader: impl Read + Send + 'a, name: &str) -> Self {
        Self {
            source: ArchiveBytes::Reader(Box::new(reader)),
            name: name.to_owned(),
            size: None,
            metadata: None,
        }
    }

    /// Reads from a file, pipe or socket of the host. `name`: for messages.
    pub fn of(file: File, name: String) -> Self {
        let metadata = file.metadata().ok();
        Self {
            source: ArchiveBytes::File(file),
            name,
            size: metadata
                .as_ref()
                .filter(|found| found.is_file())
                .map(Metadata::len),
            metadata,
        }
    }
}

/// The host files that [`unpack_file`] reads.
pub fn unpack_reads(file: &Path) -> Vec<PathBuf> {
    let mut reads = vec![file.to_path_buf()];
    reads.extend(NAMES.map(PathBuf::from));
    reads
}

/// Unpacks a whole archive. `operand`: the destination, as the user would write it.
pub fn unpack_file(
    session: &mut Session,
    input: ArchiveInput,
    place: &Place,
    operand: &[u8],
    new_report: impl FnOnce() -> Report,
) -> Result<()> {
    let how = Options {
        threads: session.vcpus(),
        keep_links: false,
        selection: &Selection::default(),
    };
    unpack(session, input, place, operand, how, new_report)
}

/// Counts the files of an archive, and their room as `room` has it.
pub fn count(
    input: ArchiveInput,
    room: impl Fn(&Member) -> u64,
    interrupt: &Interrupt,
) -> Result<(u64, u64)> {
    let name = input.name.clone();
    std::thread::scope(|scope| {
        let (archive, _) = input.archive(scope, interrupt, Accounts::default())?;
        count_members(archive, room, interrupt, &name)
    })
}

fn count_members(
    mut archive: Archive,
    room: impl Fn(&Member) -> u64,
    interrupt: &Interrupt,
    name: &str,
) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    loop {
        match archive.next() {
            Ok(NextMember::Member(member)) => {
                files += 1;
                bytes += room(&member);
            }
            Ok(NextMember::Refused(..)) => {}
            Ok(NextMember::End { .. }) => match archive.finish() {
                Ok(()) => return Ok((files, bytes)),
                Err(stop) => return Err(stopped(stop, name, archive.offset(), "", 0)),
            },
            Err(_) if interrupt.asked() => {
                return Err(Error::Interrupted(format!("{name}: interrupted")))
            }
            Err(stop) => {
                let last = escaped(&archive.last);
                return Err(stopped(stop, name, archive.offset(), &last, 0));
            }
        }
    }
}

impl<'env> ArchiveInput<'env> {
    /// The archive, read by a thread of this scope, and its size if that is known.
    pub(super) fn archive<'scope>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        interrupt: &Interrupt,
        accounts: Accounts,
    ) -> Result<(Archive, u64)> {
        let (position, gone) = (Arc::new(AtomicU64::new(0)), Gone::default());
        let input: Box<dyn Read + Send + 'env> = match self.source {
            ArchiveBytes::File(file) => Box::new(Polled::new(file, gone.clone())),
            ArchiveBytes::Reader(reader) => Box::new(Unpolled {
                reader,
                gone: gone.clone(),
            }),
        };
        let counted = Counted {
            input,
            count: Arc::clone(&position),
        };
        let stream = Stream::open(
            scope,
            Box::new(counted),
            &self.name,
            position,
            interrupt,
            gone,
        )?;
        Ok((Archive::new(stream, accounts), self.size.unwrap_or(0)))
    }
}

/// Unpacks an archive into a directory. `operand`: the directory, as the user would write it.
pub fn unpack(
    session: &mut Session,
    input: ArchiveInput,
    place: &Place,
    operand: &[u8],
    how: Options,
    new_report: impl FnOnce() -> Report,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let id = session.open(place, true)?;
    let _ = session.tree(id).system().raise_file_limit(1 << 16);
    let report = new_report();
    let target = UnpackTarget {
        tree: session.tree(id),
        place,
        operand,
    };
    unpack_into(&target, input, how, &interrupt, &report)
}

/// The directory that an archive is unpacked into.
pub(crate) struct UnpackTarget<'a> {
    pub tree: &'a Tree,
    pub place: &'a Place,
    /// The name, as the user would write it.
    pub operand: &'a [u8],
}

/// Unpacks an archive into the directory of a tree.
pub(crate) fn unpack_into(
    target: &UnpackTarget,
    input: ArchiveInput,
    how: Options,
    interrupt: &Interrupt,
    report: &Report,
) -> Result<()> {
    let UnpackTarget {
        tree,
        place,
        operand,
    } = *target;
    let name = input.name.clone();
    let failed = |error| Error::of_file("cannot write to", operand.to_vec(), &error);
    let root = open_directory(tree, place.path()).map_err(failed)?;
    let accounts = Accounts::read_or_none(tree).or(Accounts::read_or_none(HostTree.as_tree()));
    let (end, last) = std::thread::scope(|scope| {
        let (mut archive, size) = input.archive(scope, interrupt, accounts)?;
        report.expect(size);
        let end = extract(&mut archive, root, operand, how, interrupt, report);
        report.print_losses();
        Ok::<_, Error>((end, escaped(&archive.last)))
    })?;
    match end.map_err(failed)? {
        ArchiveEnd::Complete { marked } => {
            if !marked {
                warn(format!(
                    "note: {name} ends without the mark of an end: it may be cut off after {last}"
                ));
            }
            for path in how.selection.missing() {
                report.fail(format!("{} is not in {name}", escaped(path)));
            }
        }
        ArchiveEnd::Stopped(..) if interrupt.asked() => {
            return Err(Error::Interrupted(format!(
                "interrupted after {} files, which are written",
                report.files()
            )))
        }
        ArchiveEnd::Stopped(stop, offset) => {
            return Err(stopped(stop, &name, offset, &last, report.files()))
        }
    }
    match report.failures() {
        0 => Ok(()),
        _ => Err(Error::AlreadyReported),
    }
}

fn open_directory(tree: &Tree, path: &Path) -> std::io::Result<outboard::Fd> {
    tree.open_fd(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
}

/// Reports why an archive was not read to its end, and what was unpacked.
fn stopped(stop: StopReason, name: &str, offset: u64, last: &str, files: u64) -> Error {
    let damaged = |text: String| Failure::new(ErrorKind::Damaged, text);
    let failure = match stop {
        // The writers failed, and have reported that.
        StopReason::Asked => return Error::AlreadyReported,
        StopReason::End => damaged(format!("{name} is cut off: it ends at offset {offset}")),
        StopReason::Failed(error) => {
            unreadable(&error).after(format!("cannot read {name} from offset {offset} on"))
        }
        StopReason::Nonsense(why) if last.is_empty() => {
            return damaged(format!("{name}: {why}")).into()
        }
        StopReason::Nonsense(why) => {
            damaged(format!("{name} is damaged before offset {offset}: {why}"))
        }
    };
    let place = match last {
        "" => String::new(),
        last => format!(", in or after {last}"),
    };
    let before = match files {
        1 => "1 member before that is written".to_owned(),
        files => format!("{files} members before that are written"),
    };
    let text = format!("{}{place}; {before}", failure.message());
    failure.with_message(text).into()
}

/// The failure of reading an archive: the input's own, or that of a damaged compressed stream.
pub(super) fn unreadable(error: &io::Error) -> Failure {
    let failure = Failure::of(error);
    if error.get_ref().is_some_and(|inner| inner.is::<Failure>()) {
        failure
    } else {
        Failure::new(ErrorKind::Damaged, failure.message())
    }
}
