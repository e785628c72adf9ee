// SPDX-License-Identifier: GPL-2.0-only
//! Formats for which there is no library: QEMU's qemu-img makes a raw copy, before the sandbox.
//!
//! qemu-img is sandboxed: of the host's files it can read programs and libraries, and the image, or
//! for a vmdk image that consists of several files, its directory; it can write only the copy. So
//! an image cannot make it read another file of the host, whatever names are in it.

use super::faults::warn_of_cut;
use crate::temporary::PrivateDirectory;
use outboard_error::{front, Error, ErrorKind, Failure, Result};
use outboard_image::{vdi, FileSource};
use outboard_sandbox::tool::{Call, Confinement, Ended, Tool};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The beginning of the text that describes a vmdk image.
const DESCRIPTION: [u8; 21] = *b"# Disk DescriptorFile";
const QEMU_IMG: Tool = Tool::new("qemu-img", "qemu-utils");

/// The path that qemu-img may read: the image, or its directory if it has several files.
fn readable(file: &File, path: &Path) -> io::Result<PathBuf> {
    let mut start = [0; 24];
    file.read_at(&mut start, 0)?;
    let is_text = start.starts_with(b"# Disk");
    // Such a file also is but a list of others.
    let is_list = start.starts_with(b"KDMV") && start[12..20] == [0; 8];
    match path.parent() {
        Some(parent) if is_text || is_list => Ok(parent.to_owned()),
        _ => Ok(path.to_owned()),
    }
}

/// Whether this is one piece of a vmdk image that has several: it holds a part of the disk, and no
/// description of all of it.
fn is_piece(file: &File) -> io::Result<bool> {
    let mut start = [0; 36];
    file.read_at(&mut start, 0)?;
    let has_data = start[12..20] != [0; 8];
    if !start.starts_with(b"KDMV") || !has_data {
        return Ok(false);
    }
    let (_, sector) = start.split_last_chunk().unwrap_or((&[], &[0; 8]));
    let sector = u64::from_le_bytes(*sector);
    let mut text = [0; DESCRIPTION.len()];
    file.read_at(&mut text, sector.saturating_mul(512).min(i64::MAX as u64))?;
    Ok(sector == 0 || text != DESCRIPTION)
}

/// The image for qemu-img, without what it may be based on.
fn description(path: &Path, kind: &str) -> io::Result<String> {
    let name = path
        .to_str()
        .ok_or_else(|| io::Error::other("its name is not UTF-8, which qemu-img needs"))?;
    let description = serde_json::json!({
        "driver": kind,
        "file": {"driver": "file", "filename": name, "locking": "off"},
    });
    Ok(format!("json:{description}"))
}

/// The error of a call, for those who open images.
fn io_error(error: Error) -> io::Error {
    Failure::from(error).into()
}

/// qemu-img, which is always sandboxed: also with --no-sandbox.
fn call(readable: &Path) -> Result<Call> {
    let call = QEMU_IMG.call(Confinement::default())?;
    Ok(call.reads_only(readable))
}

/// Whether qemu-img finds data that would be behind the file's end. In a vmdk image only a check
/// tells; a vhdx image that is cut off is not converted.
fn is_cut(file: &File, path: &Path, kind: &str, readable: &Path) -> io::Result<bool> {
    if kind == "vdi" {
        return vdi::is_cut(&FileSource::new(file.try_clone()?)?);
    }
    if kind != "vmdk" {
        return Ok(false);
    }
    let image = description(path, kind)?;
    let check = call(readable).and_then(|call| call.argument("check").argument(image).run());
    let checked = check.map_err(io_error)?;
    Ok(String::from_utf8_lossy(&checked.output).contains("points after EOF"))
}

/// Makes the copy.
fn run(path: &Path, kind: &str, readable: &Path, directory: &Path) -> io::Result<()> {
    let shows_progress = front().shows_progress();
    let image = description(path, kind)?;
    let convert = || -> Result<Ended> {
        call(readable)?
            .writes(directory)
            .arguments(["convert", "-O", "raw", "-S", "64k"])
            .arguments(shows_progress.then_some("-p"))
            .progress(shows_progress)
            .argument(&image)
            .argument(directory.join("disk"))
            .succeed(&format!("a {kind} image that qemu-img cannot convert"))
    };
    convert().map(drop).map_err(io_error)
}

/// A raw copy of an image's disk, in a file that has no name any more.
pub fn to_raw(file: &File, path: &Path, kind: &str) -> io::Result<File> {
    let shown = path;
    let path = path.canonicalize()?;
    if kind == "vmdk" && is_piece(file)? {
        let text = "it is one piece of a vmdk image: name the .vmdk file that lists the pieces";
        return Err(Failure::new(ErrorKind::Incomplete, text).into());
    }
    let readable = readable(file, &path)?;
    let directory = PrivateDirectory::new_large("outboard-")?;
    run(&path, kind, &readable, directory.path())?;
    if is_cut(file, &path, kind, &readable)? {
        warn_of_cut(shown);
    }
    File::options()
        .read(true)
        .open(directory.path().join("disk"))
}
