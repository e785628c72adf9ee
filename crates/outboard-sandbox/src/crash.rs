// SPDX-License-Identifier: GPL-2.0-only
//! The end of the program when its kernel panics: the message, and the exit code [`CODE`].
//!
//! [`end`] runs on the thread that panics, maybe in a signal handler. It makes plain system calls,
//! waits for no lock, and does not allocate.

use outboard::{end_at_once, Fd};
use outboard_error::format::message;
use outboard_error::Hint;
use std::sync::Mutex;

/// EX_SOFTWARE of sysexits.h. No command uses this code otherwise.
pub const CODE: u8 = 70;
/// Most bytes of a line to print.
const LINE: usize = 512;

/// A line with its newline, and the length of both. Escapes bytes that could confuse a terminal, as
/// the kernel does in /dev/kmsg.
pub fn plain_line(line: &[u8]) -> ([u8; LINE], usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'\n'; LINE];
    let mut length = 0;
    for &byte in line {
        let high = DIGITS[usize::from(byte >> 4)];
        let low = DIGITS[usize::from(byte & 15)];
        let (escape, plain) = ([b'\\', b'x', high, low], [byte]);
        let shown: &[u8] = match byte {
            b'\t' | b' '..=b'~' => &plain,
            _ => &escape,
        };
        if length + shown.len() >= LINE {
            break;
        }
        text[length..length + shown.len()].copy_from_slice(shown);
        length += shown.len();
    }
    (text, length + 1)
}

/// Advice about the images that the kernel has mounted, or is mounting.
#[derive(Debug, Default)]
pub struct Advice {
    text: Mutex<String>,
}

impl Advice {
    /// Names a file system of an image. `write`: it is mounted for writing.
    pub fn add_image(&self, shown: &str, write: bool) {
        let half = if write {
            " and may be half written: copy the image before you repair it"
        } else {
            "; nothing was written to it"
        };
        let fsck = Hint::RunFsck {
            volume: Some(shown.to_owned()),
            repair: write,
        };
        self.add(&format!(
            "{shown} is probably damaged{half}; next step: {fsck}"
        ));
    }

    /// Names a file system or a disk of a server: only there it can be checked.
    pub fn add_server(&self, shown: &str, write: bool) {
        self.add(&if write {
            format!(
                "{shown} may lack what was written last, or have files that are half written; \
                 next step: compare them with their sources, and check the disk on the server"
            )
        } else {
            format!("nothing was written to {shown}; next step: check the disk on the server")
        });
    }

    fn add(&self, advice: &str) {
        let line = message(&format!("outboard: {advice}\n"));
        let mut text = self.text.lock().expect("no thread panics");
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
}

/// Reports a kernel panic and ends the process.
pub fn end(stderr: &Fd, advice: &Advice, panic: &[u8]) -> ! {
    let first = b"outboard: kernel panic: ".as_slice();
    // A write error cannot be reported any more.
    let _ = stderr.write_all(first);
    for line in panic.split(|&byte| byte == b'\n') {
        let (text, length) = plain_line(line);
        let _ = stderr.write_all(&text[..length]);
    }
    if let Ok(text) = advice.text.try_lock() {
        let _ = text
            .as_bytes()
            .split_inclusive(|&byte| byte == b'\n')
            .try_for_each(|line| stderr.write_all(line));
    }
    end_at_once(CODE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_escapes() {
        let shown = |line: &[u8]| {
            let (text, length) = plain_line(line);
            String::from_utf8(text[..length].to_vec())
        };
        assert_eq!(shown(b"a\x1b[m\tb").unwrap(), "a\\x1b[m\tb\n");
        assert_eq!(shown(&[0xff; 500]).unwrap().len(), LINE - 3);
    }

    #[test]
    fn advice_names_each_image_once() {
        let advice = Advice::default();
        advice.add_image("a.img@1", true);
        advice.add_image("a.img@1", true);
        advice.add_image("b.img", false);
        advice.add_server("nfs://a/b", true);
        let text = advice.text.lock().expect("no thread panics").clone();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("half written") && text.contains("fsck of a.img@1"));
        let server = text.lines().find(|line| line.contains("nfs:")).unwrap();
        assert!(
            server.contains("on the server") && !server.contains("fsck"),
            "{server}"
        );
    }
}
