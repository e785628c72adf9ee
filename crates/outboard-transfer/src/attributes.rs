// SPDX-License-Identifier: GPL-2.0-only
//! Gives a file the owner, extended attributes, mode, access lists and times of another one, or of
//! a member of an archive.
//!
//! [`keep`] has one order, in which no step undoes an earlier one:
//!
//! | step | why there |
//! |---|---|
//! | 1. owner | clears set-user-ID bits and capabilities |
//! | 2. extended attributes except access lists | need write permission, which step 3 may remove |
//! | 3. mode | |
//! | 4. access lists | an archive may have a mode without the list's mask; the list decides |
//! | 5. times | every other step may change them |

use crate::moment::{is_kept, stored};
use crate::report::{Loss, Report};
use outboard::{Fd, PathFd};
use outboard_error::format::escaped;
use std::ffi::CStr;
use std::io;

/// An owner that does not change, as in chown(2).
pub const UNCHANGED: u32 = u32::MAX;
/// Bits of a mode that a file must not have under a wrong owner.
const SPECIAL: u32 = libc::S_ISUID | libc::S_ISGID | libc::S_ISVTX;

/// A file that gets attributes.
pub enum AttributeTarget<'a> {
    Open(&'a Fd),
    /// A link, device, FIFO or socket. A descriptor, since others may replace a name.
    Path(&'a PathFd),
}

impl AttributeTarget<'_> {
    pub fn set_owner(&self, user: u32, group: u32) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_owner_at(c"", user, group, libc::AT_EMPTY_PATH),
            Self::Path(file) => file.set_owner(user, group),
        }
    }

    pub fn set_xattr(&self, name: &CStr, value: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_xattr(name, value, 0),
            Self::Path(file) => file.set_xattr(name, value),
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_mode(mode),
            Self::Path(file) => file.set_mode(mode),
        }
    }

    fn set_times(&self, times: &[libc::timespec; 2]) -> io::Result<()> {
        match self {
            Self::Open(file) => file.set_times(times),
            Self::Path(file) => file.set_times(times),
        }
    }

    /// Whether the file has this time of modification, as exactly as its file system stores times.
    fn has_times(&self, times: &[libc::timespec; 2]) -> bool {
        let (found, target): (_, &Fd) = match self {
            Self::Open(file) => (file.stat(), file),
            Self::Path(file) => (file.stat(), file.fd()),
        };
        let file_system = || target.statfs().ok().map(|found| found.kind);
        let seconds = found.map_or(None, |found| stored(found.st_mtime, file_system));
        seconds.is_some_and(|seconds| is_kept(&times[1], seconds))
    }
}

/// The attributes that a file gets, except extended ones.
pub struct WantedAttributes {
    /// [`UNCHANGED`]: as it is.
    pub user: u32,
    /// [`UNCHANGED`]: as it is.
    pub group: u32,
    /// Permissions, with the special bits.
    pub mode: u32,
    /// Of access and modification.
    pub times: [libc::timespec; 2],
}

/// The extended attributes that a file gets.
pub trait Xattrs {
    /// Sets those with names that `chosen` accepts. Calls `lost` with each name that failed.
    fn set(&self, target: &AttributeTarget, chosen: &dyn Fn(&CStr) -> bool, lost: &dyn Fn(&CStr));
}

/// Whether an extended attribute is an access list.
pub fn is_access_list(name: &CStr) -> bool {
    Loss::of_xattr(name) == Loss::AccessList
}

/// Gives a file its attributes and reports those that were lost. `now`: its metadata; `path`: its
/// name for messages.
pub fn keep(
    report: &Report,
    target: &AttributeTarget,
    wanted: &WantedAttributes,
    xattrs: &dyn Xattrs,
    now: &libc::stat,
    path: &dyn Fn() -> String,
) {
    let lost_xattr = |name: &CStr| lose_xattr(report, name, path);
    let (mode, mode_now) = keep_owner(report, target, wanted, now, path);
    xattrs.set(target, &|name| !is_access_list(name), &lost_xattr);
    let link = now.st_mode & libc::S_IFMT == libc::S_IFLNK;
    if !link && mode != mode_now && target.set_mode(mode).is_err() {
        report.lose(Loss::Mode, path);
    }
    xattrs.set(target, &is_access_list, &lost_xattr);
    if target.set_times(&wanted.times).is_err() || !target.has_times(&wanted.times) {
        report.lose(Loss::Times, path);
    }
}

fn lose_xattr(report: &Report, name: &CStr, path: &dyn Fn() -> String) {
    report.lose(Loss::of_xattr(name), || {
        format!("{} ({})", path(), escaped(name.to_bytes()))
    });
}

/// Step 2 alone, for a directory that gets the rest later.
pub fn keep_xattrs(
    report: &Report,
    target: &AttributeTarget,
    xattrs: &dyn Xattrs,
    path: &dyn Fn() -> String,
) {
    let lost = |name: &CStr| lose_xattr(report, name, path);
    xattrs.set(target, &|name| !is_access_list(name), &lost);
}

/// Gives a file its owner. Returns the mode that the file must get, and the one that it has now.
fn keep_owner(
    report: &Report,
    target: &AttributeTarget,
    wanted: &WantedAttributes,
    now: &libc::stat,
    path: &dyn Fn() -> String,
) -> (u32, u32) {
    let mode_now = now.st_mode & 0o7777;
    let or = |wanted: u32, now: u32| if wanted == UNCHANGED { now } else { wanted };
    let (user, group) = (or(wanted.user, now.st_uid), or(wanted.group, now.st_gid));
    if (now.st_uid, now.st_gid) == (user, group) {
        return (wanted.mode, mode_now);
    }
    if target.set_owner(user, group).is_ok() {
        return (wanted.mode, mode_now & !SPECIAL);
    }
    // A user who may not give files away may still choose one of their groups. The owner counts as
    // lost all the same, so that the result of this attempt changes nothing below.
    let _ = target.set_owner(UNCHANGED, group);
    report.lose(Loss::Owner, path);
    (wanted.mode & !SPECIAL, mode_now & !SPECIAL)
}
