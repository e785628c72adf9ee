// SPDX-License-Identifier: GPL-2.0-only
//! Images of containers, as they are named (`oci:DIR[:TAG]`, `docker-archive:FILE[:TAG]`), and as a
//! session has them: somebody has made one file system of their layers before.

use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Hint, Result};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How an image of a container is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerFormat {
    /// A directory with the layout of the Open Container Initiative.
    Oci,
    /// An archive of `docker save`.
    DockerArchive,
}

const PREFIXES: [(&[u8], ContainerFormat); 2] = [
    (b"oci:", ContainerFormat::Oci),
    (b"docker-archive:", ContainerFormat::DockerArchive),
];

impl ContainerFormat {
    /// The format that a name begins with, and the length of that beginning. `None`: the name is
    /// of something else.
    pub fn of(name: &[u8]) -> Option<(Self, usize)> {
        let fits = |(prefix, format): &(&[u8], Self)| {
            name.starts_with(prefix).then_some((*format, prefix.len()))
        };
        PREFIXES.iter().find_map(fits)
    }
}

/// Whether a name is that of an image of a container.
pub fn is_container_image(name: &Path) -> bool {
    ContainerFormat::of(name.as_os_str().as_bytes()).is_some()
}

/// Refuses an image of a container, for work that needs the file of a disk image.
pub fn check_disk_image(name: &Path) -> Result<()> {
    if !is_container_image(name) {
        return Ok(());
    }
    let shown = escaped(name.as_os_str().as_bytes());
    let copy = Hint::CopyToNew {
        name: shown.clone(),
    };
    Err(Error::hinted(ErrorKind::Unsupported, copy, |copy| {
        format!(
            "{shown}: the image of a container can only be read by commands, and programs run in \
             it: for other work make a disk image of its files{copy}"
        )
    }))
}

/// How the image says that its program is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDefaults {
    /// The beginning of the command line, which stays when the user names a command.
    pub entry_point: Vec<OsString>,
    /// The rest of the command line, unless the user names one.
    pub command: Vec<OsString>,
    /// Names and values.
    pub environment: Vec<(OsString, OsString)>,
    /// As in `www-data:www-data`; `None`: root.
    pub user: Option<OsString>,
    /// The working directory; `None`: the root.
    pub directory: Option<OsString>,
    /// The number of the signal that asks the program to end; `None`: SIGTERM.
    pub stop_signal: Option<i32>,
}

/// An image of a container that is ready to be opened.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    /// As the user wrote it.
    pub name: PathBuf,
    /// The file system that its layers make, which is only read.
    pub file: Arc<File>,
    /// How its program is run.
    pub defaults: RunDefaults,
}

impl PartialEq for ContainerImage {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.defaults == other.defaults
    }
}
