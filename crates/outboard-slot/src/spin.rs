// SPDX-License-Identifier: MIT
//! A wait that spins only if the other side can answer meanwhile.
//!
//! Sleeping costs two switches, and the wake-up of a processor that rests costs more than that. So
//! a side that waits looks at the word for a moment, but only if the other side is awake on another
//! processor: on the same one, the spin would keep it from answering.

use crate::processor;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long a side looks.
const TIME: Duration = Duration::from_micros(20);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// So many requests in turn on one processor, and the server's thread moves to another one.
const TOGETHER: u32 = 64;

/// Threads of this process that spin.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// So many threads of this process may spin: half of the processors, for their peers need the
/// others.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| available_parallelism().map_or(1, usize::from) / 2)
}

/// Looks at `word` for a moment, while it has `value`. Returns whether it has another one.
pub(crate) fn look(word: &AtomicU32, value: u32) -> bool {
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
        if seen || begin.elapsed() >= TIME {
            break seen;
        }
    };
    SPINNING.fetch_sub(1, Ordering::Relaxed);
    seen
}

/// Keeps a server's thread away from the processor of its client, where there is room.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    /// Requests in turn for which both ran on one processor.
    together: u32,
}

impl Distance {
    /// Notes on which processors the two ran. Returns whether they are apart.
    pub(crate) fn note(&mut self, own: u32, peer: u32) -> bool {
        if own != peer {
            self.together = 0;
            return true;
        }
        self.together += 1;
        if self.together < TOGETHER || SPINNING.load(Ordering::Relaxed) >= most() {
            return false;
        }
        self.together = 0;
        processor::leave(own);
        processor::current() != peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ends() {
        let word = AtomicU32::new(3);
        assert!(!look(&word, 3));
        assert!(look(&word, 4));
    }
}
