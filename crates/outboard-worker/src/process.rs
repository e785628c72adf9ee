// SPDX-License-Identifier: GPL-2.0-only
//! A started process: signals to it, and its end.

use crate::starter::Starter;
use outboard_sys::Child;
use std::fmt::{Display, Formatter};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::Duration;

/// The exit code of a process of this program whose kernel panicked: EX_SOFTWARE of sysexits.h.
pub const PANIC_CODE: u8 = 70;
/// How soon [`Process::wait_or_stop`] notices the end of the process, or a request to stop.
const PAUSE: Duration = Duration::from_millis(20);

/// How a process of this program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Its kernel panicked. The process has printed that.
    Panicked,
}

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) if code == i32::from(PANIC_CODE) => ProcessEnd::Panicked,
            (Some(code), _) => ProcessEnd::Exited(code),
            (None, signal) => ProcessEnd::Killed(signal.unwrap_or_default()),
        }
    }
}

impl Display for ProcessEnd {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        match self {
            ProcessEnd::Exited(code) => write!(formatter, "it ended with code {code}"),
            ProcessEnd::Killed(signal) => write!(formatter, "it was ended by signal {signal}"),
            ProcessEnd::Panicked => formatter.write_str("its kernel panicked"),
        }
    }
}

/// A started process. Dropping this kills the process, unless it was started to outlive this one.
#[derive(Debug)]
pub struct Process {
    /// `None` once it was waited for.
    child: Option<Child>,
    outlives: bool,
    starter: Option<Starter>,
}

impl Process {
    pub(crate) fn new(child: impl Into<Child>, outlives: bool, starter: Option<Starter>) -> Self {
        Self {
            child: Some(child.into()),
            outlives,
            starter,
        }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let child = self.child.as_ref();
        child.map_or(Ok(()), |child| child.signal(signal))
    }

    /// Sends a signal to a process with a [group of its own](crate::Launch::own_group), and to
    /// what it has started.
    pub fn signal_group(&self, signal: i32) -> io::Result<()> {
        let child = self.child.as_ref();
        child.map_or(Ok(()), |child| child.signal_group(signal))
    }

    /// Waits for the end.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.reap()
    }

    /// Waits for the end. When `stop` is true for the first time, the process gets `signal`.
    pub fn wait_or_stop(mut self, signal: i32, stop: impl Fn() -> bool) -> io::Result<ExitStatus> {
        let mut has_signal = false;
        while let Some(child) = self.child.take() {
            match child.try_wait()? {
                Ok(status) => return Ok(status),
                Err(child) => self.child = Some(child),
            }
            if !has_signal && stop() {
                has_signal = true;
                self.signal(signal)?;
            }
            sleep(PAUSE);
        }
        Err(gone())
    }

    /// The same process, which this value has no more.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            child: self.child.take(),
            outlives: self.outlives,
            starter: self.starter.take(),
        }
    }

    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.take().ok_or_else(gone)?.wait()
    }

    /// Kills the process. Returns how it ended: it may have been quicker.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(libc::SIGKILL)?;
        self.reap()
    }
}

/// The error of a second wait.
fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ECHILD)
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.outlives {
            // It was waited for, or it ends now.
            let _ = self.kill();
        }
    }
}
