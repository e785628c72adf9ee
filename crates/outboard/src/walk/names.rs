// SPDX-License-Identifier: GPL-2.0-only
//! The names of a directory, in the order in which a walk goes through them.

use super::stop::Stop;
use crate::directory::Listing;
use crate::Fd;
use outboard_sys::libc;
use std::ffi::CStr;
use std::io;

/// Names with their kinds, one after the other in one piece of memory: the byte of the kind, the
/// name, a NUL.
#[derive(Default)]
pub struct DirectoryNames {
    records: Vec<u8>,
    /// The offset of the record that the walk is at.
    current: usize,
    /// The offset of the one after it.
    next: usize,
}

/// Bytes of the record of a name.
fn record_length(name: &CStr) -> usize {
    1 + name.to_bytes_with_nul().len()
}

impl DirectoryNames {
    /// Adds a name at the end. `kind`: `S_IF*`, or 0 if it is not known.
    pub fn push(&mut self, name: &CStr, kind: u32) {
        self.records.push((kind >> 12) as u8);
        self.records.extend_from_slice(name.to_bytes_with_nul());
    }

    /// The names that the walk has not reached, with their kinds (`S_IF*`; 0: not known).
    pub fn iter(&self) -> impl Iterator<Item = (&CStr, u32)> + '_ {
        let mut next = self.next;
        std::iter::from_fn(move || {
            let record = self.at(next)?;
            next += record_length(record.0);
            Some(record)
        })
    }

    /// Drops the names that the walk has not reached and for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&CStr, u32) -> bool) {
        let (mut next, mut end) = (self.next, self.next);
        while let Some((name, kind)) = self.at(next) {
            let after = next + record_length(name);
            if keep(name, kind) {
                self.records.copy_within(next..after, end);
                end += after - next;
            }
            next = after;
        }
        self.records.truncate(end);
    }

    /// Sorts the names by their bytes. For names of which the walk has reached none.
    pub fn sort(&mut self) {
        let mut names: Vec<(&CStr, u32)> = self.iter().collect();
        names.sort_unstable_by_key(|record| record.0);
        let mut sorted = Self::default();
        sorted.records.reserve(self.records.len());
        for (name, kind) in names {
            sorted.push(name, kind);
        }
        *self = sorted;
    }

    /// Whether the walk has reached all names.
    pub fn is_empty(&self) -> bool {
        self.next >= self.records.len()
    }

    /// Drops all names.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds what is in a directory, up to its end, or until the walk is to stop.
    pub(super) fn read(
        &mut self,
        directory: &Fd,
        buffer: &mut [u8],
        stop: &dyn Stop,
    ) -> io::Result<()> {
        let mut listing = Listing::default();
        while let Some(entries) = listing.next(directory, buffer)? {
            if stop.asked() {
                break;
            }
            for entry in entries {
                let kind = match entry.kind {
                    libc::DT_UNKNOWN => directory
                        .stat_at(entry.name, libc::AT_SYMLINK_NOFOLLOW)
                        .map_or(0, |stat| stat.st_mode & libc::S_IFMT),
                    kind => u32::from(kind) << 12,
                };
                self.push(entry.name, kind);
            }
        }
        Ok(())
    }

    /// Goes on to the next name, if there is one.
    pub(super) fn advance(&mut self) -> bool {
        let Some((name, _)) = self.at(self.next) else {
            return false;
        };
        let length = record_length(name);
        self.current = self.next;
        self.next += length;
        true
    }

    /// The name that the walk is at.
    pub(super) fn name(&self) -> &CStr {
        self.at(self.current).map_or(c"", |(name, _)| name)
    }

    /// The kind of the file that the walk is at.
    pub(super) fn kind(&self) -> u32 {
        self.at(self.current).map_or(0, |(_, kind)| kind)
    }

    /// Whether no name follows.
    pub(super) fn at_last(&self) -> bool {
        self.next >= self.records.len()
    }

    fn at(&self, start: usize) -> Option<(&CStr, u32)> {
        let (kind, rest) = self.records.get(start..)?.split_first()?;
        let name = CStr::from_bytes_until_nul(rest).ok()?;
        Some((name, u32::from(*kind) << 12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&CStr, u32)]) -> DirectoryNames {
        let mut names = DirectoryNames::default();
        for (name, kind) in all {
            names.push(name, *kind);
        }
        names
    }

    fn texts(names: &DirectoryNames) -> Vec<&str> {
        names
            .iter()
            .map(|(name, _)| name.to_str().unwrap())
            .collect()
    }

    #[test]
    fn names_are_sorted_and_dropped() {
        let mut names = names(&[
            (c"bb", libc::S_IFDIR),
            (c"c", libc::S_IFREG),
            (c"", libc::S_IFDIR),
            (c"a", libc::S_IFLNK),
        ]);
        names.retain(|name, kind| !name.is_empty() && kind != libc::S_IFREG);
        assert_eq!(texts(&names), ["bb", "a"]);
        names.sort();
        assert_eq!(texts(&names), ["a", "bb"]);
        assert!(names.advance() && !names.at_last());
        assert_eq!((names.name(), names.kind()), (c"a", libc::S_IFLNK));
        names.retain(|_, _| false);
        assert!(names.at_last() && !names.advance());
        assert_eq!(names.name(), c"a");
    }
}
