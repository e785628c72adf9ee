// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// How important a line of the log is, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The system is unusable.
    Emergency,
    /// Something must be done at once.
    Alert,
    /// A critical condition.
    Critical,
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Normal, but of importance.
    Notice,
    /// For information.
    Info,
    /// For debugging.
    Debug,
}

impl Level {
    pub(crate) fn from_number(number: i32) -> Self {
        match number {
            i32::MIN..=0 => Level::Emergency,
            1 => Level::Alert,
            2 => Level::Critical,
            3 => Level::Error,
            4 => Level::Warning,
            5 => Level::Notice,
            6 => Level::Info,
            _ => Level::Debug,
        }
    }
}

/// Most bytes of a line that are kept.
const LINE: usize = 256;

struct Slot {
    number: usize,
    level: Level,
    length: usize,
    text: [u8; LINE],
}

/// Keeps the last lines of the log. Adding a line neither blocks nor allocates, as
/// the kernel demands of whoever receives its log.
pub struct LogRing {
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
}

impl LogRing {
    /// A ring that keeps `lines` lines (at least one).
    pub fn new(lines: usize) -> Self {
        let slot = || Slot {
            number: usize::MAX,
            level: Level::Debug,
            length: 0,
            text: [0; LINE],
        };
        Self {
            slots: (0..lines.max(1)).map(|_| Mutex::new(slot())).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Adds a line. A line whose place somebody is reading is lost.
    pub fn push(&self, level: Level, line: &[u8]) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut slot) = self.slots[number % self.slots.len()].try_lock() {
            let length = line.len().min(LINE);
            slot.number = number;
            slot.level = level;
            slot.length = length;
            slot.text[..length].copy_from_slice(&line[..length]);
        }
    }

    /// How many lines have been added: a place in the log for [`LogRing::since`].
    pub fn position(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// The lines added since `position` that are still kept, of `level` or more important.
    pub fn since(&self, position: usize, level: Level) -> Vec<String> {
        let lines = self.numbered_since(position, level);
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// The same, each with its position.
    pub fn numbered_since(&self, position: usize, level: Level) -> Vec<(usize, String)> {
        let mut lines: Vec<(usize, String)> = self
            .slots
            .iter()
            .filter_map(|slot| slot.lock().ok())
            .filter(|slot| slot.number != usize::MAX)
            .filter(|slot| slot.number >= position && slot.level <= level)
            .map(|slot| {
                let text = String::from_utf8_lossy(&slot.text[..slot.length]);
                (slot.number, text.into_owned())
            })
            .collect();
        lines.sort();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_lines_in_order() {
        let ring = LogRing::new(3);
        for line in ["a", "b", "c", "d"] {
            ring.push(Level::Error, line.as_bytes());
        }
        ring.push(Level::Info, b"chatter");
        assert_eq!(ring.since(0, Level::Error), ["c", "d"]);
        assert_eq!(ring.since(3, Level::Info), ["d", "chatter"]);
        assert!(ring.since(ring.position(), Level::Debug).is_empty());
    }

    #[test]
    fn cuts_long_lines() {
        let ring = LogRing::new(1);
        ring.push(Level::Error, &[b'x'; 1000]);
        assert_eq!(ring.since(0, Level::Error)[0].len(), LINE);
    }
}
