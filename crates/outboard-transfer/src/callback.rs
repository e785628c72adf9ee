// SPDX-License-Identifier: GPL-2.0-only
//! Passes the progress of work on to a function of the caller, which may cancel the work.

use crate::report::Progress;
use outboard::Cancel;
use outboard_error::Notes;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// Files that are complete.
    pub files: u64,
    /// Bytes of files that are written.
    pub bytes: u64,
    /// Bytes that will be written, as far as that is known.
    pub total: Option<u64>,
}

/// The caller's function. `Break` cancels the work.
pub type OnProgress = dyn Fn(&Count) -> ControlFlow<()> + Send + Sync;

/// The progress of one call. Lines that other progress would print become notes of the call.
pub struct CallbackProgress {
    function: Option<Arc<OnProgress>>,
    cancel: Cancel,
    notes: Notes,
    /// 0: nobody knows.
    total: AtomicU64,
}

impl CallbackProgress {
    /// Calls `function`, and `cancel` when that says so.
    pub fn new(function: Option<Arc<OnProgress>>, cancel: Cancel, notes: Notes) -> Self {
        Self {
            function,
            cancel,
            notes,
            total: AtomicU64::new(0),
        }
    }
}

impl Progress for CallbackProgress {
    fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    fn is_shown(&self) -> bool {
        self.function.is_some()
    }

    fn show(&self, files: u64, bytes: u64) {
        let Some(function) = &self.function else {
            return;
        };
        let total = self.total.load(Ordering::Relaxed);
        let count = Count {
            files,
            bytes,
            total: (total > 0).then_some(total),
        };
        if function(&count).is_break() {
            self.cancel.cancel();
        }
    }

    fn suspend(&self, write: &mut dyn FnMut()) {
        self.notes.collect(write);
    }
}
