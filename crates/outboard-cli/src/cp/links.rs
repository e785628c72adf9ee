// SPDX-License-Identifier: GPL-2.0-only
//! Files with several names. The first name that is met is copied; who meets another waits
//! until that copy is there and links to it. If the copy failed, the next one copies.

use outboard::System;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};

/// A file of a source: whose kernel, device and inode.
pub type Key = (System, u64, u64);

enum State {
    Copying,
    /// The path of the copy below the top target.
    Copied(Vec<u8>),
}

#[derive(Default)]
pub struct Links {
    states: Mutex<HashMap<Key, State>>,
    changed: Condvar,
}

/// What is to be done with a name.
pub enum Turn<'a> {
    /// Copy it, and mark it done. A mark that is dropped means that it failed.
    First(Mark<'a>),
    /// Link it to this path.
    Later(Vec<u8>),
}

pub struct Mark<'a> {
    links: &'a Links,
    key: Key,
    path: Option<Vec<u8>>,
}

impl Mark<'_> {
    pub fn done(mut self, path: Vec<u8>) {
        self.path = Some(path);
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if let Ok(mut states) = self.links.states.lock() {
            match self.path.take() {
                Some(path) => states.insert(self.key, State::Copied(path)),
                None => states.remove(&self.key),
            };
        }
        self.links.changed.notify_all();
    }
}

impl Links {
    /// Whose turn it is; waits while another thread copies this file.
    pub fn turn(&self, key: Key) -> Turn<'_> {
        let mut states = self.states.lock().expect("no thread panics");
        loop {
            match states.get(&key) {
                None => {
                    states.insert(key, State::Copying);
                    return Turn::First(Mark {
                        links: self,
                        key,
                        path: None,
                    });
                }
                Some(State::Copied(path)) => return Turn::Later(path.clone()),
                Some(State::Copying) => {
                    states = self.changed.wait(states).expect("no thread panics");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (System::Host, 1, 2);

    #[test]
    fn later_names_link_to_the_first() {
        let links = Links::default();
        match links.turn(KEY) {
            Turn::First(mark) => mark.done(b"a".to_vec()),
            Turn::Later(_) => panic!("nothing was copied yet"),
        }
        assert!(matches!(links.turn(KEY), Turn::Later(path) if path == b"a"));
    }

    #[test]
    fn after_a_failure_the_next_copies() {
        let links = Links::default();
        drop(links.turn(KEY));
        assert!(matches!(links.turn(KEY), Turn::First(_)));
    }

    #[test]
    fn waits_for_the_copy() {
        let links = Links::default();
        std::thread::scope(|scope| {
            let Turn::First(mark) = links.turn(KEY) else {
                panic!("nothing was copied yet");
            };
            let waiter = scope.spawn(|| matches!(links.turn(KEY), Turn::Later(_)));
            mark.done(b"x".to_vec());
            assert!(waiter.join().unwrap());
        });
    }
}
