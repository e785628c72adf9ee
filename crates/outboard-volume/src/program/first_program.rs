// SPDX-License-Identifier: GPL-2.0-only
//! The first program of a run, with whose end the run ends.

use super::start::ProgramRun;
use outboard_protocol::frames::{Frame, Request, RunAnswer};
use outboard_server::failed;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The first program.
pub(super) struct FirstProgram {
    number: i32,
    end: Mutex<Option<ExitStatus>>,
    ended: Condvar,
}

impl FirstProgram {
    pub(super) fn new(number: i32) -> Self {
        Self {
            number,
            end: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// It has ended.
    pub(super) fn has_ended(&self, status: ExitStatus) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.ended.notify_all();
    }

    /// Answers a request about it.
    pub(super) fn serve(
        &self,
        run: &ProgramRun,
        mut socket: &UnixStream,
        request: Request,
    ) -> io::Result<()> {
        let answer = match request {
            Request::Start => RunAnswer::Started,
            Request::Stop {
                signal,
                milliseconds,
            } => {
                let status = self.stop(run, signal, Duration::from_millis(milliseconds));
                RunAnswer::Ended(status.into_raw())
            }
            _ => failed("a run in the background takes no such request"),
        };
        Frame::send(&mut socket, &answer)
    }

    /// Ends it. Blocks until then.
    fn stop(&self, run: &ProgramRun, signal: Option<i32>, patience: Duration) -> ExitStatus {
        let system = run.kernel.system();
        let _ = system.send_signal(
            -self.number,
            signal.unwrap_or(run.command.signal(libc::SIGTERM)),
        );
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let running = |end: &mut Option<ExitStatus>| end.is_none();
        let waited = self.ended.wait_timeout_while(end, patience, running);
        let (mut end, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if end.is_none() {
            let _ = system.send_signal(-self.number, libc::SIGKILL);
        }
        loop {
            if let Some(status) = *end {
                return status;
            }
            end = self.ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
