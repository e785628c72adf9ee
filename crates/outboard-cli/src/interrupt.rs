// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT and SIGTERM: the first asks to stop, the second ends the program at once. A process that works for
//! another one is asked by that with SIGUSR1, which may come together with a SIGINT of the terminal.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level, SigId};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What asks to stop, however often it comes.
pub const REQUEST: i32 = SIGUSR1;

/// Tells whether the user wants to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    /// What is done on SIGINT.
    keyboard: Arc<Mutex<Vec<SigId>>>,
}

/// While this lives, SIGINT does nothing: it is meant for another program at the same terminal.
pub struct Held<'a>(&'a Interrupt);

impl Interrupt {
    /// Begins to catch the signals.
    pub fn catch() -> Result<Self> {
        let interrupt = Self::default();
        interrupt
            .install(SIGTERM)
            .map(drop)
            .and_then(|()| interrupt.resume())
            .map_err(|error| Error::failed("cannot catch signals", &error))?;
        Ok(interrupt)
    }

    /// Lets another process ask too, with [`REQUEST`].
    pub fn obey(&self) -> Result<()> {
        flag::register(REQUEST, Arc::clone(&self.asked))
            .map(drop)
            .map_err(|error| Error::failed("cannot catch signals", &error))
    }

    /// The order counts: whether it is the second time is looked at before the first is noted.
    fn install(&self, signal: i32) -> io::Result<[SigId; 2]> {
        Ok([
            flag::register_conditional_default(signal, Arc::clone(&self.asked))?,
            flag::register(signal, Arc::clone(&self.asked))?,
        ])
    }

    fn resume(&self) -> io::Result<()> {
        let mut keyboard = self.keyboard.lock().expect("no thread panics");
        keyboard.extend(self.install(SIGINT)?);
        Ok(())
    }

    /// Leaves SIGINT to another program for a while.
    pub fn hold(&self) -> Held<'_> {
        let mut keyboard = self.keyboard.lock().expect("no thread panics");
        for action in keyboard.drain(..) {
            low_level::unregister(action);
        }
        Held(self)
    }

    /// Forgets what was asked for: a new command begins.
    pub fn forget(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The error of a command that stopped because of it.
    pub fn check(&self) -> Result<()> {
        match self.asked() {
            true => Err(Error::Interrupted(
                "interrupted: what was done until then is written".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // It worked before; without it SIGINT would stay without effect.
        let _ = self.0.resume();
    }
}
