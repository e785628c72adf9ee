// SPDX-License-Identifier: GPL-2.0-only
//! In the place of `servers`, for a crate without the feature `remote`: a name of a server is an
//! error. No session has a network, and no mount a server.

use super::whole::Session;
use crate::address::ImageName;
use crate::destination::UsedFiles;
use crate::image::Image;
use crate::options::Options;
use crate::remote::Remote;
use outboard::Kernel;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::sandbox::NetworkAccess;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The network of a session, and the state of a server: there are none.
pub(super) enum NoServers {}

pub(super) use NoServers as Network;
pub(super) use NoServers as ServerState;

impl NoServers {
    pub(super) fn prepare(_: &Options, _: &[(PathBuf, bool)], _: bool) -> Option<Self> {
        None
    }

    pub(super) fn check_sandbox(&self) -> Result<()> {
        match *self {}
    }

    pub(super) fn check_capture(&self, _: &UsedFiles) -> Result<()> {
        match *self {}
    }

    pub(super) fn access(&self, _: &[(PathBuf, bool)]) -> NetworkAccess {
        match *self {}
    }

    pub(super) fn needs_shared_memory(&self) -> bool {
        match *self {}
    }

    pub(super) fn start(&mut self, _: &Kernel) -> Result<()> {
        match *self {}
    }

    pub(super) fn watch_while(&self, _: Box<dyn Fn() -> bool + Send>) {
        match *self {}
    }

    pub(super) fn end_watch(&mut self) {
        match *self {}
    }

    pub(super) fn finish(&self) {
        match *self {}
    }

    pub(super) fn is_late(&self) -> bool {
        match *self {}
    }
}

fn missing(file: &Path) -> Error {
    let shown = escaped(file.as_os_str().as_bytes());
    Error::known(
        ErrorKind::Unsupported,
        format!(
            "{shown}: this program was built without servers: build outboard-volume with its \
             feature remote"
        ),
    )
}

impl Session {
    pub(super) fn mount_remote(&self, name: &ImageName, _: &Remote, _: bool) -> Result<usize> {
        Err(missing(&name.file))
    }

    /// Connects the disk of a server: an error, if the name is one's.
    pub fn connect(&mut self, file: &Path, _: bool) -> Result<()> {
        match Remote::of(file) {
            Some(_) => Err(missing(file)),
            None => Ok(()),
        }
    }

    pub(super) fn remote_disk(&self, file: &Path, _: &Remote, _: bool) -> Result<usize> {
        Err(missing(file))
    }

    pub(super) fn remote_image(&self, file: &Path) -> Result<Image> {
        Err(missing(file))
    }

    pub(super) fn report_silent_servers(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_how_to_reach_servers() {
        for name in ["nfs://h/e", "smb://h/s", "9p://h/", "nbd://h"] {
            let mut session = Session::in_library(Options::default(), name.as_ref(), false);
            let name = ImageName::new(name, None);
            let mounted = session.mount_volume(&name, false).map(drop);
            for done in [mounted, session.add_image(&name, false)] {
                let error = done.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                let text = error.message().unwrap_or_default().to_owned();
                assert!(text.contains("feature remote"), "{text}");
            }
        }
    }
}
