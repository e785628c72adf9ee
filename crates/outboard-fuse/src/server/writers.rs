// SPDX-License-Identifier: GPL-2.0-only
//! Files that are open for writing, and errors of data that the host sent later.
//!
//! The host caches written data, and sends them later. It reports errors at close(2) and fsync(2),
//! but not at write(2). Before each write(2), though, the host needs the attributes of the file,
//! and requests them by the same handle if it does not know them. So the request for attributes
//! carries the error to write(2):
//!
//! | event                                   | attributes at the host | the handle  |
//! |-----------------------------------------|------------------------|-------------|
//! | data of the file was lost               | dropped                | uninformed  |
//! | write(2) by an uninformed handle        | stay unknown           | informed    |
//! | attributes sent, some handle uninformed | expired at once        | no change   |
//! | cached data arrives, some uninformed    | dropped                | no change   |
//!
//! The last row is for answers to SETATTR and LINK that were under way when the data was lost. In
//! other answers the host itself drops attributes that are older than their invalidation.
//!
//! The rule is that of Linux's errseq: each handle that was open reports a loss once, and a handle
//! that is opened later reports none. One descriptor per file only watches for errors of the disk
//! below, and counts each error once. So fsync(2) by each handle reports them as well.

use outboard::Fd;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A file that is open for writing.
#[derive(Default)]
struct Node {
    handles: usize,
    uninformed: usize,
    /// Number of losses of data.
    losses: u64,
    /// The last error.
    error: i32,
    /// The largest end of lost data: the host shows at least this size.
    lost_end: u64,
    /// Watches for errors of the disk below. `None`: opening it failed.
    watch: Option<Arc<Fd>>,
}

/// A handle for writing.
pub struct Writer {
    node: u64,
    /// Number of losses that this handle has reported, or that happened before it was opened.
    informed: AtomicU64,
    /// The node's.
    watch: Option<Arc<Fd>>,
}

impl Writer {
    /// A write error of the kernel in this process. Only one handle gets it.
    pub fn check_disk(&self) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), |fd| fd.check_written())
    }
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

    /// `watch` opens the file once more.
    pub fn open(&self, node: u64, watch: impl FnOnce() -> io::Result<Fd>) -> Writer {
        let mut nodes = self.nodes();
        let found = nodes.entry(node).or_insert_with(|| Node {
            watch: watch().ok().map(Arc::new),
            ..Node::default()
        });
        found.handles += 1;
        Writer {
            node,
            informed: AtomicU64::new(found.losses),
            watch: found.watch.clone(),
        }
    }

    /// The last handle of a file with lost data calls `settle` with the end of the lost data. No
    /// program can open the file for writing until `settle` returns.
    pub fn close(&self, writer: &Writer, settle: impl FnOnce(u64)) {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.get_mut(&writer.node) {
            self.inform(node, writer);
            node.handles -= 1;
            if node.handles == 0 {
                if node.lost_end > 0 {
                    settle(node.lost_end);
                }
                nodes.remove(&writer.node);
            }
        }
    }

    /// Resizes a file by `set`: lost data behind the new size does not count any more.
    pub fn resize(
        &self,
        node: u64,
        size: u64,
        set: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut nodes = self.nodes();
        match nodes.get_mut(&node).filter(|node| node.lost_end > 0) {
            // Under the lock, because another thread may settle the file now.
            Some(node) => {
                set()?;
                node.lost_end = node.lost_end.min(size);
                Ok(())
            }
            None => {
                drop(nodes);
                set()
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

    /// Notes that data of a file was lost, up to `end`. The caller must make the host drop the
    /// attributes afterwards.
    pub fn lose(&self, node: u64, error: i32, end: u64) {
        if let Some(node) = self.nodes().get_mut(&node) {
            if node.uninformed == 0 {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            node.uninformed = node.handles;
            node.losses += 1;
            node.error = error;
            node.lost_end = node.lost_end.max(end);
        }
    }

    /// The error of a loss that this handle has not reported yet.
    pub fn check(&self, writer: &Writer) -> io::Result<()> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(&writer.node) else {
            return Ok(());
        };
        if self.inform(node, writer) {
            Err(io::Error::from_raw_os_error(node.error))
        } else {
            Ok(())
        }
    }

    /// Whether a node has uninformed handles. Usually no node has.
    pub fn is_uninformed(&self, node: u64) -> bool {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let nodes = self.nodes();
        nodes.get(&node).is_some_and(|node| node.uninformed > 0)
    }

    /// Whether a program has the node open for writing.
    pub fn is_open(&self, node: u64) -> bool {
        self.nodes().contains_key(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn open(writers: &Writers) -> Writer {
        writers.open(7, || Err(io::ErrorKind::Unsupported.into()))
    }

    fn lose(writers: &Writers) {
        writers.lose(7, libc::ENOSPC, 100);
    }

    #[test]
    fn each_handle_reports_a_loss_once() {
        let writers = Writers::default();
        let (first, second) = (open(&writers), open(&writers));
        lose(&writers);
        let third = open(&writers);
        assert!(writers.is_uninformed(7) && !writers.is_uninformed(8));
        for writer in [&first, &second] {
            let error = writers.check(writer).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            writers.check(writer).unwrap();
        }
        writers.check(&third).unwrap();
        assert!(!writers.is_uninformed(7));
        lose(&writers);
        lose(&writers);
        assert!(writers.check(&first).is_err());
        assert!(writers.check(&first).is_ok());
    }

    #[test]
    fn closed_handles_need_no_report() {
        let writers = Writers::default();
        let (first, second) = (open(&writers), open(&writers));
        lose(&writers);
        assert!(writers.check(&first).is_err());
        writers.close(&second, |_| panic!("not the last one"));
        assert!(!writers.is_uninformed(7));
        lose(&writers);
        writers.close(&first, drop);
        assert!(!writers.is_uninformed(7));
        assert!(!writers.is_open(7));
        lose(&writers);
        assert!(!writers.is_uninformed(7));
    }

    #[test]
    fn the_last_handle_settles_what_was_lost() {
        let writers = Writers::default();
        let settled = Cell::new(0);
        let lossless = open(&writers);
        writers.close(&lossless, |_| panic!("nothing was lost"));
        let (first, second) = (open(&writers), open(&writers));
        lose(&writers);
        writers.close(&first, |_| panic!("not the last one"));
        writers.resize(7, 60, || Ok(())).unwrap();
        writers.resize(7, 80, || Ok(())).unwrap();
        writers.close(&second, |end| settled.set(end));
        assert_eq!(settled.get(), 60);
    }
}
