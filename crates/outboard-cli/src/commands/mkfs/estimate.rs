// SPDX-License-Identifier: GPL-2.0-only
//! How much room a tree needs: counted for `--fit`.

use super::host_tree;
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::operand::is_directory;
use outboard_transfer::tar::input::count;
use outboard_transfer::walk::{Entry, Step};
use outboard_volume::session::{apart, Session};
use std::collections::HashSet;
use std::path::Path;

const BLOCK: u64 = 4096;
const MEGABYTE: u64 = 1 << 20;

/// The contents of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Files of any kind, each once.
    pub files: u64,
    /// Bytes of their data in blocks of 4 KiB, and of directories.
    pub bytes: u64,
}

impl TreeSize {
    /// Counts what is in a directory. `holes`: the holes of sparse files need no room.
    pub fn of_directory(top: &Path, holes: bool, interrupt: Interrupt) -> Result<Self> {
        let mut content = Self::default();
        let mut linked = HashSet::new();
        host_tree::for_each(top, interrupt, |step| {
            match step {
                Step::Found(entry) => {
                    // The copy reports what is gone meanwhile.
                    if let Ok(stat) = entry.stat() {
                        content.add(&entry, &stat, holes, &mut linked);
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
        holes: bool,
        linked: &mut HashSet<(u64, u64)>,
    ) {
        if is_directory(stat) {
            self.files += 1;
            self.bytes += BLOCK;
            return;
        }
        // An entry of its directory takes 8 bytes and its name, twice if it has an index.
        self.bytes += 2 * (16 + entry.name.to_bytes().len() as u64);
        if stat.st_nlink > 1 && !linked.insert((stat.st_dev, stat.st_ino)) {
            return;
        }
        self.files += 1;
        self.bytes += file_bytes(stat, holes);
    }

    /// Counts what is in a tar archive, in a process that can read that and do nothing else.
    pub fn of_tar(session: &mut Session, file: &Path) -> Result<Self> {
        let access = HostAccess {
            reads: vec![file.to_owned()],
            parses: true,
            ..HostAccess::default()
        };
        let (files, bytes) = apart(session, &access, |session| {
            count(file, BLOCK, &session.catch_interrupts())
        })?;
        Ok(Self {
            files,
            bytes: bytes + files * BLOCK / 8,
        })
    }

    /// A size that holds it in a file system whose smallest is `least`. Too much rather than too
    /// little: what is not used is a hole.
    pub fn room(&self, least: u64) -> u64 {
        let inodes = self.files * 512;
        let needed = self.bytes + self.bytes / 12 + inodes + 16 * MEGABYTE;
        round_up(needed.max(least))
    }
}

fn file_bytes(stat: &libc::stat, holes: bool) -> u64 {
    if !matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFLNK) {
        return 0;
    }
    let whole = (stat.st_size as u64).div_ceil(BLOCK) * BLOCK;
    match holes {
        true => whole.min((stat.st_blocks as u64 * 512).div_ceil(BLOCK) * BLOCK + BLOCK),
        false => whole,
    }
}

pub fn round_up(size: u64) -> u64 {
    size.div_ceil(MEGABYTE) * MEGABYTE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let content = TreeSize::of_directory(top, true, Interrupt::default()).unwrap();
        assert_eq!(content.files, 4);
        assert!(
            (4 * BLOCK + 8192..16 * BLOCK).contains(&content.bytes),
            "{content:?}"
        );
        assert!(
            TreeSize::of_directory(top, false, Interrupt::default())
                .unwrap()
                .bytes
                > 1 << 30
        );
        assert!(content.room(300 << 20) >= 300 << 20);
    }
}
