// SPDX-License-Identifier: MIT
//! A wait that spins only if the other side can answer meanwhile.
//!
//! Sleeping costs two switches, and the wake-up of a processor that rests costs more than that. So
//! a side that waits looks at the word for a moment, but only if the other side is awake on another
//! processor: on the same one, the spin would keep it from answering.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long a side looks whose peer is awake.
pub(crate) const TIME: Duration = Duration::from_micros(20);
/// How long, if the peer was just woken: a processor that rests takes its time.
pub(crate) const WAKING_TIME: Duration = Duration::from_micros(100);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;

/// Threads of this process that spin.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// So many threads of this process may spin: half of the processors, for their peers need the
/// others. One in any case: its peer has a processor on which this process may not run.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| (available_parallelism().map_or(1, usize::from) / 2).max(1))
}

/// Whether a further thread may spin.
pub(crate) fn has_room() -> bool {
    SPINNING.load(Ordering::Relaxed) < most()
}

/// Looks at `word` for this time, while it has `value`. Returns whether it has another one.
pub(crate) fn look(word: &AtomicU32, value: u32, time: Duration) -> bool {
    let changed = || word.load(Ordering::Acquire) != value;
    if SPINNING.fetch_add(1, Ordering::Relaxed) >= most() {
        SPINNING.fetch_sub(1, Ordering::Relaxed);
        return changed();
    }
    let begin = Instant::now();
    let seen = loop {
        let seen = (0..LOOKS).any(|_| {
            spin_loop();
            changed()
        });
        if seen || begin.elapsed() >= time {
            break seen;
        }
    };
    SPINNING.fetch_sub(1, Ordering::Relaxed);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ends() {
        let word = AtomicU32::new(3);
        assert!(!look(&word, 3, TIME));
        assert!(look(&word, 4, TIME));
    }
}
