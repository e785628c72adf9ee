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
    pub(super) disk: KernelDisk,
    /// Released after the disk.
    pub(super) _locks: Vec<FileLock>,
    /// A written file system has to be unmounted.
    pub(super) _guard: Option<Guard>,
}

impl OpenDisk {
    /// Returns an error if the file was written and has no name any more: then it ends with the
    /// session.
    pub(super) fn removed(&self, held: &HeldImages) -> Option<Failure> {
        let is_removed = self.writable && held.has_lost_name(self.image.identity);
        is_removed.then(|| {
            let text = format!(
                "{}: the file was removed while it was open: what was written to it is lost",
                self.image.shown()
            );
            Failure::new(ErrorKind::NotFound, text)
        })
    }

    /// Returns what was lost of what the kernel did not flush itself.
    pub(super) fn flush(&self) -> Option<Failure> {
        if !self.writable {
            return None;
        }
        let error = self.image.content.flush().err()?;
        let what = format!("{}: not everything was written", self.image.shown());
        Some(Failure::of(&error).after(what))
    }
}
