// SPDX-License-Identifier: GPL-2.0-only
//! Formats sizes, names and messages for people.

use std::fmt::Write;

/// Most bytes of a [`plain_line`].
const MOST: usize = 512;

/// "4.0 GiB"; below 1024, bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog2() / 10) as usize;
    let value = bytes as f64 / (1u64 << (10 * exponent)) as f64;
    format!("{value:.1} {}", UNITS[exponent - 1])
}

/// A name as text, with escapes for bytes that could confuse a terminal.
pub fn escaped(name: &[u8]) -> String {
    let mut shown = String::new();
    for piece in pieces(name) {
        match piece {
            NamePiece::Text(text) => escape(&mut shown, text),
            NamePiece::Byte(byte) => {
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
    }
    shown
}

fn escape(shown: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_control() {
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
    }
}

/// A message with escapes for bytes that could confuse a terminal. It may have several lines.
pub fn message(text: &str) -> String {
    let mut shown = String::new();
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        escape(&mut shown, line);
    }
    shown
}

/// A piece of a name.
pub enum NamePiece<'a> {
    /// Valid UTF-8.
    Text(&'a str),
    /// A byte that is no part of valid UTF-8.
    Byte(u8),
}

/// Splits a name into valid text and single invalid bytes.
pub fn pieces(mut rest: &[u8]) -> Vec<NamePiece<'_>> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => {
                pieces.push(NamePiece::Text(text));
                break;
            }
            Err(error) => error.valid_up_to(),
        };
        if let Ok(text) = std::str::from_utf8(&rest[..valid]) {
            pieces.push(NamePiece::Text(text));
        }
        pieces.push(NamePiece::Byte(rest[valid]));
        rest = &rest[valid + 1..];
    }
    pieces
}

/// A line with its newline, and the length of both. Escapes bytes that could confuse a terminal, as
/// the kernel does in /dev/kmsg. Does not allocate.
pub fn plain_line(line: &[u8]) -> ([u8; MOST], usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'\n'; MOST];
    let mut length = 0;
    for &byte in line {
        let high = DIGITS[usize::from(byte >> 4)];
        let low = DIGITS[usize::from(byte & 15)];
        let (escape, plain) = ([b'\\', b'x', high, low], [byte]);
        let shown: &[u8] = match byte {
            b'\t' | b' '..=b'~' => &plain,
            _ => &escape,
        };
        if length + shown.len() >= MOST {
            break;
        }
        text[length..length + shown.len()].copy_from_slice(shown);
        length += shown.len();
    }
    (text, length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(4 << 30), "4.0 GiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn names() {
        assert_eq!(escaped(b"a\x1b\xff\xc3\xa9"), "a\\u{1b}\\xff\u{e9}");
        assert_eq!(escaped(b"a\nb"), "a\\nb");
    }

    #[test]
    fn messages() {
        assert_eq!(message("a\x1b[m\n  b\u{9b}"), "a\\u{1b}[m\n  b\\u{9b}");
    }

    #[test]
    fn lines_have_escapes() {
        let shown = |line: &[u8]| {
            let (text, length) = plain_line(line);
            String::from_utf8(text[..length].to_vec())
        };
        assert_eq!(shown(b"a\x1b[m\tb").unwrap(), "a\\x1b[m\tb\n");
        assert_eq!(shown(&[0xff; 500]).unwrap().len(), MOST - 3);
    }
}
