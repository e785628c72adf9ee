// SPDX-License-Identifier: GPL-2.0-only
//! The headers of a new member: ustar, preceded by a PAX header for values that do not fit.

use super::acl;
use super::header::padding;
use super::pax::{push, time_text};
use super::sparse::Map;
use ::tar::{EntryType, Header};
use std::ffi::CString;

/// Sizes of the fields of a header.
const NAME: usize = 100;
const PREFIX: usize = 155;
/// The largest numbers of seven and eleven octal digits.
const SHORT: u64 = 0o7777777;
const LONG: u64 = 0o77777777777;

/// A file to write to an archive.
pub struct ArchiveEntry<'a> {
    /// Ends with a slash for a directory.
    pub path: &'a [u8],
    pub stat: &'a libc::stat,
    /// The text of a symbolic link, or the member that this hard link refers to.
    pub target: &'a [u8],
    /// It is a hard link to an earlier member.
    pub link: bool,
    pub xattrs: &'a [(CString, Vec<u8>)],
    /// `None`: no holes, or no bytes at all.
    pub map: Option<&'a Map>,
}

impl ArchiveEntry<'_> {
    fn kind(&self) -> EntryType {
        match self.stat.st_mode & libc::S_IFMT {
            _ if self.link => EntryType::Link,
            libc::S_IFDIR => EntryType::Directory,
            libc::S_IFLNK => EntryType::Symlink,
            libc::S_IFCHR => EntryType::Char,
            libc::S_IFBLK => EntryType::Block,
            libc::S_IFIFO => EntryType::Fifo,
            _ => EntryType::Regular,
        }
    }

    /// Bytes of the member in the archive, with the map of its holes, without the padding of its
    /// last block.
    pub fn stored(&self) -> u64 {
        match (self.kind(), self.map) {
            (EntryType::Regular, Some(map)) => map.text().len() as u64 + map.data(),
            (EntryType::Regular, None) => self.stat.st_size.max(0) as u64,
            _ => 0,
        }
    }

    /// All headers in front of its bytes.
    pub fn headers(&self) -> Vec<u8> {
        let mut header = Header::new_ustar();
        let records = self.fill(&mut header);
        header.set_cksum();
        let mut bytes = Vec::with_capacity(2048);
        if !records.is_empty() {
            extended(&mut bytes, self.path, &records);
        }
        bytes.extend_from_slice(header.as_bytes());
        if let (EntryType::Regular, Some(map)) = (self.kind(), self.map) {
            bytes.extend(map.text());
        }
        bytes
    }

    /// Fills in a header. Returns PAX records for values that do not fit.
    fn fill(&self, header: &mut Header) -> Vec<u8> {
        let mut records = Vec::new();
        self.fill_names(header, &mut records);
        let stat = self.stat;
        header.set_entry_type(self.kind());
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(u64::from(stat.st_uid).min(SHORT));
        header.set_gid(u64::from(stat.st_gid).min(SHORT));
        for (key, id) in [("uid", stat.st_uid), ("gid", stat.st_gid)] {
            if u64::from(id) > SHORT {
                push(&mut records, key.as_bytes(), id.to_string().as_bytes());
            }
        }
        let stored = self.stored();
        header.set_size(stored);
        if stored > LONG {
            push(&mut records, b"size", stored.to_string().as_bytes());
        }
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        header.set_mtime(seconds.min(LONG));
        if stat.st_mtime_nsec != 0 || stat.st_mtime < 0 || seconds > LONG {
            let text = time_text(stat.st_mtime, stat.st_mtime_nsec);
            push(&mut records, b"mtime", text.as_bytes());
        }
        let device = matches!(self.kind(), EntryType::Char | EntryType::Block);
        let (major, minor) = if device {
            (libc::major(stat.st_rdev), libc::minor(stat.st_rdev))
        } else {
            (0, 0)
        };
        // A ustar header has these fields.
        let _ = header.set_device_major(major);
        let _ = header.set_device_minor(minor);
        if !self.link {
            self.add_xattrs(&mut records);
        }
        records
    }

    fn fill_names(&self, header: &mut Header, records: &mut Vec<u8>) {
        let sparse = match (self.kind(), self.map) {
            (EntryType::Regular, Some(map)) => Some(map),
            _ => None,
        };
        let short = short_name(self.path);
        if std::str::from_utf8(self.path).is_err() || std::str::from_utf8(self.target).is_err() {
            // Readers must not decode these names as UTF-8.
            if short.is_none() || self.target.len() > NAME || sparse.is_some() {
                push(records, b"hdrcharset", b"BINARY");
            }
        }
        if let Some(map) = sparse {
            push(records, b"GNU.sparse.major", b"1");
            push(records, b"GNU.sparse.minor", b"0");
            push(records, b"GNU.sparse.name", self.path);
            push(
                records,
                b"GNU.sparse.realsize",
                map.size.to_string().as_bytes(),
            );
        }
        let stand_in;
        let (prefix, name) = match (sparse, short) {
            (Some(_), _) => {
                stand_in = below(b"GNUSparseFile.0/", self.path);
                (&b""[..], stand_in.as_slice())
            }
            (None, Some(parts)) => parts,
            (None, None) => {
                push(records, b"path", self.path);
                (&b""[..], &self.path[..NAME])
            }
        };
        if self.target.len() > NAME {
            push(records, b"linkpath", self.target);
        }
        if let Some(ustar) = header.as_ustar_mut() {
            ustar.name[..name.len()].copy_from_slice(name);
            ustar.prefix[..prefix.len()].copy_from_slice(prefix);
            let target = &self.target[..self.target.len().min(NAME)];
            ustar.linkname[..target.len()].copy_from_slice(target);
        }
    }

    /// Writes access lists as text, which all programs read, and labels also in the way of GNU tar.
    fn add_xattrs(&self, records: &mut Vec<u8>) {
        for (name, value) in self.xattrs {
            let list = match name.to_bytes() {
                b"system.posix_acl_access" => Some("SCHILY.acl.access"),
                b"system.posix_acl_default" => Some("SCHILY.acl.default"),
                _ => None,
            };
            if let Some((key, text)) = list.zip(acl::to_text(value)) {
                push(records, key.as_bytes(), text.as_bytes());
                continue;
            }
            if name.to_bytes() == b"security.selinux" {
                let label = value.strip_suffix(b"\0").unwrap_or(value);
                push(records, b"RHT.security.selinux", label);
            }
            let key = [b"SCHILY.xattr.", escaped(name.to_bytes()).as_slice()].concat();
            push(records, &key, value);
        }
    }
}

/// Escapes the name of an attribute for a key: "=" would end the key.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'=' => text.extend(b"%3D"),
            b'%' => text.extend(b"%25"),
            _ => text.push(byte),
        }
    }
    text
}

/// Splits a path into prefix and name of a header, if it fits.
fn short_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= NAME {
        return Some((b"", path));
    }
    let inner = &path[..path.len() - 1];
    inner
        .iter()
        .enumerate()
        .filter(|(_, &byte)| byte == b'/')
        .map(|(slash, _)| (&path[..slash], &path[slash + 1..]))
        .find(|(prefix, name)| name.len() <= NAME && !prefix.is_empty() && prefix.len() <= PREFIX)
}

/// A name for programs that ignore the PAX header.
fn below(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut name = [directory, last].concat();
    name.truncate(NAME);
    name
}

fn extended(bytes: &mut Vec<u8>, path: &[u8], records: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::XHeader);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(records.len() as u64);
    let name = below(b"PaxHeaders/", path);
    if let Some(ustar) = header.as_ustar_mut() {
        ustar.name[..name.len()].copy_from_slice(&name);
    }
    header.set_cksum();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(records);
    bytes.resize(bytes.len() + padding(records.len() as u64) as usize, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit() {
        let long = ["d".repeat(90), "e".repeat(60), "f".repeat(90)].join("/");
        let (prefix, name) = short_name(long.as_bytes()).unwrap();
        assert_eq!(name, "f".repeat(90).as_bytes());
        assert_eq!(prefix.len(), 151);
        assert_eq!(short_name("x".repeat(101).as_bytes()), None);
        assert_eq!(
            short_name(["x".repeat(100), "/".into()].concat().as_bytes()),
            None
        );
        assert_eq!(short_name(b"./a"), Some((&b""[..], &b"./a"[..])));
    }
}
