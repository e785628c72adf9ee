// SPDX-License-Identifier: GPL-2.0-only
//! The way of notes and warnings: to the front, or into a list in calls of the library.
//!
//! A thread that works for a call of the library has a list ([`Notes::collect`]), which
//! [`warn`](crate::warn) looks for. Threads that help it get the list by [`Notes::current`].

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Most notes of a list. An image can make any number of them.
const MOST: usize = 256;

thread_local! {
    static CURRENT: RefCell<Option<Notes>> = const { RefCell::new(None) };
}

/// A list of notes and warnings. A clone is the same list.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
}

/// Gives the thread its former list back, also if the work panics.
struct Former(Option<Notes>);

impl Drop for Former {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Notes {
    /// Runs `work`, and collects the notes of this thread in the list.
    pub fn collect<T>(&self, work: impl FnOnce() -> T) -> T {
        let _former = Former(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// The list of the calling thread. `None`: the front gets notes.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Adds a note. One that is there already, or one too many, is dropped.
    pub fn push(&self, note: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST && !lines.contains(&note) {
            lines.push(note);
        }
    }

    /// All notes so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_an_end() {
        let notes = Notes::default();
        (0..2 * MOST).for_each(|number| notes.push(number.to_string()));
        assert_eq!(notes.lines().len(), MOST);
    }
}
