// SPDX-License-Identifier: GPL-2.0-only
//! The records of PAX extended headers: "LENGTH KEY=VALUE\n", where a value may have any bytes.

use super::sparse::decimal;
use std::ops::Range;

/// Keywords that [`Records::get`] finds without a search.
macro_rules! keywords {
    ($($name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Keyword { $($name),* }

        impl Keyword {
            const COUNT: usize = [$($text),*].len();

            /// As an archive has it.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            pub fn find(key: &[u8]) -> Option<Self> {
                match std::str::from_utf8(key).ok()? {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

keywords! {
    Path = "path",
    LinkPath = "linkpath",
    Size = "size",
    User = "uid",
    Group = "gid",
    Modified = "mtime",
    Accessed = "atime",
    AccessAcl = "SCHILY.acl.access",
    DefaultAcl = "SCHILY.acl.default",
    Label = "RHT.security.selinux",
    SparseName = "GNU.sparse.name",
    SparseRealSize = "GNU.sparse.realsize",
    SparseSize = "GNU.sparse.size",
    SparseMajor = "GNU.sparse.major",
    SparseMap = "GNU.sparse.map",
    SparseBlocks = "GNU.sparse.numblocks",
}

/// Keys of extended attributes begin with one of these.
pub const SCHILY: &[u8] = b"SCHILY.xattr.";
pub const LIBARCHIVE: &[u8] = b"LIBARCHIVE.xattr.";

/// Whether a key names an extended attribute.
pub fn is_attribute(key: &[u8]) -> bool {
    key.starts_with(SCHILY) || key.starts_with(LIBARCHIVE)
}

/// The records of one extended header, in their order.
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    list: Vec<(Range<usize>, Range<usize>)>,
    /// Position in `list` of the last record of each keyword. Its size does not depend on the
    /// header: a header of 8 MiB has up to a million different keys.
    last: [Option<usize>; Keyword::COUNT],
}

impl Records {
    /// Understands the contents of an extended header. `None`: they are not records.
    pub fn parse(bytes: Vec<u8>) -> Option<Self> {
        let mut list = Vec::new();
        let mut last = [None; Keyword::COUNT];
        let mut start = 0;
        while start < bytes.len() {
            // Some programs fill up with zeros.
            if bytes[start..].iter().all(|&byte| byte == 0) {
                break;
            }
            let rest = &bytes[start..];
            let space = rest.iter().take(20).position(|&byte| byte == b' ')?;
            let length = usize::try_from(decimal(&rest[..space])?).ok()?;
            if length < space + 3 || rest.get(length - 1) != Some(&b'\n') {
                return None;
            }
            let equals = rest[space..length].iter().position(|&byte| byte == b'=')?;
            let key = start + space + 1..start + space + equals;
            if let Some(keyword) = Keyword::find(&bytes[key.clone()]) {
                last[keyword as usize] = Some(list.len());
            }
            list.push((key, start + space + equals + 1..start + length - 1));
            start += length;
        }
        Some(Self { bytes, list, last })
    }

    /// All records: key and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = &self.bytes;
        self.list
            .iter()
            .map(|(key, value)| (&bytes[key.clone()], &bytes[value.clone()]))
    }

    /// The last value of a keyword.
    pub fn get(&self, keyword: Keyword) -> Option<&[u8]> {
        let (_, value) = self.list.get(self.last[keyword as usize]?)?;
        self.bytes.get(value.clone())
    }
}

/// Appends a record.
pub fn push(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // The length counts its own digits.
    let content = key.len() + value.len() + 3;
    let mut length = content + 1;
    while length != content + length.to_string().len() {
        length = content + length.to_string().len();
    }
    records.extend_from_slice(length.to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// A time in seconds, with a fraction: seconds and nanoseconds.
pub fn parse_time(text: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = i64::try_from(decimal(whole.as_bytes())?).ok()?;
    let nanoseconds: i64 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

/// The other way round, without zeros that say nothing.
pub fn time_text(seconds: i64, nanoseconds: i64) -> String {
    let (sign, seconds, nanoseconds) = match (seconds < 0, nanoseconds) {
        (false, _) => ("", seconds.unsigned_abs(), nanoseconds),
        (true, 0) => ("-", seconds.unsigned_abs(), 0),
        (true, _) => (
            "-",
            (seconds + 1).unsigned_abs(),
            1_000_000_000 - nanoseconds,
        ),
    };
    let text = format!("{sign}{seconds}.{nanoseconds:09}");
    // There is a dot, so that zeros of the seconds stay.
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn records_have_any_bytes() {
        let mut bytes = Vec::new();
        push(&mut bytes, b"path", b"a\nb=c");
        push(&mut bytes, b"SCHILY.xattr.user.x", b"\n\0\xff 12 a=b\n");
        push(&mut bytes, b"path", &[b'x'; 95]);
        let records = Records::parse(bytes).unwrap();
        assert_eq!(records.iter().count(), 3);
        assert_eq!(records.get(Keyword::Path), Some([b'x'; 95].as_slice()));
        assert_eq!(
            records.iter().nth(1),
            Some((
                b"SCHILY.xattr.user.x".as_slice(),
                b"\n\0\xff 12 a=b\n".as_slice()
            ))
        );
    }

    #[test]
    fn lengths_count_themselves() {
        for size in 0..1100 {
            let mut bytes = Vec::new();
            push(&mut bytes, b"k", &vec![b'v'; size]);
            let digits = bytes.iter().position(|&byte| byte == b' ').unwrap();
            let said: usize = std::str::from_utf8(&bytes[..digits])
                .unwrap()
                .parse()
                .unwrap();
            assert_eq!(said, bytes.len());
        }
    }

    #[test]
    fn lying_records() {
        for bad in [
            "5 a=b\n", "99 a=b\n", "6 a=b", "0 a=b\n", "3 a=b\n", "x a=b\n", "6 abb\n", "-6 a=b\n",
            "+7 a=b\n", "6x a=b\n",
        ] {
            assert!(Records::parse(bad.into()).is_none(), "{bad}");
        }
        assert!(Records::parse(b"18446744073709551615 a=b\n".to_vec()).is_none());
        assert_eq!(
            Records::parse(b"8 uid=7\n\0\0".to_vec())
                .unwrap()
                .get(Keyword::User),
            Some(b"7".as_slice())
        );
    }

    /// Ratio of two times, so that the speed of the machine does not matter.
    #[test]
    fn finding_does_not_depend_on_the_number_of_records() {
        let bytes = [b"8 uid=7\n".as_slice(), &b"6 a=b\n".repeat(1 << 20)].concat();
        let start = Instant::now();
        let records = Records::parse(bytes).unwrap();
        let parsing = start.elapsed();
        let start = Instant::now();
        for _ in 0..1000 {
            assert_eq!(
                black_box(&records).get(Keyword::User),
                Some(b"7".as_slice())
            );
            assert_eq!(black_box(&records).get(Keyword::Path), None);
        }
        let finding = start.elapsed();
        assert!(finding < parsing, "{finding:?} after {parsing:?}");
    }

    #[test]
    fn times() {
        for (text, time) in [
            ("1350244992.02396", (1_350_244_992, 23_960_000)),
            ("5", (5, 0)),
            ("-1.5", (-2, 500_000_000)),
            ("-3", (-3, 0)),
            ("9999999999.123456789", (9_999_999_999, 123_456_789)),
        ] {
            assert_eq!(parse_time(text.as_bytes()), Some(time), "{text}");
            assert_eq!(time_text(time.0, time.1), text);
        }
        assert_eq!(parse_time(b"1.1234567899"), Some((1, 123_456_789)));
        for bad in [
            "",
            "x",
            "1.x",
            "--1",
            "+1",
            "-+1",
            "1 ",
            "1.5x",
            "1.5.5",
            "99999999999999999999",
        ] {
            assert_eq!(parse_time(bad.as_bytes()), None, "{bad}");
        }
    }
}
