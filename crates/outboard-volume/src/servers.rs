// SPDX-License-Identifier: GPL-2.0-only
//! Servers of `outboard mount` on this host, found by their command lines.

use crate::address::ImageName;
use crate::octal::unquote;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PROCESSES: &str = "/proc";
const MOUNTS: &str = "/proc/self/mountinfo";
/// The type of our mounts in mount(8) and mountinfo.
pub const KIND: &str = "fuse.outboard";

/// A process that serves a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountServer {
    pub process: u32,
    /// `IMAGE`, `IMAGE@N` or `IMAGE@NAME`, absolute.
    pub source: OsString,
    pub directory: PathBuf,
    /// The operands of -o.
    pub options: Vec<String>,
}

impl MountServer {
    /// The server that a command line belongs to: `... --role server ... -- SOURCE DIRECTORY`.
    fn parse(process: u32, command_line: &[u8]) -> Option<Self> {
        let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
        let end = words.iter().position(|word| *word == b"--")?;
        let role = [b"--role".as_slice(), b"server"];
        let is_server = words[..end].windows(2).any(|pair| *pair == role);
        let (source, directory) = (words.get(end + 1)?, words.get(end + 2)?);
        let lists = words[..end].iter();
        let lists = lists.filter_map(|word| word.strip_prefix(b"-o"));
        is_server.then(|| Self {
            process,
            source: OsStr::from_bytes(source).to_owned(),
            directory: OsString::from_vec(directory.to_vec()).into(),
            options: lists
                .map(|list| String::from_utf8_lossy(list).into_owned())
                .collect(),
        })
    }

    /// The file of its image.
    pub fn image(&self) -> PathBuf {
        ImageName::find(&self.source).file
    }

    /// The process's directory in /proc.
    pub fn files(&self) -> PathBuf {
        Path::new(PROCESSES).join(self.process.to_string())
    }

    /// Whether the image's file has no name any more: it goes when the server ends.
    pub fn has_removed_image(&self) -> bool {
        let removed = [self.image().as_os_str().as_bytes(), b" (deleted)"].concat();
        let Ok(files) = std::fs::read_dir(self.files().join("fd")) else {
            return false;
        };
        let is_removed = |path: &Path| {
            let name = std::fs::read_link(path);
            name.is_ok_and(|name| name.as_os_str().as_bytes() == removed)
                && std::fs::metadata(path).is_ok_and(|file| file.nlink() == 0)
        };
        files.flatten().any(|entry| is_removed(&entry.path()))
    }
}

/// All servers that this process can see, but itself.
pub fn all() -> Vec<MountServer> {
    let Ok(processes) = std::fs::read_dir(PROCESSES) else {
        return Vec::new();
    };
    let server = |name: &OsStr| {
        let process = name.to_str()?.parse().ok()?;
        let file = Path::new(PROCESSES).join(name).join("cmdline");
        MountServer::parse(process, &std::fs::read(file).ok()?)
    };
    processes
        .flatten()
        .filter_map(|entry| server(&entry.file_name()))
        .filter(|server| server.process != std::process::id())
        .collect()
}

/// Whether a mount of ours in the text of mountinfo is of this image: `... - TYPE SOURCE OPTIONS`.
fn has_mount(mounts: &[u8], image: &Path) -> bool {
    let of_image = |line: &[u8]| {
        let mut fields = line
            .split(|byte| *byte == b' ')
            .skip_while(|field| *field != b"-");
        let (kind, source) = (fields.nth(1), fields.next().map(unquote));
        let is_of = |source: Vec<u8>| ImageName::find(OsStr::from_bytes(&source)).file == image;
        kind == Some(KIND.as_bytes()) && source.is_some_and(is_of)
    };
    mounts.split(|byte| *byte == b'\n').any(of_image)
}

/// The server that has an image, if the image is mounted where this process can see it. Without
/// such a mount this costs one file to read.
pub fn of_image(path: &Path) -> Option<MountServer> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read(MOUNTS).ok()?;
    if !has_mount(&mounts, &path) {
        return None;
    }
    all().into_iter().find(|server| server.image() == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_servers() {
        let line = b"outboard\0mount\0--role\0server\0-oro\0--\0/x/a.img@1\0/mnt\0";
        let server = MountServer::parse(7, line).unwrap();
        assert_eq!(server.source, "/x/a.img@1");
        assert_eq!(server.image(), Path::new("/x/a.img"));
        assert_eq!(server.directory, Path::new("/mnt"));
        assert_eq!(server.files(), Path::new("/proc/7"));
        assert_eq!(server.options, ["ro"]);
        for other in [
            b"".as_slice(),
            b"outboard\0mount\0--role\0keeper\0--\0/x/a.img\0/mnt\0",
            b"outboard\0mount\0--\0--role\0server\0",
            b"outboard\0mount\0--role\0server\0--",
        ] {
            assert_eq!(MountServer::parse(7, other), None);
        }
    }

    #[test]
    fn mounts_of_images() {
        let mounts = b"40 27 0:35 / /mnt rw - ext4 /x/a.img rw\n\
            41 27 0:36 / /mnt/a\\040b rw,nosuid shared:3 - fuse.outboard \
            /x/b\\040c.img@1 rw\n\n- x";
        assert!(has_mount(mounts, Path::new("/x/b c.img")));
        assert!(!has_mount(mounts, Path::new("/x/a.img")));
        assert!(!has_mount(mounts, Path::new("/x/b")));
    }
}
