// SPDX-License-Identifier: GPL-2.0-only
//! Parts of files that Linux's drivers do not show, so that no copy has them.
//!
//! | file system | part | found in |
//! |---|---|---|
//! | NTFS | streams, reparse points, contents elsewhere | the file's record on the block device |
//! | HFS+ | compressed contents, resource forks | the catalog on the block device |
//! | ext4, f2fs, UBIFS | names and links that are encrypted | an attribute of the file |
//! | 9p | an end that the server says there is, and does not have | a read past the page cache |

use outboard::image::hfsplus::{hidden_forks, HiddenForks};
use outboard::image::ntfs::{FileTable, HiddenParts};
use outboard::{errno, explained, file_system_type, DeviceSource, Fd, System};
use outboard_error::format::escaped;
use outboard_error::reason;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// The kind of NTFS, as statfs(2) returns it.
const NTFS: i64 = 0x7366_746e;
/// STATX_ATTR_ENCRYPTED.
const ENCRYPTED: u64 = 0x800;
/// Most streams that a message names.
const NAMED: usize = 3;
const DAMAGED: &str = "damaged";

/// The metadata of a mounted file system that has such parts.
enum Metadata {
    Ntfs(DeviceSource, FileTable),
    HfsPlus(BTreeMap<u32, HiddenForks>),
    /// A server of 9p has them.
    Served,
    /// They cannot be read, for this reason.
    Unreadable(String),
}

/// A mounted file system: its kernel and device.
type MountedOn = (System, u64);

/// Finds hidden parts. Keeps the metadata of all file systems that it has looked at.
#[derive(Default)]
pub struct HiddenFinder {
    /// `None`: the file system has no such parts.
    known: RwLock<HashMap<MountedOn, Option<Arc<Metadata>>>>,
}

impl HiddenFinder {
    /// The hidden parts of a file in words; `None`: there are none. `near`: a file of the same file
    /// system. An error: the contents themselves are hidden.
    pub fn find(&self, near: &Fd, stat: &libc::stat) -> io::Result<Option<String>> {
        if near.system().is_host() {
            return Ok(None);
        }
        let Some(metadata) = self.metadata(near, stat.st_dev)? else {
            return Ok(None);
        };
        let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        match &*metadata {
            Metadata::Ntfs(source, table) => match table.hidden_parts(source, stat.st_ino) {
                Ok(Some(parts)) if parts.contents_elsewhere && is_file && stat.st_size > 0 => {
                    let tag = parts.reparse_tag.unwrap_or(0);
                    Err(io::Error::other(format!(
                        "its contents are not in the image (reparse point {tag:#010x}), and Linux \
                         reads zeros"
                    )))
                }
                Ok(Some(parts)) => Ok(in_words(&parts)),
                Ok(None) => Ok(Some(unreadable("record", DAMAGED))),
                Err(error) => Ok(Some(unreadable("record", &reason(&error)))),
            },
            Metadata::HfsPlus(files) => {
                let number = u32::try_from(stat.st_ino).unwrap_or(0);
                let forks = files.get(&number).copied().unwrap_or_default();
                if forks.compressed && is_file {
                    return Err(io::Error::other(
                        "macOS has compressed its contents, which Linux cannot read",
                    ));
                }
                Ok(forks.resource.then(|| "its resource fork".to_owned()))
            }
            Metadata::Served if is_file => check_end(near, stat.st_size).map(|()| None),
            Metadata::Served => Ok(None),
            Metadata::Unreadable(why) => Ok(Some(unreadable("metadata", why))),
        }
    }

    fn metadata(&self, near: &Fd, device: u64) -> io::Result<Option<Arc<Metadata>>> {
        let key = (near.system().clone(), device);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return Ok(found.clone());
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let found = match file_system_type(near.system(), device)?.as_deref() {
            Some("9p") => Some(Metadata::Served),
            Some(kind @ ("ntfs" | "ntfs3" | "hfsplus")) => Some(read(near, kind)?),
            _ => None,
        };
        let found = found.map(Arc::new);
        known.insert(key, found.clone());
        Ok(found)
    }
}

fn read(near: &Fd, kind: &str) -> io::Result<Metadata> {
    let source = DeviceSource::under(near)?;
    let found = match kind {
        "hfsplus" => hidden_forks(&source).map(|found| found.map(Metadata::HfsPlus)),
        _ => FileTable::open(&source).map(|found| found.map(|table| Metadata::Ntfs(source, table))),
    };
    Ok(match found {
        Ok(Some(metadata)) => metadata,
        Ok(None) => Metadata::Unreadable(DAMAGED.to_owned()),
        Err(error) => Metadata::Unreadable(reason(&error)),
    })
}

/// An error if the server has less of a file than it says: Linux's client reads zeros there.
fn check_end(file: &Fd, size: i64) -> io::Result<()> {
    let Some(last) = u64::try_from(size)
        .ok()
        .and_then(|size| size.checked_sub(1))
    else {
        return Ok(());
    };
    // Other errors of reading are those of the reads that follow.
    if file.set_direct(true).is_err() {
        return Ok(());
    }
    let read = file.read_at(&mut [0], last);
    file.set_direct(false)?;
    if read.is_err_and(|error| errno(&error) == Some(libc::ENODATA)) {
        Err(io::Error::other(format!(
            "the server says that it has {size} bytes, and does not have all of them: byte {last} \
             cannot be read"
        )))
    } else {
        Ok(())
    }
}

fn unreadable(what: &str, why: &str) -> String {
    format!("its {what} cannot be read: {why}")
}

fn in_words(parts: &HiddenParts) -> Option<String> {
    let mut words = Vec::new();
    let names = parts.streams.iter().take(NAMED);
    words.extend(names.map(|name| format!("stream {}", escaped(name.as_bytes()))));
    if parts.streams.len() > NAMED {
        words.push(format!("{} more streams", parts.streams.len() - NAMED));
    }
    if let Some(tag) = parts.reparse_tag {
        words.push(format!("reparse point {tag:#010x}"));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// An error if the names in a directory, or the target of a symbolic link, are encrypted: this
/// program has no keys for that, and Linux shows text that stands for them. `name`: in the
/// directory `near`, or empty for itself.
pub fn check_key(near: &Fd, name: &CStr) -> io::Result<()> {
    if near.system().is_host() {
        return Ok(());
    }
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    let found = near.statx_at(name, flags)?;
    // Files that Windows has encrypted have plain names, and Linux refuses to read them.
    if found.stx_attributes & ENCRYPTED == 0 || near.statfs()?.kind == NTFS {
        return Ok(());
    }
    let text = "it is encrypted (fscrypt), and the key is missing";
    Err(explained(io::Error::from_raw_os_error(libc::ENOKEY), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_words() {
        let mut parts = HiddenParts::default();
        assert_eq!(in_words(&parts), None);
        parts.streams = ["a", "b", "c\n", "d", "e"].map(str::to_owned).to_vec();
        parts.reparse_tag = Some(0x9000_001a);
        let text = "stream a, stream b, stream c\\n, 2 more streams, reparse point 0x9000001a";
        assert_eq!(in_words(&parts).unwrap(), text);
    }
}
