// SPDX-License-Identifier: GPL-2.0-only
//! Hands over the lines that a program writes on standard error, as they come.

use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle};

/// Most bytes of a line. A longer one is cut into pieces.
const LONGEST: u64 = 1 << 16;

/// A thread that reads lines. If this is dropped, the thread goes on until nobody can write any
/// more.
#[derive(Debug)]
pub struct LineRelay {
    reader: UnixStream,
    thread: JoinHandle<()>,
}

impl LineRelay {
    /// Also returns the end for the program. `line`: gets each line, without its newline.
    pub fn start(line: impl FnMut(&[u8]) + Send + 'static) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = UnixStream::pair()?;
        let from = reader.try_clone()?;
        let thread = Builder::new().spawn(move || relay(from, line))?;
        Ok((Self { reader, thread }, writer.into()))
    }

    /// Returns when all lines that were written before the call are handed over. Later ones are
    /// lost: writing them is an error.
    pub fn finish(self) {
        // The thread then finds the end behind these lines.
        let _ = self.reader.shutdown(Shutdown::Read);
        // A panic of the thread has been printed.
        let _ = self.thread.join();
    }
}

fn relay(from: UnixStream, mut line: impl FnMut(&[u8])) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while matches!(
        (&mut from).take(LONGEST).read_until(b'\n', &mut bytes),
        Ok(length) if length > 0
    ) {
        line(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
        bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::channel;

    #[test]
    fn lines_before_the_end_are_handed_over() {
        let (sender, lines) = channel();
        let (relay, writer) = LineRelay::start(move |line| {
            sender.send(line.to_vec()).unwrap();
        })
        .unwrap();
        let mut writer = UnixStream::from(writer);
        writer.write_all(b"first\n\nlast").unwrap();
        // The writer stays open.
        relay.finish();
        let lines: Vec<Vec<u8>> = lines.iter().collect();
        assert_eq!(lines, [b"first".as_slice(), b"", b"last"]);
        let late = writer.write_all(b"late\n").unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
    }
}
