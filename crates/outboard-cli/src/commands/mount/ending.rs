// SPDX-License-Identifier: GPL-2.0-only
//! Servers whose mount is gone while they still have the image.
//!
//! The host's own umount(8) does not wait until everything is written, as `outboard umount` does. A mount
//! that follows at once waits here for the server before it, and for nobody else who has the image.

use super::host;
use crate::address::ImageName;
use crate::error::warn;
use outboard::{Fd, Tree};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long such a server may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// From when on it is told.
const UNNOTICED: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until an image can be locked as a mount needs it, or somebody has it that is not about to end.
pub fn wait(image: &Path, write: bool) {
    let Ok(file) = Tree::host().open_fd(image, libc::O_RDONLY, 0) else {
        return;
    };
    let start = Instant::now();
    let mut told = false;
    while is_locked(&file, write) && start.elapsed() < PATIENCE && is_let_go(image) {
        if !told && start.elapsed() > UNNOTICED {
            warn(format!(
                "{}: waiting for the server of its last mount to end",
                image.display()
            ));
            told = true;
        }
        std::thread::sleep(INTERVAL);
    }
}

fn is_locked(file: &Fd, write: bool) -> bool {
    matches!(file.lock(write), Err(error) if error.raw_os_error() == Some(libc::EBUSY))
}

/// Whether there is a server of this image without its mount.
fn is_let_go(image: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes
        .flatten()
        .map(|entry| entry.path())
        .any(|process| has_lost_mount(&process, image).unwrap_or(false))
}

/// Whether a process is such a server. `None`: it is no server of the image, or has just ended.
fn has_lost_mount(process: &Path, image: &Path) -> Option<bool> {
    let source = serving(process)?.source;
    if ImageName::find(&source).file != image {
        return None;
    }
    let mounts = host::mounts(process).ok()?;
    Some(mounts.iter().all(|mounted| mounted.source != source))
}

/// What a server of a mount serves, by its command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    source: OsString,
    directory: OsString,
    /// The operands of -o.
    pub options: Vec<String>,
}

/// The server of a mount.
pub fn server(source: &OsStr, directory: &Path) -> Option<Served> {
    let processes = std::fs::read_dir("/proc").ok()?;
    processes
        .flatten()
        .filter_map(|entry| serving(&entry.path()))
        .find(|served| served.source == source && served.directory == directory)
}

fn serving(process: &Path) -> Option<Served> {
    served(&std::fs::read(process.join("cmdline")).ok()?)
}

fn served(command_line: &[u8]) -> Option<Served> {
    let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let end = words.iter().position(|word| *word == b"--")?;
    let role = [b"--role".as_slice(), b"server"];
    if !words[..end].windows(2).any(|pair| *pair == role) {
        return None;
    }
    let operand = |number: usize| {
        let word = words.get(end + number)?;
        Some(OsStr::from_bytes(word).to_owned())
    };
    let lists = words[..end]
        .iter()
        .filter_map(|word| word.strip_prefix(b"-o"));
    Some(Served {
        source: operand(1)?,
        directory: operand(2)?,
        options: lists
            .map(|list| String::from_utf8_lossy(list).into_owned())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_servers() {
        let line = b"/proc/self/exe\0mount\0--role\0server\0-oro\0--\0/x/a.img@1\0/mnt\0";
        let found = served(line).unwrap();
        assert_eq!(
            (&*found.source, &*found.directory),
            ("/x/a.img@1".as_ref(), "/mnt".as_ref())
        );
        assert_eq!(found.options, ["ro"]);
        for other in [
            b"".as_slice(),
            b"outboard\0mount\0--role\0keeper\0--\0/x/a.img\0/mnt\0",
            b"outboard\0mount\0--\0--role\0server\0",
            b"outboard\0mount\0--role\0server\0--",
        ] {
            assert_eq!(served(other), None);
        }
    }
}
