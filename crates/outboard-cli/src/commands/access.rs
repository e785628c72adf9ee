// SPDX-License-Identifier: GPL-2.0-only
//! The part of the host that a command uses for its operands.

use outboard_sandbox::HostAccess;
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use std::ffi::OsString;

pub fn uses_images<'a>(
    operands: impl IntoIterator<Item = &'a OsString>,
    write: bool,
) -> HostAccess {
    let mut access = HostAccess::default();
    for operand in operands {
        access.add(uses_image_of(&Place::find(operand), write));
    }
    access
}

/// The access of a command that takes a place in an image, or an image by its own name.
pub fn uses_image_of(place: &Place, write: bool) -> HostAccess {
    match place {
        Place::Image(name, _) => uses_image(name, write),
        Place::Host(path) => uses_image(&ImageName::find(path.as_os_str()), write),
    }
}

/// The access of a command that only reads in images. Operands: places in them, or their own names.
pub fn reads_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, false)
}

/// The access of a command that changes images.
pub fn writes_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, true)
}

/// The access of a command that runs other programs on an image. It is sandboxed only for the work
/// that it does with the kernel: [`apart`](outboard_volume::session::apart).
pub fn runs_programs(image: &OsString) -> HostAccess {
    HostAccess {
        outside: true,
        ..writes_images([image])
    }
}

/// The access of a command without an image whose child processes do the work, each in a sandbox
/// or without an image.
pub fn outside_of_the_sandbox() -> HostAccess {
    HostAccess {
        outside: true,
        ..HostAccess::default()
    }
}
