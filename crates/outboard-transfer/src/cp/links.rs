// SPDX-License-Identifier: GPL-2.0-only
//! Files with several names. A thread copies the first name that it meets. A thread that meets
//! another name waits for that copy and links to it. If the copy failed, the next thread copies.

use outboard::System;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};

/// A file of a source: kernel, device and inode.
pub type Key = (System, u64, u64);

/// The copy of a file's first name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its path below the top target.
    pub path: Vec<u8>,
    /// Device and inode.
    pub identity: (u64, u64),
}

enum LinkState {
    Copying,
    Copied(Copy),
}

#[derive(Default)]
pub struct Links {
    states: Mutex<HashMap<Key, LinkState>>,
    changed: Condvar,
}

/// The work to do for a name.
pub enum Turn<'a> {
    /// Copy it, and mark it done. Dropping the mark means that the copy failed.
    First(CopyMark<'a>),
    /// Link it to this copy.
    Later(Copy),
}

pub struct CopyMark<'a> {
    links: &'a Links,
    key: &'a Key,
    copy: Option<Copy>,
}

impl CopyMark<'_> {
    pub fn done(mut self, copy: Copy) {
        self.copy = Some(copy);
    }
}

impl Drop for CopyMark<'_> {
    fn drop(&mut self) {
        if let Ok(mut states) = self.links.states.lock() {
            match self.copy.take() {
                Some(copy) => states.insert(self.key.clone(), LinkState::Copied(copy)),
                None => states.remove(self.key),
            };
        }
        self.links.changed.notify_all();
    }
}

impl Links {
    /// Decides what to do for a name; waits while another thread copies this file.
    pub fn turn<'a>(&'a self, key: &'a Key) -> Turn<'a> {
        let mut states = self.states.lock().expect("no thread panics");
        loop {
            match states.get(key) {
                None => {
                    states.insert(key.clone(), LinkState::Copying);
                    return Turn::First(CopyMark {
                        links: self,
                        key,
                        copy: None,
                    });
                }
                Some(LinkState::Copied(copy)) => return Turn::Later(copy.clone()),
                Some(LinkState::Copying) => {
                    states = self.changed.wait(states).expect("no thread panics");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static KEY: Key = (System::Host, 1, 2);

    fn copy() -> Copy {
        Copy {
            path: b"a".to_vec(),
            identity: (3, 4),
        }
    }

    #[test]
    fn later_names_link_to_the_first() {
        let links = Links::default();
        match links.turn(&KEY) {
            Turn::First(mark) => mark.done(copy()),
            Turn::Later(_) => panic!("nothing was copied yet"),
        }
        assert!(matches!(links.turn(&KEY), Turn::Later(found) if found == copy()));
    }

    #[test]
    fn after_a_failure_the_next_copies() {
        let links = Links::default();
        drop(links.turn(&KEY));
        assert!(matches!(links.turn(&KEY), Turn::First(_)));
    }

    #[test]
    fn waits_for_the_copy() {
        let links = Links::default();
        std::thread::scope(|scope| {
            let Turn::First(mark) = links.turn(&KEY) else {
                panic!("nothing was copied yet");
            };
            let waiter = scope.spawn(|| matches!(links.turn(&KEY), Turn::Later(_)));
            mark.done(copy());
            assert!(waiter.join().unwrap());
        });
    }
}
