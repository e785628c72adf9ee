// SPDX-License-Identifier: GPL-2.0-only
//! Counts the forks of this process: a child must not use what its parent has opened, and may find
//! locks that no thread of it will ever release.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How often this process was forked off, as far as this library was in use then.
pub fn forks() -> u64 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function only changes a number. This library is never unloaded. Without
        // memory for it forks are not noticed here; the engine below notices them, too.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    FORKS.load(Ordering::Relaxed)
}
