// SPDX-License-Identifier: GPL-2.0-only
//! Files as JSON.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use outboard_transfer::accounts::Accounts;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::CStr;

/// Bytes that are text as a rule: as the member `name` and, where they are not UTF-8, exactly as
/// the member `name` + "_base64".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes<'a> {
    name: &'static str,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Bytes<'a> {
    pub fn new(name: &'static str, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        let bytes = bytes.into();
        Self { name, bytes }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &text)?;
        if matches!(text, Cow::Owned(_)) {
            let exact = STANDARD.encode(&self.bytes);
            map.serialize_entry(&format!("{}_base64", self.name), &exact)?;
        }
        map.end()
    }
}

/// Nanoseconds since 1970. `i64` ends in the year 2262.
pub fn nanoseconds(seconds: i64, part: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(part)
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

/// Number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl DeviceNumber {
    pub fn new(number: u64) -> Self {
        Self {
            major: libc::major(number),
            minor: libc::minor(number),
        }
    }
}

/// Owner and group of a file.
#[derive(Serialize)]
pub struct Ownership<'a> {
    uid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
}

impl<'a> Ownership<'a> {
    pub fn new(stat: &libc::stat, accounts: &'a Accounts) -> Self {
        Self {
            uid: stat.st_uid,
            user: accounts.users.known(stat.st_uid),
            gid: stat.st_gid,
            group: accounts.groups.known(stat.st_gid),
        }
    }
}

/// All that is known of a file.
#[derive(Serialize)]
pub struct FileRecord<'a> {
    #[serde(flatten)]
    path: Bytes<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The 12 bits of permissions.
    mode: u32,
    #[serde(flatten)]
    owner: Ownership<'a>,
    size: i64,
    /// Bytes.
    allocated: i64,
    block_size: i64,
    inode: u64,
    links: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceNumber>,
    accessed: i128,
    modified: i128,
    changed: i128,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<i128>,
    #[serde(flatten)]
    target: Option<Bytes<'a>>,
    /// Whether it has an access control list, if that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_list: Option<bool>,
}

impl<'a> FileRecord<'a> {
    pub fn new(
        path: impl Into<Cow<'a, [u8]>>,
        stat: &libc::stat,
        target: Option<&'a CStr>,
        accounts: &'a Accounts,
    ) -> Self {
        let is_device = matches!(stat.st_mode & libc::S_IFMT, libc::S_IFBLK | libc::S_IFCHR);
        Self {
            path: Bytes::new("path", path),
            kind: kind(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            owner: Ownership::new(stat, accounts),
            size: stat.st_size,
            allocated: stat.st_blocks.saturating_mul(512),
            block_size: stat.st_blksize,
            inode: stat.st_ino,
            links: stat.st_nlink,
            device: is_device.then(|| DeviceNumber::new(stat.st_rdev)),
            accessed: nanoseconds(stat.st_atime, stat.st_atime_nsec),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            created: None,
            target: target.map(|target| Bytes::new("target", target.to_bytes())),
            access_list: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_bytes() {
        let json = |bytes: &'static [u8]| serde_json::to_string(&Bytes::new("path", bytes));
        assert_eq!(json(b"a\xc3\xa9").unwrap(), "{\"path\":\"a\u{e9}\"}");
        // A name that really has the replacement character is not mistaken for another one.
        assert_eq!(
            json("\u{fffd}".as_bytes()).unwrap(),
            "{\"path\":\"\u{fffd}\"}"
        );
        let expected = "{\"path\":\"\u{fffd}\",\"path_base64\":\"/w==\"}";
        assert_eq!(json(b"\xff").unwrap(), expected);
    }

    #[test]
    fn times_that_64_bits_do_not_hold() {
        assert_eq!(nanoseconds(-1, 5), -999_999_995);
        let last = nanoseconds(i64::MAX, 999_999_999);
        assert_eq!(last.to_string(), "9223372036854775807999999999");
    }
}
