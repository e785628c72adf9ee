// SPDX-License-Identifier: GPL-2.0-only
//! Operands of commands that are volumes.

use super::is_image_file;
use outboard_volume::address::{ImageName, Place};
use std::ffi::OsStr;
use std::path::Path;

/// The image or volume that an operand names without a path in it, as in disk.img or disk.img@2. A
/// number after the `@` is that of a partition also where the image is missing.
fn image_operand(operand: &OsStr) -> Option<ImageName> {
    let Place::Host(_) = Place::find(operand) else {
        return None;
    };
    let is_missing = |path: &Path| path.symlink_metadata().is_err();
    Some(ImageName::find(operand)).filter(|name| {
        is_image_file(&name.file) || name.partition.is_some() && is_missing(&name.file)
    })
}

/// The volume that an operand names without a path in it, as in disk.img@2.
pub fn volume_operand(operand: &OsStr) -> Option<ImageName> {
    let is_volume = |name: &ImageName| name.partition.is_some() || name.volume.is_some();
    image_operand(operand).filter(is_volume)
}
