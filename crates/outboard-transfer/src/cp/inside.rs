// SPDX-License-Identifier: GPL-2.0-only
//! Whether a directory lies in another.

use outboard::{Fd, System};
use std::io;

/// Whether `directory` is the directory of `stat`, or below it.
pub fn is_inside(directory: &Fd, system: &System, stat: &libc::stat) -> io::Result<bool> {
    if directory.system() != system {
        return Ok(false);
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let mut here = directory.open_at(c".", flags, 0)?;
    let mut last = None;
    loop {
        let found = here.stat()?;
        let identity = (found.st_dev, found.st_ino);
        if identity == (stat.st_dev, stat.st_ino) {
            return Ok(true);
        }
        if last == Some(identity) {
            return Ok(false);
        }
        last = Some(identity);
        here = here.open_at(c"..", flags, 0)?;
    }
}
