// SPDX-License-Identifier: GPL-2.0-only
//! Collects warnings of the kernel for tests: `OUTBOARD_LOG_FILE` names a file for them.
//! liboutboard does this for other programs, but cannot open the file in the sandbox.

use outboard::{Fd, HostTree};
use std::path::Path;
use std::sync::OnceLock;

static FILE: OnceLock<Option<Fd>> = OnceLock::new();

/// Opens the file; call this before the sandbox closes. Errors are ignored.
pub fn open() {
    FILE.get_or_init(|| {
        let path = std::env::var_os("OUTBOARD_LOG_FILE").filter(|path| !path.is_empty())?;
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_NONBLOCK;
        HostTree.open_fd(Path::new(&path), flags, 0o666).ok()
    });
}

/// Appends a line. Does not allocate, because it runs inside the kernel.
pub fn append(line: &[u8]) {
    if let Some(Some(file)) = FILE.get() {
        // An error cannot be reported here.
        let _ = file.write_all(line);
    }
}
