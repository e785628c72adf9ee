// SPDX-License-Identifier: GPL-2.0-only
//! What is inside of an image, as a file of the host, for the distribution's tools: a partition of a qcow2 image, an encrypted
//! volume, a logical volume of LVM... Tools know files and block devices only.
//!
//! 1. The command, which is outside of the sandbox, makes a private directory and mounts FUSE on it.
//! 2. A copy of the process ([`Apart`]) shuts itself in, finds the block device that the name means in our kernel, says so, and
//!    answers the host's requests ([`server`]): a read or write of the file is one of the device. Nothing is copied.
//! 3. The tools run, shut in with this one file.
//! 4. [`Export::finish`] unmounts; then the copy syncs the device, and ends as any work apart does. Only after that is what the
//!    tools have written known to be on stable storage.
//!
//! Who is killed leaves no mount behind: it is in a name space of its own. Only on hosts that refuse those to users, a process waits
//! to have fusermount3 end it.

mod server;

use crate::address::ImageName;
use crate::host_mounts::PrivateMount;
use crate::session::{start_apart, Session, Wanted};
use crate::temporary::PrivateDirectory;
use outboard_sandbox::apart::Apart;
use outboard_sandbox::crash;
use outboard_sandbox::error::{warn, Error, Result};
use outboard_sandbox::HostAccess;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Most bytes of the name that the copy tells.
const LONGEST: u64 = 1 << 16;

/// A block device of an image as a file of the host. It must be finished.
pub struct Export {
    /// What the name means: with a partition also where the user left it out.
    pub name: ImageName,
    path: PathBuf,
    /// Empty when it has ended.
    running: Option<Running>,
    _directory: PrivateDirectory,
}

struct Running {
    mount: PrivateMount,
    apart: Apart,
    /// Its end says that the copy shall stop.
    control: UnixStream,
}

impl Running {
    fn end(self) -> Result<()> {
        let unmounted = self.mount.unmount();
        // Also where the copy has the other end, and this one, open.
        let _ = self.control.shutdown(Shutdown::Both);
        self.apart.finish::<()>().and(unmounted)
    }
}

fn cannot(name: &ImageName, error: &io::Error) -> Error {
    Error::failed(format!("cannot let tools work on {}", name.shown()), error)
}

impl Export {
    /// Makes what a name means a file. No kernel may have the image for writing.
    pub fn start(
        session: &mut Session,
        name: &ImageName,
        wanted: Wanted,
        write: bool,
    ) -> Result<Self> {
        let failed = |error: io::Error| cannot(name, &error);
        let directory = PrivateDirectory::new("outboard-").map_err(failed)?;
        let mounted = directory.path().canonicalize().map_err(failed)?;
        let what = format!(
            "tools cannot work on {}, as FUSE cannot be used",
            name.shown()
        );
        let (device, mount) = PrivateMount::new(&mounted, &what)?;
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let access = HostAccess {
            images: vec![(name.file.clone(), write)],
            ..HostAccess::default()
        };
        let apart = start_apart(session, &access, move |session| {
            server::serve(session, name, wanted, write, device, theirs)
        })?;
        let mut export = Self {
            name: name.clone(),
            path: mounted.join(server::NAME),
            running: Some(Running {
                mount,
                apart,
                control,
            }),
            _directory: directory,
        };
        export.wait()?;
        Ok(export)
    }

    /// Waits until the file can be used. If there will be none, the copy has said why.
    fn wait(&mut self) -> Result<()> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let mut told = Vec::new();
        BufReader::new(&running.control)
            .take(LONGEST)
            .read_until(0, &mut told)
            .map_err(|error| cannot(&self.name, &error))?;
        match told.strip_suffix(&[0]) {
            Some([]) => self.name = ImageName::new(&self.name.file, None),
            Some(selectors) => self.name = ImageName::with_selectors(&self.name.file, selectors),
            None => self.end()?,
        }
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn end(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), Running::end)
    }

    /// Ends it. What was written is on stable storage if this succeeds.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    /// Ends it after work on the file. If the kernel panicked, that is how it all ends: errors of
    /// the work are its consequences.
    pub fn finish_after<T>(self, done: Result<T>) -> Result<T> {
        match (self.finish(), done) {
            (Err(panic @ Error::Status(crash::CODE)), done) => {
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
    /// The error that comes first is told.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What stands behind the image's file in a name, for [`Export::wait`].
fn selectors(name: &ImageName) -> Vec<u8> {
    let file = name.file.as_os_str().as_bytes().len();
    let operand = name.operand();
    [operand[file..].strip_prefix(b"@").unwrap_or_default(), &[0]].concat()
}
