// SPDX-License-Identifier: GPL-2.0-only
//! Private files beside an image: a new image until it is complete, or a copy of a partition for
//! tools that need a whole file. They are sparse, and removed when dropped.

use crate::temporary::{self, PrivateDirectory};
use crate::undo::{self, Changed, UndoLog};
use outboard::{Fd, HostTree};
use outboard_error::{reason, Error, ErrorKind, Failure, Result};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes of one comparison and write.
const PIECE: usize = 1 << 20;
/// Smallest number of bytes to write or punch.
const GRAIN: usize = 4096;

/// A range of bytes of an image: a partition, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub size: u64,
}

impl Range {
    /// Whether two ranges have bytes in common. A table of an image may name any.
    pub fn overlaps(self, other: Self) -> bool {
        let end = |range: Self| range.start.saturating_add(range.size);
        self.start.max(other.start) < end(self).min(end(other))
    }
}

/// A private file for tools, removed with all beside it when it is dropped.
pub struct Scratch {
    file: NamedTempFile,
    /// A directory with nothing else in it: tools may create files beside it.
    directory: PrivateDirectory,
}

/// The directory that a file is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Scratch {
    /// An empty file beside `image`, of this size.
    pub fn beside(image: &Path, size: u64) -> Result<Self> {
        let directory = directory_of(image);
        // An absolute name, so that no tool takes it for an option.
        let make = || -> io::Result<Self> {
            let directory = directory.canonicalize()?;
            let directory = PrivateDirectory::new_in(&directory, ".outboard-")?;
            let file = NamedTempFile::new_in(directory.path())?;
            file.as_file().set_len(size)?;
            Ok(Self { file, directory })
        };
        make().map_err(|error| {
            if directory == temporary::large_place() {
                Error::from(Failure::from(temporary::failure(directory, error)))
            } else {
                Error::known(
                    ErrorKind::of(&error),
                    format!(
                        "cannot make a file in {}: {}",
                        directory.display(),
                        temporary::short_reason(&error)
                    ),
                )
                .about(directory.as_os_str().as_bytes().to_vec())
            }
        })
    }

    /// An empty file in the directory for large temporary files.
    pub fn temporary() -> Result<Self> {
        Self::beside(&temporary::large_place().join("image"), 0)
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Its private directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<u64> {
        let metadata = self.file.path().metadata();
        let failed =
            |error| Error::failed(format!("cannot read {}", self.path().display()), &error);
        metadata.map(|metadata| metadata.len()).map_err(failed)
    }

    /// Resizes the file. Growth adds a hole.
    pub fn set_size(&self, size: u64) -> Result<()> {
        let file = std::fs::File::options().write(true).open(self.path());
        file.and_then(|file| file.set_len(size)).map_err(|error| {
            Error::failed(format!("cannot resize {}", self.path().display()), &error)
        })
    }

    /// Empties the file: nothing but a hole of this size.
    pub fn clear(&self, size: u64) -> Result<()> {
        self.set_size(0)?;
        self.set_size(size)
    }

    fn open(&self, flags: i32) -> io::Result<Fd> {
        HostTree.open_fd(self.path(), flags, 0)
    }

    /// Copies a range of an image into the file; shares blocks where the host can.
    pub fn copy_from(&self, image: &Fd, range: Range) -> Result<()> {
        self.clear(range.size)?;
        let copy = || -> io::Result<()> {
            let target = self.open(libc::O_RDWR)?;
            let mut at = 0;
            loop {
                at = next_data(image, at, range.start, range.size)?;
                if at >= range.size {
                    return Ok(());
                }
                let hole = next_hole(image, at, range.start, range.size)?;
                copy_bytes(image, range.start + at, &target, at, hole - at)?;
                at = hole;
            }
        };
        copy().map_err(|error| {
            Error::failed(
                format!("cannot copy into {}", self.path().display()),
                &error,
            )
        })
    }

    /// Copies the file back to a range of an image, or of a block device of our kernel. Only
    /// changed blocks are written; zeroes become holes. On return the range is on stable storage.
    pub fn write_back(&self, image: &Fd, range: Range) -> io::Result<()> {
        let source = self.open(libc::O_RDONLY)?;
        let clear = |at, length| clear(image, range.start + at, length);
        compare(&source, image, range, clear, |place, _, new| {
            undo::put(image, new, place)
        })?;
        image.sync()
    }

    /// Copies the file back to an image with valuable data: completely or not at all, also if this
    /// process is killed or the power fails ([`undo`]). `path`: the image's.
    pub fn replace(&self, path: &Path, image: &Fd, range: Range) -> io::Result<()> {
        let source = self.open(libc::O_RDONLY)?;
        let mut log = UndoLog::create(path)?;
        let nothing = |_, _| Ok(false);
        let noted = compare(&source, image, range, nothing, |place, old, new| {
            log.add(place, old, new)
        });
        let noted = noted.and_then(|()| reserve(&source, image, range.start, log.changes()));
        if noted.is_err() || log.changes().is_empty() {
            let removed = log.remove(image);
            return noted.and(removed);
        }
        let written = log
            .complete(image)
            .and_then(|()| write_changes(&source, image, range.start, log.changes()))
            .and_then(|()| image.sync());
        match written {
            Ok(()) => log.remove(image),
            Err(error) => Err(undo_after(error, log, image)),
        }
    }

    /// Makes it the image `path`. Only with `replace` may there be one.
    pub fn keep_as(self, path: &Path, replace: bool, umask: u32) -> Result<()> {
        let shown = path.display();
        let failed = |error: io::Error| Error::failed(format!("cannot make {shown}"), &error);
        // Open it again: the tool may have created another file of this name.
        let mut options = std::fs::File::options();
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.path())
            .and_then(|file| {
                file.set_permissions(Permissions::from_mode(0o666 & !umask))?;
                file.sync_all()?;
                Fd::from(OwnedFd::from(file)).close()
            })
            .map_err(failed)?;
        let kept = if replace {
            self.file.persist(path)
        } else {
            self.file.persist_noclobber(path)
        };
        kept.map_err(|error| failed(error.error))?;
        std::fs::File::open(directory_of(path))
            .and_then(|directory| directory.sync_all())
            .map_err(failed)
    }
}

/// The next data at or after `at`, both relative to `start`; `size` if there is none before it.
fn next_data(file: &Fd, at: u64, start: u64, size: u64) -> io::Result<u64> {
    let found = match file.next_data(start + at) {
        // Block devices cannot report holes.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(at),
        other => other?,
    };
    Ok(found.map_or(size, |data| (data - start).min(size)))
}

/// The same for the next hole.
fn next_hole(file: &Fd, at: u64, start: u64, size: u64) -> io::Result<u64> {
    match file.next_hole(start + at) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(size),
        other => Ok((other? - start).min(size)),
    }
}

fn copy_bytes(from: &Fd, mut at: u64, to: &Fd, mut target: u64, length: u64) -> io::Result<()> {
    let end = at + length;
    let mut buffer = Vec::new();
    while at < end {
        let most = (end - at).min(1 << 30) as usize;
        let copied = match from.copy_range(at, to, target, most) {
            Ok(copied) if copied > 0 => copied,
            // An older kernel cannot copy between file systems, nor from block devices.
            _ => {
                buffer.resize(PIECE.min(most), 0);
                let read = from.read_at(&mut buffer, at)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                to.write_all_at(&buffer[..read], target)?;
                read
            }
        };
        at += copied as u64;
        target += copied as u64;
    }
    Ok(())
}

/// Fills a buffer; bytes behind the end of the file are zero.
fn read_all(file: &Fd, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            length => done += length,
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

/// Punches a hole in a block device, which cannot report its holes, without a look at its contents.
/// For a file, [`compare`] skips reported holes, which is faster.
fn clear(image: &Fd, place: u64, length: u64) -> io::Result<bool> {
    let is_device = image.stat()?.st_mode & libc::S_IFMT == libc::S_IFBLK;
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    Ok(is_device && image.allocate(hole, place, length).is_ok())
}

/// Compares a range of an image with a file: `differs` gets the offset in the image, the old and
/// the new bytes. `clear` gets holes of the file, to zero them.
fn compare(
    source: &Fd,
    image: &Fd,
    range: Range,
    clear: impl Fn(u64, u64) -> io::Result<bool>,
    mut differs: impl FnMut(u64, &[u8], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut new, mut old) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < range.size {
        let data = next_data(source, at, 0, range.size)?;
        let data = data - data % GRAIN as u64;
        if data > at && clear(at, data - at)? {
            at = data;
            continue;
        }
        // Holes in both are equal.
        let next = data.min(next_data(image, at, range.start, range.size)?);
        at = next - next % GRAIN as u64;
        if at >= range.size {
            break;
        }
        let length = (range.size - at).min(PIECE as u64) as usize;
        let (new, old) = (&mut new[..length], &mut old[..length]);
        read_all(source, new, at)?;
        read_all(image, old, range.start + at)?;
        let mut place = range.start + at;
        for (new, old) in new.chunks(GRAIN).zip(old.chunks(GRAIN)) {
            if new != old {
                differs(place, old, new)?;
            }
            place += new.len() as u64;
        }
        at += length as u64;
    }
    Ok(())
}

/// Allocates space on the host for all changes before the first one.
fn reserve(source: &Fd, image: &Fd, start: u64, changes: &[Changed]) -> io::Result<()> {
    each_block(source, start, changes, |block, place| {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let mode = libc::FALLOC_FL_KEEP_SIZE;
        match image.allocate(mode, place, block.len() as u64) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => Err(error),
            // A block device, or a file system without fallocate(2): the log protects the change
            // nevertheless.
            _ => Ok(()),
        }
    })
}

fn write_changes(source: &Fd, image: &Fd, start: u64, changes: &[Changed]) -> io::Result<()> {
    each_block(source, start, changes, |block, place| {
        undo::put(image, block, place)
    })
}

/// The new blocks, with their offsets in the image.
fn each_block(
    source: &Fd,
    start: u64,
    changes: &[Changed],
    mut work: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = vec![0; GRAIN];
    for change in changes {
        let end = change.place + change.length;
        let mut place = change.place;
        while place < end {
            let block = &mut block[..(end - place).min(GRAIN as u64) as usize];
            read_all(source, block, place - start)?;
            work(block, place)?;
            place += block.len() as u64;
        }
    }
    Ok(())
}

/// The error of a change that failed half-way, with the state of the image.
fn undo_after(error: io::Error, log: UndoLog, image: &Fd) -> io::Error {
    let why = reason(&error);
    match log.undo(image) {
        Ok(()) => io::Error::other(format!("{why} (all of it was undone)")),
        Err(second) => io::Error::other(format!(
            "{why}; it could not be undone: {}; the next command that writes to the image tries \
             again",
            reason(&second)
        )),
    }
}

/// A path that every tool takes as a file name: absolute, without characters that have a meaning
/// for some tools.
pub struct PlainPath {
    path: PathBuf,
    /// Holds a link to a file with an odd name.
    _directory: Option<PrivateDirectory>,
}

impl PlainPath {
    /// A plain name for the file.
    pub fn new(path: &Path) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let failed =
            |error: io::Error| Error::failed(format!("cannot use {}", path.display()), &error);
        let path = path.canonicalize().map_err(failed)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@~".contains(byte);
        if path.as_os_str().as_bytes().iter().all(plain) {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = PrivateDirectory::new("outboard-").map_err(failed)?;
        let link = directory.path().join("image");
        std::os::unix::fs::symlink(&path, &link).map_err(failed)?;
        Ok(Self {
            path: link,
            _directory: Some(directory),
        })
    }
}

impl AsRef<Path> for PlainPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_lock::ImageLock;
    use std::fs;

    #[test]
    fn a_range_comes_back_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk?img");
        let mut bytes = vec![0u8; 5 << 20];
        bytes[1 << 20..(1 << 20) + 100].fill(1);
        bytes[3 << 20..(3 << 20) + 8192].fill(2);
        fs::write(&path, &bytes).unwrap();
        let image = ImageLock::take(&path, true).unwrap();
        let range = Range {
            start: 1 << 20,
            size: (3 << 20) + 512,
        };
        let scratch = Scratch::beside(&path, 0).unwrap();
        scratch.copy_from(image.file(), range).unwrap();
        let mut copy = fs::read(scratch.path()).unwrap();
        assert!(copy == bytes[1 << 20..(4 << 20) + 512]);
        copy[..10].fill(7);
        copy[2 << 20..(2 << 20) + 4096].fill(0);
        let last = copy.len() - 1;
        copy[last] = 9;
        fs::write(scratch.path(), &copy).unwrap();
        scratch.replace(&path, image.file(), range).unwrap();
        bytes[1 << 20..(4 << 20) + 512].copy_from_slice(&copy);
        assert!(fs::read(&path).unwrap() == bytes);
        let plain = PlainPath::new(&path).unwrap();
        assert!(!plain.as_ref().to_str().unwrap().contains('?'));
        assert!(fs::read(plain.as_ref()).unwrap() == bytes);
    }

    #[test]
    fn an_image_is_not_replaced_by_mistake() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let make = || Scratch::beside(&path, 4096).unwrap();
        make().keep_as(&path, false, 0o022).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert!(make().keep_as(&path, false, 0o022).is_err());
        make().keep_as(&path, true, 0o022).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
