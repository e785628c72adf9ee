// SPDX-License-Identifier: GPL-2.0-only
//! A file as JSON.

use outboard_sandbox::format;
use serde::Serialize;
use std::ffi::CStr;

/// What `--json` tells of a file. Times are in seconds since 1970 with a part.
#[derive(Serialize)]
pub struct Record {
    name: String,
    /// Only for a name that is not UTF-8, which `name` then shows with replacements.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<Vec<u8>>,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    inode: u64,
    links: u64,
    uid: u32,
    gid: u32,
    size: i64,
    blocks: i64,
    block_size: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    accessed: f64,
    modified: f64,
    changed: f64,
    modified_utc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

fn seconds(seconds: i64, nanoseconds: i64) -> f64 {
    seconds as f64 + nanoseconds as f64 / 1e9
}

pub fn kind(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symlink",
        libc::S_IFBLK => "block",
        libc::S_IFCHR => "character",
        libc::S_IFIFO => "fifo",
        libc::S_IFSOCK => "socket",
        libc::S_IFREG => "file",
        _ => "unknown",
    }
}

impl Record {
    pub fn new(name: &[u8], stat: &libc::stat, target: Option<&CStr>) -> Self {
        let device = matches!(stat.st_mode & libc::S_IFMT, libc::S_IFBLK | libc::S_IFCHR);
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            name_bytes: std::str::from_utf8(name).is_err().then(|| name.to_vec()),
            kind: kind(stat.st_mode),
            mode: format!("{:04o}", stat.st_mode & 0o7777),
            inode: stat.st_ino,
            links: stat.st_nlink,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size,
            blocks: stat.st_blocks,
            block_size: stat.st_blksize,
            device: device.then(|| (libc::major(stat.st_rdev), libc::minor(stat.st_rdev))),
            accessed: seconds(stat.st_atime, stat.st_atime_nsec),
            modified: seconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: seconds(stat.st_ctime, stat.st_ctime_nsec),
            modified_utc: format::moment(stat.st_mtime, stat.st_mtime_nsec),
            target: target.map(|target| target.to_string_lossy().into_owned()),
        }
    }
}

/// A path with the room that it takes.
#[derive(Serialize)]
pub struct Usage {
    path: String,
    /// As `name_bytes` of a [`Record`].
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<Vec<u8>>,
    bytes: u64,
}

impl Usage {
    pub fn new(path: &[u8], bytes: u64) -> Self {
        Self {
            path: String::from_utf8_lossy(path).into_owned(),
            path_bytes: std::str::from_utf8(path).is_err().then(|| path.to_vec()),
            bytes,
        }
    }
}
