// SPDX-License-Identifier: GPL-2.0-only
//! The options of a copy, and its result.

use super::changes::Changes;
use crate::exclusion::Exclusion;
use crate::hidden::HiddenFinder;
use crate::report::NamePrinter;
use serde::{Deserialize, Serialize};

/// Which attributes of a source its copy gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Permissions, limited by the umask.
    #[default]
    Nothing,
    /// Mode, access control lists, owner and times.
    Basics,
    /// All attributes, and hard links.
    Everything,
}

/// How to treat files that exist already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// They are overwritten.
    #[default]
    Overwrite,
    /// They stay as they are.
    Stay,
    /// Newer sources overwrite them.
    Update,
}

/// The options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The attributes that copies keep.
    pub keep: Keep,
    /// Copy directories.
    pub recursive: bool,
    /// Copy the targets of symbolic links, not the links.
    pub follow: bool,
    /// How to treat files that exist already.
    pub existing: Existing,
    /// The umask, for modes that are not kept.
    pub umask: u32,
    /// One thread copies, directory by directory, names in the order of their bytes: the same files
    /// are made in the same order each time.
    pub sorted: bool,
    /// A full destination is no failure: the caller will make a larger one.
    pub may_be_full: bool,
    /// Files of the host that look like disk images are overwritten.
    pub force: bool,
}

impl Options {
    /// The options of `cp -a`.
    pub fn everything(umask: u32) -> Self {
        Self {
            keep: Keep::Everything,
            recursive: true,
            umask,
            ..Self::default()
        }
    }

    /// Whether copies get attributes of their sources.
    pub fn keeps(&self) -> bool {
        self.keep != Keep::Nothing
    }

    /// Whether copies get all attributes of their sources.
    pub fn archive(&self) -> bool {
        self.keep == Keep::Everything
    }
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copied {
    All,
    /// Some files could not be copied; messages named them.
    Some,
    /// The destination is too small ([`Options::may_be_full`]).
    UntilFull,
}

/// Options, changes and output of a copy.
pub struct CopyRequest<'a> {
    pub options: Options,
    /// Changes to the metadata of copies.
    pub changes: &'a Changes,
    /// Files to leave out.
    pub excluded: &'a Exclusion,
    /// Prints the names of what is copied.
    pub names: Option<&'a dyn NamePrinter>,
    /// Finds what Linux does not show of the sources.
    pub hidden: &'a HiddenFinder,
    /// The name of the destination, if the user does not know its real one.
    pub operand: Option<&'a [u8]>,
}
