// SPDX-License-Identifier: GPL-2.0-only
//! The number of bytes of a copy, for a percentage in the progress bar.
//!
//! The sizes of files are known before. A thread counts the files in directories while they are
//! copied, but only if the bar is visible and the copy takes long.

use super::source::CopySource;
use crate::exclusion::Exclusion;
use crate::operand::Named;
use crate::report::Report;
use crate::walk::{Step, Walk};
use outboard::{Limits, Tree};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// Shorter copies are not counted.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Total<'a> {
    /// Bytes of all sources of known size.
    known: u64,
    /// Directories whose files must be counted.
    directories: Vec<(&'a Tree, &'a Place)>,
    excluded: &'a Exclusion,
    interrupt: &'a Interrupt,
}

/// Bytes of a file that are copied: holes are not.
fn bytes(stat: &libc::stat) -> u64 {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => {
            let stored = (stat.st_blocks.max(0) as u64).saturating_mul(512);
            stored.min(stat.st_size.max(0) as u64)
        }
        _ => 0,
    }
}

impl<'a> Total<'a> {
    pub fn find(
        sources: &[CopySource<'a>],
        excluded: &'a Exclusion,
        interrupt: &'a Interrupt,
    ) -> Self {
        let mut total = Self {
            known: 0,
            directories: Vec::new(),
            excluded,
            interrupt,
        };
        for &CopySource { place, tree } in sources {
            match tree.metadata(place.path()) {
                Ok(found) if found.is_dir() => total.directories.push((tree, place)),
                Ok(found) => {
                    total.known = total.known.saturating_add(bytes(found.stat()));
                }
                // The copy will name it.
                Err(_) => {}
            }
        }
        total
    }

    /// Runs the copy, and reports the total as soon as it is known.
    pub fn beside(&self, report: &Report, work: impl FnOnce()) {
        if self.directories.is_empty() {
            report.expect_bytes(self.known);
            return work();
        }
        if !report.is_shown() {
            return work();
        }
        std::thread::scope(|scope| {
            // Dropped when the work is done.
            let (working, done) = channel::<()>();
            let limits = Limits::current();
            scope.spawn(move || {
                let _limits = limits.enter();
                if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    if let Some(total) = self.count(&done) {
                        report.expect_bytes(total);
                    }
                }
            });
            work();
            drop(working);
        });
    }

    /// `None`: the copy has ended, or a directory cannot be counted.
    fn count(&self, done: &Receiver<()>) -> Option<u64> {
        let mut total = self.known;
        for (tree, place) in &self.directories {
            let top = Named::find(tree, place, true).ok()?;
            let mut walk = Walk::new(top, place.operand(), self.interrupt.clone());
            while let Some(step) = walk.next() {
                if done.try_recv() == Err(TryRecvError::Disconnected) {
                    return None;
                }
                let Step::Found(entry) = step else { continue };
                if entry.depth > 0 && self.excluded.excludes(entry.path) {
                    walk.skip();
                } else if entry.kind == libc::S_IFREG {
                    let bytes = entry.stat().map_or(0, |stat| bytes(&stat));
                    total = total.saturating_add(bytes);
                }
            }
        }
        (!self.interrupt.asked()).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;

    #[test]
    fn claims_of_a_damaged_image() {
        let root = HostTree.open_fd("/".as_ref(), libc::O_PATH, 0);
        let mut stat = root.unwrap().stat().unwrap();
        stat.st_mode = libc::S_IFREG;
        let claims = [(100, 8, 100), (1 << 20, 8, 4096), (-1, -1, 0)];
        let largest = (i64::MAX, i64::MAX, i64::MAX as u64);
        for (size, blocks, expected) in claims.into_iter().chain([largest]) {
            (stat.st_size, stat.st_blocks) = (size, blocks);
            assert_eq!(bytes(&stat), expected);
        }
    }
}
