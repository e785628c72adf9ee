// SPDX-License-Identifier: GPL-2.0-only
//! Warnings of the kernel, collected for whoever tests it: `OUTBOARD_LOG_FILE` names a file that gets them.

use outboard::{Fd, Level, Tree};
use std::path::Path;
use std::sync::OnceLock;

static FILE: OnceLock<Option<Fd>> = OnceLock::new();

/// Opens the file. Before the sandbox closes. A file that cannot be opened gets nothing.
pub fn open() {
    FILE.get_or_init(|| {
        let path = std::env::var_os("OUTBOARD_LOG_FILE").filter(|path| !path.is_empty())?;
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_NONBLOCK;
        Tree::host().open_fd(Path::new(&path), flags, 0o666).ok()
    });
}

/// Appends a line with its end if it is a warning, or worse. Does not allocate: this runs inside the kernel.
pub fn note(level: Level, line: &[u8]) {
    if let Some(Some(file)) = FILE.get() {
        if level as u8 <= Level::Warning as u8 {
            // There is nobody to tell of an error here.
            let _ = file.write_all(line);
        }
    }
}
