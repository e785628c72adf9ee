// SPDX-License-Identifier: GPL-2.0-only
//! The undo log of a change to an image in place: what fsck and resize have made of the private
//! copy of a partition is written back either wholly or not at all.
//!
//! | step | on stable storage | after a crash |
//! |---|---|---|
//! | 1 old blocks go into the log, the image gets room | log, not complete | the log is removed |
//! | 2 the image gets a mark, which names the log | log, mark | log and mark are removed |
//! | 3 the log's head says that it is complete | log, mark | as 4 |
//! | 4 the new blocks go into the image | log, mark, some new blocks | the old blocks are written |
//! | 5 the mark is removed | new blocks, log | the log is removed |
//! | 6 the log is removed | new blocks | nothing is to be done |
//!
//! If an image cannot have a mark, steps 2 and 5 are left out. The log lies beside the image
//! (`IMAGE.outboard-undo`), or in /var/tmp if that directory cannot be written. The next command
//! that opens the image for writing undoes the change; until then the image cannot be read. A log
//! whose image was changed by something else meanwhile is refused: each sector must be the old or
//! the new one.

mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod places;

pub use format::put;
use format::{record, wrong, Head, LogState, HEAD};
use outboard::{Fd, HostTree};
use outboard_error::{reason, warn, Error, ErrorKind, Failure, Hint, Result};
use places::{mark_value, FoundLog, Subject, UndoLogFile, UndoMark, MARK};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The error of a command that only reads an image with a log.
fn half_changed() -> io::Error {
    let failure = Failure::hinted(ErrorKind::Other, Hint::UndoHalfChange, |write| {
        format!(
            "a command that changed it was cut off half-way: {write}, which first undoes the \
             unfinished change"
        )
    });
    failure.into()
}

fn find(image: &Path) -> io::Result<FoundLog> {
    // An image that cannot be looked at is reported by those who open it.
    Subject::of(image).map_or(Ok(FoundLog::Nothing), |subject| subject.find_log())
}

/// Whether an image may be half changed, so that it has to be opened for writing first.
pub fn exists(image: &Path) -> bool {
    !matches!(find(image), Ok(FoundLog::Nothing | FoundLog::Stale(_)))
}

/// The process that writes a log. A log of a dead one says nothing of who has locked the image.
fn writer_of(log: &UndoLogFile) -> Option<u32> {
    let process = log.reader.head?.process;
    let is_alive = || Path::new("/proc").join(process.to_string()).exists();
    (process != 0 && is_alive()).then_some(process)
}

/// The process that writes the log of an image, which is locked, if that one has it.
pub fn writer(image: &Path) -> Option<u32> {
    match find(image) {
        Ok(FoundLog::Pending(log) | FoundLog::Stale(log)) => writer_of(&log),
        _ => None,
    }
}

/// An error if an image that will be read is half changed. The image is locked.
pub fn check_locked(image: &Path) -> io::Result<()> {
    match find(image)? {
        FoundLog::Pending(_) => Err(half_changed()),
        FoundLog::Nothing | FoundLog::Stale(_) => Ok(()),
    }
}

/// The same of an image that is not locked yet: another process may be about to change it.
pub fn check(image: &Path) -> io::Result<()> {
    let FoundLog::Pending(log) = find(image)? else {
        return Ok(());
    };
    let file = HostTree.open_fd(image, libc::O_RDONLY, 0)?;
    match file.lock(false) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(wrong(match writer_of(&log) {
                Some(process) => {
                    format!("it is in use by outboard, pid {process}, which is changing it")
                }
                None => "it is in use by another program, such as QEMU".to_owned(),
            }))
        }
        // The other one may have ended between.
        Ok(_lock) => check_locked(image),
        Err(_) => Err(half_changed()),
    }
}

/// The same of an open image that is locked, where names of files mean nothing.
pub fn check_open(image: &File) -> io::Result<()> {
    match UndoMark::of(&Fd::standard(image.as_raw_fd())?) {
        UndoMark::Of { .. } => Err(half_changed()),
        UndoMark::Absent | UndoMark::Unknown => Ok(()),
    }
}

fn sync_directory(file: &Path) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    File::open(directory)?.sync_all()
}

fn remove_file(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    sync_directory(path)
}

/// Removes an image's mark.
fn unmark(image: &Fd) -> io::Result<()> {
    match image.remove_xattr(MARK) {
        Ok(()) => image.sync(),
        // It has none.
        Err(_) if !matches!(UndoMark::of(image), UndoMark::Of { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A change: old bytes of a range that is to be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub place: u64,
    pub length: u64,
}

/// A log that is being written.
pub struct UndoLog {
    path: PathBuf,
    file: BufWriter<File>,
    changes: Vec<Changed>,
    head: Head,
}

impl UndoLog {
    /// Creates the log of a change to this image.
    pub fn create(image: &Path) -> io::Result<Self> {
        let subject = Subject::of(image)?;
        let (path, file) = subject.make_log()?;
        let mut log = Self {
            path,
            file: BufWriter::new(file),
            changes: Vec::new(),
            head: Head {
                records: 0,
                id: RandomState::new().build_hasher().finish(),
                image: subject.number(),
                process: std::process::id(),
                state: LogState::Begun,
            },
        };
        // Other processes read there who changes the image.
        let head = log.head.bytes();
        let begun = log.file.write_all(&head).and_then(|()| log.file.flush());
        match begun {
            Ok(()) => Ok(log),
            Err(error) => remove_file(&log.path).and(Err(error)),
        }
    }

    /// Notes what a range of the image has, and what it will have.
    pub fn add(&mut self, place: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.file.write_all(&record(place, old, new))?;
        self.head.records += 1;
        let length = old.len() as u64;
        match self.changes.last_mut() {
            Some(last) if last.place + last.length == place => last.length += length,
            _ => self.changes.push(Changed { place, length }),
        }
        Ok(())
    }

    /// The blocks that the change replaces.
    pub fn changes(&self) -> &[Changed] {
        &self.changes
    }

    /// From now on the image may be overwritten.
    pub fn complete(&mut self, image: &Fd) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        sync_directory(&self.path)?;
        let mark = mark_value(self.head.id, &self.path);
        self.head.state = match image.set_xattr(MARK, &mark, 0) {
            Ok(()) => LogState::Marked,
            // A block device, or a file system that has no such attributes.
            Err(_) => LogState::Complete,
        };
        image.sync()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&self.head.bytes()[..HEAD as usize])?;
        file.sync_all()
    }

    /// The change is done, or did not begin.
    pub fn remove(self, image: &Fd) -> io::Result<()> {
        let unmarked = match self.head.state {
            LogState::Marked => unmark(image),
            LogState::Begun | LogState::Complete => Ok(()),
        };
        // A mark without its log would be in the way.
        if unmarked.is_err() && matches!(UndoMark::of(image), UndoMark::Of { .. }) {
            return unmarked;
        }
        remove_file(&self.path).and(unmarked)
    }

    /// The change has failed.
    pub fn undo(self, image: &Fd) -> io::Result<()> {
        let mut log = format::Reader::new(File::open(&self.path)?)?;
        if log.is_complete() {
            log.write_old(image)?;
        }
        self.remove(image)
    }
}

impl UndoLogFile {
    /// Undoes the change; returns whether there was one.
    fn undo(&mut self, image: &Fd) -> io::Result<bool> {
        let begun = self.reader.is_complete();
        if begun {
            self.reader.check(image)?;
            self.reader.write_old(image)?;
        }
        self.remove(image)?;
        Ok(begun)
    }

    fn remove(&self, image: &Fd) -> io::Result<()> {
        unmark(image)?;
        if self.is_own {
            remove_file(&self.path)
        } else {
            // The file that the image is a copy of needs it.
            Ok(())
        }
    }
}

/// Undoes the change of an image that was cut off, if there is one. The image is locked.
pub fn roll_back(image: &Path, file: &Fd) -> Result<()> {
    let undone = || {
        let mut begun = false;
        // Each one is removed, or the mark that names it.
        loop {
            match find(image)? {
                FoundLog::Nothing => return Ok(begun),
                FoundLog::Stale(log) => log.remove(file)?,
                FoundLog::Pending(mut log) => {
                    begun |= log.undo(file).map_err(|error| log.failure(&error))?;
                }
            }
        }
    };
    let shown = image.display();
    match undone() {
        Ok(begun) => {
            if begun {
                warn(format!(
                    "note: {shown}: a command that changed it was cut off half-way; \
                     the half change is undone"
                ));
            }
            Ok(())
        }
        Err(error) => Err(Error::known(
            ErrorKind::Damaged,
            format!(
                "{shown}: a command that changed it was cut off half-way, \
             and this cannot be undone: {}",
                reason(&error)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_lock::ImageLock;
    use std::fs;

    fn image_fd(path: &Path) -> Fd {
        HostTree.open_fd(path, libc::O_RDWR, 0).unwrap()
    }

    fn log_beside(path: &Path) -> PathBuf {
        let mut name = path.to_owned().into_os_string();
        name.push(".outboard-undo");
        name.into()
    }

    /// An image, half changed: of 3 blocks that were to become 2s, one has.
    fn half_changed(directory: &Path) -> (PathBuf, Vec<u8>) {
        let path = directory.join("image");
        let old: Vec<u8> = (0..64 << 10).map(|byte| (byte % 251) as u8).collect();
        fs::write(&path, &old).unwrap();
        let mut log = UndoLog::create(&path).unwrap();
        for block in [1usize, 2, 9] {
            let range = block * 4096..(block + 1) * 4096;
            log.add(range.start as u64, &old[range], &[2; 4096])
                .unwrap();
        }
        let changes = [(4096, 8192), (9 * 4096, 4096)];
        let changes = changes.map(|(place, length)| Changed { place, length });
        assert_eq!(log.changes(), changes);
        log.complete(&image_fd(&path)).unwrap();
        let mut half = old.clone();
        half[8192..8192 + 4096].fill(2);
        half[9 * 4096..9 * 4096 + 512].fill(2);
        fs::write(&path, &half).unwrap();
        (path, old)
    }

    #[test]
    fn a_half_change_is_undone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = half_changed(directory.path());
        assert!(exists(&path));
        ImageLock::take(&path, true).unwrap();
        assert!(fs::read(&path).unwrap() == old);
        assert!(!exists(&path));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_changed_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = half_changed(directory.path());
        let mut other = fs::read(&path).unwrap();
        other[9 * 4096 + 1024] ^= 1;
        fs::write(&path, &other).unwrap();
        let Err(error) = ImageLock::take(&path, true) else {
            panic!("it was undone");
        };
        assert_eq!(error.kind(), ErrorKind::Damaged);
        let text = error.message().unwrap_or_default();
        assert!(
            text.contains(&format!("byte {}", 9 * 4096 + 1024)),
            "{text}"
        );
        assert!(fs::read(&path).unwrap() == other && exists(&path));
    }

    #[test]
    fn readers_look_again_under_their_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        fs::write(&path, [1; 8192]).unwrap();
        let opened = crate::image_file::open_image_file(&path).unwrap();
        let mut log = UndoLog::create(&path).unwrap();
        log.add(0, &[1; 4096], &[2; 4096]).unwrap();
        log.complete(&image_fd(&path)).unwrap();
        assert!(ImageLock::take(&path, false).is_err());
        // The memory of hosts before Linux 6.6 keeps no marks.
        let has_mark = matches!(UndoMark::of(&image_fd(&path)), UndoMark::Of { .. });
        assert_eq!(check_open(&opened).is_err(), has_mark);
        log.remove(&image_fd(&path)).unwrap();
        ImageLock::take(&path, false).unwrap();
        check_open(&opened).unwrap();
    }

    #[test]
    fn a_dead_process_has_no_image_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        fs::write(&path, [1; 8192]).unwrap();
        let mut log = UndoLog::create(&path).unwrap();
        assert_eq!(writer(&path), Some(std::process::id()));
        // No process can have this number.
        log.head.process = u32::MAX;
        log.complete(&image_fd(&path)).unwrap();
        assert_eq!(writer(&path), None);
        let other = image_fd(&path);
        let _lock = other.lock(true).unwrap();
        let text = check(&path).unwrap_err().to_string();
        assert!(text.contains("another program"), "{text}");
    }

    #[test]
    fn a_copy_leaves_the_log_to_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = half_changed(directory.path());
        let source = image_fd(&path);
        let Ok(mark) = source.xattr(MARK) else { return };
        let copy = directory.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        image_fd(&copy).set_xattr(MARK, &mark, 0).unwrap();
        for image in [&copy, &path] {
            ImageLock::take(image, true).unwrap();
            assert!(fs::read(image).unwrap() == old, "{}", image.display());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn without_a_complete_log_nothing_was_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        fs::write(&path, [1; 8192]).unwrap();
        let mut log = UndoLog::create(&path).unwrap();
        log.add(0, &[1; 4096], &[2; 4096]).unwrap();
        drop(log);
        ImageLock::take(&path, true).unwrap();
        assert!(!exists(&path) && fs::read(&path).unwrap() == [1; 8192]);
    }

    #[test]
    fn damage_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = half_changed(directory.path());
        let log = log_beside(&path);
        let bytes = fs::read(&log).unwrap();
        for at in [20, 530, 600, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            fs::write(&log, bad).unwrap();
            assert!(ImageLock::take(&path, true).is_err(), "{at}");
        }
        fs::write(&log, &bytes[..bytes.len() - 1]).unwrap();
        assert!(ImageLock::take(&path, true).is_err(), "cut off");
    }
}
