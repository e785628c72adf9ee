// SPDX-License-Identifier: GPL-2.0-only
//! The files that programs get as their root: those of a volume, or of a directory of the host.

use crate::address::ImageName;
use crate::container_image::is_container_image;
use crate::session::Session;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Hint, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The source of a root for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootSource {
    /// The file system of a volume.
    Volume(ImageName),
    /// A directory of the host.
    Directory(PathBuf),
}

impl RootSource {
    /// As the user would write it, for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Volume(name) => name.shown(),
            Self::Directory(path) => escaped(path.as_os_str().as_bytes()),
        }
    }

    /// Mounts it. Changes of programs reach the image or the directory only with `write`.
    pub(super) fn mount(&self, session: &mut Session, write: bool) -> Result<usize> {
        match self {
            Self::Volume(name) if is_container_image(&name.file) => {
                if write {
                    return Err(cannot_change(&self.shown()));
                }
                session.mount(name, false)
            }
            Self::Volume(name) => {
                if !write {
                    session.keep_changes_in_memory();
                }
                session.mount_for_programs(name)
            }
            Self::Directory(path) => session.mount_directory(path, write),
        }
    }
}

fn cannot_change(shown: &str) -> Error {
    let copy = Hint::CopyToNew {
        name: shown.to_owned(),
    };
    Error::hinted(ErrorKind::ReadOnly, copy, |copy| {
        format!(
            "cannot write to {shown}: it is the image of a container, which stays as it is: \
             changes can lie in memory, or in a disk image of its files{copy}"
        )
    })
}
