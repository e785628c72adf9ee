// SPDX-License-Identifier: GPL-2.0-only
//! Work in a copy of this process. The copy sandboxes itself: an image cannot harm this process. It
//! sends home its result and all that it has reported.

use crate::crash;
use crate::interrupt::{Guard, Interrupt, REQUEST};
use outboard::{fork, Child, System};
use outboard_error::{front, Error, ErrorKind, Failure, Kept, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process;
use std::time::Duration;

/// Most bytes of the answer: an image may control the copy.
const LONGEST: usize = 1 << 30;
/// Interval of checks for an interrupt to pass on.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the copy sends when it ends.
#[derive(Serialize, Deserialize)]
struct Answer<T> {
    result: std::result::Result<T, Error>,
    /// Failures and warnings that the copy has reported to its front.
    reports: Kept,
}

fn cannot(error: &io::Error) -> Error {
    Error::failed("cannot start a process for the kernel", error)
}

/// A running copy of this process.
pub struct Apart {
    child: Child,
    socket: UnixStream,
    interrupt: Interrupt,
    /// Held while the copy may be changing an image: the copy ends with this process.
    _guard: Guard,
}

impl Apart {
    /// Starts `work` in a copy of this process, which has the file mode mask `umask`.
    pub fn start<T: Serialize>(
        umask: u32,
        work: impl FnOnce(&Interrupt) -> Result<T>,
    ) -> Result<Self> {
        let interrupt = Interrupt::poll();
        // The copy inherits the guard.
        let guard = Guard::new();
        let (ours, theirs) = UnixStream::pair().map_err(|error| cannot(&error))?;
        // Buffered output would be written twice.
        io::stdout().flush().map_err(|error| cannot(&error))?;
        let Some(child) = fork().map_err(|error| cannot(&error))? else {
            drop(ours);
            System::Host.umask(umask);
            front().begin_copy();
            let answer = Answer {
                result: work(&interrupt),
                reports: front().end_copy(),
            };
            process::exit(send(theirs, &answer));
        };
        Ok(Self {
            child,
            socket: ours,
            interrupt,
            _guard: guard,
        })
    }

    /// Waits for the end. `T`: the result of the work; an image may control the process that sends
    /// it.
    pub fn finish<T: DeserializeOwned>(self) -> Result<T> {
        let received = receive(self.socket, &self.child, || self.interrupt.asked());
        let status = self.child.wait().map_err(|error| cannot(&error))?;
        if status.code() == Some(crash::CODE.into()) {
            // The copy has printed the panic.
            let text = "the kernel in the sandbox panicked; its messages are on standard error";
            let mut reports = Kept::default();
            let failure = Failure::new(ErrorKind::Crashed, text);
            reports.failures.add(failure.into());
            front().add_of_copy(reports);
            return Err(Error::Panicked);
        }
        if let Some(signal) = status.signal() {
            return Err(Error::known(
                ErrorKind::Crashed,
                format!("the process in the sandbox crashed (signal {signal})"),
            ));
        }
        let answer = received.and_then(|bytes| Ok(serde_json::from_slice::<Answer<T>>(&bytes)?));
        let answer = answer.map_err(|error| {
            Error::failed("the process in the sandbox ended without a result", &error)
        })?;
        front().add_of_copy(answer.reports);
        answer.result
    }
}

/// Returns the exit code.
fn send<T: Serialize>(mut socket: UnixStream, answer: &Answer<T>) -> i32 {
    let sent = serde_json::to_vec(answer)
        .map_err(io::Error::from)
        .and_then(|bytes| socket.write_all(&bytes));
    i32::from(sent.is_err())
}

/// Reads until the copy ends. Passes an interrupt on: the terminal may not have sent it to both.
fn receive(socket: UnixStream, child: &Child, asked: impl Fn() -> bool) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut reader = socket.take(LONGEST as u64);
    let (mut bytes, mut passed_on) = (Vec::new(), false);
    loop {
        match reader.read_to_end(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(|_| bytes),
        }
        if asked() && !passed_on {
            passed_on = true;
            child.signal(REQUEST)?;
        }
    }
}
