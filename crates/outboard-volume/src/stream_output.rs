// SPDX-License-Identifier: GPL-2.0-only
//! Standard output, and other files of the host that get their bytes in order. The process on the
//! other end of a pipe may read nothing for hours. A signal restarts write(2), so this never blocks
//! in it: a write that waits for the reader ends when the user wants to stop.
//!
//! Every output must be flushed at its end: some file systems, such as NFS, report only then that
//! bytes did not arrive.

use crate::destination::{Overwrite, UsedFiles};
use outboard::Fd;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Milliseconds until a signal is noticed that comes just before the wait.
const PATIENCE: i32 = 100;

/// Whether standard output and standard error of this process are one file, as after `2>&1`.
pub fn outputs_are_one() -> io::Result<bool> {
    Fd::standard(1)?.writes_as(&Fd::standard(2)?)
}

/// An output in order: a pipe, terminal or socket, or a file.
pub struct StreamOutput {
    fd: Fd,
    /// A write may wait for another process.
    may_wait: bool,
    interrupt: Interrupt,
}

impl StreamOutput {
    /// Standard output. `interrupt` ends a write that waits.
    pub fn standard(interrupt: &Interrupt) -> Result<Self> {
        let opened = Fd::standard(1).and_then(|fd| Self::new(fd, interrupt));
        opened.map_err(|error| Error::failed("cannot use standard output", &error))
    }

    /// The same for an open file of the host.
    pub fn new(fd: Fd, interrupt: &Interrupt) -> io::Result<Self> {
        let kind = fd.stat()?.st_mode & libc::S_IFMT;
        Ok(Self {
            fd,
            may_wait: !matches!(kind, libc::S_IFREG | libc::S_IFBLK),
            interrupt: interrupt.clone(),
        })
    }
}

impl Write for StreamOutput {
    /// Fails if the user wants to stop and there is no room; [`Interrupt::check`] has the error to
    /// report then.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if !self.may_wait {
            return self.fd.write(buffer);
        }
        loop {
            if self.fd.wait_to_write(PATIENCE)? {
                let length = buffer.len().min(self.fd.room());
                match self.fd.write(&buffer[..length]) {
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
            }
            if self.interrupt.asked() {
                // Not ErrorKind::Interrupted, because writers try again after that.
                return Err(io::Error::other("interrupted"));
            }
        }
    }

    /// Reports also an error of earlier writes that else only a close shows.
    fn flush(&mut self) -> io::Result<()> {
        self.fd.flush()
    }
}

/// Makes a file of the host with these contents, or gives an existing one these contents. Disk
/// images and archives are not overwritten.
pub fn write_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            UsedFiles::in_library().overwrite_path(path, Overwrite::Plain)?
        }
        other => other?,
    };
    file.write_all(contents)?;
    Fd::from(OwnedFd::from(file)).close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::Cancel;
    use std::io::Read;
    use std::thread;
    use std::time::Duration;

    fn pipe(cancel: &Cancel) -> (io::PipeReader, StreamOutput) {
        let (reader, writer) = io::pipe().unwrap();
        let fd = Fd::from(OwnedFd::from(writer));
        let output = StreamOutput::new(fd, &Interrupt::by(cancel.clone())).unwrap();
        (reader, output)
    }

    #[test]
    fn all_bytes_arrive() {
        let (mut reader, mut output) = pipe(&Cancel::new());
        let bytes: Vec<u8> = (0..3_000_001u32).map(|index| (index / 7) as u8).collect();
        let sent = bytes.clone();
        let writer = thread::spawn(move || output.write_all(&sent));
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        writer.join().unwrap().unwrap();
        assert!(found == bytes);
    }

    #[test]
    fn a_wait_for_the_reader_is_cancelled() {
        let cancel = Cancel::new();
        let (mut reader, mut output) = pipe(&cancel);
        let writer = thread::spawn(move || output.write_all(&vec![1; 1 << 24]));
        reader.read_exact(&mut [0; 1]).unwrap();
        thread::sleep(Duration::from_millis(200));
        assert!(!writer.is_finished());
        cancel.cancel();
        assert!(writer.join().unwrap().is_err());
    }

    /// The end of JSON is written after an interrupt, too.
    #[test]
    fn a_write_with_room_is_made_after_a_cancel() {
        let cancel = Cancel::new();
        let (mut reader, mut output) = pipe(&cancel);
        cancel.cancel();
        output.write_all(b"end").unwrap();
        drop(output);
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        assert_eq!(found, b"end");
    }

    #[test]
    fn a_reader_that_has_gone_is_reported() {
        let (reader, mut output) = pipe(&Cancel::new());
        drop(reader);
        let error = output.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
