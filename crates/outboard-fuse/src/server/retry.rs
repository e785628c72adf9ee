// SPDX-License-Identifier: GPL-2.0-only
//! Retries after "no space", while removed files still free their blocks.
//!
//! An unlinked file keeps its blocks until the host drops it, some time later. Some file systems
//! free the blocks only after a transaction. On the host's own mounts a program can write into the
//! space of a file that it has just removed. To allow that here, a request that finds no space
//! waits a moment, if a file was removed since the last vain wait.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for the host to drop a file.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(10);

#[derive(Default)]
pub struct RetryState {
    removals: AtomicU64,
    /// Value of `removals` at the last vain wait.
    awaited: AtomicU64,
}

impl RetryState {
    /// Notes that a file may have lost its last name.
    pub fn removed(&self) {
        self.removals.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work`, which needs space; without space it must fail without effect. `settle` makes
    /// the file system free blocks. It returns false if there is space, and the error has another
    /// reason.
    pub fn with<T>(
        &self,
        settle: impl Fn() -> bool,
        mut work: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let first = work();
        let removals = self.removals.load(Ordering::Relaxed);
        if !is_full(&first) || self.awaited.load(Ordering::Relaxed) == removals {
            return first;
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if !settle() {
                return first;
            }
            let next = work();
            if !is_full(&next) {
                return next;
            }
            sleep(INTERVAL);
        }
        self.awaited.store(removals, Ordering::Relaxed);
        first
    }
}

fn is_full<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.raw_os_error() == Some(libc::ENOSPC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn full<T>() -> io::Result<T> {
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    #[test]
    fn nobody_waits_where_nothing_was_removed() {
        let tries = Cell::new(0);
        let result: io::Result<()> = RetryState::default().with(
            || panic!("there is nothing to settle"),
            || {
                tries.set(tries.get() + 1);
                full()
            },
        );
        assert!(result.is_err());
        assert_eq!(tries.get(), 1);
    }

    #[test]
    fn room_of_what_was_removed_is_waited_for() {
        let state = RetryState::default();
        state.removed();
        let tries = Cell::new(0);
        let result = state.with(
            || true,
            || {
                tries.set(tries.get() + 1);
                match tries.get() {
                    3 => Ok(7),
                    _ => full(),
                }
            },
        );
        assert_eq!(result.unwrap(), 7);
    }

    #[test]
    fn nobody_waits_where_there_is_room() {
        let state = RetryState::default();
        state.removed();
        let tries = Cell::new(0);
        let result: io::Result<()> = state.with(
            || false,
            || {
                tries.set(tries.get() + 1);
                full()
            },
        );
        assert!(result.is_err());
        assert_eq!(tries.get(), 1);
    }

    #[test]
    fn other_errors_are_told_at_once() {
        let state = RetryState::default();
        state.removed();
        let result: io::Result<()> = state.with(
            || panic!("there is nothing to settle"),
            || Err(io::Error::from_raw_os_error(libc::EDQUOT)),
        );
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EDQUOT));
    }
}
