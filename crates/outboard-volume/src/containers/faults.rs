// SPDX-License-Identifier: GPL-2.0-only
//! Images that cannot be used, or not wholly.

use outboard_error::{warn, ErrorKind, Failure};
use outboard_image::Fault;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The error of an image that cannot be used. `what`: the image, before "but".
pub fn refused(what: impl Display, fault: &Fault) -> io::Error {
    let kind = match fault {
        Fault::Damaged(_) => ErrorKind::Damaged,
        Fault::Unsupported(_) => ErrorKind::Unsupported,
        Fault::Unreadable(errno) => return io::Error::from_raw_os_error(*errno),
        _ => ErrorKind::Other,
    };
    Failure::new(kind, format!("{what}, but {fault}")).into()
}

/// Says that an image lacks its end, which is no error where what is left is wanted.
pub fn warn_of_cut(path: &Path) {
    warn(format!(
        "warning: {} is cut off: bytes behind its end are read as zeroes",
        path.display()
    ));
}
