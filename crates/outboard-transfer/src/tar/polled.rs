// SPDX-License-Identifier: GPL-2.0-only
//! The input of a thread, which ends soon after its reader has gone: with a file, pipe or socket of
//! the host it polls, and never blocks in read(2). With a program's own stream it ends after the
//! read that it is in.

use outboard::{stopped, Fd};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Milliseconds between two looks whether the reader has gone.
const PATIENCE: i32 = 50;

/// Says to a thread that nobody wants its bytes any more. A clone says the same.
#[derive(Clone, Debug, Default)]
pub struct Gone(Arc<AtomicBool>);

impl Gone {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn nobody_reads() -> io::Error {
    io::Error::other("nobody reads on")
}

/// A program's own stream.
pub struct Unpolled<R> {
    pub reader: R,
    pub gone: Gone,
}

impl<R: Read> Read for Unpolled<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A cancel comes before the reader finds out, and no read may begin after it.
        if self.gone.is_set() || stopped().is_some() {
            return Err(nobody_reads());
        }
        self.reader.read(buffer)
    }
}

/// A file, pipe or socket of the host.
pub struct Polled {
    fd: Fd,
    gone: Gone,
}

impl Polled {
    pub fn new(file: File, gone: Gone) -> Self {
        let fd = Fd::from(OwnedFd::from(file));
        Self { fd, gone }
    }
}

impl Read for Polled {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.gone.is_set() {
                return Err(nobody_reads());
            }
            if !self.fd.wait_to_read(PATIENCE)? {
                continue;
            }
            match self.fd.read(buffer) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}
