// SPDX-License-Identifier: GPL-2.0-only
//! A queue between threads with limited length.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

struct QueueState<T> {
    items: VecDeque<T>,
    closed: bool,
    /// A thread that works on the items has panicked.
    broken: bool,
}

/// Woken when the queue gets an item, or room.
pub struct Queue<T> {
    state: Mutex<QueueState<T>>,
    limit: usize,
    filled: Condvar,
    emptied: Condvar,
}

impl<T> Queue<T> {
    /// An empty queue that holds at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Self {
            state: Mutex::new(QueueState {
                items: VecDeque::new(),
                closed: false,
                broken: false,
            }),
            limit,
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item, after waiting for room. Returns false, and drops the item, if the queue is
    /// closed.
    pub fn give(&self, item: T) -> bool {
        let mut state = self.lock();
        while state.items.len() >= self.limit && !state.closed {
            let waited = self.emptied.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return false;
        }
        state.items.push_back(item);
        drop(state);
        self.filled.notify_one();
        true
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
            let waited = self.filled.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more items will be given.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes the queue when the guard is dropped.
    pub fn closing(&self) -> Closing<'_, T> {
        Closing(self)
    }

    /// Drops the items and closes the queue if this thread panics before the guard is dropped.
    pub fn breaking(&self) -> QueuePanicGuard<'_, T> {
        QueuePanicGuard(self)
    }

    /// Whether a thread with a [`QueuePanicGuard`] has panicked.
    pub fn is_broken(&self) -> bool {
        self.lock().broken
    }
}

/// See [`Queue::closing`].
pub struct Closing<'a, T>(&'a Queue<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// See [`Queue::breaking`].
pub struct QueuePanicGuard<'a, T>(&'a Queue<T>);

impl<T> Drop for QueuePanicGuard<'_, T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut state = self.0.lock();
        state.broken = true;
        // At once: nobody would take an item that is given now.
        state.closed = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.0.close();
        // Other threads may wait for the ends of channels in there.
        drop(items);
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

    #[test]
    fn a_panic_of_the_taker_ends_the_giver() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let _breaking = queue.breaking();
                queue.take();
                panic!("on purpose");
            });
            while queue.give(1) {}
            assert!(taker.join().is_err());
        });
        assert!(queue.is_broken());
        assert_eq!(queue.take(), None);
    }
}
