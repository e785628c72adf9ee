// SPDX-License-Identifier: GPL-2.0-only
//! The records of global PAX headers, which count for all members behind them.
//!
//! Each member copies the attributes that they name, and a directory keeps its copy to the end of
//! the archive. Hence they are bounded more tightly than the records of one member.

use super::pax::{is_attribute, Keyword, Records};
use std::collections::BTreeMap;

/// Most bytes of all keys and values together. Real archives have some hundred.
pub const MOST: usize = 16 << 10;

#[derive(Default)]
pub struct Globals {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl Globals {
    /// Adds the records of a header, which replace those of earlier ones. Records that no member
    /// uses, such as comments, are dropped. `None`: the others exceed [`MOST`].
    pub fn add(&mut self, header: &Records) -> Option<()> {
        for (key, value) in header.iter() {
            if Keyword::find(key).is_none() && !is_attribute(key) {
                continue;
            }
            if let Some(old) = self.records.remove(key) {
                self.bytes -= key.len() + old.len();
            }
            self.bytes += key.len() + value.len();
            if self.bytes > MOST {
                return None;
            }
            self.records.insert(key.to_vec(), value.to_vec());
        }
        Some(())
    }

    pub fn get(&self, keyword: Keyword) -> Option<&[u8]> {
        let value = self.records.get(keyword.text().as_bytes())?;
        Some(value)
    }

    /// All records: key and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.records
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pax::push;
    use super::*;

    fn header(records: &[(&str, &[u8])]) -> Records {
        let mut bytes = Vec::new();
        for (key, value) in records {
            push(&mut bytes, key.as_bytes(), value);
        }
        Records::parse(bytes).unwrap()
    }

    #[test]
    fn later_headers_count_more() {
        let mut globals = Globals::default();
        let first = header(&[("uid", b"7"), ("gid", b"8"), ("SCHILY.xattr.user.a", b"1")]);
        globals.add(&first).unwrap();
        globals.add(&header(&[("uid", b"9")])).unwrap();
        assert_eq!(globals.get(Keyword::User), Some(b"9".as_slice()));
        assert_eq!(globals.get(Keyword::Group), Some(b"8".as_slice()));
        assert_eq!(globals.get(Keyword::Path), None);
        assert_eq!(globals.iter().count(), 3);
    }

    #[test]
    fn headers_without_end_need_no_more_memory() {
        let mut globals = Globals::default();
        let comment = header(&[("comment", &[b'x'; MOST]), ("uid", b"7")]);
        let value = [b'x'; MOST / 2];
        for _ in 0..1000 {
            globals.add(&comment).unwrap();
            globals
                .add(&header(&[("LIBARCHIVE.xattr.user.a", &value)]))
                .unwrap();
        }
        assert_eq!(globals.iter().count(), 2);
        assert!(globals.bytes <= MOST);
        let other = header(&[("LIBARCHIVE.xattr.user.b", &value)]);
        assert_eq!(globals.add(&other), None);
        assert!(globals.iter().count() <= 3);
    }

    #[test]
    fn small_headers_are_bounded_together() {
        let mut globals = Globals::default();
        let added = (0..MOST)
            .take_while(|number| {
                let key = format!("SCHILY.xattr.user.{number}");
                globals.add(&header(&[(&key, b"")])).is_some()
            })
            .count();
        assert!((500..1000).contains(&added), "{added}");
    }
}
