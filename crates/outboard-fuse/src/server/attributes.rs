// SPDX-License-Identifier: GPL-2.0-only
//! Converts metadata of files from the kernel's format to that of the FUSE protocol.

use crate::owners::Owners;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kind of file; `None` for a mode that only a damaged file system has.
fn kind(mode: u32) -> Option<FileType> {
    Some(match mode & libc::S_IFMT {
        libc::S_IFREG => FileType::RegularFile,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => return None,
    })
}

/// The kind in a directory entry, a hint only; a regular file if the entry has none.
pub fn kind_of_entry(kind: u8) -> FileType {
    match kind {
        libc::DT_DIR => FileType::Directory,
        libc::DT_LNK => FileType::Symlink,
        libc::DT_FIFO => FileType::NamedPipe,
        libc::DT_SOCK => FileType::Socket,
        libc::DT_CHR => FileType::CharDevice,
        libc::DT_BLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let nanoseconds = Duration::from_nanos(nanoseconds.unsigned_abs());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    base.and_then(|base| base.checked_add(nanoseconds))
        .unwrap_or(UNIX_EPOCH)
}

/// A time as utimensat(2) takes it. For a time before 1970, the FUSE library subtracts the
/// nanoseconds where it should add them. Splitting the time in the same way undoes that.
pub fn timespec(time: Option<TimeOrNow>) -> libc::timespec {
    let (seconds, nanoseconds) = match time {
        None => (0, libc::UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, libc::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after.as_secs() as i64, after.subsec_nanos().into()),
            Err(before) => {
                let before = before.duration();
                let seconds = (before.as_secs() as i64).wrapping_neg();
                (seconds, before.subsec_nanos().into())
            }
        },
    };
    libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    }
}

/// EIO: an unknown kind of file.
pub fn attributes(id: u64, stat: &libc::stat, owners: &Owners) -> io::Result<FileAttr> {
    let kind = kind(stat.st_mode).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
    Ok(FileAttr {
        ino: INodeNo(id),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind,
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: owners.shown_user(stat.st_uid),
        gid: owners.shown_group(stat.st_gid),
        rdev: stat.st_rdev as u32,
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    })
}

/// The answer for a missing name, which lets the host cache that it is missing. Only the inode
/// number, 0, counts.
pub fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970() {
        let half = time(-2, 500_000_000);
        assert_eq!(
            UNIX_EPOCH.duration_since(half).unwrap(),
            Duration::from_millis(1500)
        );
        // The library's result for -2 s and 0.5 s.
        let wrong = UNIX_EPOCH - Duration::from_millis(2500);
        let found = timespec(Some(TimeOrNow::SpecificTime(wrong)));
        assert_eq!((found.tv_sec, found.tv_nsec), (-2, 500_000_000));
    }

    #[test]
    fn times_of_a_broken_image() {
        for seconds in [i64::MIN, i64::MAX] {
            for nanoseconds in [i64::MIN, 0, i64::MAX] {
                time(seconds, nanoseconds);
            }
        }
    }
}
