// SPDX-License-Identifier: GPL-2.0-only
//! The attributes of a source for its copy: owner, permissions, times and extended attributes
//! (POSIX ACLs are such). [`crate::attributes`] has the order in which the copy gets them.

use super::copier::{CopiedFile, Copier};
use crate::attributes::{self, AttributeTarget, WantedAttributes, Xattrs, UNCHANGED};
use crate::other_forms;
use crate::report::Loss;
use outboard::{Fd, PathFd, System};
use std::ffi::{CStr, CString};
use std::io;

const LABEL: &CStr = c"security.selinux";

/// A source and its copy.
pub enum SourceAndCopy<'a> {
    /// Both are open.
    Open { source: &'a Fd, target: &'a Fd },
    /// Links, devices, FIFOs, sockets: the source by its name in an open directory.
    Named {
        source: &'a Fd,
        name: &'a CStr,
        target: &'a PathFd,
    },
}

impl SourceAndCopy<'_> {
    fn target(&self) -> AttributeTarget<'_> {
        match self {
            Self::Open { target, .. } => AttributeTarget::Open(target),
            Self::Named { target, .. } => AttributeTarget::Path(target),
        }
    }

    fn xattrs(&self) -> io::Result<Vec<CString>> {
        match self {
            Self::Open { source, .. } => source.xattrs(),
            Self::Named { source, name, .. } => source.xattrs_at(name),
        }
    }

    fn xattr(&self, attribute: &CStr) -> io::Result<Vec<u8>> {
        match self {
            Self::Open { source, .. } => source.xattr(attribute),
            Self::Named { source, name, .. } => source.xattr_at(name, attribute),
        }
    }
}

/// The mode that the copy of a file is created with. On the host nobody else may read it before it
/// has its owner, and its owner must be able to write: some extended attributes need that. In an
/// image nobody else is there.
pub fn first_mode(system: &System, mode: u32) -> u32 {
    match system {
        System::Host => mode & 0o700 | 0o200,
        System::Kernel(_) => mode & 0o7777,
    }
}

/// Gives the copy the attributes of the source. `stat` and `now`: the metadata of the source, and
/// of the copy.
pub fn keep(
    copier: &Copier,
    pair: &SourceAndCopy,
    stat: &libc::stat,
    now: &libc::stat,
    named: &dyn CopiedFile,
) {
    let stat = &copier.changes.of_metadata(stat);
    let wanted = WantedAttributes {
        user: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        times: [
            libc::timespec {
                tv_sec: stat.st_atime,
                tv_nsec: stat.st_atime_nsec,
            },
            libc::timespec {
                tv_sec: stat.st_mtime,
                tv_nsec: stat.st_mtime_nsec,
            },
        ],
    };
    let xattrs = SourceXattrs::find(copier, pair, stat.st_mode, named);
    let shown = || named.shown();
    attributes::keep(copier.report, &pair.target(), &wanted, &xattrs, now, &shown);
}

/// Gives the copy the owner that was asked for, if any was, where nothing else is kept.
pub fn give_owner(copier: &Copier, pair: &SourceAndCopy, named: &dyn CopiedFile) {
    let Some(owner) = copier.changes.owner else {
        return;
    };
    let user = owner.user.unwrap_or(UNCHANGED);
    let group = owner.group.unwrap_or(UNCHANGED);
    if pair.target().set_owner(user, group).is_err() {
        copier.report.lose(Loss::Owner, || named.shown());
    }
}

/// The extended attributes of a source that its copy gets.
struct SourceXattrs<'a> {
    pair: &'a SourceAndCopy<'a>,
    names: Vec<CString>,
    /// The SELinux label that the copy gets in place of the source's.
    label: Option<&'a CString>,
}

impl<'a> SourceXattrs<'a> {
    fn find(
        copier: &'a Copier,
        pair: &'a SourceAndCopy,
        mode: u32,
        named: &dyn CopiedFile,
    ) -> Self {
        let labels = copier.changes.labels.as_ref();
        let mut names = pair.xattrs().unwrap_or_else(|error| {
            // A file system without extended attributes has none to keep.
            if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
                copier.report.lose(Loss::Attribute, || {
                    format!("{} (all: {error})", named.shown())
                });
            }
            Vec::new()
        });
        other_forms::leave_out(&mut names);
        if !copier.options.archive() {
            // Access control lists are a part of the mode.
            names.retain(|name| Loss::of_xattr(name) == Loss::AccessList);
        }
        if labels.is_some() {
            names.retain(|name| name.as_c_str() != LABEL);
        }
        let labels = labels.filter(|_| copier.options.archive());
        Self {
            pair,
            names,
            label: labels.and_then(|labels| labels.find(&named.copy_path(), mode)),
        }
    }
}

impl Xattrs for SourceXattrs<'_> {
    fn set(&self, target: &AttributeTarget, chosen: &dyn Fn(&CStr) -> bool, lost: &dyn Fn(&CStr)) {
        for name in self.names.iter().filter(|name| chosen(name)) {
            let value = self.pair.xattr(name);
            if value
                .and_then(|value| target.set_xattr(name, &value))
                .is_err()
            {
                lost(name);
            }
        }
        if let Some(label) = self.label.filter(|_| chosen(LABEL)) {
            if target.set_xattr(LABEL, label.to_bytes_with_nul()).is_err() {
                lost(LABEL);
            }
        }
    }
}
