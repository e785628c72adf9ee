// SPDX-License-Identifier: GPL-2.0-only
//! The undo log of a change to an image in place: what fsck and resize have made of the private
//! copy of a partition is written back either wholly or not at all.
//!
//! | step | on stable storage | after a crash |
//! |---|---|---|
//! | 1 the old blocks go into the log, room is reserved in the image | log, not complete | the log is removed |
//! | 2 the log's head says that it is complete | log | as 3 |
//! | 3 the new blocks go into the image | log, some new blocks | the old blocks are written |
//! | 4 the log is removed | new blocks | nothing is to be done |
//!
//! The log lies beside the image (`IMAGE.outboard-undo`), or in [`ELSEWHERE`] if that directory cannot
//! be written. The next command that opens the image for writing undoes the change; until then the
//! image cannot be read. A log whose image was changed by something else meanwhile is refused: each
//! sector must be the old or the new one.

use crate::error::{reason, warn, Error, Result};
use outboard::Fd;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"outboard-undo-1\n";
/// Bytes of the head: the magic, and when complete the number of records and a checksum of both.
const HEAD: u64 = 512;
const SECTOR: usize = 512;
/// Most bytes of a record.
const LONGEST: usize = 1 << 20;
const SUFFIX: &str = ".outboard-undo";
/// Survives a restart of the host.
const ELSEWHERE: &str = "/var/tmp";

/// Where the log of an image may be: beside it first.
fn places(image: &Path) -> Option<(PathBuf, [PathBuf; 2])> {
    let image = image.canonicalize().ok()?;
    let found = std::fs::metadata(&image).ok()?;
    let mut beside = image.clone().into_os_string();
    beside.push(SUFFIX);
    let (major, minor) = match found.file_type().is_block_device() {
        true => (0, found.rdev()),
        false => (found.dev(), found.ino()),
    };
    let other = format!("{ELSEWHERE}/.outboard-{major:x}-{minor:x}{SUFFIX}");
    Some((image, [beside.into(), other.into()]))
}

/// A log of somebody else could put anything into the image.
fn is_trusted(log: &std::fs::Metadata, image: &Path) -> bool {
    let user = outboard::System::Host.effective_user();
    let owner = std::fs::metadata(image).map(|found| found.uid());
    log.is_file()
        && (log.uid() == user || log.uid() == 0 || owner.is_ok_and(|uid| uid == log.uid()))
}

fn find(image: &Path) -> Option<PathBuf> {
    let (image, places) = places(image)?;
    places.into_iter().find(|place| {
        let found = std::fs::symlink_metadata(place);
        found.is_ok_and(|found| is_trusted(&found, &image))
    })
}

/// Whether an image has a log that is complete: it may be half changed, and is not to be read.
pub fn exists(image: &Path) -> bool {
    let begun = |log: PathBuf| Reader::open(&log)?.is_complete();
    find(image).is_some_and(|log| begun(log).unwrap_or(true))
}

/// For those who only want to read an image with a log.
pub fn half_changed() -> io::Error {
    io::Error::other(
        "a command that changed it was cut off half-way: run that command again, or any other that writes (as outboard fsck -y), which first undoes the half change"
    )
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

fn sync_directory(file: &Path) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    File::open(directory)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    sync_directory(path)
}

/// The head of a complete log.
fn complete_head(records: u64) -> [u8; 28] {
    let mut head = [0; 28];
    head[..16].copy_from_slice(MAGIC);
    head[16..24].copy_from_slice(&records.to_le_bytes());
    let sum = crc32fast::hash(&head[..24]);
    head[24..].copy_from_slice(&sum.to_le_bytes());
    head
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
    records: u64,
}

impl UndoLog {
    pub fn create(image: &Path) -> io::Result<Self> {
        let (_, places) = places(image).ok_or_else(|| wrong("the image is gone"))?;
        let make = |path: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        };
        let [beside, other] = places;
        // Files in /dev are gone after a restart.
        let is_lasting = !beside.starts_with("/dev");
        let made = is_lasting.then(|| make(&beside)).and_then(io::Result::ok);
        let (path, file) = match made {
            Some(file) => (beside, file),
            None => (other.clone(), make(&other)?),
        };
        let mut log = Self {
            path,
            file: BufWriter::new(file),
            changes: Vec::new(),
            records: 0,
        };
        let mut head = [0; HEAD as usize];
        head[..16].copy_from_slice(MAGIC);
        log.file.write_all(&head)?;
        Ok(log)
    }

    /// Notes what a range of the image has, and what it will have.
    pub fn add(&mut self, place: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
        let mut record = Vec::new();
        record.extend(place.to_le_bytes());
        record.extend((old.len() as u32).to_le_bytes());
        record.extend(crc32fast::hash(old).to_le_bytes());
        for sector in new.chunks(SECTOR) {
            record.extend(crc32fast::hash(sector).to_le_bytes());
        }
        let sum = crc32fast::hash(&record);
        self.file.write_all(&record)?;
        self.file.write_all(&sum.to_le_bytes())?;
        self.file.write_all(old)?;
        self.records += 1;
        let length = old.len() as u64;
        match self.changes.last_mut() {
            Some(last) if last.place + last.length == place => last.length += length,
            _ => self.changes.push(Changed { place, length }),
        }
        Ok(())
    }

    pub fn changes(&self) -> &[Changed] {
        &self.changes
    }

    /// From now on the image may be overwritten.
    pub fn complete(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&complete_head(self.records))?;
        file.sync_all()?;
        sync_directory(&self.path)
    }

    /// The change is done, or did not begin.
    pub fn remove(self) -> io::Result<()> {
        remove(&self.path)
    }

    /// The change has failed.
    pub fn undo(self, image: &Fd) -> io::Result<()> {
        let mut log = Reader::open(&self.path)?;
        if log.is_complete()? {
            log.write_old(image)?;
        }
        remove(&self.path)
    }
}

/// One record.
struct Record {
    place: u64,
    old: Vec<u8>,
    /// Checksums of the new sectors.
    new: Vec<u32>,
}

struct Reader {
    file: BufReader<File>,
}

fn number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

impl Reader {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        Ok(Self {
            file: BufReader::new(file),
        })
    }

    /// Returns false for a log after whose beginning nothing was changed.
    fn is_complete(&mut self) -> io::Result<bool> {
        Ok(self.records()?.is_some())
    }

    /// The number of records of a complete log.
    fn records(&mut self) -> io::Result<Option<u64>> {
        let mut head = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&mut self.file).take(HEAD).read_to_end(&mut head)?;
        let magic = head.len().min(MAGIC.len());
        if head[..magic] != MAGIC[..magic] && head[..magic].iter().any(|&byte| byte != 0) {
            return Err(wrong("it is no undo log"));
        }
        let complete = head
            .get(16..28)
            .filter(|rest| rest.iter().any(|&byte| byte != 0));
        let Some(rest) = complete else {
            return Ok(None);
        };
        let records = number(&rest[..8]);
        match head[..28] == complete_head(records) {
            true => Ok(Some(records)),
            false => Err(wrong("it is damaged")),
        }
    }

    fn record(&mut self) -> io::Result<Record> {
        let mut head = vec![0; 16];
        self.file.read_exact(&mut head)?;
        let length = number(&head[8..12]) as usize;
        if length == 0 || length > LONGEST {
            return Err(wrong("it is damaged"));
        }
        let sectors = length.div_ceil(SECTOR);
        head.resize(16 + 4 * sectors, 0);
        self.file.read_exact(&mut head[16..])?;
        let mut sum = [0; 4];
        self.file.read_exact(&mut sum)?;
        let mut old = vec![0; length];
        self.file.read_exact(&mut old)?;
        let good = crc32fast::hash(&head) == number(&sum) as u32
            && crc32fast::hash(&old) == number(&head[12..16]) as u32;
        if !good {
            return Err(wrong("it is damaged"));
        }
        let new = head[16..].chunks(4).map(|sum| number(sum) as u32);
        Ok(Record {
            place: number(&head[..8]),
            new: new.collect(),
            old,
        })
    }

    fn each(&mut self, mut work: impl FnMut(&Record) -> io::Result<()>) -> io::Result<()> {
        let records = self.records()?.unwrap_or(0);
        for _ in 0..records {
            work(&self.record()?)?;
        }
        Ok(())
    }

    /// Checks that nobody else has changed the image.
    fn check(&mut self, image: &Fd) -> io::Result<()> {
        self.each(|record| {
            let mut now = vec![0; record.old.len()];
            read_exactly(image, &mut now, record.place)?;
            let sectors = now.chunks(SECTOR).zip(record.old.chunks(SECTOR));
            for (index, (now, old)) in sectors.enumerate() {
                if now != old && crc32fast::hash(now) != record.new[index] {
                    let place = record.place + (index * SECTOR) as u64;
                    return Err(wrong(format!(
                        "the image was changed by something else since, at byte {place}"
                    )));
                }
            }
            Ok(())
        })
    }

    fn write_old(&mut self, image: &Fd) -> io::Result<()> {
        self.each(|record| put(image, &record.old, record.place))?;
        image.sync()
    }
}

fn read_exactly(image: &Fd, buffer: &mut [u8], place: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match image.read_at(&mut buffer[done..], place + done as u64)? {
            0 => return Err(wrong("the image has become shorter since")),
            length => done += length,
        }
    }
    Ok(())
}

/// Writes bytes, or makes a hole of zeroes where that can be done.
pub fn put(image: &Fd, bytes: &[u8], place: u64) -> io::Result<()> {
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let zero = bytes.iter().all(|byte| *byte == 0);
    if zero && image.allocate(hole, place, bytes.len() as u64).is_ok() {
        return Ok(());
    }
    image.write_all_at(bytes, place)
}

/// Undoes the change of an image that was cut off, if there is one. The image is locked.
pub fn roll_back(image: &Path, file: &Fd) -> Result<()> {
    let Some(path) = find(image) else {
        return Ok(());
    };
    let undone = || -> io::Result<bool> {
        let mut log = Reader::open(&path)?;
        let begun = log.is_complete()?;
        if begun {
            log.check(file)?;
            log.write_old(file)?;
        }
        remove(&path)?;
        Ok(begun)
    };
    let (shown, log) = (image.display(), path.display());
    match undone() {
        Ok(begun) => {
            if begun {
                warn(format!(
                    "note: {shown}: a command that changed it was cut off half-way; the half change is undone"
                ));
            }
            Ok(())
        }
        Err(error) => Err(Error::Failed(format!(
            "{shown}: a command that changed it was cut off half-way, and this cannot be undone by {log}: {} (remove {log} to use the image as it is; then check it with outboard fsck)",
            reason(&error)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_lock::ImageLock;
    use std::fs;

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
        log.complete().unwrap();
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
        let Err(Error::Failed(text)) = ImageLock::take(&path, true) else {
            panic!("it was undone");
        };
        assert!(
            text.contains(&format!("byte {}", 9 * 4096 + 1024)),
            "{text}"
        );
        assert!(fs::read(&path).unwrap() == other && exists(&path));
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
        let log = find(&path).unwrap();
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
