// SPDX-License-Identifier: GPL-2.0-only
//! Operands that must be in an image, and what a user may have meant with one that is not.

use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_volume::address::{ImageName, Place};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// An operand that must be in an image.
pub fn image_place(operand: &OsStr) -> Result<Place> {
    in_image(&Place::find(operand))
}

/// Refuses a path of the host.
pub fn in_image(place: &Place) -> Result<Place> {
    match place {
        Place::Host(path) => {
            check_file_name(path)?;
            Err(Error::Usage(format!(
                "{} is not a place in an image: write IMAGE:/PATH, as in {}",
                path.display(),
                likely_place(path.as_os_str())
            )))
        }
        place => Ok(place.clone()),
    }
}

/// Refuses the name of a file that is not there if it names a partition of a file that is.
pub fn check_file_name(path: &Path) -> Result<()> {
    let name = ImageName::find(path.as_os_str());
    if name.partition.is_none() || name.volume.is_some() || !is_image_file(&name.file) {
        return Ok(());
    }
    let shown = name.shown();
    Err(Error::Usage(format!(
        "{shown} is a partition, not a place in it: \":/\" is missing, as in {shown}:/"
    )))
}

/// The place that a user may have meant with another text: IMAGE, "IMAGE:" or "IMAGE:PATH", or a
/// path inside of some image.
pub fn likely_place(operand: &OsStr) -> String {
    let bytes = operand.as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':');
    let is_image = |&at: &usize| {
        let name = ImageName::find(OsStr::from_bytes(&bytes[..at]));
        name.file.symlink_metadata().is_ok()
    };
    let is_place = |at: &usize| at + 1 == bytes.len() || is_image(at);
    let (image, path) = match colon.filter(is_place) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None if bytes.starts_with(b"/") && !Path::new(operand).is_file() => {
            return format!("disk.img:{}", escaped(bytes));
        }
        None => (bytes, &bytes[..0]),
    };
    format!("{}:/{}", escaped(image), escaped(path))
}

/// Whether a path leads to a file that can be an image.
pub fn is_image_file(path: &Path) -> bool {
    let may_be_image = |file: Metadata| file.is_file() || file.file_type().is_block_device();
    path.metadata().is_ok_and(may_be_image)
}

/// Makes failures of a command those of this file, unless they are of another one.
pub fn about(operand: &OsStr) -> impl Fn(Error) -> Error + '_ {
    |error| error.about(operand.as_bytes().to_vec())
}
