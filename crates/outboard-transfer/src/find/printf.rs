// SPDX-License-Identifier: GPL-2.0-only
//! The format of `-printf`, as GNU find has it. Owners are numbers, and times UTC, as everywhere in
//! this program.

use crate::mode::mode_letters;
use crate::moment::utc;
use crate::operand::shown_name;
use outboard_error::format::escaped;
use std::ffi::CString;

/// Columns that a field may have.
const WIDEST: usize = 1000;

/// The facts of a file that formats need.
pub struct Facts<'a> {
    /// As the user would write it.
    pub path: &'a [u8],
    /// Bytes of `path` that are the place where the search began.
    pub start: usize,
    pub depth: usize,
    pub stat: libc::stat,
    pub target: Option<CString>,
    pub terminal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Field {
        letter: u8,
        left: bool,
        zeros: bool,
        width: usize,
    },
    /// One part of a time: which time, and which part.
    Time {
        which: u8,
        part: u8,
    },
    /// Nothing more comes.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintfFormat(Vec<Piece>);

/// Letters after "%" that stand for something of a file.
const FIELDS: &[u8] = b"pPfhHdsbkmMniDUGugyltac";
/// Letters of times after "%T", "%A" and "%C".
const PARTS: &[u8] = b"@+YmdHMSFT";

impl PrintfFormat {
    /// Understands a format, or says what of it is unknown.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            let piece = match first {
                b'%' => field(&mut rest)?,
                b'\\' => escape(&mut rest)?,
                other => Piece::Text(vec![other]),
            };
            match (pieces.last_mut(), piece) {
                (Some(Piece::Text(last)), Piece::Text(more)) => last.extend(more),
                (_, piece) => pieces.push(piece),
            }
        }
        Ok(Self(pieces))
    }

    pub fn line(&self, facts: &Facts) -> Vec<u8> {
        let mut line = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text),
                Piece::Stop => break,
                Piece::Time { which, part } => line.extend(time(&facts.stat, *which, *part)),
                Piece::Field {
                    letter,
                    left,
                    zeros,
                    width,
                } => {
                    let value = value(facts, *letter);
                    let gap = width.saturating_sub(value.len());
                    // To GNU find all others are strings.
                    let number = matches!(letter, b'd' | b'm');
                    let fill = if number && *zeros && !left {
                        b'0'
                    } else {
                        b' '
                    };
                    let gap = std::iter::repeat_n(fill, gap);
                    if *left {
                        line.extend(value.into_iter().chain(gap));
                    } else {
                        line.extend(gap.chain(value));
                    }
                }
            }
        }
        line
    }
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

/// Parses the part after a "%".
fn field(rest: &mut &[u8]) -> Result<Piece, String> {
    let (mut left, mut zeros, mut width) = (false, false, 0usize);
    loop {
        let letter = next(rest).ok_or("the \"%\" at its end has no letter")?;
        match letter {
            b'%' => return Ok(Piece::Text(vec![b'%'])),
            b'-' => left = true,
            b'0' if width == 0 => zeros = true,
            b'0'..=b'9' => width = (width * 10 + usize::from(letter - b'0')).min(WIDEST),
            b'T' | b'A' | b'C' => {
                let part = next(rest).filter(|part| PARTS.contains(part));
                return match part {
                    Some(part) => Ok(Piece::Time {
                        which: letter,
                        part,
                    }),
                    None => Err(unknown(&format!("%{}", letter as char), PARTS)),
                };
            }
            _ if FIELDS.contains(&letter) => {
                return Ok(Piece::Field {
                    letter,
                    left,
                    zeros,
                    width,
                })
            }
            _ => return Err(unknown("%", FIELDS)),
        }
    }
}

fn unknown(before: &str, letters: &[u8]) -> String {
    let known = String::from_utf8_lossy(letters);
    format!("a letter after \"{before}\" is none of {known}")
}

/// Parses the part after a backslash.
fn escape(rest: &mut &[u8]) -> Result<Piece, String> {
    let byte = match next(rest).ok_or("the backslash at its end escapes nothing")? {
        b'a' => 7,
        b'b' => 8,
        b'c' => return Ok(Piece::Stop),
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        first @ b'0'..=b'7' => {
            let mut number = u32::from(first - b'0');
            for _ in 0..2 {
                if let Some((&digit @ b'0'..=b'7', after)) = rest.split_first() {
                    number = number * 8 + u32::from(digit - b'0');
                    *rest = after;
                }
            }
            u8::try_from(number).map_err(|_| "an octal number is larger than a byte")?
        }
        other => {
            let shown = escaped(&[other]);
            return Err(format!("\"\\{shown}\" is unknown"));
        }
    };
    Ok(Piece::Text(vec![byte]))
}

/// A path's part before its last "/", and that after it. A path that ends with "/" is a root.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) if at + 1 < path.len() => (&path[..at], &path[at + 1..]),
        _ => (path, path),
    }
}

fn letter_of(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => "d",
        libc::S_IFLNK => "l",
        libc::S_IFREG => "f",
        libc::S_IFIFO => "p",
        libc::S_IFSOCK => "s",
        libc::S_IFBLK => "b",
        libc::S_IFCHR => "c",
        _ => "U",
    }
}

/// The room that a file takes on the disk.
pub fn kilobytes(stat: &libc::stat) -> u64 {
    (stat.st_blocks.max(0) as u64).div_ceil(2)
}

fn value(facts: &Facts, letter: u8) -> Vec<u8> {
    let name = |bytes: &[u8]| shown_name(bytes, facts.terminal);
    let (stat, path) = (&facts.stat, facts.path);
    let text = match letter {
        b'p' => return name(path),
        b'P' => {
            let below = &path[facts.start.min(path.len())..];
            return name(below.strip_prefix(b"/").unwrap_or(below));
        }
        b'f' => return name(split(path).1),
        b'h' => return name(split(path).0),
        b'H' => return name(&path[..facts.start.min(path.len())]),
        b'l' => {
            let target = facts.target.as_ref().map(|target| target.to_bytes());
            return name(target.unwrap_or_default());
        }
        b'd' => facts.depth.to_string(),
        b's' => stat.st_size.to_string(),
        b'b' => stat.st_blocks.to_string(),
        b'k' => kilobytes(stat).to_string(),
        b'm' => format!("{:o}", stat.st_mode & 0o7777),
        b'M' => mode_letters(stat.st_mode),
        b'n' => stat.st_nlink.to_string(),
        b'i' => stat.st_ino.to_string(),
        b'D' => stat.st_dev.to_string(),
        b'u' | b'U' => stat.st_uid.to_string(),
        b'g' | b'G' => stat.st_gid.to_string(),
        b'y' => letter_of(stat.st_mode).to_owned(),
        b't' => return date(stat, b'T'),
        b'a' => return date(stat, b'A'),
        _ => return date(stat, b'C'),
    };
    text.into_bytes()
}

/// A time of a file: seconds and fraction. GNU find has ten digits, the last of them always 0.
fn time_of(stat: &libc::stat, which: u8) -> (i64, String) {
    let (seconds, nanoseconds) = match which {
        b'A' => (stat.st_atime, stat.st_atime_nsec),
        b'C' => (stat.st_ctime, stat.st_ctime_nsec),
        _ => (stat.st_mtime, stat.st_mtime_nsec),
    };
    (seconds, format!("{nanoseconds:09}0"))
}

/// A time in the format of ctime(3), with a fraction.
fn date(stat: &libc::stat, which: u8) -> Vec<u8> {
    let (seconds, fraction) = time_of(stat, which);
    let (year, time) = utc(seconds);
    let time = time.strftime("%a %b %e %H:%M:%S");
    format!("{time}.{fraction} {year}").into_bytes()
}

/// A part of a file's time.
fn time(stat: &libc::stat, which: u8, part: u8) -> Vec<u8> {
    let (seconds, fraction) = time_of(stat, which);
    let (year, time) = utc(seconds);
    let shown = |format| time.strftime(format).to_string();
    let text = match part {
        b'@' => format!("{seconds}.{fraction}"),
        b'Y' => year.to_string(),
        b'm' => shown("%m"),
        b'd' => shown("%d"),
        b'H' => shown("%H"),
        b'M' => shown("%M"),
        b'S' => format!("{}.{fraction}", shown("%S")),
        b'F' => format!("{year}-{}", shown("%m-%d")),
        b'T' => format!("{}.{fraction}", shown("%H:%M:%S")),
        _ => format!("{year}-{}.{fraction}", shown("%m-%d+%H:%M:%S")),
    };
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;

    fn line(format: &str) -> String {
        let root = HostTree.open_fd("/".as_ref(), libc::O_PATH, 0);
        let mut stat = root.unwrap().stat().unwrap();
        (stat.st_mode, stat.st_size, stat.st_uid) = (libc::S_IFREG | 0o4755, 12, 1000);
        (stat.st_mtime, stat.st_mtime_nsec) = (1_000_000_000, 5);
        let facts = Facts {
            path: b"d.img:/etc/a b",
            start: 10,
            depth: 1,
            stat,
            target: None,
            terminal: false,
        };
        let line = PrintfFormat::parse(format.as_bytes()).unwrap().line(&facts);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn lines() {
        for (format, expected) in [
            ("%p\\n", "d.img:/etc/a b\n"),
            ("%P|%f|%h|%H", "a b|a b|d.img:/etc|d.img:/etc"),
            ("%m %M %U %y %d", "4755 -rwsr-xr-x 1000 f 1"),
            ("[%5s] [%-5s] [%05d]", "[   12] [12   ] [00001]"),
            (
                "%T@ %TY-%Tm-%Td %TH:%TM",
                "1000000000.0000000050 2001-09-09 01:46",
            ),
            ("%T+", "2001-09-09+01:46:40.0000000050"),
            ("%TF %TT", "2001-09-09 01:46:40.0000000050"),
            (
                "%TS %t",
                "40.0000000050 Sun Sep  9 01:46:40.0000000050 2001",
            ),
            ("100%%\\t\\101\\0.\\c never", "100%\tA\0."),
            ("%l", ""),
        ] {
            assert_eq!(line(format), expected, "{format}");
        }
    }

    #[test]
    fn room_that_no_disk_has() {
        let root = HostTree.open_fd("/".as_ref(), libc::O_PATH, 0);
        let mut stat = root.unwrap().stat().unwrap();
        for (blocks, expected) in [(0, 0), (3, 2), (i64::MAX, 1 << 62), (-1, 0)] {
            stat.st_blocks = blocks;
            assert_eq!(kilobytes(&stat), expected);
        }
    }

    #[test]
    fn nonsense() {
        for bad in ["%", "%5", "%q", "%Tq", "%T", "\\", "\\q", "\\777"] {
            assert!(PrintfFormat::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(PrintfFormat::parse(b"%99999999999p").is_ok());
    }
}
