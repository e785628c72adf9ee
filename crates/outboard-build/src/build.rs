// SPDX-License-Identifier: GPL-2.0-only
//! Carries out plans for a program of any kind.

use crate::fsck::{self, CheckPlan, CheckedVolume};
use crate::plan::DiskPlan;
use crate::resize::{self, ResizedVolume, SizeChange};
use outboard::{stopped, Cancel, Stopped};
use outboard_error::{Error, ErrorKind, Failure, Notes};
use outboard_transfer::callback::{CallbackProgress, OnProgress};
use outboard_transfer::report::Report;
use outboard_transfer::Count;
use outboard_volume::address::{check_reserved, ImageName};
use outboard_volume::session::Session;
use outboard_volume::Options;
use std::ffi::OsStr;
use std::fmt::{self, Debug, Formatter};
use std::ops::ControlFlow;
use std::sync::Arc;

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
#[derive(Clone, Default)]
pub struct Build {
    options: Options,
    cancel: Option<Cancel>,
    on_progress: Option<Arc<OnProgress>>,
}

impl Debug for Build {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        let mut shown = formatter.debug_struct("Build");
        shown
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
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

    /// Stops calls from another thread: [`ErrorKind::Interrupted`]. A tool that runs is killed,
    /// unless it changes an image in place: then the call ends when the tool does. A
    /// [`Deadline`](outboard::Deadline) of the calling thread stops calls in the same way:
    /// [`ErrorKind::TimedOut`].
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Calls a function for each file that [`Build::make`] copies, and within large ones, from any
    /// thread. `Break` cancels the call. It must not wait for the call.
    pub fn on_progress(
        mut self,
        function: impl Fn(&Count) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(function));
        self
    }

    /// Carries out a plan. Returns notes and warnings.
    ///
    /// Files that cannot be copied do not end the call: all the rest is there then, and the error
    /// at its end names them.
    pub fn make(&self, plan: &DiskPlan) -> Result<Vec<String>> {
        check_reserved(&plan.image).map_err(Failure::from)?;
        let name = ImageName::new(&plan.image, None);
        let made = self.run(&name, |session, new_report| plan.run(session, new_report));
        made.map(|((), notes)| notes)
    }

    /// Checks a file system by the checker of its type. Errors of the file system are no error of
    /// the call: see [`CheckedVolume::outcome`].
    pub fn check(&self, name: impl AsRef<OsStr>, plan: &CheckPlan) -> Result<CheckedVolume> {
        let name = find(name.as_ref())?;
        let checked = self.run(&name, |session, _| fsck::check(session, &name, plan));
        checked.map(|(checked, _)| checked)
    }

    /// Changes the size of a file system, and of the partition and image that hold it.
    pub fn resize(&self, name: impl AsRef<OsStr>, wanted: SizeChange) -> Result<ResizedVolume> {
        let name = find(name.as_ref())?;
        let resized = self.run(&name, |session, _| resize::resize(session, &name, wanted));
        resized.map(|(resized, _)| resized)
    }

    /// Returns the result of the work on an image, and its notes.
    fn run<T>(
        &self,
        name: &ImageName,
        work: impl FnOnce(&mut Session, &dyn Fn() -> Report) -> outboard_error::Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let (notes, cancel) = (Notes::default(), self.cancel.clone().unwrap_or_default());
        let new_report = || {
            let function = self.on_progress.clone();
            let progress = CallbackProgress::new(function, cancel.clone(), notes.clone());
            Report::new(Box::new(progress))
        };
        let work = || {
            let mut session = Session::of_tools(self.options.clone().into(), cancel.clone());
            let done = work(&mut session, &new_report);
            done.map_err(|error| (error, stopped()))
        };
        match notes.collect(|| cancel.run(work)) {
            Ok(value) => Ok((value, notes.lines())),
            Err((error, stopped)) => {
                let failure = match error {
                    Error::AlreadyReported => {
                        Failure::new(ErrorKind::Other, notes.lines().join("\n"))
                    }
                    error => of_limit(error.into(), stopped),
                };
                Err(match failure.path() {
                    Some(_) => failure,
                    None => failure.with_path(name.operand()),
                })
            }
        }
    }
}

/// The failure of work whose thread had this limit. A tool that is killed knows no reason.
fn of_limit(failure: Failure, stopped: Option<Stopped>) -> Failure {
    match (failure.kind(), stopped) {
        (ErrorKind::Interrupted, Some(Stopped::TimedOut)) => {
            let text = failure.message().to_owned();
            failure.with_text(ErrorKind::TimedOut, text)
        }
        _ => failure,
    }
}

fn find(name: &OsStr) -> Result<ImageName> {
    let name = ImageName::find(name);
    check_reserved(&name.file).map_err(Failure::from)?;
    Ok(name)
}
