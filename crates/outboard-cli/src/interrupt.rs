// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT, SIGTERM and SIGHUP: the first asks to stop, the second ends the program at once. A process that works for
//! another one is asked by that with SIGUSR1, which may come together with a SIGINT of the terminal.

use crate::error::{Error, Result};
use outboard::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
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
    /// Not only the command: also what runs commands.
    ending: Arc<AtomicBool>,
    /// All is done and written: to end at once costs nothing.
    idle: Arc<AtomicBool>,
    /// What is done on SIGINT.
    keyboard: Arc<Mutex<Vec<SigId>>>,
}

fn cannot_catch(error: io::Error) -> Error {
    Error::failed("cannot catch signals", &error)
}

/// SIGTERM, and the hang-up of the terminal, unless the program is to outlive them.
pub fn ending_signals() -> Vec<i32> {
    let mut signals = vec![SIGTERM, SIGHUP];
    signals.retain(|&signal| !is_ignored(signal));
    signals
}

/// While this lives, SIGINT does nothing: it is meant for another program at the same terminal.
pub struct Held<'a>(&'a Interrupt);

impl Interrupt {
    /// Begins to catch the signals.
    pub fn catch() -> Result<Self> {
        let interrupt = Self::default();
        for signal in ending_signals() {
            interrupt.install_ending(signal).map_err(cannot_catch)?;
        }
        flag::register(REQUEST, Arc::clone(&interrupt.asked)).map_err(cannot_catch)?;
        interrupt.resume().map_err(cannot_catch)?;
        Ok(interrupt)
    }

    fn install_ending(&self, signal: i32) -> io::Result<()> {
        flag::register_conditional_default(signal, Arc::clone(&self.idle))?;
        self.install(signal)?;
        flag::register(signal, Arc::clone(&self.ending)).map(drop)
    }

    /// The order counts: whether it is the second time is looked at before the first is noted.
    fn install(&self, signal: i32) -> io::Result<[SigId; 2]> {
        Ok([
            flag::register_conditional_default(signal, Arc::clone(&self.asked))?,
            flag::register(signal, Arc::clone(&self.asked))?,
        ])
    }

    /// Catches SIGINT, unless the program was started so that it ignores it, as in the background of a script.
    fn resume(&self) -> io::Result<()> {
        if is_ignored(SIGINT) {
            return Ok(());
        }
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

    /// Waits for the user: only SIGINT does not end the program at once.
    pub fn while_idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.idle.store(true, Ordering::Relaxed);
        let result = wait();
        self.idle.store(false, Ordering::Relaxed);
        result
    }

    /// Forgets that the last command was to stop: a new one begins. An error if there is to be none.
    pub fn forget(&self) -> Result<()> {
        if self.ending.load(Ordering::Relaxed) {
            return self.check();
        }
        self.asked.store(false, Ordering::Relaxed);
        Ok(())
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
