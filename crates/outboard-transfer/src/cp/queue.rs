// SPDX-License-Identifier: GPL-2.0-only
//! A queue between threads with limited length.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// Woken when the queue gets an item, or room.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    limit: usize,
    filled: Condvar,
    emptied: Condvar,
}

impl<T> Queue<T> {
    /// An empty queue that holds at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                closed: false,
            }),
            limit,
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A thread that panicked ends the program, so the lock is never poisoned.
        self.state.lock().expect("no thread panics")
    }

    /// Adds an item, after waiting for room.
    pub fn give(&self, item: T) {
        let mut state = self.lock();
        while state.items.len() >= self.limit {
            state = self.emptied.wait(state).expect("no thread panics");
        }
        state.items.push_back(item);
        drop(state);
        self.filled.notify_one();
    }

    /// Takes the oldest item, after waiting for one. `None` once the queue is closed and empty.
    pub fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.emptied.notify_one();
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).expect("no thread panics");
        }
    }

    /// No more items will be given.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_given_is_taken_once() {
        let queue = Queue::new(2);
        let sum: u64 = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0;
                        while let Some(item) = queue.take() {
                            sum += item;
                        }
                        sum
                    })
                })
                .collect();
            for item in 1..=1000u64 {
                queue.give(item);
            }
            queue.close();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(sum, 500_500);
    }
}
