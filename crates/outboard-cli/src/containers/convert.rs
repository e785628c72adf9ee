// SPDX-License-Identifier: GPL-2.0-only
//! Formats for which there is no library: QEMU's qemu-img makes a raw copy, before the sandbox.
//!
//! qemu-img is shut in: of the host's files it can read programs and libraries, and the image, or for a vmdk
//! image that consists of several files, its directory; it can write only the copy. So an image cannot make it read
//! another file of the host, whatever names are in it.

use super::warn_of_cut;
use crate::error::reason;
use crate::sandbox::programs::{shut_in, Files};
use crate::temporary::{self, PrivateDirectory};
use outboard_image::{vdi, FileSource};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of a message of qemu-img that are shown.
const MESSAGE: usize = 500;

/// What qemu-img may read of an image.
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

/// Whether qemu-img finds data that would be behind the file's end. In a vmdk image only a check tells; a vhdx image that is
/// cut off is not converted.
fn is_cut(file: &File, path: &Path, kind: &str) -> io::Result<bool> {
    if kind == "vdi" {
        return Ok(vdi::is_cut(&FileSource::new(file.try_clone()?)?));
    }
    if kind != "vmdk" {
        return Ok(false);
    }
    let checked = Command::new("qemu-img")
        .arg("check")
        .arg(description(path, kind)?)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()?;
    let text = [checked.stdout, checked.stderr].concat();
    Ok(String::from_utf8_lossy(&text).contains("points after EOF"))
}

/// Makes the copy in a directory. Tells whether the image is cut off.
fn run(
    file: &File,
    path: &Path,
    kind: &str,
    readable: &Path,
    directory: &Path,
) -> io::Result<bool> {
    let files = Files {
        reads: vec![readable.to_owned()],
        writes: vec![directory.to_owned()],
        ..Files::default()
    };
    if !shut_in(&files)? {
        return Err(io::Error::other(format!(
            "{kind} images are converted by qemu-img, which this host cannot shut in (no Landlock): convert it yourself, if you trust it"
        )));
    }
    let shows_progress = io::stderr().is_terminal();
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-O", "raw", "-S", "64k"]);
    if shows_progress {
        command.arg("-p").stdout(io::stderr());
    } else {
        command.stdout(Stdio::null());
    }
    let output = command
        .arg(description(path, kind)?)
        .arg(directory.join("disk"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!(
                "to read {kind} images qemu-img is needed: install qemu-utils (Debian, Ubuntu) or qemu-img (Fedora)"
            )),
            _ => io::Error::other(format!("cannot run qemu-img: {}", reason(&error))),
        })?;
    if output.status.success() {
        return is_cut(file, path, kind);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text: String = text.trim().chars().take(MESSAGE).collect();
    Err(io::Error::other(format!(
        "a {kind} image that qemu-img cannot convert: {text}"
    )))
}

/// A raw copy of an image's disk, in a file that has no name any more.
pub fn to_raw(file: &File, path: &Path, kind: &str) -> io::Result<File> {
    let shown = path;
    let path = path.canonicalize()?;
    let readable = readable(file, &path)?;
    let directory = PrivateDirectory::new_in(&temporary::large_place(), "outboard-")?;
    // What restricts the thread must not restrict this process.
    let is_cut = std::thread::scope(|scope| {
        let work = || run(file, &path, kind, &readable, directory.path());
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("qemu-img could not be run")))
    })?;
    if is_cut {
        warn_of_cut(shown);
    }
    File::options()
        .read(true)
        .open(directory.path().join("disk"))
}
