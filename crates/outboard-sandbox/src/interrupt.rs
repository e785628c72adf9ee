// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT, SIGTERM and SIGHUP ask the program to stop. [`outboard::signals`] has the rules: what
//! has something to lose holds a [`Guard`], and long work polls an [`Interrupt`].

pub use outboard::signals::Guard;
use outboard::walk::Stop;
use outboard::{is_ignored, signals, stopped, Cancel, Limits};
use outboard_error::{Error, Result};
use outboard_worker::{CopyOptions, OnStop};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1};

const UNTIL_THEN: &str = "earlier changes are written";

/// Asks a copy of this process to stop.
const REQUEST: i32 = SIGUSR1;

/// Whether the user wants to stop. By default only the limits of the calling thread do.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    polls: bool,
    cancel: Option<Cancel>,
}

/// SIGTERM, and the hang-up of the terminal, unless the program is to outlive them.
pub fn ending_signals() -> Vec<i32> {
    let mut signals = vec![SIGTERM, SIGHUP];
    signals.retain(|&signal| !is_ignored(signal));
    signals
}

/// Counts signals from now on. To be called when nothing can be lost yet.
pub fn catch() -> Result<()> {
    signals::catch().map_err(|error| Error::failed("cannot catch signals", &error))
}

/// While this lives, SIGINT does nothing: it is meant for another program at the same terminal.
pub struct Spared(());

/// Does something that must not stop half-way: it is as if nobody had asked to stop, and the thread
/// had no limits.
pub fn without_stop<T>(work: impl FnOnce() -> T) -> T {
    let _guard = Guard::new();
    signals::set_deaf(true);
    let result = Limits::none().run(work);
    signals::set_deaf(false);
    result
}

impl Interrupt {
    /// The caller polls what is returned from now on.
    pub fn poll() -> Self {
        signals::poll();
        Self {
            polls: true,
            cancel: None,
        }
    }

    /// For a copy of this process, which polls what this process has polled: a request to stop this
    /// process goes on to the copy. The terminal may not have sent its signal to both. `umask`: the
    /// copy's file mode mask.
    pub fn of_copy(umask: u32) -> CopyOptions {
        let interrupt = Self::poll();
        CopyOptions {
            umask: Some(umask),
            on_stop: OnStop::PassOn(Box::new(move || interrupt.asked()), REQUEST),
            ..CopyOptions::default()
        }
    }

    /// For work of a library: signals are the program's.
    pub fn by(cancel: Cancel) -> Self {
        Self {
            polls: false,
            cancel: Some(cancel),
        }
    }

    /// For a wait that may be a part of work that polls, and may be before it: there nothing asks,
    /// since signals end the process.
    pub fn if_polled() -> Self {
        Self {
            polls: signals::is_polled(),
            cancel: None,
        }
    }

    /// For a wait after which a signal does what it does without the wait. Only where a signal does
    /// not end the process is there something to ask.
    pub fn if_guarded() -> Self {
        Self {
            polls: true,
            cancel: None,
        }
    }

    /// Leaves SIGINT to another program for a while.
    pub fn spare(&self) -> Spared {
        signals::spare_interrupt(true);
        Spared(())
    }

    /// Waits for the user: only SIGINT does not end the program at once. An error if a signal
    /// before ends more than the last command; one that comes during the check ends the program.
    pub fn while_idle<T>(&self, wait: impl FnOnce() -> T) -> Result<T> {
        signals::set_idle(true);
        let result = self.forget().map(|()| wait());
        signals::set_idle(false);
        result
    }

    /// Drops the request to stop the last command: a new one begins. An error if there is to be
    /// none.
    pub fn forget(&self) -> Result<()> {
        self.forget_before(UNTIL_THEN)
    }

    /// The same, with what has become of things.
    pub fn forget_before(&self, state: &str) -> Result<()> {
        signals::forget();
        if signals::ending() {
            self.check_before(state)
        } else {
            Ok(())
        }
    }

    /// Whether the user, or a limit of the calling thread, wants to stop.
    pub fn asked(&self) -> bool {
        let cancelled = self.cancel.as_ref().is_some_and(Cancel::is_cancelled);
        cancelled || self.polls && signals::asked() || stopped().is_some()
    }

    /// The error of a command that stopped because of it.
    pub fn check(&self) -> Result<()> {
        self.check_before(UNTIL_THEN)
    }

    /// The same, with what has become of things.
    pub fn check_before(&self, state: &str) -> Result<()> {
        if self.asked() {
            Err(Error::Interrupted(format!("interrupted: {state}")))
        } else {
            Ok(())
        }
    }
}

impl Drop for Spared {
    fn drop(&mut self) {
        signals::spare_interrupt(false);
    }
}

/// Walks end when the user wants to stop.
impl Stop for Interrupt {
    fn asked(&self) -> bool {
        Interrupt::asked(self)
    }
}
