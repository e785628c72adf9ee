// SPDX-License-Identifier: GPL-2.0-only
//! Carries out plans for a program of any kind.

use crate::fsck::{self, CheckPlan, CheckedVolume};
use crate::plan::DiskPlan;
use crate::resize::{self, ResizedVolume, SizeChange};
use outboard::Cancel;
use outboard_error::{Error, ErrorKind, Failure, Notes};
use outboard_transfer::report::{Progress, Report};
use outboard_volume::address::{check_reserved, ImageName};
use outboard_volume::session::Session;
use outboard_volume::Options;
use std::ffi::OsStr;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// Makes, checks and resizes disk images.
///
/// Any thread may call. A call changes no setting of the process: it prints nothing, asks nobody,
/// and sets no handler of signals but those of liboutboard. It starts the tools of the distribution
/// as children, each in a sandbox, and boots kernels in this process to fill file systems: see
/// [`outboard_volume::Volume`] for their limits. No image of a call may be open as a volume.
///
/// Tools work on raw images, and on partitions of those. A file system inside of another format, of
/// LUKS or LVM can be made, but neither checked nor resized
/// ([`ErrorKind::Unsupported`]), and a table of partitions only in a new image.
#[derive(Clone, Debug, Default)]
pub struct Build {
    options: Options,
    cancel: Cancel,
}

impl Build {
    /// Images are opened with the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// How images are opened, and kernels are run.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Stops calls from another thread: [`ErrorKind::Interrupted`]. A tool that runs ends first.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Carries out a plan. Returns notes and warnings.
    ///
    /// Files that cannot be copied do not end the call: all the rest is there then, and the error
    /// at its end names them.
    pub fn make(&self, plan: &DiskPlan) -> Result<Vec<String>> {
        check_reserved(&plan.image).map_err(Failure::from)?;
        let made = self.run(|session| plan.run(session, new_report));
        made.map(|((), notes)| notes)
    }

    /// Checks a file system by the checker of its type. Errors of the file system are no error of
    /// the call: see [`CheckedVolume::outcome`].
    pub fn check(&self, name: impl AsRef<OsStr>, plan: &CheckPlan) -> Result<CheckedVolume> {
        let name = find(name.as_ref())?;
        let checked = self.run(|session| fsck::check(session, &name, plan));
        checked.map(|(checked, _)| checked)
    }

    /// Changes the size of a file system, and of the partition and image that hold it.
    pub fn resize(&self, name: impl AsRef<OsStr>, wanted: SizeChange) -> Result<ResizedVolume> {
        let name = find(name.as_ref())?;
        let resized = self.run(|session| resize::resize(session, &name, wanted));
        resized.map(|(resized, _)| resized)
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&mut Session) -> outboard_error::Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let notes = Notes::default();
        let done = notes.collect(|| {
            let mut session = Session::of_tools(self.options.clone().into(), self.cancel.clone());
            work(&mut session)
        });
        match done {
            Ok(value) => Ok((value, notes.lines())),
            Err(Error::AlreadyReported) => {
                Err(Failure::new(ErrorKind::Other, notes.lines().join("\n")))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn find(name: &OsStr) -> Result<ImageName> {
    let name = ImageName::find(name);
    check_reserved(&name.file).map_err(Failure::from)?;
    Ok(name)
}

/// The report of a copy. Its lines are notes of the thread that begins the copy.
fn new_report() -> Report {
    Report::new(Box::new(Collected(Notes::current().unwrap_or_default())))
}

struct Collected(Notes);

impl Progress for Collected {
    fn suspend(&self, write: &mut dyn FnMut()) {
        self.0.collect(write);
    }
}
