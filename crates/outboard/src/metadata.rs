// SPDX-License-Identifier: GPL-2.0-only
//! The metadata of a file.

use outboard_sys::libc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A node of a block device.
    BlockDevice,
    /// A node of a character device.
    CharacterDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// The file system does not store the type.
    Unknown,
}

impl FileType {
    /// From the `S_IFMT` bits of a mode.
    pub fn from_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => FileType::Regular,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFLNK => FileType::Symlink,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFCHR => FileType::CharacterDevice,
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            _ => FileType::Unknown,
        }
    }

    /// From a `DT_*` of a directory entry.
    pub fn from_entry(kind: u8) -> Self {
        Self::from_mode(u32::from(kind) << 12)
    }
}

/// Metadata of a file, of the host or of an image.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    stat: libc::stat,
}

fn nanoseconds(seconds: i64, part: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(part)
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let part = Duration::from_nanos(nanoseconds.clamp(0, 999_999_999) as u64);
    moment
        .and_then(|moment| moment.checked_add(part))
        .unwrap_or(UNIX_EPOCH)
}

impl From<libc::stat> for Metadata {
    fn from(stat: libc::stat) -> Self {
        Self { stat }
    }
}

impl Metadata {
    /// The kind of the file.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.stat.st_mode)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::Regular
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.stat.st_size.max(0) as u64
    }

    /// Whether its size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Permissions with set-user-ID, set-group-ID and sticky bit: the low 12 bits of the mode.
    pub fn permissions(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// The number of the owner.
    pub fn user(&self) -> u32 {
        self.stat.st_uid
    }

    /// The number of the group.
    pub fn group(&self) -> u32 {
        self.stat.st_gid
    }

    /// How many names it has.
    pub fn links(&self) -> u64 {
        self.stat.st_nlink
    }

    /// The number of its inode.
    pub fn inode(&self) -> u64 {
        self.stat.st_ino
    }

    /// When it was read last.
    pub fn accessed(&self) -> SystemTime {
        time(self.stat.st_atime, self.stat.st_atime_nsec)
    }

    /// When its contents were changed last.
    pub fn modified(&self) -> SystemTime {
        time(self.stat.st_mtime, self.stat.st_mtime_nsec)
    }

    /// When its inode was changed last.
    pub fn changed(&self) -> SystemTime {
        time(self.stat.st_ctime, self.stat.st_ctime_nsec)
    }

    /// Nanoseconds from the beginning of 1970 to when it was read last; negative before that.
    pub fn accessed_ns(&self) -> i128 {
        nanoseconds(self.stat.st_atime, self.stat.st_atime_nsec)
    }

    /// The same for when its contents were changed last.
    pub fn modified_ns(&self) -> i128 {
        nanoseconds(self.stat.st_mtime, self.stat.st_mtime_nsec)
    }

    /// The same for when its inode was changed last.
    pub fn changed_ns(&self) -> i128 {
        nanoseconds(self.stat.st_ctime, self.stat.st_ctime_nsec)
    }

    /// Permissions with the bits of the file's type, as in 0o100644.
    pub fn mode(&self) -> u32 {
        self.stat.st_mode
    }

    /// The number of the device that its file system is on.
    pub fn device(&self) -> u64 {
        self.stat.st_dev
    }

    /// Of a device node: the number of its device.
    pub fn rdev(&self) -> u64 {
        self.stat.st_rdev
    }

    /// Its space on the disk, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.stat.st_blocks.max(0) as u64
    }

    /// Bytes that are best read at once.
    pub fn block_size(&self) -> u64 {
        self.stat.st_blksize.max(0) as u64
    }

    /// All of it, as the kernel says it.
    #[doc(hidden)]
    pub fn stat(&self) -> &libc::stat {
        &self.stat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        assert_eq!(FileType::from_mode(0o100644), FileType::Regular);
        assert_eq!(FileType::from_entry(libc::DT_DIR), FileType::Directory);
        assert_eq!(FileType::from_entry(libc::DT_UNKNOWN), FileType::Unknown);
    }

    #[test]
    fn times_before_1970() {
        assert_eq!(
            time(-2, 500_000_000),
            UNIX_EPOCH - Duration::from_millis(1500)
        );
        assert_eq!(nanoseconds(-2, 500_000_000), -1_500_000_000);
        assert_eq!(time(i64::MAX, 0).max(UNIX_EPOCH), time(i64::MAX, 0));
    }
}
