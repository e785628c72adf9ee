// SPDX-License-Identifier: GPL-2.0-only
//! A file that is to be copied, and that is no directory.

use super::copier::CopiedFile;
use super::directory::CopiedDirectory;
use super::links::Key;
use crate::made::Claim;
use outboard::Fd;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// A file that is to be copied.
pub struct Item {
    pub directory: Arc<CopiedDirectory>,
    pub name: CString,
    /// The name of the copy, if it differs.
    pub new_name: Option<CString>,
    /// Directory and name of the file, if `name` is a symbolic link to it.
    pub elsewhere: Option<(Fd, CString)>,
    /// Open the target of a symbolic link of this name.
    pub follow: bool,
    /// Write to the pipe that a symbolic link of the new name leads to.
    pub into_pipe: bool,
}

impl Item {
    /// A file in a directory, or what its name means elsewhere.
    pub fn below(
        directory: &Arc<CopiedDirectory>,
        name: &CStr,
        elsewhere: Option<(Fd, CString)>,
    ) -> Self {
        Self {
            directory: Arc::clone(directory),
            name: name.to_owned(),
            new_name: None,
            elsewhere,
            follow: false,
            into_pipe: false,
        }
    }

    pub fn new_name(&self) -> &CStr {
        self.new_name.as_ref().unwrap_or(&self.name)
    }

    pub fn source(&self) -> &Fd {
        match &self.elsewhere {
            Some((parent, _)) => parent,
            None => &self.directory.source,
        }
    }

    /// The name in [`Item::source`].
    pub fn source_name(&self) -> &CStr {
        self.elsewhere.as_ref().map_or(&self.name, |(_, name)| name)
    }

    pub fn target(&self) -> &Fd {
        &self.directory.target
    }

    /// The source's identity.
    pub fn key(&self, stat: &libc::stat) -> Key {
        (self.source().system().clone(), stat.st_dev, stat.st_ino)
    }

    pub fn claim(&self) -> Claim<'_> {
        let directory = &self.directory;
        directory.made.claim(self.new_name(), directory.origin())
    }
}

impl CopiedFile for Item {
    fn shown(&self) -> String {
        self.directory.shown_in(&self.name)
    }

    fn copy_path(&self) -> Vec<u8> {
        self.directory.path_of(self.new_name())
    }
}
