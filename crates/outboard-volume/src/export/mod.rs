// SPDX-License-Identifier: GPL-2.0-only
//! A volume inside of an image as a file of the host, for the distribution's tools: a partition of
//! a qcow2 image, an encrypted volume, a logical volume... Tools need files or block devices.
//!
//! 1. The command, which is outside of the sandbox, makes a private directory and mounts FUSE on
//!    it.
//! 2. A copy of the process ([`start_apart`]) sandboxes itself, finds the block device of the name
//!    in our kernel, and replies with its full name. Then it answers the host's requests
//!    (`server`): a read or write of the file is one of the device. Nothing is copied.
//! 3. The tools run, sandboxed with this one file.
//! 4. [`Export::finish`] unmounts. Then the copy syncs the device and ends. Only after that the
//!    tools' writes are on stable storage for certain.
//!
//! A killed command leaves no mount: it lies in a namespace of its own. On hosts without namespaces
//! for users, a helper process waits and unmounts by fusermount3.

mod exported_name;
mod server;

use crate::address::ImageName;
use crate::host_mounts::private::PrivateMount;
use crate::session::{start_apart, Session, WantedDevice};
use crate::temporary::PrivateDirectory;
use exported_name::ExportedName;
use outboard_error::{warn, Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_worker::{WorkerError, WorkerProcess};
use std::io;
use std::path::{Path, PathBuf};

/// A block device of an image as a file of the host. [`Export::finish`] must be called.
pub struct Export {
    /// The full name, with a partition that the user left out.
    pub name: ImageName,
    path: PathBuf,
    /// Empty when it has ended.
    running: Option<Running>,
    _directory: PrivateDirectory,
}

struct Running {
    mount: PrivateMount,
    apart: WorkerProcess<(), ExportedName>,
}

impl Running {
    fn end(self) -> Result<()> {
        let unmounted = self.mount.unmount();
        self.apart.finish().and(unmounted)
    }
}

fn cannot(name: &ImageName, error: &io::Error) -> Error {
    Error::failed(format!("cannot let tools work on {}", name.shown()), error)
}

impl Export {
    /// Exports the volume of a name. No kernel may have the image open for writing.
    pub fn start(
        session: &mut Session,
        name: &ImageName,
        wanted: WantedDevice,
        write: bool,
    ) -> Result<Self> {
        let failed = |error: io::Error| cannot(name, &error);
        if session.is_in_library() {
            // It would need a copy of the process, and a mount that other programs see.
            let text = format!(
                "tools cannot work on {} from this process: it is in no raw image, or in layers",
                name.shown()
            );
            return Err(Error::known(ErrorKind::Unsupported, text));
        }
        let directory = PrivateDirectory::new("outboard-").map_err(failed)?;
        let mounted = directory.path().canonicalize().map_err(failed)?;
        let what = format!(
            "tools cannot work on {}, as FUSE cannot be used",
            name.shown()
        );
        let (device, mount) = PrivateMount::new(&mounted, &what)?;
        let access = HostAccess {
            images: vec![(name.file.clone(), write)],
            ..HostAccess::default()
        };
        let apart = start_apart(session, &access, move |session, parent| {
            server::serve(session, name, wanted, write, device, parent)
        })?;
        let mut export = Self {
            name: name.clone(),
            path: mounted.join(server::NAME),
            running: Some(Running { mount, apart }),
            _directory: directory,
        };
        export.wait()?;
        Ok(export)
    }

    /// Waits until the file can be used. On failure the result of the copy says why.
    fn wait(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        match running.apart.receive(None) {
            Ok(ExportedName(selectors)) if selectors.is_empty() => {
                self.name = ImageName::new(&self.name.file, None);
            }
            Ok(ExportedName(selectors)) => {
                self.name = ImageName::with_selectors(&self.name.file, &selectors);
            }
            Err(WorkerError::Finished) => self.end()?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn end(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), Running::end)
    }

    /// Ends the export. Writes are on stable storage if this succeeds.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    /// Ends the export after work on the file. A panic of the kernel is the only error reported:
    /// errors of the work follow from it.
    pub fn finish_after<T>(self, done: Result<T>) -> Result<T> {
        match (self.finish(), done) {
            (Err(panic @ Error::Panicked), done) => {
                let error = done.err();
                error.iter().filter_map(Error::message).for_each(warn);
                Err(panic)
            }
            (_, Err(error)) => Err(error),
            (finished, Ok(value)) => finished.map(|()| value),
        }
    }
}

impl Drop for Export {
    /// Reports the first error.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
