// SPDX-License-Identifier: GPL-2.0-only
//! The smallest difference of times that a file system stores. With it, the host shows no time that
//! would change at a remount.
//!
//! Linux keeps it in `s_time_gran`, which no call returns. FUSE has powers of ten up to a second.

use outboard::{BlockDevice, Mount};
use outboard_image::Source;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// The step in which a file system stores times.
pub fn granularity(mount: &Mount) -> Duration {
    match mount.kind() {
        "ext2" | "ext3" | "ext4" => mount.device().map_or(NANOSECOND, of_ext),
        // FAT: really two seconds.
        "vfat" | "msdos" | "hfs" | "hfsplus" | "hpfs" | "affs" | "minix" | "reiserfs" | "sysv"
        | "v7" | "bfs" | "qnx6" => SECOND,
        "exfat" | "adfs" => Duration::from_millis(10),
        "omfs" => Duration::from_millis(1),
        "udf" => Duration::from_micros(1),
        "ntfs" | "ntfs3" => Duration::from_nanos(100),
        _ => NANOSECOND,
    }
}

/// Whether inodes have room for fractions of a second, behind their first 128 bytes.
fn of_ext(device: &BlockDevice) -> Duration {
    /// Offset of `s_inode_size` in the device; old file systems have 0 there.
    const INODE_SIZE: u64 = 1024 + 88;
    let mut bytes = [0; 2];
    let read = device
        .source()
        .map(|source| source.read_at(&mut bytes, INODE_SIZE));
    match read {
        Ok(Ok(2)) if u16::from_le_bytes(bytes) <= 128 => SECOND,
        _ => NANOSECOND,
    }
}
