// SPDX-License-Identifier: GPL-2.0-only
//! The programs without a parent, which this process waits for as init does. One thread waits for
//! all of them. It ends when there is none, and starts again with the next one.

use super::patience::PATIENCE;
use outboard::{RunningProgram, System};
use outboard_error::{Error, Result};
use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Until programs that were killed have ended.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// The programs, and the thread that waits for them.
pub(super) struct Children {
    system: System,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is no program any more.
    none_left: Condvar,
}

#[derive(Default)]
struct State {
    /// Those who wait, by the numbers of programs.
    awaited: HashMap<i32, Sender<ExitStatus>>,
    /// The thread runs.
    is_reaping: bool,
    /// No further program starts.
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for programs until there is none. One that somebody waits for is there, or starts.
    fn reap(&self, system: &System) {
        loop {
            let ended = system.wait_for_any_child();
            let mut state = self.state();
            match ended {
                Ok((child, status)) => {
                    // Of the others, nobody wants to know.
                    if let Some(sender) = state.awaited.remove(&child) {
                        let _ = sender.send(ExitStatus::from_raw(status));
                    }
                }
                Err(_) if state.awaited.is_empty() => {
                    state.is_reaping = false;
                    self.none_left.notify_all();
                    return;
                }
                Err(_) => {}
            }
        }
    }
}

impl Children {
    pub(super) fn new(system: &System) -> Self {
        // Not worth an error.
        let _ = system.adopt_orphans();
        Self {
            system: system.clone(),
            shared: Arc::default(),
        }
    }

    /// Starts a program. Its end cannot come before somebody waits for it.
    pub(super) fn start(
        &self,
        start: impl FnOnce() -> Result<RunningProgram>,
    ) -> Result<(RunningProgram, Receiver<ExitStatus>)> {
        let mut state = self.shared.state();
        if state.is_closed {
            return Err(Error::Failed("no further program starts here".to_owned()));
        }
        let program = start()?;
        let (sender, end) = channel();
        state.awaited.insert(program.number(), sender);
        if !state.is_reaping {
            state.is_reaping = true;
            if let Err(error) = self.start_reaping() {
                state.is_reaping = false;
                state.awaited.remove(&program.number());
                let _ = program.signal(libc::SIGKILL);
                return Err(Error::failed("cannot wait for the program", &error));
            }
        }
        Ok((program, end))
    }

    fn start_reaping(&self) -> io::Result<()> {
        let (system, shared) = (self.system.clone(), Arc::clone(&self.shared));
        thread::Builder::new()
            .name("children".to_owned())
            .spawn(move || shared.reap(&system))
            .map(drop)
    }

    /// Kills all processes of the kernel, which may have files open, and starts no further one.
    /// Blocks until the programs have ended, but not for long.
    pub(super) fn end_all(&self) {
        let begin = Instant::now();
        let mut state = self.shared.state();
        state.is_closed = true;
        loop {
            // Again: one may have been made meanwhile.
            let _ = self.system.send_signal(-1, libc::SIGKILL);
            if !state.is_reaping || begin.elapsed() >= END_PATIENCE {
                return;
            }
            let waited = self.shared.none_left.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
