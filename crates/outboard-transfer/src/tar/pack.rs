// SPDX-License-Identifier: GPL-2.0-only
//! Packs a tree into an archive.
//!
//! One thread walks the tree ([`PackedTree`]) and collects files in batches. Several threads encode
//! batches, each into a stretch of the archive ([`Packer`]). One thread writes the stretches in
//! their order ([`StretchWriter`]). Each stretch has a short channel of its own. So memory is
//! bounded, and the thread with the first stretch never has to wait.

use super::packer::Packer;
use super::stretch::{Chunks, StretchPart};
use super::stretches::StretchWriter;
use super::tree::{PackItem, PackStart, PackedTree};
use crate::cp::queue::Queue;
use outboard::Limits;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

/// Items of a batch.
const BATCH: usize = 32;
/// Batches ahead of the writer.
const AHEAD: usize = 16;
/// Chunks of a batch that may wait.
const CHUNKS: usize = 2;

struct Batch {
    items: Vec<PackItem>,
    out: SyncSender<StretchPart>,
}

/// Packs trees into an archive. An error is a write error.
pub fn pack(
    tree: &PackedTree,
    starts: Vec<PackStart>,
    threads: u32,
    output: &mut impl Write,
) -> io::Result<()> {
    pack_items(tree, |give| tree.for_each(starts, give), threads, output)
}

/// The same, for the files that `walk` hands to its argument.
fn pack_items(
    tree: &PackedTree,
    walk: impl FnOnce(&mut dyn FnMut(PackItem) -> bool) + Send,
    threads: u32,
    output: &mut impl Write,
) -> io::Result<()> {
    let chunks = Chunks::default();
    let queue: Queue<Batch> = Queue::new(AHEAD);
    let limits = Limits::current();
    std::thread::scope(|scope| {
        let (order, stretches) = sync_channel(AHEAD);
        let mut workers = vec![scope.spawn(|| {
            let _limits = limits.clone().enter();
            let _closing = queue.closing();
            give_batches(walk, &queue, order);
        })];
        for _ in 0..threads.max(1) {
            workers.push(scope.spawn(|| {
                let _limits = limits.clone().enter();
                let _breaking = queue.breaking();
                while let Some(batch) = queue.take() {
                    let chunk = chunks.take();
                    let mut packer = Packer {
                        tree,
                        report: tree.report,
                        chunks: &chunks,
                        chunk,
                        out: &batch.out,
                    };
                    // The writer may have stopped, and reports why.
                    let _ = packer.run(&batch.items);
                }
            }));
        }
        let mut writer = StretchWriter::new(output, &chunks, tree.report);
        writer.run(&stretches)?;
        // After a panic or an interrupt the stretches end too early, without an error.
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        if tree.interrupt.asked() {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        writer.finish()
    })
}

fn give_batches(
    walk: impl FnOnce(&mut dyn FnMut(PackItem) -> bool),
    queue: &Queue<Batch>,
    order: SyncSender<Receiver<StretchPart>>,
) {
    let mut items = Vec::new();
    let send = |items: Vec<PackItem>| {
        let (out, stretch) = sync_channel(CHUNKS);
        queue.give(Batch { items, out }) && order.send(stretch).is_ok()
    };
    walk(&mut |item| {
        items.push(item);
        items.len() < BATCH || send(std::mem::take(&mut items))
    });
    if !items.is_empty() {
        send(items);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Choice;
    use super::*;
    use crate::hidden::HiddenFinder;
    use crate::report::Report;
    use outboard_sandbox::interrupt::Interrupt;
    use outboard_volume::address::Place;
    use std::panic::{catch_unwind, AssertUnwindSafe};

    /// The bytes of an archive of nothing, whose walk ends like this, and whether packing panicked.
    fn packed(end: impl FnOnce() + Send) -> (Vec<u8>, bool) {
        let (choice, report) = (Choice::default(), Report::default());
        let (interrupt, place) = (Interrupt::default(), Place::Host("/".into()));
        let tree = PackedTree {
            choice: &choice,
            report: &report,
            interrupt: &interrupt,
            place: &place,
            hidden: HiddenFinder::default(),
        };
        let mut archive = Vec::new();
        let pack = || pack_items(&tree, |_| end(), 2, &mut archive).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(pack)).is_err();
        (archive, panicked)
    }

    #[test]
    fn a_panic_of_the_walk_leaves_no_end_mark() {
        let (archive, panicked) = packed(|| ());
        assert!(!panicked && archive.len() == 20 * 512);
        let (archive, panicked) = packed(|| panic!("on purpose"));
        assert!(panicked && archive.is_empty());
    }
}
