// SPDX-License-Identifier: GPL-2.0-only
//! The records that getdents64 leaves in a buffer.

use std::ffi::CStr;

/// One name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct RawEntry<'a> {
    /// Number of the inode.
    pub inode: u64,
    /// The position after it in the directory, for seeking.
    pub next: i64,
    /// `DT_*`; `DT_UNKNOWN` where the file system does not say.
    pub kind: u8,
    /// Name in the directory.
    pub name: &'a CStr,
}

/// Goes through the records of one getdents64, without `.` and `..` if not asked for.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    dots: bool,
}

/// The offset of the name in a record: after inode, offset, length and kind.
const NAME: usize = 8 + 8 + 2 + 1;

impl<'a> Entries<'a> {
    pub(crate) fn new(records: &'a [u8]) -> Self {
        Self {
            rest: records,
            dots: false,
        }
    }

    /// With `.` and `..`.
    pub fn with_dots(self) -> Self {
        Self { dots: true, ..self }
    }

    /// How many bytes of records there still are.
    pub fn bytes(&self) -> usize {
        self.rest.len()
    }

    fn record(&mut self) -> Option<RawEntry<'a>> {
        let inode = u64::from_ne_bytes(*self.rest.first_chunk()?);
        let next = i64::from_ne_bytes(*self.rest.get(8..)?.first_chunk()?);
        let length = u16::from_ne_bytes(*self.rest.get(16..)?.first_chunk()?) as usize;
        let record = self.rest.get(..length)?;
        self.rest = &self.rest[length..];
        Some(RawEntry {
            inode,
            next,
            kind: *record.get(NAME - 1)?,
            name: CStr::from_bytes_until_nul(record.get(NAME..)?).ok()?,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = RawEntry<'a>;

    fn next(&mut self) -> Option<RawEntry<'a>> {
        loop {
            let entry = self.record()?;
            if self.dots || !matches!(entry.name.to_bytes(), b"." | b"..") {
                return Some(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &[u8]) -> Vec<u8> {
        let length = (NAME + name.len() + 1).next_multiple_of(8);
        let mut record = vec![0; length];
        record[..8].copy_from_slice(&7u64.to_ne_bytes());
        record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        record[18] = libc::DT_REG;
        record[NAME..NAME + name.len()].copy_from_slice(name);
        record
    }

    #[test]
    fn names_without_dots() {
        let records: Vec<u8> = [b".".as_slice(), b"..", b"a", b"\xff long name"]
            .iter()
            .flat_map(|name| record(name))
            .collect();
        let names: Vec<&[u8]> = Entries::new(&records)
            .map(|entry| entry.name.to_bytes())
            .collect();
        assert_eq!(names, [b"a".as_slice(), b"\xff long name"]);
    }

    #[test]
    fn cut_records_end_the_iteration() {
        let records = record(b"name");
        for length in 0..records.len() {
            assert_eq!(Entries::new(&records[..length]).count(), 0);
        }
    }
}
