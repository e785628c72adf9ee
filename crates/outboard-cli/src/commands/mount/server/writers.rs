// SPDX-License-Identifier: GPL-2.0-only
//! Files that are open for writing, and errors of data that the host sent later.
//!
//! The host caches what programs write, and sends it later. It reports errors of that when the file
//! is closed or synced, but write(2) goes on. Yet before each write(2) the host needs the attributes
//! of the file, and asks for them by the same handle if it does not know them. So the request
//! for attributes carries the error to write(2):
//!
//! | event                                   | attributes at the host | the handle  |
//! |-----------------------------------------|------------------------|-------------|
//! | data of the file was lost               | dropped                | uninformed  |
//! | write(2) by an uninformed handle        | stay unknown           | informed    |
//! | attributes sent, some handle uninformed | known, dropped again   | no change   |
//!
//! Each handle reports an error once. A handle that is opened later reports none.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A file that is open for writing.
#[derive(Default)]
struct Node {
    handles: usize,
    uninformed: usize,
    /// Counts the losses of data.
    losses: u64,
    /// The last of them.
    error: i32,
}

/// A handle that programs write by.
pub struct Writer {
    node: u64,
    /// Losses that were reported by this handle, or happened before it was opened.
    informed: AtomicU64,
    /// An error that the kernel here has reported for this handle, and fsync(2) has not; 0: none.
    unsynced: AtomicI32,
}

impl Writer {
    /// fsync(2) of this handle shall report an error that the kernel here does not report again.
    pub fn keep_for_sync(&self, error: &io::Error) {
        self.unsynced.store(number(error), Ordering::Relaxed);
    }

    /// The error that was kept.
    pub fn take_for_sync(&self) -> io::Result<()> {
        match self.unsynced.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[derive(Default)]
pub struct Writers {
    nodes: Mutex<HashMap<u64, Node>>,
    /// Nodes with uninformed handles.
    waiting: AtomicUsize,
}

impl Writers {
    fn nodes(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.nodes.lock().expect("no thread panics")
    }

    pub fn open(&self, node: u64) -> Writer {
        let mut nodes = self.nodes();
        let found = nodes.entry(node).or_default();
        found.handles += 1;
        Writer {
            node,
            informed: AtomicU64::new(found.losses),
            unsynced: AtomicI32::new(0),
        }
    }

    pub fn close(&self, writer: &Writer) {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.get_mut(&writer.node) {
            self.inform(node, writer);
            node.handles -= 1;
            if node.handles == 0 {
                nodes.remove(&writer.node);
            }
        }
    }

    /// Returns whether the handle was uninformed.
    fn inform(&self, node: &mut Node, writer: &Writer) -> bool {
        if writer.informed.swap(node.losses, Ordering::Relaxed) == node.losses {
            return false;
        }
        node.uninformed -= 1;
        if node.uninformed == 0 {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Data of a file was lost. The caller has the host drop the attributes afterwards.
    pub fn lose(&self, node: u64, error: &io::Error) {
        if let Some(node) = self.nodes().get_mut(&node) {
            if node.uninformed == 0 {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            node.uninformed = node.handles;
            node.losses += 1;
            node.error = number(error);
        }
    }

    /// The error of a loss that was not reported by this handle yet.
    pub fn check(&self, writer: &Writer) -> io::Result<()> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(&writer.node) else {
            return Ok(());
        };
        match self.inform(node, writer) {
            true => Err(io::Error::from_raw_os_error(node.error)),
            false => Ok(()),
        }
    }

    /// The nodes with uninformed handles: mostly none.
    pub fn uninformed(&self) -> Vec<u64> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let nodes = self.nodes();
        let uninformed = nodes.iter().filter(|(_, node)| node.uninformed > 0);
        uninformed.map(|(id, _)| *id).collect()
    }

    /// Whether a program may write to a node by something that it has open.
    pub fn is_open(&self, node: u64) -> bool {
        self.nodes().contains_key(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    #[test]
    fn each_handle_reports_a_loss_once() {
        let writers = Writers::default();
        let (first, second) = (writers.open(7), writers.open(7));
        writers.lose(7, &full());
        let third = writers.open(7);
        assert_eq!(writers.uninformed(), [7]);
        for writer in [&first, &second] {
            let error = writers.check(writer).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            writers.check(writer).unwrap();
        }
        writers.check(&third).unwrap();
        assert!(writers.uninformed().is_empty());
        writers.lose(7, &full());
        writers.lose(7, &full());
        assert!(writers.check(&first).is_err());
        assert!(writers.check(&first).is_ok());
    }

    #[test]
    fn closed_handles_need_no_report() {
        let writers = Writers::default();
        let (first, second) = (writers.open(7), writers.open(7));
        writers.lose(7, &full());
        assert!(writers.check(&first).is_err());
        writers.close(&second);
        assert!(writers.uninformed().is_empty());
        writers.lose(7, &full());
        writers.close(&first);
        assert!(writers.uninformed().is_empty());
        assert!(!writers.is_open(7));
        writers.lose(7, &full());
        assert!(writers.uninformed().is_empty());
    }
}
