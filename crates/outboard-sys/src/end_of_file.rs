// SPDX-License-Identifier: GPL-2.0-only
//! Reads that return nothing. They are the end of a file only if the file's size agrees: cifs reads
//! nothing when its server has ended (netfs_unbuffered_read() of Linux 6.12), and 9p when its server
//! has less than it says. A caller would take such a part of a file for the whole.

use crate::{explained, Fd};
use std::io;

/// Kinds of file systems, as statfs(2) returns them, whose files are shorter than their size says:
/// sysfs and configfs.
const ROUND_SIZES: [i64; 2] = [0x6265_6572, 0x6265_6570];

impl Fd {
    /// Whether a file of the kernel is larger than this offset, or than its position.
    pub(crate) fn goes_on(&self, offset: Option<u64>) -> io::Result<bool> {
        if self.system().is_host() {
            return Ok(false);
        }
        let stat = self.stat()?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(false);
        }
        let offset = match offset {
            Some(offset) => offset,
            None => self.seek(0, libc::SEEK_CUR)?,
        };
        let is_before_end = stat.st_size.unsigned_abs() > offset;
        Ok(is_before_end && !ROUND_SIZES.contains(&self.statfs()?.kind))
    }
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
