// SPDX-License-Identifier: GPL-2.0-only
//! Reads that return nothing. They are the end of a file only if the file's size agrees. cifs reads
//! nothing when its server has ended (netfs_unbuffered_read() of Linux 6.12), and 9p when its
//! server has less than it says. A caller would take such a part of a file for the whole.

use crate::explained;
use std::io;

/// Kinds of file systems, as statfs(2) returns them, whose files are shorter than their size says:
/// sysfs and configfs.
const ROUND_SIZES: [i64; 2] = [0x6265_6572, 0x6265_6570];

/// Whether files of this kind of file system have as many bytes as their size says.
pub(crate) fn has_exact_sizes(kind: i64) -> bool {
    !ROUND_SIZES.contains(&kind)
}

/// The length of a second read where a file goes on. Another thread may have made the file longer
/// after the first one.
pub(crate) fn not_nothing(length: usize) -> io::Result<usize> {
    if length > 0 {
        return Ok(length);
    }
    let cause = io::Error::from_raw_os_error(libc::ENODATA);
    Err(explained(
        cause,
        "nothing is read before the end of the file",
    ))
}
