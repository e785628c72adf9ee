// SPDX-License-Identifier: GPL-2.0-only
//! Work with the kernel for commands that also run other programs. Such a command stays outside of the sandbox and
//! never boots a kernel; what needs one is done by a copy of the process, which shuts itself in as any other command does.

use crate::crash;
use crate::error::{Error, Result};
use crate::interrupt::{Guard, Interrupt, REQUEST};
use crate::sandbox::HostAccess;
use crate::session::{in_session, Session};
use outboard::{fork, Child, System};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process;
use std::time::Duration;

/// Most bytes of what the copy reports: it may be in the hands of an image.
const LONGEST: usize = 1 << 30;
/// How soon an interrupt is passed on.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the copy reports.
type Report<T> = std::result::Result<T, Error>;

fn cannot(error: &io::Error) -> Error {
    Error::failed("cannot start a process for the kernel", error)
}

/// A copy of this process that is at work.
pub struct Apart {
    child: Child,
    socket: UnixStream,
    interrupt: Interrupt,
    /// It may be in the middle of a change of an image, and ends when this process ends.
    _guard: Guard,
}

/// Runs `work` in a session of a copy of this process, which has `access` to the host and no more. What it wrote
/// is safe when this returns. What is returned was sent by a process that an image may have taken over.
pub fn apart<T: Serialize + DeserializeOwned>(
    session: &mut Session,
    access: &HostAccess,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    Apart::start(session, access, work)?.finish()
}

impl Apart {
    /// As [`apart`], without waiting for the end.
    pub fn start<T: Serialize>(
        session: &mut Session,
        access: &HostAccess,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<Self> {
        let interrupt = session.catch_interrupts();
        // The copy inherits it.
        let guard = Guard::new();
        let (ours, theirs) = UnixStream::pair().map_err(|error| cannot(&error))?;
        // What waits to be written would be written twice.
        io::stdout().flush().map_err(|error| cannot(&error))?;
        let Some(child) = fork().map_err(|error| cannot(&error))? else {
            drop(ours);
            System::Host.umask(session.umask());
            let obedient = |session: &mut Session| {
                // Images were opened before, which may have taken a while.
                interrupt.check()?;
                work(session)
            };
            let (settings, keys) = (session.settings().clone(), session.take_keys());
            let report: Report<T> = Session::as_part(settings, access, keys, &session.used())
                .and_then(|session| in_session(session, obedient));
            process::exit(send(theirs, &report));
        };
        Ok(Self {
            child,
            socket: ours,
            interrupt,
            _guard: guard,
        })
    }

    /// Waits for the end. `T` is what the work returns.
    pub fn finish<T: DeserializeOwned>(self) -> Result<T> {
        let report = receive(self.socket, &self.child, || self.interrupt.asked());
        let status = self.child.wait().map_err(|error| cannot(&error))?;
        if status.code() == Some(crash::CODE.into()) {
            // The copy has reported the panic.
            return Err(Error::Status(crash::CODE));
        }
        if let Some(signal) = status.signal() {
            return Err(Error::Failed(format!(
                "the kernel that worked on the image crashed (signal {signal})"
            )));
        }
        let report = report.and_then(|bytes| Ok(serde_json::from_slice::<Report<T>>(&bytes)?));
        report
            .map_err(|error| Error::failed("the kernel's process ended without a result", &error))?
    }
}

/// Returns the exit code.
fn send<T: Serialize>(mut socket: UnixStream, report: &Report<T>) -> i32 {
    let sent = serde_json::to_vec(report)
        .map_err(io::Error::from)
        .and_then(|bytes| socket.write_all(&bytes));
    i32::from(sent.is_err())
}

/// Reads until the copy ends. An interrupt is passed on: the terminal may not have sent it to both.
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
