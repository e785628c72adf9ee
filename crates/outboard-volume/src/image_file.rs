// SPDX-License-Identifier: GPL-2.0-only
//! The files that images are in: how they are opened, and why they cannot be used.

use crate::address::Place;
use crate::servers::MountServer;
use crate::undo;
use outboard::HostTree;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Hint, Result};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a file for reading that may be an image: EISDIR for a directory, ENOTBLK for what else is
/// no disk.
pub fn open_image_file(path: &Path) -> io::Result<File> {
    undo::check(path)?;
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::from_raw_os_error(libc::ENOTBLK));
    }
    File::open(path)
}

/// Bytes of a sector of a file that holds a disk.
pub const FILE_SECTOR: u64 = 512;

/// Bytes of a sector of a raw image, which may be a block device.
pub fn sector_size(path: &Path) -> Result<u64> {
    let failed = |error: io::Error| cannot_open(path, &error);
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.file_type().is_block_device() {
        return Ok(FILE_SECTOR);
    }
    let device = HostTree.open_fd(path, libc::O_RDONLY, 0);
    let size = device.and_then(|device| device.sector_size());
    size.map_err(failed)
}

/// The error of an image that cannot be opened, with what to do.
pub fn cannot_open(path: &Path, error: &io::Error) -> Error {
    let shown = path.display();
    if let Some(name) = Place::image_of(path) {
        return Error::known(
            ErrorKind::Usage,
            format!(
                "{shown} is a place in an image: write the image's name, {}",
                name.shown()
            ),
        );
    }
    match error.raw_os_error() {
        Some(libc::EISDIR) => Error::known(
            ErrorKind::NotAFileSystem,
            format!("{shown} is a directory, not a disk image"),
        ),
        Some(libc::ENOTBLK) => Error::known(
            ErrorKind::NotAFileSystem,
            format!("{shown} is neither a file nor a block device"),
        ),
        _ => Error::failed(format!("cannot open image {shown}"), error),
    }
}

/// Advice for a file that is but a piece of an image, judged by its name: disk.img.001, disk.img.aa
/// and the like, with a neighbour beside it.
pub fn split_hint(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, number) = name.rsplit_once('.')?;
    let neighbour = neighbours(number)
        .into_iter()
        .map(|other| format!("{stem}.{other}"))
        .find(|other| path.with_file_name(other).is_file())?;
    let pieces = path.with_file_name(format!("{stem}.{}", "?".repeat(number.len())));
    Some(format!(
        "it seems to be a piece of a split image, as {} is: join them first, with cat {} >NEW",
        escaped(neighbour.as_bytes()),
        escaped(pieces.as_os_str().as_bytes())
    ))
}

/// The endings of the pieces before and after one, as split(1) and imaging tools count: 001 or aa.
fn neighbours(ending: &str) -> Vec<String> {
    let width = ending.len();
    if !(2..=4).contains(&width) {
        return Vec::new();
    }
    let (digits, radix, first) = if ending.bytes().all(|byte| byte.is_ascii_digit()) {
        (ending.as_bytes(), 10, b'0')
    } else if ending.bytes().all(|byte| byte.is_ascii_lowercase()) {
        (ending.as_bytes(), 26, b'a')
    } else {
        return Vec::new();
    };
    let value = |number: u32, &digit: &u8| number * radix + u32::from(digit - first);
    let number = digits.iter().fold(0, value);
    let written = |mut number: u32| {
        let mut text = vec![first; width];
        for place in text.iter_mut().rev() {
            *place += (number % radix) as u8;
            number /= radix;
        }
        (number == 0).then(|| String::from_utf8_lossy(&text).into_owned())
    };
    let around = [number.checked_add(1), number.checked_sub(1)];
    around.into_iter().flatten().filter_map(written).collect()
}

/// Whether the user may write the image, else why not.
pub fn check_writable(path: &Path) -> Result<()> {
    match File::options().write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

/// Somebody else has an image, or, if it is only to be read, may write to it. `server`: of a mount
/// of it.
pub fn in_use(path: &Path, write: bool, server: Option<&MountServer>) -> Error {
    let shown = path.display();
    let may_write = if write { "" } else { ", which may write to it" };
    let Some(server) = server else {
        if let Some(process) = undo::writer(path) {
            return Error::known(
                ErrorKind::Locked,
                format!("{shown} is in use by outboard, pid {process}, which is changing it"),
            );
        }
        return Error::known(
            ErrorKind::Locked,
            format!("{shown} is in use by another program, such as QEMU{may_write}"),
        );
    };
    let directory = escaped(server.directory.as_os_str().as_bytes());
    let unmount = Hint::Unmount {
        directory: directory.clone(),
    };
    Error::hinted(ErrorKind::Locked, unmount, |unmount| {
        format!(
            "{shown} is in use: mounted on {directory} by outboard, pid {}{may_write} (its files \
             are there; {unmount} ends that)",
            server.process
        )
    })
}

/// Why an image cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot write to image {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_neighbours() {
        assert_eq!(neighbours("001"), ["002", "000"]);
        assert_eq!(neighbours("000"), ["001"]);
        assert_eq!(neighbours("999"), ["998"]);
        assert_eq!(neighbours("aa"), ["ab"]);
        assert_eq!(neighbours("az"), ["ba", "ay"]);
        for other in ["", "1", "00001", "img", "0a", "AA", "\u{e9}"] {
            let found = neighbours(other);
            assert!(found.is_empty() || other == "img", "{other}: {found:?}");
        }
    }
}
