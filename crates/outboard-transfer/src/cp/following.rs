// SPDX-License-Identifier: GPL-2.0-only
//! Symbolic links that a recursive copy follows (`-L`).
//!
//! A link is resolved from the root of its own tree, as if that were `/`: no link of an image leads
//! out of it. Each directory that such a copy enters has its path in that tree for this.

use super::directory::CopiedDirectory;
use super::inside::is_inside;
use outboard::{Fd, System, Tree};
use outboard_error::{ErrorKind, Failure, Hint};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The target of a symbolic link.
pub struct Followed {
    /// Its directory, and its name in there.
    pub parent: Fd,
    pub name: CString,
    /// Its path in the tree.
    pub path: PathBuf,
    pub stat: libc::stat,
}

/// Finds the target of the symbolic link `name` in the directory `path`.
pub fn follow(tree: &Tree, path: &Path, name: &CStr) -> io::Result<Followed> {
    let link = path.join(OsStr::from_bytes(name.to_bytes()));
    let path = tree.canonicalize(&link)?;
    let (parent, name) = tree.open_parent(&path)?;
    let stat = parent.stat_at(&name, libc::AT_SYMLINK_NOFOLLOW)?;
    Ok(Followed {
        parent,
        name,
        path,
        stat,
    })
}

/// The reason why the target of a link cannot be opened; names the sandbox if it may be the cause.
pub fn with_hint(system: &System, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EACCES) if system.is_host() => {
            let failure = Failure::hinted(ErrorKind::Other, Hint::NoSandbox, |other| {
                format!(
                    "Permission denied (if the link leads out of the sources, the sandbox hides \
                     the file: copy it by its own name{other})"
                )
            });
            failure.into()
        }
        _ => error,
    }
}

/// Refuses a directory that contains `parent`, or the destination: its copy would never end.
pub fn check_end(followed: &Followed, parent: &Arc<CopiedDirectory>, base: &Fd) -> io::Result<()> {
    let identity = (followed.stat.st_dev, followed.stat.st_ino);
    if parent.is_or_lies_in(identity) {
        return Err(io::Error::other(
            "the link leads to a directory that contains the link",
        ));
    }
    if is_inside(base, followed.parent.system(), &followed.stat)? {
        return Err(io::Error::other(
            "the link leads to a directory that contains the destination",
        ));
    }
    Ok(())
}
