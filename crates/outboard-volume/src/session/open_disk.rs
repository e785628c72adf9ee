// SPDX-License-Identifier: GPL-2.0-only
//! A disk that a session has added to the kernel.

use crate::held::HeldImages;
use crate::image::Image;
use outboard::{FileLock, KernelDisk};
use outboard_error::{ErrorKind, Failure};
use outboard_sandbox::interrupt::Guard;

pub(super) struct OpenDisk {
    pub(super) image: Image,
    pub(super) writable: bool,
    /// What the kernel writes reaches the image.
    pub(super) writes_image: bool,
    pub(super) disk: KernelDisk,
    /// Released after the disk.
    pub(super) _locks: Vec<FileLock>,
    /// A written file system has to be unmounted.
    pub(super) _guard: Option<Guard>,
}

impl OpenDisk {
    /// Returns an error if another program has taken something from a file that can be written: its
    /// name, and so the file ends with the session, or its end.
    pub(super) fn taken(&self, held: &HeldImages) -> Option<Failure> {
        let (shown, identity) = (self.image.shown(), self.image.identity);
        if !self.writes_image {
            None
        } else if held.has_lost_name(identity) {
            let what = "was removed while it was open: what was written to it is lost";
            let text = format!("{shown}: the file {what}");
            Some(Failure::new(ErrorKind::NotFound, text))
        } else if held.is_cut(identity) {
            let what = "was cut off while it was open: what was behind its new end is lost";
            let text = format!("{shown}: the file {what}");
            Some(Failure::new(ErrorKind::Damaged, text))
        } else {
            None
        }
    }

    /// Returns what was lost of what the kernel did not flush itself.
    pub(super) fn flush(&self) -> Option<Failure> {
        if !self.writes_image {
            return None;
        }
        let error = self.image.content.flush().err()?;
        let what = format!("{}: not everything was written", self.image.shown());
        Some(Failure::of(&error).after(what))
    }
}
