// SPDX-License-Identifier: GPL-2.0-only
//! Text with `\ooo` escapes, in the output and input of `getfacl` and `getfattr`.

/// Escapes the bytes in `special`, and for a terminal also those that could confuse it.
pub fn quote(bytes: &[u8], special: &[u8], terminal: bool) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(bytes.len());
    let mut put = |byte: u8, escape: bool| {
        if escape {
            quoted.extend(format!("\\{byte:03o}").bytes());
        } else {
            quoted.push(byte);
        }
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if terminal => {
            for character in text.chars() {
                let control = character.is_control();
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    put(byte, control || special.contains(&byte));
                }
            }
        }
        _ => {
            for &byte in bytes {
                let unclear = terminal && (byte.is_ascii_control() || !byte.is_ascii());
                put(byte, unclear || special.contains(&byte));
            }
        }
    }
    quoted
}

/// The byte of an escape at the beginning of a text.
fn escape(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\")?.get(..3)?;
    let value = digits.iter().try_fold(0u32, |value, digit| match digit {
        b'0'..=b'7' => Some(value * 8 + u32::from(digit - b'0')),
        _ => None,
    })?;
    u8::try_from(value).ok()
}

/// Decodes escapes: octal numbers and doubled backslashes. Any other backslash stays.
pub fn unquote(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        match escape(text) {
            Some(byte) => {
                bytes.push(byte);
                text = &text[4..];
            }
            None => {
                bytes.push(*first);
                text = match text {
                    [b'\\', b'\\', ..] => &text[2..],
                    _ => rest,
                };
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let bytes = b"a\\b\nc\xff";
        let quoted = quote(bytes, b"\\\n", false);
        assert_eq!(quoted, b"a\\134b\\012c\xff");
        assert_eq!(unquote(&quoted), bytes);
        assert_eq!(unquote(b"a\\\\b"), b"a\\b");
        assert_eq!(unquote(b"\\9\\400\\12"), b"\\9\\400\\12");
    }

    #[test]
    fn nothing_confuses_a_terminal() {
        assert_eq!(quote(b"\x1b[m\xc3\xa9", b"", true), b"\\033[m\xc3\xa9");
        assert_eq!(quote("\u{9b}".as_bytes(), b"", true), b"\\302\\233");
        assert_eq!(quote(b"\x1b\xff", b"", true), b"\\033\\377");
    }
}
