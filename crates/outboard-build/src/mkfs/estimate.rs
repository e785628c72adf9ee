// SPDX-License-Identifier: GPL-2.0-only
//! How much room a tree needs: counted for `--fit`.

use super::archive::SourceArchive;
use super::host_tree;
use super::makers::FileSystemMaker;
use crate::megabytes::{round_up, MEGABYTE};
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::operand::is_directory;
use outboard_transfer::report::Loss;
use outboard_transfer::tar::input::{count, Member};
use outboard_transfer::walk::{Entry, Step};
use outboard_volume::session::{apart_without, Session};
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::Path;

const BLOCK: u64 = 4096;
/// Bytes of attributes that have room beside a file's other metadata.
const SMALL_ATTRIBUTES: u64 = 96;
/// Bytes of an attribute besides its name and value.
const ATTRIBUTE_HEAD: u64 = 16;

/// How a type stores files.
#[derive(Clone, Copy, Debug)]
pub struct Storing {
    /// The holes of sparse files take no room.
    pub holes: bool,
    /// Each name of a file with hard links is a file of its own.
    pub copies_links: bool,
    /// It has extended attributes.
    pub attributes: bool,
}

impl Storing {
    pub fn by(maker: &FileSystemMaker) -> Self {
        Self {
            holes: maker.holes,
            copies_links: maker.copies_links,
            attributes: !maker.leaves_out.contains(&Loss::Attribute),
        }
    }
}

/// The contents of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Files of any kind, each once.
    pub files: u64,
    /// Bytes of their data and attributes in blocks of 4 KiB, and of directories.
    pub bytes: u64,
}

impl TreeSize {
    /// Counts what is in a directory.
    pub fn of_directory(top: &Path, storing: Storing, interrupt: Interrupt) -> Result<Self> {
        let mut content = Self::default();
        let mut linked = HashSet::new();
        host_tree::for_each(top, interrupt, |step| {
            match step {
                Step::Found(entry) => {
                    // The copy reports what is gone meanwhile.
                    if let Ok(stat) = entry.stat() {
                        content.add(&entry, &stat, storing, &mut linked);
                    }
                }
                Step::Opened(_) | Step::Left(_) => {}
                Step::Failed(entry, error) => {
                    return Err(Error::of_file("cannot list", entry.path.to_vec(), &error));
                }
            }
            Ok(())
        })?;
        Ok(content)
    }

    fn add(
        &mut self,
        entry: &Entry,
        stat: &libc::stat,
        storing: Storing,
        linked: &mut HashSet<(u64, u64)>,
    ) {
        if is_directory(stat) {
            self.files += 1;
            self.take(BLOCK.saturating_add(attribute_bytes(entry, storing)));
            return;
        }
        // An entry of its directory takes 8 bytes and its name, twice if it has an index.
        self.take(2 * (16 + entry.name.to_bytes().len() as u64));
        let is_linked = stat.st_nlink > 1 && !storing.copies_links;
        if is_linked && !linked.insert((stat.st_dev, stat.st_ino)) {
            return;
        }
        self.files += 1;
        self.take(file_bytes(stat, storing.holes));
        self.take(attribute_bytes(entry, storing));
    }

    /// Adds bytes. Sparse files can claim more than 64 bits count.
    fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts what is in a tar archive, in a process that can read that and do nothing else: it
    /// does not have the descriptors `closed`.
    pub fn of_tar(
        session: &mut Session,
        archive: &SourceArchive,
        storing: Storing,
        closed: &[RawFd],
    ) -> Result<Self> {
        let access = HostAccess {
            reads: vec![archive.path().to_owned()],
            parses: true,
            ..HostAccess::default()
        };
        let (files, bytes) = apart_without(session, &access, closed, |session| {
            let room = |member: &Member| {
                let parts = member.map.parts.iter();
                let data = parts.map(|(_, length)| length.div_ceil(BLOCK) * BLOCK);
                let attributes = member.attributes.xattrs.iter();
                let attributes = attributes.map(|(name, value)| (name.count_bytes(), value.len()));
                data.sum::<u64>() + room_of_attributes(attributes, storing)
            };
            count(archive.open()?, room, &session.catch_interrupts())
        })?;
        Ok(Self {
            files,
            bytes: bytes.saturating_add(files * BLOCK / 8),
        })
    }

    /// A size that holds it in a file system whose smallest is `least`. Too much rather than too
    /// little: what is not used is a hole.
    pub fn room(&self, least: u64) -> u64 {
        let inodes = self.files * 512;
        let metadata = self.bytes / 12 + inodes + 16 * MEGABYTE;
        let needed = self.bytes.saturating_add(metadata);
        round_up(needed.max(least))
    }
}

/// The room of a file's extended attributes.
fn attribute_bytes(entry: &Entry, storing: Storing) -> u64 {
    if !storing.attributes {
        return 0;
    }
    let names = entry.directory.xattrs_at(entry.name).unwrap_or_default();
    let length = |name: &CString| {
        let value = entry.directory.xattr_at(entry.name, name);
        (name.count_bytes(), value.map_or(0, |value| value.len()))
    };
    room_of_attributes(names.iter().map(length), storing)
}

/// The room of attributes, of which the lengths of the names and values are given.
fn room_of_attributes(lengths: impl Iterator<Item = (usize, usize)>, storing: Storing) -> u64 {
    let length = |(name, value)| ATTRIBUTE_HEAD + name as u64 + value as u64;
    match lengths.map(length).sum() {
        0..=SMALL_ATTRIBUTES => 0,
        _ if !storing.attributes => 0,
        bytes => bytes.div_ceil(BLOCK) * BLOCK,
    }
}

fn file_bytes(stat: &libc::stat, holes: bool) -> u64 {
    if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFLNK) {
        return 0;
    }
    let blocks = (stat.st_size.max(0) as u64).div_ceil(BLOCK);
    let stored = (stat.st_blocks.max(0) as u64).div_ceil(BLOCK / 512) + 1;
    BLOCK * if holes { blocks.min(stored) } else { blocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;
    use std::fs;

    const ALL: Storing = Storing {
        holes: true,
        copies_links: false,
        attributes: true,
    };

    #[test]
    fn links_count_once_and_holes_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        fs::create_dir(top.join("d")).unwrap();
        fs::write(top.join("d/a"), vec![1; 10_000]).unwrap();
        fs::hard_link(top.join("d/a"), top.join("b")).unwrap();
        fs::File::create(top.join("s"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let size = |storing| TreeSize::of_directory(top, storing, Interrupt::default()).unwrap();
        let content = size(ALL);
        assert_eq!(content.files, 4);
        assert!(
            (4 * BLOCK + 8192..16 * BLOCK).contains(&content.bytes),
            "{content:?}"
        );
        let without_holes = Storing {
            holes: false,
            ..ALL
        };
        assert!(size(without_holes).bytes > 1 << 30);
        let copying = Storing {
            copies_links: true,
            ..ALL
        };
        assert_eq!(size(copying).files, 5);
        assert_eq!(size(copying).bytes, content.bytes + 3 * BLOCK);
        assert!(content.room(300 << 20) >= 300 << 20);
    }

    #[test]
    fn sizes_that_no_disk_has_are_too_large() {
        let root = HostTree.open_fd("/".as_ref(), libc::O_PATH, 0);
        let mut stat = root.unwrap().stat().unwrap();
        stat.st_mode = libc::S_IFREG;
        (stat.st_size, stat.st_blocks) = (i64::MAX, i64::MAX);
        assert_eq!(file_bytes(&stat, true), 1 << 63);
        let mut content = TreeSize::default();
        for _ in 0..3 {
            content.take(file_bytes(&stat, false));
        }
        assert!(content.room(0) > i64::MAX as u64);
        (stat.st_size, stat.st_blocks) = (3 * BLOCK as i64 + 1, 8);
        assert_eq!(file_bytes(&stat, true), 2 * BLOCK);
        assert_eq!(file_bytes(&stat, false), 4 * BLOCK);
        stat.st_size = -1;
        assert_eq!(file_bytes(&stat, true), 0);
    }

    #[test]
    fn large_attributes_count() {
        let room = |lengths: &[(usize, usize)]| room_of_attributes(lengths.iter().copied(), ALL);
        assert_eq!(room(&[(10, 20)]), 0);
        assert_eq!(room(&[(10, 60_000), (10, 20)]), 15 * BLOCK);
        let without = Storing {
            attributes: false,
            ..ALL
        };
        assert_eq!(room_of_attributes([(10, 60_000)].into_iter(), without), 0);
    }
}
