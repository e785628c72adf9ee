// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT and SIGTERM: the first asks to stop, the second ends the program at once.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Tells whether the user wants to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Begins to catch the signals.
    pub fn catch() -> Result<Self> {
        let interrupt = Self::default();
        let install = |signal| -> io::Result<()> {
            flag::register_conditional_default(signal, Arc::clone(&interrupt.asked))?;
            flag::register(signal, Arc::clone(&interrupt.asked))?;
            Ok(())
        };
        install(SIGINT)
            .and_then(|()| install(SIGTERM))
            .map_err(|error| Error::failed("cannot catch signals", &error))?;
        Ok(interrupt)
    }

    /// Forgets what was asked for: a new command begins.
    pub fn forget(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
