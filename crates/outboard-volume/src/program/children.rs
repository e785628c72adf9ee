// SPDX-License-Identifier: GPL-2.0-only
//! The programs without a parent, which this process waits for as init does. One thread waits for
//! all of them, until there is none.

use outboard::{RunningProgram, System};
use outboard_error::{Error, Result};
use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Those who wait, by the numbers of programs. `None`: all programs have ended.
type Awaited = Mutex<Option<HashMap<i32, Sender<ExitStatus>>>>;

/// The programs, and the thread that waits for them.
pub(super) struct Children {
    awaited: Arc<Awaited>,
}

/// The first program.
pub(super) struct First {
    pub(super) program: RunningProgram,
    pub(super) end: Receiver<ExitStatus>,
    pub(super) children: Children,
    /// Its other end goes with the last program.
    pub(super) all: Receiver<()>,
}

impl Children {
    /// Starts the first program, and waits for it and all others from now on.
    pub(super) fn first(system: &System, program: RunningProgram) -> io::Result<First> {
        let (sender, end) = channel();
        let waiting = HashMap::from([(program.number(), sender)]);
        let awaited = Arc::new(Mutex::new(Some(waiting)));
        let (last, all) = channel();
        let (system, shared) = (system.clone(), Arc::clone(&awaited));
        let reap = move || {
            reap(&system, &shared);
            drop(last);
        };
        thread::Builder::new()
            .name("children".to_owned())
            .spawn(reap)?;
        Ok(First {
            program,
            end,
            children: Self { awaited },
            all,
        })
    }

    /// Starts a further program. Its end cannot come before somebody waits for it.
    pub(super) fn start(
        &self,
        start: impl FnOnce() -> Result<RunningProgram>,
    ) -> Result<(RunningProgram, Receiver<ExitStatus>)> {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(awaited) = awaited.as_mut() else {
            return Err(Error::Failed(
                "all programs of the run have ended".to_owned(),
            ));
        };
        let program = start()?;
        let (sender, end) = channel();
        awaited.insert(program.number(), sender);
        Ok((program, end))
    }
}

fn reap(system: &System, awaited: &Awaited) {
    while let Ok((child, status)) = system.wait_for_any_child() {
        let mut awaited = awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = awaited.as_mut().and_then(|found| found.remove(&child));
        // Of the others, nobody wants to know.
        if let Some(sender) = sender {
            let _ = sender.send(ExitStatus::from_raw(status));
        }
    }
    *awaited.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
