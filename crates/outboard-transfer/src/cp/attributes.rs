// SPDX-License-Identifier: GPL-2.0-only
//! Keeps owner, permissions, times and extended attributes, among them POSIX ACLs.
//!
//! The order matters: chown(2) clears set-user-ID bits and capabilities, so the owner comes first.
//! Every call changes times, so they come last. docs/engine.md has the orders of all routines.

use super::copy::Copier;
use super::report::Loss;
use crate::moment::{is_kept, stored};
use crate::other_forms;
use outboard::{Fd, PathFd, System};
use outboard_sandbox::format::escaped;
use std::ffi::{CStr, CString};
use std::io;

const LABEL: &CStr = c"security.selinux";
const SPECIAL: u32 = libc::S_ISUID | libc::S_ISGID | libc::S_ISVTX;

/// The file whose attributes are kept.
pub trait Named {
    /// The path of the source, for messages.
    fn shown(&self) -> String;

    /// The path of the copy below the top target.
    fn copy_path(&self) -> Vec<u8>;
}

/// How source and copy are reached.
pub enum Kind<'a> {
    /// Both are open.
    Open { source: &'a Fd, target: &'a Fd },
    /// Links, devices, FIFOs, sockets: the source by its name in an open directory, the copy by a
    /// descriptor, because another process may replace its name.
    Named {
        source: &'a Fd,
        name: &'a CStr,
        target: &'a PathFd,
    },
}

impl Kind<'_> {
    fn set_owner(&self, user: u32, group: u32) -> io::Result<()> {
        match self {
            Kind::Open { target, .. } => target.set_owner_at(c"", user, group, libc::AT_EMPTY_PATH),
            Kind::Named { target, .. } => target.set_owner(user, group),
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        match self {
            Kind::Open { target, .. } => target.set_mode(mode),
            Kind::Named { target, .. } => target.set_mode(mode),
        }
    }

    fn set_times(&self, times: &[libc::timespec; 2]) -> io::Result<()> {
        match self {
            Kind::Open { target, .. } => target.set_times(times),
            Kind::Named { target, .. } => target.set_times(times),
        }
    }

    fn xattrs(&self) -> io::Result<Vec<CString>> {
        match self {
            Kind::Open { source, .. } => source.xattrs(),
            Kind::Named { source, name, .. } => source.xattrs_at(name),
        }
    }

    fn set_xattr(&self, attribute: &CStr, value: &[u8]) -> io::Result<()> {
        match self {
            Kind::Open { target, .. } => target.set_xattr(attribute, value, 0),
            Kind::Named { target, .. } => target.set_xattr(attribute, value),
        }
    }

    fn copy_xattr(&self, attribute: &CStr) -> io::Result<()> {
        match self {
            Kind::Open { source, .. } => self.set_xattr(attribute, &source.xattr(attribute)?),
            Kind::Named { source, name, .. } => {
                self.set_xattr(attribute, &source.xattr_at(name, attribute)?)
            }
        }
    }
}

/// The mode that a copy is created with. On the host, no other user may read it before it has its
/// owner; in an image there are no other users.
pub fn first_mode(system: &System, mode: u32) -> u32 {
    match system {
        System::Host => mode & 0o700,
        System::Kernel(_) => mode & 0o7777,
    }
}

/// Gives the copy the attributes of the source. `stat` and `now`: the metadata of the source, and
/// of the copy.
pub fn keep(copier: &Copier, kind: &Kind, stat: &libc::stat, now: &libc::stat, named: &dyn Named) {
    let stat = &copier.changes.of_metadata(stat);
    let lose = |loss| copier.report.lose(loss, || named.shown());
    let mut mode = stat.st_mode & 0o7777;
    let mut mode_now = now.st_mode & 0o7777;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        if kind.set_owner(stat.st_uid, stat.st_gid).is_err() {
            // A user who may not give files away may still choose among the own groups. The owner
            // counts as lost either way, so the result changes nothing below.
            let _ = kind.set_owner(u32::MAX, stat.st_gid);
            lose(Loss::Owner);
            mode &= !SPECIAL;
        }
        mode_now &= !SPECIAL;
    }
    keep_xattrs(copier, kind, named);
    if copier.options.archive() && set_label(copier, kind, stat.st_mode, named).is_err() {
        lose(Loss::Attribute);
    }
    let link = stat.st_mode & libc::S_IFMT == libc::S_IFLNK;
    if !link && mode != mode_now && kind.set_mode(mode).is_err() {
        lose(Loss::Mode);
    }
    let times = [
        libc::timespec {
            tv_sec: stat.st_atime,
            tv_nsec: stat.st_atime_nsec,
        },
        libc::timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: stat.st_mtime_nsec,
        },
    ];
    if kind.set_times(&times).is_err() || !has_times(kind, &times) {
        lose(Loss::Times);
    }
}

/// Gives the copy the owner of `--chown`, where nothing else is kept.
pub fn give_owner(copier: &Copier, kind: &Kind, named: &dyn Named) {
    let Some(owner) = copier.changes.owner else {
        return;
    };
    let user = owner.user.unwrap_or(u32::MAX);
    if kind
        .set_owner(user, owner.group.unwrap_or(u32::MAX))
        .is_err()
    {
        copier.report.lose(Loss::Owner, || named.shown());
    }
}

/// Whether the copy has the modification time now: file systems store the nearest one that they
/// can.
fn has_times(kind: &Kind, times: &[libc::timespec; 2]) -> bool {
    let (found, target): (_, &Fd) = match kind {
        Kind::Open { target, .. } => (target.stat(), target),
        Kind::Named { target, .. } => (target.stat(), target.fd()),
    };
    let file_system = || target.statfs().ok().map(|found| found.kind);
    found.is_ok_and(|found| is_kept(&times[1], stored(found.st_mtime, file_system)))
}

/// Gives the copy its SELinux label, if there is a file of labels.
fn set_label(copier: &Copier, kind: &Kind, mode: u32, named: &dyn Named) -> io::Result<()> {
    let Some(labels) = &copier.changes.labels else {
        return Ok(());
    };
    match labels.find(&named.copy_path(), mode) {
        Some(label) => kind.set_xattr(LABEL, label.to_bytes_with_nul()),
        None => Ok(()),
    }
}

fn keep_xattrs(copier: &Copier, kind: &Kind, named: &dyn Named) {
    let mut names = match kind.xattrs() {
        Ok(names) => names,
        // A file system without extended attributes has none to keep.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return,
        Err(error) => {
            copier.report.lose(Loss::Attribute, || {
                format!("{} (all: {error})", named.shown())
            });
            return;
        }
    };
    other_forms::leave_out(&mut names);
    if !copier.options.archive() {
        // Access control lists are a part of the mode.
        names.retain(|name| Loss::of_xattr(name) == Loss::AccessList);
    }
    for name in names {
        let relabelled = copier.changes.labels.is_some() && name.as_c_str() == LABEL;
        if relabelled || kind.copy_xattr(&name).is_ok() {
            continue;
        }
        copier.report.lose(Loss::of_xattr(&name), || {
            format!("{} ({})", named.shown(), escaped(name.to_bytes()))
        });
    }
}
